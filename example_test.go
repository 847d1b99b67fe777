package fusebox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/bulkhead"
	"github.com/fusebox-go/fusebox/fallback"
	"github.com/fusebox-go/fusebox/fuseboxtest"
	"github.com/fusebox-go/fusebox/retry"
	"github.com/fusebox-go/fusebox/timeout"
)

var (
	ctx         = context.Background()
	errRefused  = errors.New("connection refused")
	errNotFound = errors.New("not found")
)

func refuse(context.Context) error { return errRefused }
func answer(context.Context) error { return nil }

// touchy returns a breaker that trips on the second failure in a row, for a
// second, and closes after one good probe.
func touchy(clock *fuseboxtest.Clock) *fusebox.Breaker {
	return fusebox.New("payments", fusebox.Config{
		Consecutive: 2, OpenJitter: -1, Probes: 1, Now: clock.Now,
	})
}

// tripped returns a touchy breaker that has just tripped.
func tripped(clock *fuseboxtest.Clock) *fusebox.Breaker {
	b := touchy(clock)
	for range 2 {
		_ = b.Do(ctx, refuse)
	}
	return b
}

func Example() {
	payments := fusebox.New("payments", fusebox.Config{}) // the zero Config protects

	fetchUser := func(context.Context) (string, error) { return "Ada", nil }
	user, err := fusebox.Call(ctx, payments, fetchUser)
	if errors.Is(err, fusebox.ErrOpen) { // any rejection by a breaker
		user = "somebody"
	}
	fmt.Println(user)
	// Output: Ada
}

func ExampleNew() {
	payments := fusebox.New("payments", fusebox.Config{SlowAfter: 300 * time.Millisecond})
	fmt.Println(payments.Name(), payments.State())
	// Output: payments closed
}

// The values in effect when nothing is set. A rule that is off reads -1.
func ExampleConfig() {
	c := fusebox.New("payments", fusebox.Config{}).Config()
	fmt.Println("Window      ", c.Window, "in", c.Buckets, "buckets")
	fmt.Println("WindowCalls ", c.WindowCalls)
	fmt.Println("MinCalls    ", c.MinCalls)
	fmt.Println("FailureRate ", c.FailureRate)
	fmt.Println("SlowAfter   ", c.SlowAfter)
	fmt.Println("SlowRate    ", c.SlowRate)
	fmt.Println("Consecutive ", c.Consecutive)
	fmt.Println("TripWhen    ", c.TripWhen != nil)
	fmt.Println("OpenFor     ", c.OpenFor)
	fmt.Println("OpenForMax  ", c.OpenForMax)
	fmt.Println("OpenJitter  ", c.OpenJitter)
	fmt.Println("Probes      ", c.Probes)
	fmt.Println("CloseAfter  ", c.CloseAfter)
	fmt.Println("ReopenAfter ", c.ReopenAfter)
	fmt.Println("ProbeTimeout", c.ProbeTimeout)
	fmt.Println("StableAfter ", c.StableAfter)
	fmt.Println("Mode        ", c.Mode)
	fmt.Println("Classify    ", c.Classify != nil)
	fmt.Println("Observers   ", len(c.Observers))
	fmt.Println("Now         ", c.Now != nil)
	fmt.Println("Rand        ", c.Rand != nil)
	// Output:
	// Window       10s in 10 buckets
	// WindowCalls  0
	// MinCalls     20
	// FailureRate  0.5
	// SlowAfter    -1ns
	// SlowRate     0.6
	// Consecutive  20
	// TripWhen     false
	// OpenFor      1s
	// OpenForMax   4s
	// OpenJitter   0.2
	// Probes       3
	// CloseAfter   3
	// ReopenAfter  1
	// ProbeTimeout 30s
	// StableAfter  10s
	// Mode         enforce
	// Classify     false
	// Observers    0
	// Now          false
	// Rand         false
}

// A rule of one's own in place of the others.
func ExampleConfig_tripWhen() {
	b := fusebox.New("payments", fusebox.Config{
		TripWhen: func(c fusebox.Counts) bool { return c.Failures >= 3 && c.FailureRate() > 0.1 },
	})
	for range 3 {
		_ = b.Do(ctx, refuse)
	}
	fmt.Println(b.Snapshot().Last.Why())
	// Output: TripWhen, 3 of 3 calls failed, 0 slow in 10s
}

