package fusebox_test

import (
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Lazy time.

func TestForcingAnOverdueBreakerOpenDoesNotCountTheTimeItReadHalfOpen(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	l.advance(time.Hour)
	l.Override(fusebox.ForceOpen, fusebox.Note{})
	if got := l.Snapshot().Totals.Open; got != time.Second {
		t.Errorf("open for %v, want the 1s of its period", got)
	}
	l.advance(time.Minute)
	l.Lift(fusebox.Note{})
	if got := l.Snapshot().Totals.Open; got != time.Minute+time.Second {
		t.Errorf("open for %v, want 1m1s", got)
	}
}

func TestReadingCommitsNothing(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	l.delivered()
	l.advance(time.Hour)
	before := l.Snapshot()
	for range 3 {
		l.want(fusebox.HalfOpen)
	}
	if after := l.Snapshot(); after.Generation != before.Generation || after.Outstanding != 0 || after.Last.To != fusebox.Open {
		t.Errorf("reading changed the breaker: %+v", after)
	}
	if !before.Until.IsZero() {
		t.Errorf("half-open until %v", before.Until)
	}
	if before.Totals.Open != time.Second {
		t.Errorf("open for %v, want 1s", before.Totals.Open)
	}
	if r := l.delivered(); len(r) != 0 {
		t.Errorf("reading left records: %v", r)
	}
}

func TestEveryOperationCommitsWhatIsDue(t *testing.T) {
	for name, do := range map[string]func(*cellLab){
		"Override":    func(l *cellLab) { l.Override(fusebox.Enforce, fusebox.Note{}) },
		"Lift":        func(l *cellLab) { l.Lift(fusebox.Note{}) },
		"Reset":       func(l *cellLab) { l.Reset(fusebox.Note{}) },
		"Reconfigure": func(l *cellLab) { l.change(func(*fusebox.Config) {}) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newCellLab(t)
			l.trip()
			p := l.probe()
			defer p.Cancel()
			due := l.time().Add(30 * time.Second)
			l.delivered()
			l.advance(31 * time.Second)
			do(l)
			r := l.delivered()
			if len(r) != 2 || r[0].Cause != fusebox.CauseProbeExpired || !r[0].At.Equal(due) {
				t.Errorf("records %v, want probe-expired at %v first", r, due)
			}
		})
	}
}

func TestAClockThatGoesBackStandsStill(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	p := l.probe()
	l.advance(-time.Hour)
	l.want(fusebox.HalfOpen)
	p.Record(fusebox.Failure)
	l.wantOpenFor(2 * time.Second)
	err := l.refuse()
	if got := err.RetryAfter(); got != 2*time.Second {
		t.Errorf("retry after %v, want 2s", got)
	}
	l.advance(time.Hour + 2*time.Second)
	q := l.allow()
	q.Cancel()
}

func TestAClockBeforeTheBirthOfTheBreakerStandsStill(t *testing.T) {
	l := newCellLab(t)
	l.advance(-time.Hour)
	l.succeed(1)
	l.wantCounts(fusebox.Counts{Calls: 1})
	l.trip()
	if got := l.Snapshot().Until; !got.Equal(cellEpoch.Add(time.Second)) {
		t.Errorf("until %v, want a second after the birth", got)
	}
	l.refuse()
}

func TestACallAfterTheDeadlineWasSeenIsAProbeThoughTheClockWentBack(t *testing.T) {
	l := newCellLab(t)
	old := l.allow()
	l.trip()
	l.advance(2 * time.Second)
	old.Record(fusebox.Failure) // late, but under the lock: 2 s have been seen
	l.advance(-1900 * time.Millisecond)
	l.want(fusebox.HalfOpen)
	p := l.allow()
	p.Cancel()
}
