package sim

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestEventsOfOneInstantComeInTheOrderTheyWerePlanned(t *testing.T) {
	l := Virtual()
	var got []int
	for i := range 50 {
		l.At(time.Duration(i%2)*ms, func() { got = append(got, i) })
	}
	if err := l.Run(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	var want []int
	for _, odd := range []int{0, 1} {
		for i := odd; i < 50; i += 2 {
			want = append(want, i)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestRunStopsAtTheInstantGivenIncluded(t *testing.T) {
	l := Virtual()
	var at []time.Duration
	l.Every(ms, 2*ms, 4, func(int) { at = append(at, l.Elapsed()) })
	if err := l.Run(t.Context(), 5*ms); err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{ms, 3 * ms, 5 * ms}; !slices.Equal(at, want) {
		t.Errorf("ran at %v, want %v", at, want)
	}
	if err := l.Run(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if len(at) != 4 || l.Elapsed() != time.Second || !l.Now().Equal(Epoch.Add(time.Second)) {
		t.Errorf("ran at %v, it is %v (%v)", at, l.Elapsed(), l.Now())
	}
}

func TestAnEventMayPlanOthersAndOneInThePastIsNow(t *testing.T) {
	l := Virtual()
	var at []time.Duration
	l.At(4*ms, func() {
		l.After(2*ms, func() { at = append(at, l.Elapsed()) })
		l.At(ms, func() { at = append(at, l.Elapsed()) })
	})
	if err := l.Run(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if want := []time.Duration{4 * ms, 6 * ms}; !slices.Equal(at, want) {
		t.Errorf("ran at %v, want %v", at, want)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := Virtual()
	n := 0
	l.Every(0, ms, 1_000_000, func(i int) {
		if n++; i == 10 {
			cancel()
		}
	})
	if err := l.Run(ctx, time.Hour); !errors.Is(err, context.Canceled) || n > 2000 {
		t.Errorf("%d events, %v", n, err)
	}
	Bubble(func(l *Loop) {
		n = 0
		l.Every(0, ms, 10, func(int) { n++ })
		if err := l.Run(ctx, time.Second); !errors.Is(err, context.Canceled) || n != 0 {
			t.Errorf("%d events, %v", n, err)
		}
	})
}

func TestABubblesTimeIsTheLoops(t *testing.T) {
	Bubble(func(l *Loop) {
		start := time.Now()
		n := 0
		l.Every(0, time.Hour, 100, func(i int) {
			n++
			if want := time.Duration(i) * time.Hour; time.Since(start) != want || l.Elapsed() != want || !l.Now().Equal(time.Now()) {
				t.Errorf("event %d: %v by the clock, %v by the loop", i, time.Since(start), l.Elapsed())
			}
		})
		if err := l.Run(t.Context(), 100*time.Hour); err != nil || n != 100 {
			t.Errorf("%d events, %v", n, err)
		}
	})
}

func TestAPanicInABubbleGoesOnOutside(t *testing.T) {
	defer func() {
		if p, _ := recover().(string); !strings.HasPrefix(p, "this") || !strings.Contains(p, "loop_test.go") {
			t.Errorf("recovered %q", p)
		}
	}()
	Bubble(func(*Loop) { panic("this") })
	t.Error("there was no panic")
}

func TestARealLoopWaits(t *testing.T) {
	start := time.Now()
	l := Real()
	var at []time.Duration
	l.Every(0, 5*ms, 4, func(int) { at = append(at, time.Since(start)) })
	if err := l.Run(t.Context(), 20*ms); err != nil {
		t.Fatal(err)
	}
	for i, d := range at {
		if d < time.Duration(i)*5*ms {
			t.Errorf("event %d ran at %v", i, d)
		}
	}
	if d := time.Since(start); len(at) != 4 || d < 20*ms || l.Elapsed() < 20*ms {
		t.Errorf("%d events in %v", len(at), d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.After(time.Hour, func() { t.Error("ran") })
	l.After(0, cancel)
	if err := l.Run(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("a loop that waits is cancelled with %v", err)
	}
}

// A bubble is made for tests: this program must not notice.
func TestABubbleInAProgramThatIsNoTest(t *testing.T) {
	program := filepath.Join(t.TempDir(), "bubble")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/bubble")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program, "-test.run=x", "-v").CombinedOutput()
	want := "1h0m0s\n1h0m0s\n[-test.run=x -v]\nrecovered true\n"
	if err != nil || string(out) != want {
		t.Errorf("%v\n%swant\n%s", err, out, want)
	}
}