func ExampleConfig_Validate() {
	c := fusebox.Config{FailureRate: 50, WindowCalls: 10, MinCalls: 20}
	fmt.Println(c.Validate())
	// Output:
	// fusebox: Config.MinCalls is 20, must be at most WindowCalls (10), or no rate rule ever trips
	// fusebox: Config.FailureRate is 50, must be a fraction up to 1; negative is off
}

func ExampleConfigError() {
	var e *fusebox.ConfigError
	if errors.As(fusebox.Config{Probes: -1}.Validate(), &e) {
		fmt.Println(e.Field, "=", e.Value)
	}
	// Output: Probes = -1
}

func ExampleBreaker() {
	var clock fuseboxtest.Clock
	b := touchy(&clock)

	fmt.Println(b.Do(ctx, refuse))
	fmt.Println(b.Do(ctx, refuse), b.State())
	fmt.Println(b.Do(ctx, answer))
	clock.Advance(time.Second)
	fmt.Println(b.Do(ctx, answer), b.State())
	// Output:
	// connection refused
	// connection refused open
	// fusebox: "payments" is open (2 failures in a row >= 2), retry in 1s
	// <nil> closed
}

func ExampleBreaker_Name() {
	fmt.Println(fusebox.New("payments", fusebox.Config{}).Name())
	// Output: payments
}

func ExampleBreaker_Config() {
	b := fusebox.New("payments", fusebox.Config{Probes: 5})
	fmt.Println(b.Config().CloseAfter) // the default is Probes
	// Output: 5
}

func ExampleBreaker_Do() {
	b := fusebox.New("payments", fusebox.Config{})
	err := b.Do(ctx, func(ctx context.Context) error {
		return errRefused
	})
	fmt.Println(err == errRefused) //nolint:errorlint // the very same error
	// Output: true
}

// Allow is for calls that do not fit into a function.
func ExampleBreaker_Allow() {
	b := fusebox.New("payments", fusebox.Config{})
	call := func() error {
		permit, err := b.Allow(ctx)
		if err != nil {
			return err
		}
		defer permit.Record(fusebox.Failure) // a panic, a Goexit, a forgotten return
		err = answer(ctx)
		permit.Finish(ctx, err)
		return err
	}
	fmt.Println(call(), b.Snapshot().Counts.Calls)
	// Output: <nil> 1
}

func ExampleBreaker_State() {
	var clock fuseboxtest.Clock
	b := tripped(&clock)
	fmt.Println(b.State())
	clock.Advance(time.Second)
	fmt.Println(b.State()) // the next call will be a probe
	// Output:
	// open
	// half-open
}

func ExampleBreaker_Snapshot() {
	var clock fuseboxtest.Clock
	s := tripped(&clock).Snapshot()
	fmt.Println(s.State, "since", s.Last.At.Format(time.TimeOnly), "until", s.Until.Format(time.TimeOnly))
	fmt.Println(s.Last.Why())
	// Output:
	// open since 00:00:00 until 00:00:01
	// 2 failures in a row >= 2
}

func ExampleBreaker_Inspect() {
	var clock fuseboxtest.Clock
	b := tripped(&clock)
	i := b.Inspect()
	fmt.Println(i.State, "period", i.PeriodNumber, "tripped by", i.Trip.Why())
	clock.Advance(time.Second)
	_ = b.Do(ctx, refuse) // a probe
	i = b.Inspect()
	fmt.Println(i.State, "period", i.PeriodNumber, "last probe", i.Probes[0].Result, "next period", i.NextPeriod)
	// Output:
	// open period 1 tripped by 2 failures in a row >= 2
	// open period 2 last probe failed next period 4s
}

func ExampleInspection() {
	b := fusebox.New("payments", fusebox.Config{OpenJitter: -1})
	_ = b.Do(ctx, answer)
	i := b.Inspect()
	fmt.Println(i.Window[len(i.Window)-1], i.PeriodNumber, i.NextPeriod)
	// Output: {1 0 0} 0 1s
}

