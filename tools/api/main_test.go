package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSurfaceHasWhatIsExportedAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	source := `package p

// A is documented.
type A struct {
	B int // public
	c int
}

func (A) M() int { return secret }
func (A) m()     {}

const secret = 1
`
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(source), 0o666); err != nil {
		t.Fatal(err)
	}
	text, name, err := surface(dir)
	if err != nil || name != "p" {
		t.Fatal(name, err)
	}
	for _, want := range []string{"type A struct", "B int", "func (A) M() int"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
	for _, not := range []string{"c int", "m()", "secret", "documented", "public"} {
		if strings.Contains(string(text), not) {
			t.Errorf("has %q:\n%s", not, text)
		}
	}
}

func TestAChangeOfTheSurfaceIsFound(t *testing.T) {
	root := t.TempDir()
	write := func(source string) {
		if err := os.WriteFile(filepath.Join(root, "p.go"), []byte(source), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("package p\n\nfunc F() {}\n")
	if err := run(root, true); err != nil {
		t.Fatal(err)
	}
	if err := run(root, false); err != nil {
		t.Error(err)
	}
	write("package p\n\nfunc F(int) {}\n")
	if err := run(root, false); err == nil || !strings.Contains(err.Error(), "+ func F(int)") {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(root, "p.go")); err != nil {
		t.Fatal(err)
	}
	if err := run(root, false); err == nil || !strings.Contains(err.Error(), "no such package") {
		t.Error(err)
	}
	if err := run(root, true); err != nil {
		t.Fatal(err)
	}
	if err := run(root, false); err != nil {
		t.Error(err)
	}
}
