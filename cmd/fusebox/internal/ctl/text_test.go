package ctl

import (
	"strings"
	"testing"
	"time"
)

func TestTextIsMadeSafe(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"failure rate 0.63 >= 0": "failure rate 0.63 >= 0",
		"\x1b]0;title\x07":       `\x1b]0;title\a`,
		"a\r\n\tb":               `a\r\n\tb`,
		"\u009b31m":              `\u009b31m`,
		"\u202egnp.exe":          `\u202egnp.exe`,
		"a\u00a0b\u2028":         `a\u00a0b\u2028`,
		"\xff\xc3":               `\xff\xc3`,
		"\U000e0001":             `\U000e0001`,
		"支払い é \ufffd":           "支払い é \ufffd",
		`back\slash`:             `back\slash`,
	} {
		if got := safe(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for name, want := range map[string]string{
		"payments/10.0.0.1:9000": "payments/10.0.0.1:9000", "": `""`, " a": `" a"`, "a ": `"a "`, `"a"`: `"\"a\""`,
		"\x1b": `"\x1b"`, "a b": "a b", `\x1b`: `\x1b`,
	} {
		if got := safeName(name); got != want {
			t.Errorf("the name %q is %s, want %s", name, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("payments", "pay*", "*")
	f.Add("\x1b[2J\u009b\u202e", "a*b*c", "")
	f.Fuzz(func(t *testing.T, text, part, other string) {
		for _, got := range []string{safe(text), safeName(text)} {
			if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e }) {
				t.Errorf("%q is shown as %q", text, got)
			}
		}
		if !matches("*", text) || !matches(strings.ReplaceAll(text, "*", ""), strings.ReplaceAll(text, "*", "")) {
			t.Errorf("%q matches neither * nor itself", text)
		}
		if literal := strings.ReplaceAll(part, "*", ""); !matches(literal+"*"+other+"*", literal+text+strings.ReplaceAll(other, "*", text)) {
			t.Errorf("%q, %q, %q", text, part, other)
		}
	})
}

func TestPatternsMatchWholeNames(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"pay", "pay", true},
		{"pay", "payments", false},
		{"pay*", "payments/1", true},
		{"*ments", "payments", true},
		{"*pay", "payments", false},
		{"p*y*s", "payments", true},
		{"p*x*s", "payments", false},
		{"*", "", true},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a**b", "ab", true},
		{"*b*b*", "abc", false},
		{"[a]", "a", false},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.name, got)
		}
	}
}

func TestSpansAreShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 40 * time.Millisecond: "0s", 450 * time.Millisecond: "0.4s", 9999 * time.Millisecond: "9.9s",
		10 * time.Second: "10s", 252 * time.Second: "4m12s", 3*time.Hour + 5*time.Minute: "3h05m", 47 * time.Hour: "47h00m", 51 * time.Hour: "2d03h",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestFractions(t *testing.T) {
	for f, want := range map[float64]string{0: "0%", 0.001: "<1%", 0.01: "1%", 0.634: "63%", 1: "100%"} {
		if got := percent(f); got != want {
			t.Errorf("%v is %q, want %q", f, got, want)
		}
	}
}
