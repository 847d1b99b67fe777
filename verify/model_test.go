package verify

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"reflect"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fusebox-go/fusebox"
)

func TestMain(m *testing.M) {
	flag.Set("rapid.checks", "300") // the command line overrides these
	flag.Set("rapid.steps", "100")
	flag.Set("rapid.nofailfile", "true")           // the seed is printed
	slog.SetDefault(slog.New(slog.DiscardHandler)) // panics of observers
	os.Exit(m.Run())
}

// rig is a breaker, the oracle beside it, and the clock that both read.
type rig struct {
	b       *fusebox.Breaker
	o       *oracle
	reading time.Duration
	permits []*pair

	draws       []float64 // all of them
	drawn       int       // by the breaker
	records     []fusebox.Transition
	completions []fusebox.Completion
	grumpy      bool // an observer panics at every record
}

// pair is a permit on both sides.
type pair struct {
	permit fusebox.Permit
	slip   *slip
}

var (
	errDown     = errors.New("down")
	errNotFound = errors.New("not found")
)

const ms = time.Millisecond

func notFoundIsAnAnswer(ctx context.Context, err error) fusebox.Outcome {
	if errors.Is(err, errNotFound) {
		return fusebox.Success
	}
	return fusebox.DefaultClassify(ctx, err)
}

// span draws a duration of a few milliseconds that is not always a whole one.
func span(most int) *rapid.Generator[time.Duration] {
	return rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.IntRange(1, most).Draw(t, "ms"))*ms + rapid.SampledFrom([]time.Duration{0, 0, 1, 333}).Draw(t, "ns")
	})
}

// configs draws valid settings, small enough for states to change often.
var configs = rapid.Custom(func(t *rapid.T) fusebox.Config {
	var c fusebox.Config
	pick := func(name string, of int) bool { return rapid.IntRange(1, of).Draw(t, name) == of }
	if !pick("default window", 5) {
		c.Window = span(50).Draw(t, "Window")
	}
	c.Buckets = rapid.IntRange(0, 5).Draw(t, "Buckets")
	if pick("count window", 3) {
		c.WindowCalls = rapid.IntRange(1, 6).Draw(t, "WindowCalls")
	}
	c.MinCalls = rapid.IntRange(0, 5).Draw(t, "MinCalls")
	if c.WindowCalls > 0 {
		c.MinCalls = min(c.MinCalls, c.WindowCalls)
	}
	c.FailureRate = rapid.SampledFrom([]float64{0.5, 0.25, 0.75, 1, 0, -1}).Draw(t, "FailureRate")
	c.SlowAfter = rapid.SampledFrom([]time.Duration{0, -1, 2 * ms, 5 * ms}).Draw(t, "SlowAfter")
	c.SlowRate = rapid.SampledFrom([]float64{0, 0.25, 0.5, 1}).Draw(t, "SlowRate")
	c.Consecutive = rapid.SampledFrom([]int{3, 1, 2, 4, 0, -1}).Draw(t, "Consecutive")
	if pick("TripWhen", 4) {
		n := rapid.IntRange(1, 4).Draw(t, "failures")
		c.TripWhen = func(c fusebox.Counts) bool { return c.Failures+c.Slow >= n }
	}
	switch rapid.IntRange(0, 9).Draw(t, "open period") {
	case 0: // defaults
	case 1:
		c.OpenFor, c.OpenForMax = math.MaxInt64/4, math.MaxInt64
	default:
		c.OpenFor = span(20).Draw(t, "OpenFor")
		if !pick("default maximum", 4) {
			c.OpenForMax = c.OpenFor + time.Duration(rapid.IntRange(0, 60).Draw(t, "more"))*ms
		}
	}
	c.OpenJitter = rapid.SampledFrom([]float64{-1, 0, 0.3, 1}).Draw(t, "OpenJitter")
	c.Probes = rapid.IntRange(0, 4).Draw(t, "Probes")
	c.CloseAfter = rapid.IntRange(0, 4).Draw(t, "CloseAfter")
	c.ReopenAfter = rapid.IntRange(0, 3).Draw(t, "ReopenAfter")
	if !pick("default lease", 4) {
		c.ProbeTimeout = span(30).Draw(t, "ProbeTimeout")
	}
	c.StableAfter = rapid.SampledFrom([]time.Duration{0, -1, 1, 10 * ms, 40 * ms}).Draw(t, "StableAfter")
	c.Mode = rapid.SampledFrom([]fusebox.Mode{fusebox.Enforce, fusebox.Enforce, fusebox.Enforce, fusebox.Shadow, fusebox.Off}).Draw(t, "Mode")
	if pick("Classify", 4) {
		c.Classify = notFoundIsAnAnswer
	}
	return c
})