func ExampleBucket() {
	b := fusebox.New("payments", fusebox.Config{WindowCalls: 20})
	for range 4 {
		_ = b.Do(ctx, answer)
	}
	_ = b.Do(ctx, refuse)
	for _, bucket := range b.Inspect().Window { // of a window of calls: ten slices
		fmt.Println(bucket.Calls, bucket.Failures)
	}
	// Output:
	// 1 0
	// 2 0
	// 2 1
}

func ExampleProbe() {
	var clock fuseboxtest.Clock
	b := tripped(&clock)
	clock.Advance(time.Second)
	permit, _ := b.Allow(ctx)
	clock.Advance(20 * time.Millisecond)
	for _, p := range b.Inspect().Probes {
		fmt.Println(p.Result, "for", p.Duration)
	}
	permit.Record(fusebox.Success)
	// Output: out for 20ms
}

func ExampleProbeResult() {
	fmt.Println(fusebox.ProbeSucceeded, fusebox.ProbeExpired)
	// Output: succeeded expired
}

func ExampleBreaker_History() {
	var clock fuseboxtest.Clock
	b := tripped(&clock)
	clock.Advance(time.Second)
	_ = b.Do(ctx, answer)
	for _, t := range b.History() {
		fmt.Println(t)
	}
	// Output:
	// "payments" closed → open: 2 failures in a row >= 2; last error: connection refused
	// "payments" open → half-open: open period over
	// "payments" half-open → closed: 1 probe succeeded
}

func ExampleBreaker_Observe() {
	var clock fuseboxtest.Clock
	b := touchy(&clock)
	stop := b.Observe(fusebox.Observer{
		Transition: func(t fusebox.Transition) { fmt.Println(t.From, "→", t.To) },
	})
	_ = b.Do(ctx, refuse)
	_ = b.Do(ctx, refuse)
	stop()
	b.Reset(fusebox.Note{})
	// Output: closed → open
}

// An operator closes the tap by hand, for ten minutes at most.
func ExampleBreaker_Override() {
	var clock fuseboxtest.Clock
	b := touchy(&clock)
	b.Override(fusebox.ForceOpen, fusebox.Note{
		Reason: "migration", By: "night shift", Until: clock.Now().Add(10 * time.Minute),
	})
	fmt.Println(b.Do(ctx, answer))
	clock.Advance(10 * time.Minute)
	fmt.Println(b.Do(ctx, answer))
	// Output:
	// fusebox: "payments" is open (force-open by night shift: migration), retry in 10m0s
	// <nil>
}

func ExampleBreaker_Lift() {
	b := fusebox.New("payments", fusebox.Config{})
	b.Override(fusebox.ForceOpen, fusebox.Note{Reason: "migration"})
	b.Lift(fusebox.Note{Reason: "migrated"})
	fmt.Println(b.State(), "because", b.Snapshot().Last.Why())
	// Output: half-open because override lifted: migrated
}

func ExampleBreaker_Reset() {
	var clock fuseboxtest.Clock
	b := tripped(&clock)
	b.Reset(fusebox.Note{By: "night shift", Reason: "new version is up"})
	fmt.Println(b.State(), "because", b.Snapshot().Last.Why())
	// Output: closed because reset by night shift: new version is up
}

func ExampleBreaker_Reconfigure() {
	b := fusebox.New("payments", fusebox.Config{})
	fmt.Println(b.Reconfigure(fusebox.Config{FailureRate: 0.3}), b.Config().FailureRate)
	fmt.Println(b.Reconfigure(fusebox.Config{FailureRate: 3}))
	// Output:
	// <nil> 0.3
	// fusebox: Config.FailureRate is 3, must be a fraction up to 1; negative is off
}

