package fusebox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// States forced by an operator.

func TestC163AManualTripHolds(t *testing.T) {
	l := newCase(t, "consec=1 openfor=10s probes=1")
	p, q := l.allow(), l.allow()
	note := fusebox.Note{Reason: "maintenance", By: "operator"}
	l.Override(fusebox.ForceOpen, note)
	for range 100 {
		l.clock.Advance(time.Hour)
		refusal := l.refused()
		if refusal.RetryAfter() != 0 {
			t.Fatalf("RetryAfter is %v, and nobody knows", refusal.RetryAfter())
		}
		l.change(func(c *fusebox.Config) { c.OpenFor, c.OpenForMax = time.Second, time.Second })
	}
	if p.Record(fusebox.Success) || q.Record(fusebox.Failure) {
		t.Error("results of older calls were accepted")
	}
	l.want(fusebox.Open)
	if s := l.Snapshot(); !s.Override || s.Note != note || !s.Until.IsZero() {
		t.Errorf("the snapshot is %+v", s)
	}
	l.Lift(fusebox.Note{})
	l.want(fusebox.HalfOpen)
	l.calls(1, nil)
	l.want(fusebox.Closed)
	l.wantEvents("CO,OH,HC")

	l.Override(fusebox.ForceClosed, note)
	l.calls(1000, errCase)
	l.want(fusebox.Closed)
	l.Lift(fusebox.Note{})
	l.want(fusebox.Closed)
	l.calls(1, errCase)
	l.want(fusebox.Open)
}

// TestC163ARejectionGoesOnSayingWhoForcedIt holds that what happens to a
// breaker that is forced open does not take the place of why it is.
func TestC163ARejectionGoesOnSayingWhoForcedIt(t *testing.T) {
	for name, happens := range map[string]func(*caseLab){
		"nothing":     func(*caseLab) {},
		"time passes": func(l *caseLab) { l.clock.Advance(1000 * time.Hour) },
		"reconfigured": func(l *caseLab) {
			l.change(func(c *fusebox.Config) { c.Consecutive = 7 })
		},
		"an override that is over already": func(l *caseLab) {
			l.Override(fusebox.ForceClosed, fusebox.Note{Until: l.clock.Now().Add(-1)})
		},
		"an observer comes": func(l *caseLab) { l.Observe(fusebox.Observer{Rejected: func(*fusebox.OpenError) {}}) },
	} {
		for _, open := range []bool{false, true} {
			l := newCase(t, "consec=1 openfor=10s probes=1")
			if open {
				l.calls(1, errCase)
			}
			l.Override(fusebox.ForceOpen, fusebox.Note{Reason: "maintenance", By: "operator"})
			happens(l)
			refusal := l.refused()
			if refusal.Cause() != fusebox.CauseOverride || !strings.Contains(refusal.Error(), "operator: maintenance") {
				t.Errorf("open before: %v, then %s: the rejection has cause %v and says %q", open, name, refusal.Cause(), refusal)
			}
		}
	}
}
