package limit

import (
	"math"
	"testing"
	"time"
)

// rig drives an estimator: calls begin and end in order.
type rig struct {
	e    estimator
	now  time.Duration
	open []begun
}

type begun struct {
	number uint64
	start  time.Duration
}

func newRig(c Config) *rig { return &rig{e: newEstimator(c.withDefaults())} }

func (r *rig) begin() bool {
	number, ok := r.e.admit(r.now)
	if ok {
		r.open = append(r.open, begun{number, r.now})
	}
	return ok
}

func (r *rig) finish(s Sample) {
	c := r.open[0]
	r.open = r.open[1:]
	r.e.finish(c.number, c.start, r.now, s)
}

// serve makes calls, with up to want in flight at a time. Each takes the
// service time, and longer if more than servers are in flight.
func (r *rig) serve(calls, want, servers int, service time.Duration, s Sample) {
	for range calls {
		for len(r.open) < want && r.begin() {
		}
		latency := service * time.Duration(max(len(r.open), servers)) / time.Duration(servers)
		r.now = max(r.now, r.open[0].start+latency)
		r.finish(s)
	}
}

const ms = time.Millisecond

func (r *rig) wantLimit(t *testing.T, from, to float64) {
	t.Helper()
	if r.e.limit < from || r.e.limit > to {
		t.Errorf("the limit is %.1f, want %v to %v (baseline %v, latency %v)", r.e.limit, from, to,
			time.Duration(r.e.baseline), time.Duration(r.e.latency))
	}
}

func TestALimitInUseGrowsByItsRootARound(t *testing.T) {
	r := newRig(Config{Initial: 100, Window: 1})
	r.serve(300, 60, 1000, 10*ms, Success)
	if r.e.round.number == 1 {
		t.Fatal("no round ended")
	}
	want := 100.0
	for range r.e.round.number - 1 {
		if 60 >= want/2 {
			want += math.Sqrt(want)
		}
	}
	r.wantLimit(t, want-1e-9, want+1e-9)
}

func TestALimitOutOfUseStaysWhereItIs(t *testing.T) {
	r := newRig(Config{Initial: 100})
	r.serve(5000, 49, 1000, 10*ms, Success)
	r.wantLimit(t, 100, 100)
	r.serve(5000, 40, 1000, 30*ms, Success) // slower, but not for its sake
	r.wantLimit(t, 100, 100)
}

func TestTheLimitSettlesWhereFewCallsWait(t *testing.T) {
	for _, servers := range []int{1, 4, 20, 100, 500} {
		r := newRig(Config{})
		r.serve(200*1000, 1000, servers, 10*ms, Success)
		root := (1 + math.Sqrt(1+4*1.1*float64(servers))) / 2
		r.wantLimit(t, 0.75*root*root, 1.25*root*root)
	}
}

func TestDroppedCallsCutTheLimitByTheirShare(t *testing.T) {
	for dropped, want := range map[int]float64{ // of the 18 calls that are nine tenths of 20
		0:  100 + 10,
		3:  100 - 0.5*(100-(100*11./12+10*5./6)),
		9:  100 - 0.5*(100-(75+5)),
		18: 100 - 0.5*(100-50),
	} {
		r := newRig(Config{Initial: 100, Window: 1})
		for range 100 {
			r.begin()
		}
		r.now += 10 * ms
		for range dropped {
			r.finish(Dropped)
		}
		for range 18 - dropped {
			r.finish(Success)
		}
		if r.e.round.number != 2 {
			t.Errorf("round %d, want 2", r.e.round.number)
		}
		r.wantLimit(t, want-1e-9, want+1e-9)
	}
}

func TestADependencyThatDropsAllLeavesTheFloor(t *testing.T) {
	r := newRig(Config{Initial: 200, Min: 3})
	r.serve(20000, 1000, 1000, 10*ms, Dropped)
	r.wantLimit(t, 3, 3)
	r.serve(20000, 1000, 50, 10*ms, Success)
	r.wantLimit(t, 50, 80)
}