func ExamplePermit() {
	b := fusebox.New("payments", fusebox.Config{})
	permit, err := b.Allow(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(permit.Record(fusebox.Success))
	fmt.Println(permit.Record(fusebox.Failure)) // the first counts
	// Output:
	// true
	// false
}

// A result that comes after the state has changed is late: it changes nothing.
func ExamplePermit_Finish() {
	var clock fuseboxtest.Clock
	b := touchy(&clock)
	permit, _ := b.Allow(ctx)
	b.Reset(fusebox.Note{})
	fmt.Println(permit.Finish(ctx, nil), b.Snapshot().Totals.Late)
	// Output: false 1
}

func ExamplePermit_FinishAs() {
	b := fusebox.New("payments", fusebox.Config{Consecutive: 1})
	permit, err := b.Allow(ctx)
	if err != nil {
		return
	}
	// The call returned an answer, and the answer is that nothing works.
	permit.FinishAs(ctx, fusebox.Failure, errors.New("status 503"))
	fmt.Println(b.Snapshot().Last.LastError)
	// Output: status 503
}

func ExamplePermit_FinishAfter() {
	b := fusebox.New("payments", fusebox.Config{SlowAfter: time.Second})
	permit, err := b.Allow(ctx)
	if err != nil {
		return
	}
	// A stream that broke off after an hour, and had answered within 20 ms.
	permit.FinishAfter(ctx, fusebox.Failure, errors.New("connection reset"), 20*time.Millisecond)
	fmt.Println(b.Snapshot().Totals.Failures, b.Snapshot().Totals.Slow)
	// Output: 1 0
}

func ExamplePermit_Record() {
	b := fusebox.New("payments", fusebox.Config{})
	permit, _ := b.Allow(ctx)
	permit.Record(fusebox.Failure) // status 503
	fmt.Println(b.Snapshot().Counts.Failures)
	// Output: 1
}

func ExamplePermit_RecordAfter() {
	b := fusebox.New("payments", fusebox.Config{SlowAfter: time.Second})
	permit, _ := b.Allow(ctx)
	permit.RecordAfter(fusebox.Success, 1500*time.Millisecond) // time to the first byte, say
	fmt.Println(b.Snapshot().Counts.Slow)
	// Output: 1
}

func ExamplePermit_Cancel() {
	b := fusebox.New("payments", fusebox.Config{})
	permit, _ := b.Allow(ctx)
	permit.Cancel() // the answer was in the cache after all
	fmt.Println(b.Snapshot().Counts.Calls)
	// Output: 0
}

// A stream lives as long as it shows signs of life.
func ExamplePermit_Renew() {
	var clock fuseboxtest.Clock
	b := tripped(&clock)
	clock.Advance(time.Second)
	probe, _ := b.Allow(ctx)
	for range 3 { // messages
		clock.Advance(20 * time.Second)
		probe.Renew()
	}
	fmt.Println(probe.Finish(ctx, nil), b.State())
	// Output: true closed
}

func ExamplePermit_Probe() {
	var clock fuseboxtest.Clock
	b := tripped(&clock)
	clock.Advance(time.Second)
	permit, _ := b.Allow(ctx)
	fmt.Println(permit.Probe())
	permit.Finish(ctx, nil)
	// Output: true
}

func ExamplePermit_Take() {
	b := fusebox.New("payments", fusebox.Config{})
	permit, _ := b.Allow(ctx)
	stream := struct{ permit fusebox.Permit }{permit.Take()} // it finishes the call later
	fmt.Println(permit.Record(fusebox.Failure), stream.permit.Record(fusebox.Success))
	// Output: false true
}

func ExampleOutcome() {
	b := fusebox.New("payments", fusebox.Config{
		Classify: func(ctx context.Context, err error) fusebox.Outcome {
			if errors.Is(err, errRefused) {
				return fusebox.Failure
			}
			return fusebox.Success // everything else is an answer
		},
	})
	_ = b.Do(ctx, refuse)
	_ = b.Do(ctx, func(context.Context) error { return errNotFound })
	fmt.Println(b.Snapshot().Counts.Failures, "of", b.Snapshot().Counts.Calls)
	// Output: 1 of 2
}

// "Not found" is an answer.
func ExampleDefaultClassify() {
	b := fusebox.New("users", fusebox.Config{
		Classify: func(ctx context.Context, err error) fusebox.Outcome {
			if errors.Is(err, errNotFound) {
				return fusebox.Success
			}
			return fusebox.DefaultClassify(ctx, err)
		},
	})
	err := b.Do(ctx, func(context.Context) error { return fmt.Errorf("user 7: %w", errNotFound) })
	fmt.Println(err)
	fmt.Println(b.Snapshot().Totals.Successes, "success")
	// Output:
	// user 7: not found
	// 1 success
}

func ExampleIgnore() {
	b := fusebox.New("payments", fusebox.Config{})
	err := b.Do(ctx, func(context.Context) error {
		return fusebox.Ignore(errors.New("amount is negative")) // found before anything was sent
	})
	fmt.Println(err)
	fmt.Println(b.Snapshot().Totals.Ignored, "ignored")
	// Output:
	// amount is negative
	// 1 ignored
}

// A refusal by any policy, and when it is worth another try.
func ExampleRejected() {
	var clock fuseboxtest.Clock
	b := tripped(&clock)
	retryAfter, ok := fusebox.Rejected(b.Do(ctx, answer))
	fmt.Println(retryAfter, ok)
	retryAfter, ok = fusebox.Rejected(errRefused)
	fmt.Println(retryAfter, ok)
	// Output:
	// 1s true
	// 0s false
}

func ExampleOpenError() {
	var clock fuseboxtest.Clock
	err := tripped(&clock).Do(ctx, answer)
	var open *fusebox.OpenError
	if errors.As(err, &open) {
		fmt.Println(open.Name(), open.State(), open.Cause(), open.RetryAfter())
	}
	fmt.Println(errors.Is(err, fusebox.ErrOpen), errors.Is(err, fusebox.ErrProbing))
	// Output:
	// payments open consecutive 1s
	// true false
}

func ExampleOpenError_Name() {
	var clock fuseboxtest.Clock
	var open *fusebox.OpenError
	if errors.As(tripped(&clock).Do(ctx, answer), &open) {
		fmt.Println(open.Name())
	}
	// Output: payments
}

// Rejected in half-open: the probes are out.
func ExampleOpenError_State() {
	var clock fuseboxtest.Clock
	b := tripped(&clock)
	clock.Advance(time.Second)
	probe, _ := b.Allow(ctx)
	defer probe.Cancel()

	err := b.Do(ctx, answer)
	var open *fusebox.OpenError
	if errors.As(err, &open) {
		fmt.Println(open.State(), errors.Is(err, fusebox.ErrProbing))
	}
	// Output: half-open true
}

func ExampleOpenError_Cause() {
	b := fusebox.New("payments", fusebox.Config{})
	b.Override(fusebox.ForceOpen, fusebox.Note{})
	var open *fusebox.OpenError
	if errors.As(b.Do(ctx, answer), &open) {
		fmt.Println(open.Cause() == fusebox.CauseOverride)
	}
	// Output: true
}

func ExampleOpenError_RetryAfter() {
	var clock fuseboxtest.Clock
	b := tripped(&clock)
	var open *fusebox.OpenError
	if errors.As(b.Do(ctx, answer), &open) {
		clock.Advance(400 * time.Millisecond)
		fmt.Println(open.RetryAfter()) // as of now, not of the rejection
	}
	// Output: 600ms
}

func ExampleState() {
	var s fusebox.State
	err := s.UnmarshalText([]byte("half-open"))
	fmt.Println(s == fusebox.HalfOpen, err)
	// Output: true <nil>
}

// A new breaker is tried in shadow: it judges, and rejects nothing.
func ExampleMode() {
	var clock fuseboxtest.Clock
	b := fusebox.New("payments", fusebox.Config{Mode: fusebox.Shadow, Consecutive: 2, OpenJitter: -1, Now: clock.Now})
	_ = b.Do(ctx, refuse)
	_ = b.Do(ctx, refuse)
	fmt.Println(b.State(), b.Do(ctx, answer))
	fmt.Println(b.Snapshot().Totals.WouldReject.Successes, "good call would have been rejected")
	// Output:
	// open <nil>
	// 1 good call would have been rejected
}

func ExampleCause() {
	var clock fuseboxtest.Clock
	fmt.Println(tripped(&clock).Snapshot().Last.Cause)
	// Output: consecutive
}

func ExampleNote() {
	b := fusebox.New("payments", fusebox.Config{})
	b.Override(fusebox.ForceClosed, fusebox.Note{By: "night shift", Reason: "false alarm"})
	s := b.Snapshot()
	fmt.Println(s.Mode, "by", s.Note.By, "because", s.Note.Reason)
	// Output: force-closed by night shift because false alarm
}

func ExampleTransition() {
	var clock fuseboxtest.Clock
	text, err := json.MarshalIndent(tripped(&clock).Snapshot().Last, "", "  ")
	fmt.Println(string(text), err)
	// Output:
	// {
	//   "name": "payments",
	//   "from": "closed",
	//   "to": "open",
	//   "cause": "consecutive",
	//   "mode": "enforce",
	//   "at": "2000-01-01T00:00:00Z",
	//   "generation": 1,
	//   "counts": {
	//     "calls": 2,
	//     "failures": 2,
	//     "slow": 0,
	//     "consecutive": 2
	//   },
	//   "threshold": 2,
	//   "window": 10000000000,
	//   "last_error": "connection refused",
	//   "until": "2000-01-01T00:00:01Z"
	// } <nil>
}

func ExampleTransition_Why() {
	t := fusebox.Transition{
		Cause:     fusebox.CauseFailureRate,
		Counts:    fusebox.Counts{Calls: 65, Failures: 41},
		Threshold: 0.5,
		Window:    10 * time.Second,
	}
	fmt.Println(t.Why())
	// Output: failure rate 0.63 >= 0.50, 41 of 65 calls in 10s
}

func ExampleObserver() {
	var clock fuseboxtest.Clock
	fusebox.New("payments", fusebox.Config{
		Consecutive: 1, OpenJitter: -1, Now: clock.Now,
		Observers: []fusebox.Observer{{
			Transition: func(t fusebox.Transition) { fmt.Println(t) },
			Rejected:   func(e *fusebox.OpenError) { fmt.Println("rejected:", e.Cause()) },
		}, {
			Finished: func(c fusebox.Completion) { fmt.Println("finished:", c.Outcome) },
		}},
	}).Override(fusebox.ForceOpen, fusebox.Note{Reason: "drill"})
	// Output: "payments" closed → open: force-open: drill
}

func ExampleCompletion() {
	var clock fuseboxtest.Clock
	b := touchy(&clock)
	b.Observe(fusebox.Observer{Finished: func(c fusebox.Completion) {
		fmt.Println(c.Name, c.Outcome, c.Duration, c.Err)
	}})
	_ = b.Do(ctx, func(context.Context) error {
		clock.Advance(30 * time.Millisecond)
		return errRefused
	})
	// Output: payments failure 30ms connection refused
}

func ExampleLogObserver() {
	var clock fuseboxtest.Clock
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey { // the time of writing
				return slog.Attr{}
			}
			return a
		},
	}))
	b := touchy(&clock)
	b.Observe(fusebox.LogObserver(logger))
	_ = b.Do(ctx, refuse)
	_ = b.Do(ctx, refuse)
	// Output: level=WARN msg="fusebox: breaker open" name=payments from=closed to=open cause=consecutive why="2 failures in a row >= 2" generation=1 at=2000-01-01T00:00:00.000Z last_error="connection refused" until=2000-01-01T00:00:01.000Z
}

