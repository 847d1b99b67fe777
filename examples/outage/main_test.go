package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// show runs the program in a bubble, where its seconds cost nothing, and
// returns what it printed; after a while its context is cancelled.
func show(t *testing.T, live bool, after time.Duration) string {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		defer cancel()
		run(ctx, &out, live)
	})
	return out.String()
}

func mustContain(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(out, text) {
			t.Errorf("output lacks %q:\n%s", text, out)
		}
	}
}

func TestTheBreakerOpensAndRecovers(t *testing.T) {
	out := show(t, false, time.Minute)
	mustContain(t, out,
		"closed → open: 20 failures in a row >= 20",
		"half-open → closed: 3 probes succeeded",
		"The breaker opened 950ms after the dependency broke, and closed ",
		"160 calls: ",
		"The breaker is closed.\n")
	if strings.ContainsAny(out, "\r\x1b") {
		t.Errorf("plain output has control characters:\n%q", out)
	}
}

func TestATerminalIsShownEveryCall(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	out := show(t, true, time.Minute)
	if n := strings.Count(out, "\r\x1b[K"); n < 160 {
		t.Errorf("line redrawn %d times, want at least once a call", n)
	}
	mustContain(t, out, "\x1b[31mopen\x1b[0m")
	t.Setenv("NO_COLOR", "1")
	if out = show(t, true, time.Minute); strings.Contains(out, "\x1b[31m") {
		t.Error("NO_COLOR is set and there are colours")
	}
}

func TestAnInterruptEndsItWithASummary(t *testing.T) {
	out := show(t, false, 3500*time.Millisecond)
	mustContain(t, out, "Interrupted.\n", "The breaker opened 950ms after the dependency broke.\n", "The breaker is open.\n")
}