func TestTheCapHolds(t *testing.T) {
	r := newRig(Config{Max: 30})
	r.serve(20000, 1000, 1000, 10*ms, Success)
	r.wantLimit(t, 30, 30)
}

func TestOneRoundIsNeverMoreThanAQuarterOfAFall(t *testing.T) {
	r := newRig(Config{Initial: 400})
	r.serve(5000, 1000, 1000, ms, Success)
	for before := r.e.limit; !r.e.probing; before = r.e.limit {
		if r.serve(1, 1000, 1000, time.Minute, Success); r.e.limit < 0.75*before-1e-9 {
			t.Fatalf("from %v to %v in a round", before, r.e.limit)
		}
	}
}

func TestARoundHasAsManyCallsAsAreInFlightAndLastsItsWindow(t *testing.T) {
	r := newRig(Config{Initial: 100, MinSamples: 5, Window: time.Second})
	for last := (round{number: 1}); last.number < 10; last = r.e.round {
		r.serve(1, 60, 1000, 10*ms, Success)
		if next := r.e.round; next.number == last.number {
			continue
		}
		if took := r.now - last.began; took < time.Second {
			t.Errorf("round %d took %v", last.number, took)
		}
		if r.e.round.size != r.e.inFlight || r.e.inFlight < 50 {
			t.Errorf("a cohort of %d with %d in flight", r.e.round.size, r.e.inFlight)
		}
	}
}

func TestAQueueThatGrowsSlowlyIsNoBaseline(t *testing.T) {
	r := newRig(Config{Initial: 20})
	r.serve(2000, 19, 20, 10*ms, Success)
	for want := 20; want < 1000; want++ { // a little more load than there is capacity
		r.serve(200, want, 20, 10*ms, Success)
	}
	r.wantLimit(t, 20, 40)
}

func TestIgnoredCallsMoveNothing(t *testing.T) {
	r := newRig(Config{Initial: 10})
	r.serve(20000, 1000, 2, 10*ms, Ignored)
	r.wantLimit(t, 10, 10)
	if r.e.latency != 0 || r.e.baseline != 0 {
		t.Errorf("latency %v, baseline %v", r.e.latency, r.e.baseline)
	}
}

func TestTheBaselineFollowsADependencyThatChangesForGood(t *testing.T) {
	for name, c := range map[string]struct {
		before, after time.Duration
		want          int // calls in flight; the limit begins at 20
	}{
		"slower, while calls are refused":     {10 * ms, 30 * ms, 1000},
		"quicker, while calls are refused":    {30 * ms, 10 * ms, 1000},
		"slower, while no call is refused":    {10 * ms, 30 * ms, 5},
		"quicker, while no call is refused":   {30 * ms, 10 * ms, 5},
		"much slower, while calls are denied": {ms, 500 * ms, 1000},
	} {
		r := newRig(Config{})
		r.serve(20000, c.want, 40, c.before, Success)
		if got := time.Duration(r.e.baseline); got < c.before*9/10 || got > c.before*11/10 {
			t.Errorf("%s: baseline %v, want %v", name, got, c.before)
		}
		r.serve(20000, c.want, 40, c.after, Success)
		if got := time.Duration(r.e.baseline); got < c.after*9/10 || got > c.after*11/10 {
			t.Errorf("%s: baseline %v afterwards, want %v", name, got, c.after)
		}
		if c.want > 20 {
			r.wantLimit(t, 40, 65)
		}
	}
}

func TestABeginningUnderOverloadIsFoundOut(t *testing.T) {
	r := newRig(Config{Initial: 200})
	r.serve(50*1000, 1000, 5, 10*ms, Success) // the first latency is 40 times too long
	r.wantLimit(t, 5, 12)
}

