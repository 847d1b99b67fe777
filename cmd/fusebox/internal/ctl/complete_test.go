package ctl

import (
	"slices"
	"strings"
	"testing"
)

func TestNamesAreCompleted(t *testing.T) {
	a, b := newAdmin(t, "payments", "pay all", "stock", "pay\x1b[2J"), newAdmin(t, "payments", "pay/2")
	offers := func(args ...string) []string {
		t.Helper()
		o := ctl(t, append([]string{"__complete"}, args...)...).ended(0)
		lines := strings.Split(strings.TrimSpace(o.out), "\n")
		return lines[:len(lines)-1] // the last is a directive
	}
	targets := []string{"--target", a.url, "--target", nobody(t), "--target", b.url}
	for _, command := range []string{"ls", "get", "events", "watch", "force-open", "force-closed", "shadow", "enforce", "lift", "reset"} {
		got := offers(append(append([]string{command}, targets...), "pay")...)
		if want := []string{"pay all", "pay/2", "payments"}; !slices.Equal(got, want) {
			t.Errorf("%s is offered %q, want %q", command, got, want)
		}
	}
	if got := offers(append(append([]string{"get"}, targets...), "payments", "pay")...); !slices.Equal(got, []string{"pay all", "pay/2"}) {
		t.Errorf("a name is offered again: %q", got)
	}
	if got := offers("ls", "--state", ""); !slices.Equal(got, []string{"open", "half-open", "closed"}) {
		t.Errorf("states are %q", got)
	}
}
