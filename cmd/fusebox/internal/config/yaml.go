package config

import (
	"errors"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parse returns the body of the one document.
func (d *decoder) parse(body string) ast.Node {
	defer func() {
		if r := recover(); r != nil { // of the YAML parser: whatever a file holds, it is an error only
			d.fail(d.origins[""], "", "the file cannot be parsed as YAML: %v", r)
		}
	}()
	tokens := lexer.Tokenize(body)
	if !d.bounded(tokens) {
		return nil
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) {
			d.fail(d.tokenPosition(syntax.Token), "", "the file is not YAML: %s", syntax.Message)
		} else {
			d.fail(d.origins[""], "", "the file is not YAML: %v", err)
		}
		return nil
	}
	var root ast.Node
	for _, doc := range parsed.Docs {
		switch {
		case doc.Body == nil, doc.Body.Type() == ast.CommentType:
		case root != nil:
			d.fail(d.position(doc.Body), "", "the file has a second document; there may be one only")
			return nil
		default:
			root = doc.Body
		}
	}
	if root == nil {
		d.fail(d.origins[""], "", "the file is empty; it must have %s", d.needs)
		return nil
	}
	ast.Walk(anchorVisitor{d}, root)
	return root
}

// bounded reports whether the parser can be trusted with the tokens.
func (d *decoder) bounded(tokens token.Tokens) bool {
	keys, flow := 0, 0
	line, indents := 0, 0 // "- - -" and "? ? ?" nest within one line
	for _, tk := range tokens {
		if tk.Position.Line != line {
			line, indents = tk.Position.Line, 0
		}
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			indents++
		case token.MappingValueType:
			keys++
			if flow == 0 {
				indents++
			}
		case token.TagType:
			d.fail(d.tokenPosition(tk), "", "the tag %.40q is not allowed", tk.Value)
			return false
		case token.AnchorType:
			if tk.Next != nil && tk.Next.Next != nil && tk.Next.Next.Type == token.AnchorType {
				d.fail(d.tokenPosition(tk), "", "a value can have one anchor only")
				return false
			}
		case token.InvalidType:
			d.fail(d.tokenPosition(tk), "", "the file is not YAML: %s", tk.Error)
			return false
		default:
		}
		switch deep := flow == 0 && indents > maxDepth || flow > maxDepth; {
		case deep, flow == 0 && tk.Type == token.MappingValueType && tk.Position.Column > 50*maxDepth:
			d.fail(d.tokenPosition(tk), "", "the file is nested deeper than %d levels", maxDepth)
			return false
		case keys > maxKeys:
			d.fail(d.tokenPosition(tk), "", "the file has more than %d keys", maxKeys)
			return false
		}
	}
	return true
}

// anchorVisitor collects anchors.
type anchorVisitor struct{ d *decoder }

// Visit collects the anchor that n is, if it is one.
func (v anchorVisitor) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil {
		name := a.Name.GetToken().Value
		if v.d.anchors[name] != nil {
			v.d.fail(v.d.position(a), "", "the anchor %q is defined twice", name)
		}
		v.d.anchors[name] = a
	}
	return v
}