func ExampleCounts() {
	b := fusebox.New("payments", fusebox.Config{})
	for range 3 {
		_ = b.Do(ctx, answer)
	}
	_ = b.Do(ctx, refuse)
	fmt.Printf("%+v\n", b.Snapshot().Counts)
	// Output: {Calls:4 Failures:1 Slow:0 Consecutive:1}
}

func ExampleCounts_FailureRate() {
	fmt.Println(fusebox.Counts{Calls: 8, Failures: 2}.FailureRate(), fusebox.Counts{}.FailureRate())
	// Output: 0.25 0
}

func ExampleCounts_SlowRate() {
	fmt.Println(fusebox.Counts{Calls: 8, Slow: 6}.SlowRate())
	// Output: 0.75
}

// What an operator wants to know at three in the morning.
func ExampleSnapshot() {
	var clock fuseboxtest.Clock
	b := tripped(&clock)
	clock.Advance(300 * time.Millisecond)
	_ = b.Do(ctx, answer)

	s := b.Snapshot()
	fmt.Println(s.Name, "is", s.State)
	fmt.Println("since", s.Last.At.Format(time.StampMilli), "because", s.Last.Why())
	fmt.Println("tries again at", s.Until.Format(time.StampMilli))
	fmt.Println("has rejected", s.Totals.RejectedOpen)
	// Output:
	// payments is open
	// since Jan  1 00:00:00.000 because 2 failures in a row >= 2
	// tries again at Jan  1 00:00:01.000
	// has rejected 1
}

