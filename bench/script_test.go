package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/sony/gobreaker/v2"
)

// The script: a call every 50 ms for 8 s to a dependency that is down twice.
const (
	scriptStep  = 50 * time.Millisecond
	scriptCalls = 160
	scriptOpen  = 1025 * time.Millisecond
	scriptTrip  = 5
)

func scriptDown(at time.Duration) bool {
	within := func(from, to time.Duration) bool { return at >= from*time.Millisecond && at < to*time.Millisecond }
	return within(500, 2500) || within(4000, 6000)
}

// tally is what came of the script.
type tally struct {
	transitions            []string
	reached, failed        int
	rejected, noProbe, odd int
}

var scriptWant = tally{
	transitions: []string{
		"700ms closed to open",
		"1750ms open to half-open", "1750ms half-open to open",
		"2800ms open to half-open", "2900ms half-open to closed",
		"4200ms closed to open",
		"5250ms open to half-open", "5250ms half-open to open",
		"6300ms open to half-open", "6400ms half-open to closed",
	},
	reached: 80, failed: 12, rejected: 80,
}

func (y *tally) transition(at time.Duration, from, to fmt.Stringer) {
	y.transitions = append(y.transitions, fmt.Sprintf("%dms %v to %v", at.Milliseconds(), from, to))
}

func (y *tally) check(t *testing.T) {
	t.Helper()
	if !slices.Equal(y.transitions, scriptWant.transitions) {
		t.Errorf("transitions\n%q, want\n%q", y.transitions, scriptWant.transitions)
	}
	got, want := *y, scriptWant
	got.transitions, want.transitions = nil, nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// run plays the script; step moves the clock, call makes a call.
func (y *tally) run(step func(time.Duration), call func(fn func() error) error) {
	for i := range scriptCalls {
		at := time.Duration(i) * scriptStep
		err := call(func() error {
			y.reached++
			if scriptDown(at) {
				y.failed++
				return errDown
			}
			return nil
		})
		switch {
		case err == nil, errors.Is(err, errDown):
		case errors.Is(err, fusebox.ErrProbing), errors.Is(err, gobreaker.ErrTooManyRequests):
			y.noProbe++
		case errors.Is(err, fusebox.ErrOpen), errors.Is(err, gobreaker.ErrOpenState):
			y.rejected++
		default:
			y.odd++
		}
		step(scriptStep)
	}
}

func (y *tally) fusebox(now func() time.Time, start time.Time) *fusebox.Breaker {
	return fusebox.New("script", fusebox.Config{
		Consecutive: scriptTrip,
		FailureRate: -1,
		Probes:      probes,
		CloseAfter:  probes,
		OpenFor:     scriptOpen,
		OpenForMax:  scriptOpen,
		OpenJitter:  -1,
		Now:         now,
		Observers: []fusebox.Observer{{Transition: func(tr fusebox.Transition) {
			y.transition(tr.At.Sub(start), tr.From, tr.To)
		}}},
	})
}

func do(b *fusebox.Breaker) func(func() error) error {
	return func(fn func() error) error {
		return b.Do(context.Background(), func(context.Context) error { return fn() })
	}
}

func permits(b *fusebox.Breaker) func(func() error) error {
	return func(fn func() error) error {
		p, err := b.Allow(context.Background())
		if err != nil {
			return err
		}
		defer p.Record(fusebox.Failure)
		err = fn()
		p.Finish(context.Background(), err)
		return err
	}
}

func TestScriptGivesTheSameTransitionsAsGobreaker(t *testing.T) {
	for name, way := range map[string]func(*fusebox.Breaker) func(func() error) error{"Do": do, "permits": permits} {
		t.Run("fusebox "+name+", scripted clock", func(t *testing.T) {
			var y tally
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			now := start
			b := y.fusebox(func() time.Time { return now }, start)
			y.run(func(d time.Duration) { now = now.Add(d) }, way(b))
			y.check(t)
		})
		t.Run("fusebox "+name+", clock of the bubble", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var y tally
				b := y.fusebox(nil, time.Now())
				y.run(time.Sleep, way(b))
				y.check(t)
			})
		})
	}
	t.Run("gobreaker", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var y tally
			start := time.Now()
			b := gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
				MaxRequests:   probes,
				Timeout:       scriptOpen,
				ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= scriptTrip },
				OnStateChange: func(_ string, from, to gobreaker.State) { y.transition(time.Since(start), from, to) },
			})
			y.run(time.Sleep, func(fn func() error) error {
				_, err := b.Execute(func() (struct{}, error) { return struct{}{}, fn() })
				return err
			})
			y.check(t)
		})
	})
}