func TestAProbeReplacesABaselineThatIsFarOff(t *testing.T) {
	for found, want := range map[float64]struct {
		baseline float64
		patience int
	}{
		10:  {10, impatient}, // was there a queue in the probe as well?
		69:  {69, impatient},
		90:  {100 - 10*calm, patient}, // noise
		140: {100 + 40*calm, patient},
		150: {150, patient},
		900: {900, patient},
	} {
		e := estimator{baseline: 100, latency: found, patience: patient}
		if e.probed(); e.baseline != want.baseline || e.patience != want.patience {
			t.Errorf("probe of %v: baseline %v, patience %d, want %+v", found, e.baseline, e.patience, want)
		}
	}
}

func TestNothingIsProbedWhileNothingIsRefused(t *testing.T) {
	r := newRig(Config{Initial: 20})
	for range 20000 {
		r.serve(1, 15, 40, 10*ms, Success)
		if r.e.probing {
			t.Fatal("a probe")
		}
	}
	for range 20000 {
		r.serve(1, 1000, 40, 10*ms, Success)
		if r.e.probing {
			return
		}
	}
	t.Fatal("no probe, though calls are refused")
}

func TestAProbeHalvesTheLimitAndGivesItBack(t *testing.T) {
	r := newRig(Config{})
	for !r.e.probing {
		r.serve(1, 1000, 40, 10*ms, Success)
	}
	before := r.e.limit
	if r.e.bound() != int((before-math.Sqrt(before))/2) {
		t.Errorf("%d calls may be in flight, want half of %v", r.e.bound(), before)
	}
	for range 10 * int(before) {
		if r.serve(1, 1000, 40, 10*ms, Success); !r.e.probing {
			if r.e.limit != before || r.e.bound() != int(before) {
				t.Errorf("the limit is %v after the probe, and was %v", r.e.limit, before)
			}
			return
		}
	}
	t.Error("the probe does not end")
}

func TestCallsThatHangDoNotHoldTheLimit(t *testing.T) {
	r := newRig(Config{Initial: 40})
	r.serve(400, 40, 100, 10*ms, Success)
	for number := r.e.round.number; r.e.round.number == number; {
		r.serve(1, 30, 100, 10*ms, Success)
	}
	for range 10 { // of these nothing is heard again
		r.begin()
	}
	hung := r.open[len(r.open)-10:]
	r.open = r.open[:len(r.open)-10]
	before := r.e.round.number
	for range 50 { // rounds of which hung calls are a large part
		r.serve(100, 30, 100, 10*ms, Success)
	}
	if got := r.e.round.number - before; got < 10 {
		t.Errorf("%d rounds in 5000 calls, with %d calls hung", got, len(hung))
	}
}

// A probe of a small limit is long: its calls come one after the other.
func TestASmallDependencyThatSlowsDownIsMeasuredAnew(t *testing.T) {
	for _, servers := range []int{1, 2, 4, 6, 8} {
		for _, after := range []time.Duration{20 * ms, 30 * ms, 100 * ms} {
			r := newRig(Config{})
			r.serve(20_000, 1000, servers, 10*ms, Success)
			r.serve(20_000, 1000, servers, after, Success)
			if b := time.Duration(r.e.baseline); b < after*8/10 || r.e.limit < 0.8*float64(servers) {
				t.Errorf("%d servers, now %v: baseline %v, limit %.1f", servers, after, b, r.e.limit)
			}
		}
	}
}

func TestAProbeThatHangsIsGivenUp(t *testing.T) {
	r := newRig(Config{})
	for !r.e.probing {
		r.serve(1, 1000, 40, 10*ms, Success)
	}
	for r.begin() { // nothing ends any more
	}
	r.now += 100*ms + time.Duration(r.e.tedious()*r.e.latency)
	if r.begin(); !r.e.probing {
		t.Fatal("the probe was given up early")
	}
	r.now++
	if r.begin(); r.e.probing {
		t.Error("the probe goes on for ever")
	}
	if in := r.e.inFlight; in > int(r.e.limit) || in > len(r.open) {
		t.Errorf("%d in flight", in)
	}
}