func ExampleTotals() {
	var clock fuseboxtest.Clock
	b := tripped(&clock)
	_ = b.Do(ctx, answer)
	clock.Advance(5 * time.Second)
	_ = b.Do(ctx, answer)
	t := b.Snapshot().Totals
	fmt.Println(t.Successes, "good,", t.Failures, "failed,", t.RejectedOpen, "rejected, open for", t.Open)
	// Output: 1 good, 2 failed, 1 rejected, open for 1s
}

func ExampleWouldReject() {
	b := fusebox.New("payments", fusebox.Config{Mode: fusebox.Shadow, Consecutive: 1})
	for range 3 {
		_ = b.Do(ctx, refuse)
	}
	fmt.Printf("%+v\n", b.Snapshot().Totals.WouldReject)
	// Output: {Successes:0 Failures:2 Ignored:0}
}

func ExampleProbeTotals() {
	var clock fuseboxtest.Clock
	b := tripped(&clock)
	clock.Advance(time.Second)
	_ = b.Do(ctx, refuse)
	clock.Advance(2 * time.Second)
	_ = b.Do(ctx, answer)
	fmt.Printf("%+v\n", b.Snapshot().Totals.Probes)
	// Output: {Succeeded:1 Failed:1 Ignored:0 Expired:0}
}