func newRig(t *rapid.T) *rig {
	r := &rig{grumpy: rapid.Bool().Draw(t, "an observer panics")}
	for range 400 {
		r.draws = append(r.draws, float64((len(r.draws)*37)%100)/100)
	}
	c := configs.Draw(t, "config")
	watched := rapid.IntRange(1, 4).Draw(t, "an observer watches calls") == 4
	r.o = newOracle(c, r.draws, watched)
	c.Now = func() time.Time { return epoch.Add(r.reading) }
	c.Rand = func() float64 { r.drawn++; return r.draws[r.drawn-1] }
	c.Observers = []fusebox.Observer{{Transition: func(t fusebox.Transition) { r.records = append(r.records, t) }}}
	if watched {
		c.Observers = append(c.Observers, fusebox.Observer{Finished: func(c fusebox.Completion) { r.completions = append(r.completions, c) }})
	}
	if r.grumpy {
		c.Observers = append(c.Observers, fusebox.Observer{Transition: func(fusebox.Transition) { panic("grumpy") }})
	}
	r.b = fusebox.New("model", c)
	return r
}

// check compares all that can be read, twice: reading changes nothing.
func (r *rig) check(t *rapid.T) {
	want := r.o.snapshot(r.reading)
	if r.grumpy {
		want.Totals.Panics = uint64(len(r.o.records))
	}
	for range 2 {
		if got := r.b.State(); got != want.State {
			t.Fatalf("at %v: State is %v, want %v", r.reading, got, want.State)
		}
		if got := r.b.Snapshot(); !reflect.DeepEqual(got, want) {
			t.Fatalf("at %v: Snapshot is\n%+v, want\n%+v", r.reading, got, want)
		}
	}
	same(t, "record", r.records, r.o.records)
	same(t, "entry of History", r.b.History(), r.o.records[max(0, len(r.o.records)-16):])
	same(t, "completion", r.completions, r.o.completions)
}

func same[T comparable](t *rapid.T, what string, got, want []T) {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s %d is\n%+v, want\n%+v", what, i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d of %s, want %d: got\n%+v, want\n%+v", len(got), what, len(want), got, want)
	}
}

// allowed compares what Allow, or Do, came to with what the oracle says.
func (r *rig) allowed(t *rapid.T, err error, refused *refusal) {
	if refused == nil {
		if err != nil {
			t.Fatalf("at %v: rejected: %v", r.reading, err)
		}
		return
	}
	var open *fusebox.OpenError
	if !errors.As(err, &open) || !errors.Is(err, fusebox.ErrOpen) {
		t.Fatalf("at %v: Allow returns %v, want a rejection", r.reading, err)
	}
	if probing := refused.state == fusebox.HalfOpen; errors.Is(err, fusebox.ErrProbing) != probing {
		t.Fatalf("%v matches ErrProbing: %v, want %v", err, !probing, probing)
	}
	if got := (refusal{open.State(), open.Cause(), open.RetryAfter()}); got != *refused {
		t.Fatalf("at %v: rejection is %+v, want %+v", r.reading, got, *refused)
	}
}

func (r *rig) accepted(t *rapid.T, got, want bool) {
	if got != want {
		t.Fatalf("at %v: result accepted: %v, want %v", r.reading, got, want)
	}
}

// pick returns one of the permits, finished ones among them.
func (r *rig) pick(t *rapid.T) *pair {
	if len(r.permits) == 0 {
		t.Skip("no permit")
	}
	n := len(r.permits)
	return r.permits[rapid.IntRange(max(0, n-8), n-1).Draw(t, "permit")]
}