func TestTimeoutsOfCallsBegunBeforeACutDoNotCutAgain(t *testing.T) {
	r := newRig(Config{Initial: 100, Window: 1, MinSamples: 20})
	for range 100 {
		r.begin()
	}
	r.now = 10 * ms
	for range 100 {
		r.finish(Dropped)
	}
	r.wantLimit(t, 75, 75) // one cut of a quarter, though 100 calls are five rounds
	for number := r.e.round.number; r.e.round.number == number; {
		r.serve(1, 60, 1000, 10*ms, Success)
	}
	want := 75 + math.Sqrt(75) // the next round knows nothing of them
	r.wantLimit(t, want-1e-9, want+1e-9)
}

func TestOddClocksAreHarmless(t *testing.T) {
	for name, step := range map[string]func(i int) time.Duration{
		"stands still": func(int) time.Duration { return 0 },
		"goes back":    func(i int) time.Duration { return time.Duration(-i) * ms },
		"jumps":        func(i int) time.Duration { return time.Duration(i%1000/999) * time.Hour },
		"swings":       func(i int) time.Duration { return time.Duration(1-i%2*2) * time.Hour },
	} {
		r := newRig(Config{Window: 1})
		for i := range 20000 {
			r.serve(1, 1000, 40, 10*ms, Success)
			r.now += step(i)
			r.check(t)
		}
		if t.Failed() {
			t.Fatal(name)
		}
		r.serve(200*1000, 1000, 40, 10*ms, Success)
		if r.wantLimit(t, 40, 65); t.Failed() {
			t.Fatal(name)
		}
	}
}

// check checks the invariants of the estimator.
func (r *rig) check(t *testing.T) {
	t.Helper()
	e := &r.e
	if !(e.limit >= e.min && e.limit <= e.max) { // NaN too
		t.Fatalf("limit %v, want %v to %v", e.limit, e.min, e.max)
	}
	if b := e.bound(); float64(b) < e.min || float64(b) > e.limit {
		t.Fatalf("bound %d, want %v to %v", b, e.min, e.limit)
	}
	for _, v := range []float64{e.baseline, e.latency} {
		if !(v == 0 || v >= 1 && !math.IsInf(v, 1)) {
			t.Fatalf("baseline %v, latency %v", e.baseline, e.latency)
		}
	}
	if e.inFlight != len(r.open) {
		t.Fatalf("%d in flight, want %d", e.inFlight, len(r.open))
	}
}

func FuzzEstimator(f *testing.F) {
	f.Add(uint8(1), uint8(20), uint8(10), []byte("aaaabbbb\x00\x80\xff\x01\x02\x03"))
	f.Add(uint8(0), uint8(255), uint8(1), []byte("\x04\x04\x04\x04\x05\x06\x07\x03\x83\x43\xc3\x04\x05"))
	f.Fuzz(func(t *testing.T, least, span, initial uint8, script []byte) {
		c := Config{Min: 1 + int(least), Window: 1, MinSamples: 1 + int(initial%4)}
		c.Max = c.Min + int(span)
		c.Initial = min(c.Min+int(initial), c.Max)
		r := newRig(c)
		for _, b := range script {
			switch n := time.Duration(b >> 3); b & 7 {
			case 0, 1:
				for range n + 1 {
					before := r.e.inFlight
					if ok := r.begin(); ok != (before < r.e.bound()) {
						t.Fatalf("admitted %v with %d in flight of %d", ok, before, r.e.bound())
					}
				}
			case 2, 3, 4:
				for range min(int(n)+1, len(r.open)) {
					r.finish(Sample(b&7 - 2))
				}
			case 5:
				r.now += n * n * n * ms
			case 6:
				r.now -= n * ms
			case 7:
				r.now += time.Duration(1) << (n * 2) // an age or two, and overflow
			}
			r.check(t)
		}
	})
}