func ExampleTransitionCount() {
	var clock fuseboxtest.Clock
	b := tripped(&clock)
	clock.Advance(time.Second)
	_ = b.Do(ctx, answer)
	for _, c := range b.Snapshot().Totals.Transitions {
		fmt.Println(c.From, c.To, c.Cause, c.Count)
	}
	// Output:
	// closed open consecutive 1
	// open half-open deadline 1
	// half-open closed probes-succeeded 1
}

func ExampleRegistry() {
	hosts := fusebox.Registry{
		Config: func(host string) fusebox.Config {
			if host == "reports" {
				return fusebox.Config{SlowAfter: 10 * time.Second}
			}
			return fusebox.Config{SlowAfter: 300 * time.Millisecond}
		},
	}
	fmt.Println(hosts.Get("reports").Do(ctx, answer))
	fmt.Println(hosts.Get("users").Config().SlowAfter)
	// Output:
	// <nil>
	// 300ms
}

func ExampleRegistry_Get() {
	var hosts fusebox.Registry
	first, second := hosts.Get("users"), hosts.Get("users")
	fmt.Println(first == second)
	// Output: true
}

func ExampleRegistry_Lookup() {
	var hosts fusebox.Registry
	hosts.Get("users")
	_, ok := hosts.Lookup("usres")
	fmt.Println(ok, hosts.Stats().Keys)
	// Output: false 1
}

func ExampleRegistry_Peek() {
	var hosts fusebox.Registry
	hosts.Get("users")
	b, ok := hosts.Peek("users") // a look that keeps no idle breaker alive
	fmt.Println(ok, b.State())
	// Output: true closed
}

func ExampleRegistry_All() {
	var hosts fusebox.Registry
	hosts.Get("users")
	hosts.Get("orders")
	for key, b := range hosts.All() {
		fmt.Println(key, b.State())
	}
	// Output:
	// orders closed
	// users closed
}

func ExampleRegistry_Delete() {
	var hosts fusebox.Registry
	hosts.Get("users")
	fmt.Println(hosts.Delete("users"), hosts.Delete("users"))
	// Output: true false
}

