package ctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
)

// safe makes text of a server safe to print: what is not a printable character
// or a space is written as in a Go string.
func safe(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) {
			quoted := strconv.Quote(text[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}

// safeName is the name of a breaker as it is shown: in quotation marks if it
// could be taken for something else without.
func safeName(name string) string {
	if name == "" || name != strings.TrimSpace(name) || strings.HasPrefix(name, `"`) || safe(name) != name {
		return strconv.Quote(name)
	}
	return name
}

// writeJSON writes a value as JSON, a line of it where indent is empty.
// Characters that do not print are escaped: they can only be in strings.
func writeJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	var text []byte
	for _, r := range b.String() {
		if r < utf8.RuneSelf && r != 0x7f || unicode.IsPrint(r) {
			text = utf8.AppendRune(text, r)
		} else if r <= 0xffff {
			text = fmt.Appendf(text, `\u%04x`, r)
		} else {
			r -= 0x10000
			text = fmt.Appendf(text, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	_, err := w.Write(text)
	return err
}

// span writes a duration with about two digits that matter.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', -1, 64) + "s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// percent writes a fraction.
func percent(f float64) string {
	if f > 0 && f < 0.01 {
		return "<1%"
	}
	return strconv.FormatFloat(100*f, 'f', 0, 64) + "%"
}

// some writes a number of things.
func some[N int | uint64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// style is how to write to some place.
type style struct {
	terminal *os.File // nil if it is none
	colour   bool
	zone     *time.Location
	cells    *runewidth.Condition // measures text
}

func styleOf(out io.Writer) style {
	s := style{zone: time.Local, cells: runewidth.NewCondition()}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		s.terminal = f
		s.colour = os.Getenv("NO_COLOR") == ""
	}
	return s
}

// size is that of the terminal now; zeros where there is none, or it does not say.
func (s *style) size() (width, height int) {
	if s.terminal == nil {
		return 0, 0
	}
	width, height, err := term.GetSize(int(s.terminal.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

// clock writes the time of a day, stamp the day too.
func (s *style) clock(t time.Time) string { return t.In(s.zone).Format("15:04:05 MST") }
func (s *style) stamp(t time.Time) string { return t.In(s.zone).Format("2006-01-02 15:04:05 MST") }

// colour is how a text is shown on a terminal, beside what it says.
type colour string

const (
	plain  colour = ""
	bold   colour = "\x1b[1m"
	red    colour = "\x1b[31m"
	green  colour = "\x1b[32m"
	yellow colour = "\x1b[33m"
)

func (s *style) paint(c colour, text string) string {
	if !s.colour || c == plain || text == "" {
		return text
	}
	return string(c) + text + "\x1b[0m"
}
