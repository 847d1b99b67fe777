package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Error is one thing that is wrong with the configuration.
type Error struct {
	Origin  Origin // where the value comes from; the default where one is missing without a file
	Path    string // of the key: upstreams.payments.breaker.open-for; may be empty
	Message string // what is wrong, with the value and the rule
	Source  string // the line of the file, if it may be shown
}

// Error returns the place and the message and, where there is one, the line with
// a mark under the column.
func (e *Error) Error() string {
	var s string
	if e.Origin.Kind != FromDefault {
		s = e.Origin.String() + ": "
	}
	if e.Path != "" {
		s += e.Path + " "
	}
	s += e.Message
	if e.Source == "" || e.Origin.Line == 0 {
		return s
	}
	line, column := window(e.Source, e.Origin.Column)
	number := fmt.Sprintf("%5d | ", e.Origin.Line)
	return s + "\n" + number + line + "\n" + strings.Repeat(" ", len(number)-2) + "| " + strings.Repeat(" ", column-1) + "^"
}

// window returns what is to be shown of a line, and the column in that, which
// is at least 1: at most 100 characters, none of which moves the cursor.
func window(source string, column int) (string, int) {
	const width, before = 100, 60
	line := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, source))
	column = min(max(column, 1), len(line)+1)
	if cut := column - before; cut > 0 && len(line) > width {
		line, column = append([]rune("…"), line[cut:]...), column-cut+1
	}
	if len(line) > width {
		line = append(line[:width-1:width-1], '…')
	}
	return string(line), column
}

// Errors is everything that is wrong, in the order of the file, then what the
// environment and flags got wrong.
type Errors []*Error

// Error returns the text of each, the first 50, on lines of their own.
func (e Errors) Error() string {
	const most = 50
	var b strings.Builder
	for i, err := range e {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == most {
			fmt.Fprintf(&b, "and %d more", len(e)-most)
			break
		}
		b.WriteString(err.Error())
	}
	return b.String()
}

// Unwrap returns each.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, err := range e {
		all[i] = err
	}
	return all
}

// sort brings errors into their order.
func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(
			cmp.Compare(a.Origin.Kind, b.Origin.Kind),
			cmp.Compare(a.Origin.Line, b.Origin.Line),
			cmp.Compare(a.Origin.Column, b.Origin.Column),
			cmp.Compare(a.Origin.Name, b.Origin.Name),
			cmp.Compare(a.Path, b.Path),
		)
	})
}

// OriginKind is what a value comes from.
type OriginKind int

// The kinds of origin, in rising order of precedence.
const (
	FromDefault OriginKind = iota
	FromFile
	FromEnv
	FromFlag
)

// Origin is where a value comes from. The zero Origin is the default.
type Origin struct {
	Kind         OriginKind
	Name         string // of the file, the variable, or the flag: --listen
	Line, Column int    // in the file, from 1; Column counts characters
}

// String returns "default", "fusebox.yaml:12:9", "env FUSEBOX_LISTEN" or "flag --listen".
func (o Origin) String() string {
	switch o.Kind {
	case FromFile:
		return fmt.Sprintf("%s:%d:%d", o.Name, o.Line, o.Column)
	case FromEnv:
		return "env " + o.Name
	case FromFlag:
		return "flag " + o.Name
	default:
		return "default"
	}
}