func (r *rig) note(t *rapid.T) fusebox.Note {
	return fusebox.Note{By: rapid.SampledFrom([]string{"", "ann", "bob"}).Draw(t, "by"), Reason: "test"}
}

// classified is the ending by Finish.
func (r *rig) classified(ctx context.Context, err error) ending {
	e := ending{err: err, measured: true, direct: r.o.cfg.Classify == nil}
	cancelled := ctx.Err() != nil
	switch {
	case err == nil, errors.Is(err, errNotFound) && r.o.cfg.Classify != nil:
		e.outcome = fusebox.Success
	case errors.Is(err, errIgnored):
		e.outcome = fusebox.Ignored
	case cancelled:
		e.outcome, e.gaveUp = fusebox.Ignored, true
	default:
		e.outcome = fusebox.Failure
	}
	return e
}

var (
	errIgnored = errors.New("not its fault")
	outcomes   = rapid.SampledFrom([]fusebox.Outcome{fusebox.Success, fusebox.Failure, fusebox.Failure, fusebox.Ignored, 7})
	returns    = rapid.SampledFrom([]error{
		nil, nil, errDown, errDown, errNotFound, fusebox.Ignore(errIgnored), fmt.Errorf("wrapped: %w", fusebox.Ignore(errIgnored)),
	})
)

func contexts(t *rapid.T) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	if rapid.IntRange(1, 4).Draw(t, "cancelled") == 4 {
		cancel()
	}
	_ = cancel
	return ctx
}

// step moves the clock, also backwards, and also to where something is due.
func (r *rig) step(t *rapid.T) {
	switch rapid.IntRange(0, 5).Draw(t, "step") {
	case 0:
		r.reading -= time.Duration(rapid.IntRange(0, 20).Draw(t, "back")) * ms
	case 1:
		r.reading += time.Duration(rapid.IntRange(0, 200).Draw(t, "far")) * ms
	case 2, 3:
		r.reading += time.Duration(rapid.IntRange(0, 8).Draw(t, "near")) * ms
	default:
		var at []time.Duration
		if due, _ := r.o.due(); due != never {
			at = append(at, due)
		}
		if r.o.state == fusebox.Open && r.o.deadline < time.Hour {
			at = append(at, r.o.deadline)
		}
		at = append(at, r.o.plainEnd)
		off := time.Duration(rapid.IntRange(-1, 1).Draw(t, "off"))
		r.reading = max(r.reading, rapid.SampledFrom(at).Draw(t, "due")+off)
	}
}

// TestBreakerAgreesWithModel does random things to a breaker and to a model
// that recounts everything, and compares all that can be seen after each.
func TestBreakerAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t)
		t.Repeat(r.actions())
	})
}

