package config

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// plan is a file of another kind.
type plan struct {
	Name  string        `yaml:"name" rule:"required"`
	Every time.Duration `yaml:"every" default:"5s"`
	Share *Share        `yaml:"share"`
	Start time.Duration `yaml:"start" rule:"zero"`
	Parts []planPart    `yaml:"parts"`
}

type planPart struct {
	Name  string `yaml:"name" rule:"required"`
	Least *int   `yaml:"least" min:"0"`
	Retry *Retry `yaml:"retry"`
}

func TestDecodeReadsAFileOfAnotherKind(t *testing.T) {
	var p plan
	err := Decode("p.yaml", []byte("name: x\nshare: 0%\nparts:\n  - {name: a, least: 0}\n  - {name: b, retry: {}}\n"), "a name", &p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "x" || p.Every != 5*time.Second || p.Share == nil || *p.Share != 0 || *p.Parts[0].Least != 0 || p.Parts[1].Least != nil {
		t.Errorf("got %+v", p)
	}
	if r := p.Parts[1].Retry; r == nil || r.BudgetWindow != 10*time.Second {
		t.Errorf("a section without its defaults: %+v", r)
	}
}

func TestDecodeGivesAllErrors(t *testing.T) {
	var p plan
	err := Decode("p.yaml", []byte("every: 5\nparts:\n  - {name: a, least: -1, most: 3}\n  - {retry: {base-delay: 20s, max-delay: 1s}}\n"), "a name", &p, func(doc *Document) {
		if !doc.Set("parts[0].least") || doc.Set("parts[1].least") || !doc.Failed("parts[0].least") || doc.Failed("parts[1]") {
			t.Error("what is set, and what has failed")
		}
		if !doc.FailedIn("parts[0]") || !doc.FailedIn("parts") || !doc.FailedIn("parts[0].least") || doc.FailedIn("part") || doc.FailedIn("share") {
			t.Error("what has failed in a section")
		}
		doc.Fail("parts[1]", "is the %s", "second")
		doc.Validate("parts[1].retry", *p.Parts[1].Retry, p.Parts[1].Retry.Config().Validate())
	})
	var errs Errors
	if !errors.As(err, &errs) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"p.yaml:1:1: name is missing", "p.yaml:1:8: every is 5, must have a unit", "p.yaml:3:22: parts[0].least is -1, must be a whole number of at least 0",
		"p.yaml:3:26: parts[0].most is not a key here; known are name, least, retry", "parts[1].name is missing", "parts[1] is the second",
		"p.yaml:4:42: parts[1].retry.max-delay is 1s, must be at least base-delay (20s)",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no error %q", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
	if err := Decode("p.yaml", nil, "a name", &p, func(*Document) { t.Error("there is nothing to check") }); err == nil || err.Error() != "p.yaml:1:1: the file is empty; it must have a name" {
		t.Errorf("an empty file: %v", err)
	}
	if err := Decode("p.yaml", []byte("name: ${HOME}"), "a name", &p, nil); err == nil || !strings.Contains(err.Error(), "HOME, which is not set") {
		t.Errorf("a variable: %v", err)
	}
}

func TestADurationThatMayBeZero(t *testing.T) {
	for text, want := range map[string]string{
		"0s": "", "00ms": "", "1s": "", "-0s": "is \"-0s\"", "-1s": "is \"-1s\"", "0": "is 0", "'0'": "is \"0\"", "off": "is \"off\"", "1": "must have a unit",
	} {
		p := plan{Start: -1}
		err := Decode("p.yaml", []byte("name: x\nstart: "+text+"\n"), "a name", &p, nil)
		switch {
		case want == "" && (err != nil || p.Start < 0 || p.Start > time.Second):
			t.Errorf("%s: %v, %v", text, p.Start, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), "p.yaml:2:8: start "+want) && !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	err := Decode("p.yaml", []byte("name: x\nstart: -1s\n"), "a name", new(plan), nil)
	if err == nil || !strings.Contains(err.Error(), "must be 0s, or a positive duration with a unit: 250ms, 10s, 1m30s") {
		t.Errorf("the rule: %v", err)
	}
}

func TestShare(t *testing.T) {
	for text, want := range map[string]Share{"0": 0, "0%": 0, "0.00": 0, "0.5": 0.5, "50%": 0.5, "1": 1, "100%": 1} {
		if got, err := parseShare(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-0", "-0%", "50", "101%", "none", "%", "."} {
		if got, err := parseShare(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
