package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// A reason comes from whoever may override: it does nothing to the terminal.
func TestWhatIsToldIsSafeForATerminal(t *testing.T) {
	var b bytes.Buffer
	s := &story{w: &b, began: time.Now()}
	s.tell("breaker demo opened: %s", "force-open by ann: \x1b[2J\nwell\u009b")
	if got := b.String(); strings.ContainsAny(got, "\x1b\u009b") || strings.Count(got, "\n") != 1 || !strings.Contains(got, "well") {
		t.Errorf("%q", got)
	}
}