// An observer reaches breakers made earlier, too.
func ExampleRegistry_Observe() {
	var hosts fusebox.Registry
	users := hosts.Get("users")
	stop := hosts.Observe(fusebox.Observer{Transition: func(t fusebox.Transition) { fmt.Println(t) }})
	defer stop()
	users.Override(fusebox.ForceOpen, fusebox.Note{Reason: "drill"})
	hosts.Get("orders").Override(fusebox.ForceOpen, fusebox.Note{Reason: "drill"})
	// Output:
	// "users" closed → open: force-open: drill
	// "orders" closed → open: force-open: drill
}

func ExampleRegistry_Stats() {
	hosts := fusebox.Registry{MaxKeys: 2}
	for _, key := range []string{"a", "b", "c"} {
		hosts.Get(key)
	}
	fmt.Printf("%+v\n", hosts.Stats())
	// Output: {Keys:2 Evicted:1 Deleted:0 Exceeded:0}
}

func ExampleRegistryStats() {
	var hosts fusebox.Registry
	fmt.Printf("%+v\n", hosts.Stats())
	// Output: {Keys:0 Evicted:0 Deleted:0 Exceeded:0}
}

func ExamplePolicy() {
	policies := []fusebox.Policy{
		fusebox.New("payments", fusebox.Config{}),
		fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }),
	}
	for _, p := range policies {
		fmt.Println(p.Do(ctx, refuse))
	}
	// Output:
	// connection refused
	// connection refused
}

func ExamplePolicyFunc() {
	logged := fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		err := fn(ctx)
		fmt.Println("called:", err)
		return err
	})
	_ = logged.Do(ctx, refuse)
	// Output: called: connection refused
}

func ExamplePolicyFunc_Do() {
	twice := fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		return errors.Join(fn(ctx), fn(ctx))
	})
	fmt.Println(twice.Do(ctx, answer))
	// Output: <nil>
}

func ExampleCall() {
	b := fusebox.New("payments", fusebox.Config{})
	n, err := fusebox.Call(ctx, b, func(context.Context) (int, error) { return 42, nil })
	fmt.Println(n, err)
	// Output: 42 <nil>
}

// The retry stands outside the breaker, which sees every attempt: two failures
// open it, and its rejection ends the attempts.
func ExampleChain() {
	var clock fuseboxtest.Clock
	again := retry.New(retry.Config{Attempts: 5, BaseDelay: time.Millisecond})
	chain := fusebox.Chain(bulkhead.New(bulkhead.Config{}), again, touchy(&clock), timeout.New(time.Second))
	fmt.Println(chain)

	attempts := 0
	err := chain.Do(ctx, func(context.Context) error {
		attempts++
		return errRefused
	})
	fmt.Println(attempts, errors.Is(err, fusebox.ErrOpen), errors.Is(err, errRefused))
	// Output:
	// bulkhead(25) → retry(5 attempts, 1ms to 10s) → breaker("payments") → timeout(1s)
	// 2 true true
}

// Inside the breaker, the retry makes one outcome of all its attempts: single
// errors are hidden from it, and two failures take six of them.
func ExampleChain_retryInside() {
	var clock fuseboxtest.Clock
	again := retry.New(retry.Config{Attempts: 3, BaseDelay: time.Millisecond})
	chain := fusebox.Chain(touchy(&clock), again)

	attempts := 0
	for range 3 {
		_ = chain.Do(ctx, func(context.Context) error {
			attempts++
			return errRefused
		})
	}
	fmt.Println(attempts)
	// Output: 6
}

// The usual chain, with a last good answer at its end.
func Example_chain() {
	var (
		room    = bulkhead.New(bulkhead.Config{Limit: 50})
		again   = retry.New(retry.Config{})
		breaker = fusebox.New("rates", fusebox.Config{})
		limit   = timeout.New(500 * time.Millisecond)
		chain   = fusebox.Chain(room, again, breaker, limit)
		last    = fallback.New(fallback.Config[float64]{MaxAge: time.Hour})
	)
	rate := func(fetch func(context.Context) (float64, error)) (float64, error) {
		return fallback.Call(ctx, chain, fetch, last)
	}
	fmt.Println(rate(func(context.Context) (float64, error) { return 1.07, nil }))
	fmt.Println(rate(func(context.Context) (float64, error) { return 0, retry.Permanent(errRefused) }))
	// Output:
	// 1.07 <nil>
	// 1.07 <nil>
}
