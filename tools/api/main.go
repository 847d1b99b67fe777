// Command api prints the exported surface of packages, one declaration after
// another without comments or bodies, and compares it with the golden files
// under api/ in the root of the repository.
//
//	go run ./api -root ..          compare
//	go run ./api -root .. -write   write the golden files anew
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	write := flag.Bool("write", false, "write the golden files instead of comparing")
	flag.Parse()
	if err := run(*root, *write); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// skipped are folders whose packages are nobody's to import.
var skipped = map[string]bool{
	"internal": true, "bench": true, "verify": true, "examples": true, "tools": true, "cmd": true, "testdata": true, "api": true,
}

func run(root string, write bool) error {
	surfaces := map[string][]byte{} // golden file to content
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		name := d.Name()
		if path != root && (skipped[name] || strings.HasPrefix(name, ".")) {
			return fs.SkipDir
		}
		text, pkg, err := surface(path)
		if err != nil || pkg == "" || pkg == "main" {
			return err
		}
		surfaces[filepath.Join(root, "api", pkg+".txt")] = text
		return nil
	})
	if err != nil {
		return err
	}
	var differ []string
	goldens, err := filepath.Glob(filepath.Join(root, "api", "*.txt"))
	if err != nil {
		return err
	}
	for _, file := range goldens {
		if _, ok := surfaces[file]; ok {
			continue
		}
		if !write {
			differ = append(differ, file+": no such package any more\n")
		} else if err := os.Remove(file); err != nil {
			return err
		}
	}
	for file, text := range surfaces {
		if write {
			if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
				return err
			}
			if err := os.WriteFile(file, text, 0o666); err != nil {
				return err
			}
			continue
		}
		if golden, _ := os.ReadFile(file); !bytes.Equal(golden, text) {
			differ = append(differ, difference(file, string(golden), string(text)))
		}
	}
	if len(differ) == 0 {
		return nil
	}
	sort.Strings(differ)
	return fmt.Errorf("the exported API differs from the golden files; if that is meant, run make api\n%s", strings.Join(differ, "\n"))
}

// surface returns the exported declarations of the package in dir, and its
// name; "" if there is no Go package.
func surface(dir string) ([]byte, string, error) {
	fset := token.NewFileSet()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, "", err
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, "", err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, "", nil
	}
	p, err := doc.NewFromFiles(fset, files, dir)
	if err != nil {
		return nil, "", err
	}
	var decls []string
	add := func(d ast.Decl) {
		var out bytes.Buffer
		if err := format.Node(&out, fset, d); err != nil {
			panic(err) // a tree that has just been parsed
		}
		decls = append(decls, out.String())
	}
	funcs := func(list []*doc.Func) {
		for _, f := range list {
			f.Decl.Body = nil
			add(f.Decl)
		}
	}
	values := func(list []*doc.Value) {
		for _, v := range list {
			add(v.Decl)
		}
	}
	values(p.Consts)
	values(p.Vars)
	funcs(p.Funcs)
	for _, t := range p.Types {
		add(t.Decl)
		values(t.Consts)
		values(t.Vars)
		funcs(t.Funcs)
		funcs(t.Methods)
	}
	return []byte(strings.Join(decls, "\n\n") + "\n"), p.Name, nil
}

// difference lists the lines that only one of the texts has.
func difference(file, golden, text string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s:\n", file)
	only := func(sign, a, b string) {
		has := map[string]bool{}
		for _, line := range strings.Split(b, "\n") {
			has[line] = true
		}
		for _, line := range strings.Split(a, "\n") {
			if !has[line] {
				fmt.Fprintf(&out, "%s %s\n", sign, line)
			}
		}
	}
	only("-", golden, text)
	only("+", text, golden)
	return out.String()
}