func (r *rig) actions() map[string]func(*rapid.T) {
	background := context.Background()
	admit := func(t *rapid.T) {
		p, err := r.b.Allow(background)
		s, refused := r.o.allow(r.reading)
		r.allowed(t, err, refused)
		if s != nil {
			r.permits = append(r.permits, &pair{p.Take(), s})
		}
	}
	record := func(t *rapid.T) {
		h, o := r.pick(t), outcomes.Draw(t, "outcome")
		r.accepted(t, h.permit.Record(o), r.o.finish(r.reading, h.slip, ending{outcome: o, measured: true, direct: true}))
	}
	return map[string]func(*rapid.T){
		"": r.check,
		// Some stand twice: those that calls do are more frequent.
		"allow": admit, "allow too": admit,
		"record": record, "record too": record,
		"step": r.step, "step too": r.step,
		"allow, cancelled": func(t *rapid.T) {
			ctx, cancel := context.WithCancel(background)
			cancel()
			if _, err := r.b.Allow(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, fusebox.ErrOpen) {
				t.Fatalf("Allow with a cancelled context returns %v", err)
			}
		},
		"finish": func(t *rapid.T) {
			h, err, ctx := r.pick(t), returns.Draw(t, "error"), contexts(t)
			r.accepted(t, h.permit.Finish(ctx, err), r.o.finish(r.reading, h.slip, r.classified(ctx, err)))
		},
		"record after": func(t *rapid.T) {
			h, o := r.pick(t), outcomes.Draw(t, "outcome")
			d := time.Duration(rapid.IntRange(-1, 8).Draw(t, "duration")) * ms
			got := h.permit.RecordAfter(o, d)
			r.accepted(t, got, r.o.finish(r.reading, h.slip, ending{outcome: o, duration: max(d, 0)}))
		},
		"cancel": func(t *rapid.T) {
			h := r.pick(t)
			h.permit.Cancel()
			r.o.cancel(r.reading, h.slip)
		},
		"renew": func(t *rapid.T) {
			h := r.pick(t)
			h.permit.Renew()
			r.o.renew(r.reading, h.slip)
		},
		"take": func(t *rapid.T) {
			h := r.pick(t)
			moved := h.permit.Take()
			if h.permit.Record(fusebox.Failure) {
				t.Fatalf("a permit that was moved away records")
			}
			h.permit = moved.Take()
		},
		"do": r.do,
		"override": func(t *rapid.T) {
			m := fusebox.Mode(rapid.IntRange(0, 4).Draw(t, "mode"))
			n := r.note(t)
			if rapid.Bool().Draw(t, "ends") {
				n.Until = epoch.Add(r.reading + time.Duration(rapid.IntRange(-2, 30).Draw(t, "left"))*ms)
			}
			r.b.Override(m, n)
			r.o.override(r.reading, m, n)
		},
		"lift": func(t *rapid.T) {
			n := r.note(t)
			r.b.Lift(n)
			r.o.lift(r.reading, n)
		},
		"reset": func(t *rapid.T) {
			if rapid.IntRange(1, 3).Draw(t, "really") > 1 {
				t.Skip("rarely")
			}
			n := r.note(t)
			r.b.Reset(n)
			r.o.reset(r.reading, n)
		},
		"reconfigure": func(t *rapid.T) {
			c := configs.Draw(t, "config")
			if rapid.Bool().Draw(t, "same window") {
				c.Window, c.Buckets, c.WindowCalls = r.o.cfg.Window, r.o.cfg.Buckets, r.o.cfg.WindowCalls
				if c.WindowCalls > 0 {
					c.MinCalls = min(c.MinCalls, c.WindowCalls)
				}
			}
			if err := r.b.Reconfigure(c); err != nil {
				t.Fatalf("Reconfigure: %v", err)
			}
			r.o.reconfigure(r.reading, c)
		},
		"reconfigure, invalid": func(t *rapid.T) {
			if r.b.Reconfigure(fusebox.Config{Probes: -1}) == nil {
				t.Fatalf("Reconfigure takes an invalid Config")
			}
		},
	}
}

// do calls Do with a function that takes time and returns, panics, or ends its
// goroutine.
func (r *rig) do(t *rapid.T) {
	how := rapid.SampledFrom([]string{"return", "return", "panic", "goexit"}).Draw(t, "how")
	err := returns.Draw(t, "error")
	late := rapid.IntRange(1, 4).Draw(t, "cancelled meanwhile") == 4
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	took := time.Duration(rapid.IntRange(-2, 8).Draw(t, "took")) * ms
	s, refused := r.o.allow(r.reading)

	called, returned := false, false
	var got error
	var recovered any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { recovered = recover() }()
		got = r.b.Do(ctx, func(context.Context) error {
			called = true
			r.reading += took
			if late {
				cancel()
			}
			switch how {
			case "panic":
				panic("boom")
			case "goexit":
				runtime.Goexit()
			}
			return err
		})
		returned = true
	}()
	<-done

	if s == nil {
		r.allowed(t, got, refused)
		if called {
			t.Fatalf("a call that was rejected was made")
		}
		return
	}
	if !called {
		t.Fatalf("at %v: a call was not made: %v", r.reading, got)
	}
	if returned != (how == "return") || (recovered != nil) != (how == "panic") || returned && !errors.Is(got, err) {
		t.Fatalf("Do returned %v: %v, recovered %v from %s of %v", returned, got, recovered, how, err)
	}
	e := r.classified(ctx, err)
	if how != "return" {
		e = ending{outcome: fusebox.Failure, measured: true}
		if late {
			e.outcome, e.gaveUp = fusebox.Ignored, true
		}
	}
	r.o.finish(r.reading, s, e)
}
