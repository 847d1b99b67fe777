package fusebox_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// regLab is a registry with a scripted clock, its own and its breakers'. Its
// breakers trip at the first failure.
type regLab struct {
	testing.TB
	fusebox.Registry
	clock atomic.Int64 // nanoseconds since cellEpoch
}

func newRegLab(tb testing.TB, keys int, idle time.Duration) *regLab {
	tb.Helper()
	l := &regLab{TB: tb}
	l.MaxKeys, l.MaxIdle, l.Now = keys, idle, l.time
	l.Config = func(string) fusebox.Config {
		return fusebox.Config{Consecutive: 1, OpenFor: time.Hour, OpenJitter: -1, Now: l.time}
	}
	return l
}

func (l *regLab) time() time.Time { return cellEpoch.Add(time.Duration(l.clock.Load())) }

func (l *regLab) advance(d time.Duration) { l.clock.Add(int64(d)) }

// fill makes a breaker for each key, none used since.
func (l *regLab) fill(keys ...string) {
	for _, key := range keys {
		l.Get(key)
	}
}

func (l *regLab) trip(keys ...string) {
	l.Helper()
	for _, key := range keys {
		regFinish(l, l.Get(key), fusebox.Failure)
	}
}

func regFinish(tb testing.TB, b *fusebox.Breaker, o fusebox.Outcome) {
	tb.Helper()
	p, err := b.Allow(tb.Context())
	if err != nil {
		tb.Fatalf("%s: Allow = %v", b.Name(), err)
	}
	p.Record(o)
}

func (l *regLab) keys() []string { return caseKeys(&l.Registry) }

func (l *regLab) wantKeys(want ...string) {
	l.Helper()
	if got := l.keys(); !slices.Equal(got, want) {
		l.Errorf("keys %q, want %q", got, want)
	}
}

func (l *regLab) wantStats(keys int, evicted, exceeded uint64) {
	l.Helper()
	want := fusebox.RegistryStats{Keys: keys, Evicted: evicted, Exceeded: exceeded}
	if got := l.Stats(); got != want {
		l.Errorf("Stats = %+v, want %+v", got, want)
	}
}

func regKeys(prefix string, n int) (keys []string) {
	for i := range n {
		keys = append(keys, fmt.Sprintf("%s%03d", prefix, i))
	}
	return keys
}

func TestTheZeroRegistryWorks(t *testing.T) {
	var r fusebox.Registry
	if s := r.Stats(); s != (fusebox.RegistryStats{}) {
		t.Errorf("Stats = %+v, want none", s)
	}
	for range r.All() {
		t.Error("an empty registry lists something")
	}
	if r.Delete("a") {
		t.Error("Delete of an unknown key reports true")
	}
	b := r.Get("a")
	if b.Name() != "a" || b.State() != fusebox.Closed {
		t.Errorf("made %q, %v, want a closed breaker of the key's name", b.Name(), b.State())
	}
	if r.Get("a") != b {
		t.Error("a second Get makes another breaker")
	}
	if r.Get("b") == b {
		t.Error("two keys have one breaker")
	}
	got, want := b.Config(), fusebox.New("", fusebox.Config{}).Config()
	if got.Window != want.Window || got.Consecutive != want.Consecutive || got.OpenFor != want.OpenFor {
		t.Errorf("Config = %+v, want the defaults", got)
	}
}

func TestTheZeroRegistryKeepsTenThousandKeysForAnHour(t *testing.T) {
	var r fusebox.Registry
	now := cellEpoch
	r.Now = func() time.Time { return now }
	for _, key := range regKeys("", 10_050) {
		r.Get(key)
	}
	if s := r.Stats(); s.Keys != 10_000 || s.Evicted != 50 || s.Exceeded != 0 {
		t.Errorf("Stats = %+v, want 10000 keys and 50 evicted", s)
	}
	now = now.Add(time.Hour - 1)
	if s := r.Stats(); s.Keys != 10_000 {
		t.Errorf("%d keys before the hour is over, want 10000", s.Keys)
	}
	now = now.Add(time.Hour / 4)
	if s := r.Stats(); s.Keys != 0 {
		t.Errorf("%d keys unused for over an hour, want 0", s.Keys)
	}
}

func TestSettingsOfAKeyComeFromConfig(t *testing.T) {
	r := fusebox.Registry{Config: func(key string) fusebox.Config { return fusebox.Config{Consecutive: len(key)} }}
	for _, key := range []string{"a", "bbb"} {
		if got := r.Get(key).Config().Consecutive; got != len(key) {
			t.Errorf("Consecutive of %q = %d, want %d", key, got, len(key))
		}
	}
}

func TestBreakersOfOneRegistryDoNotShareWhatIsReconfigured(t *testing.T) {
	var r fusebox.Registry
	if err := r.Get("a").Reconfigure(fusebox.Config{Consecutive: 7}); err != nil {
		t.Fatal(err)
	}
	if got := r.Get("b").Config().Consecutive; got != 20 {
		t.Errorf("Consecutive of another breaker = %d, want 20", got)
	}
}

func TestLookupMakesNoBreaker(t *testing.T) {
	l := newRegLab(t, 0, 0)
	if b, ok := l.Lookup("a"); b != nil || ok {
		t.Errorf("Lookup of an unknown key = %v, %v", b, ok)
	}
	l.wantStats(0, 0, 0)
	made := l.Get("a")
	if b, ok := l.Lookup("a"); b != made || !ok {
		t.Errorf("Lookup = %v, %v, want the breaker of Get", b, ok)
	}
}

func TestDeleteForgetsABreakerWhateverItsState(t *testing.T) {
	l := newRegLab(t, 0, 0)
	l.fill("a", "b", "c")
	l.trip("b")
	old := l.Get("b")
	if !l.Delete("b") || l.Delete("b") {
		t.Error("Delete must report true once")
	}
	l.wantKeys("a", "c")
	if _, ok := l.Lookup("b"); ok {
		t.Error("a deleted key is still known")
	}
	if b := l.Get("b"); b == old || b.State() != fusebox.Closed {
		t.Error("after Delete, Get must make a new breaker")
	}
	if old.State() != fusebox.Open {
		t.Error("a deleted breaker changed its state")
	}
	if s, want := l.Stats(), (fusebox.RegistryStats{Keys: 3, Deleted: 1}); s != want { // deleted is not evicted
		t.Errorf("Stats = %+v, want %+v", s, want)
	}
}

func TestAllIsInTheOrderOfTheKeysAndMayStop(t *testing.T) {
	l := newRegLab(t, 0, 0)
	l.fill("c", "a", "d", "b")
	l.wantKeys("a", "b", "c", "d")
	var seen []string
	for key, b := range l.All() {
		if b.Name() != key {
			t.Errorf("key %q has the breaker %q", key, b.Name())
		}
		if seen = append(seen, key); len(seen) == 2 {
			break
		}
	}
	if !slices.Equal(seen, []string{"a", "b"}) {
		t.Errorf("up to the break %q, want the first two", seen)
	}
}

func TestTheRegistryMayChangeWhileItIsListed(t *testing.T) {
	l := newRegLab(t, 0, 0)
	l.fill("a", "b", "c")
	var seen []string
	caseSoon(t, func() {
		for key := range l.All() {
			seen = append(seen, key)
			l.Get("new " + key)
			l.Delete(key)
			l.Observe(fusebox.Observer{})()
			l.Stats()
			for range l.All() {
				break
			}
		}
	})
	if !slices.Equal(seen, []string{"a", "b", "c"}) {
		t.Errorf("listed %q, want what was there at the start", seen)
	}
	l.wantKeys("new a", "new b", "new c")
}

func TestConfigMayUseTheRegistry(t *testing.T) {
	var r fusebox.Registry
	r.Config = func(key string) fusebox.Config {
		if len(key) > 1 {
			return r.Get(key[1:]).Config()
		}
		for range r.All() {
			r.Stats()
		}
		return fusebox.Config{Consecutive: 9}
	}
	caseSoon(t, func() {
		if got := r.Get("abc").Config().Consecutive; got != 9 {
			t.Errorf("Consecutive = %d, want that of the last letter", got)
		}
	})
	if s := r.Stats(); s.Keys != 3 {
		t.Errorf("%d keys, want 3", s.Keys)
	}
}

func TestConfigMayMakeTheSameKeyItself(t *testing.T) {
	var r fusebox.Registry
	var inner *fusebox.Breaker
	r.Config = func(string) fusebox.Config {
		if inner == nil {
			inner = &fusebox.Breaker{} // no third call
			inner = r.Get("a")
		}
		return fusebox.Config{}
	}
	caseSoon(t, func() {
		if r.Get("a") != inner {
			t.Error("two breakers for one key")
		}
	})
	if s := r.Stats(); s.Keys != 1 {
		t.Errorf("%d keys, want 1", s.Keys)
	}
}

func TestAnInvalidConfigPanicsAndLeavesNothingBehind(t *testing.T) {
	l := newRegLab(t, 2, 0)
	valid := l.Config
	l.Config = func(key string) fusebox.Config {
		c := valid(key)
		if key == "bad" {
			c.Window = -1
		}
		return c
	}
	l.fill("a", "b")
	err, _ := caseRecover(func() { l.Get("bad") }).(error)
	var invalid *fusebox.ConfigError
	if !errors.As(err, &invalid) || invalid.Field != "Window" {
		t.Errorf("Get panicked with %v, want the error of Validate", err)
	}
	caseSoon(t, func() {
		l.wantKeys("a", "b") // none went to make room
		l.wantStats(2, 0, 0)
		if _, ok := l.Lookup("bad"); ok {
			t.Error("a breaker of the bad key was kept")
		}
		l.fill("c")
		l.wantStats(2, 1, 0)
	})
}

func TestAPanicOfConfigLeavesNothingLocked(t *testing.T) {
	l := newRegLab(t, 0, 0)
	l.Config = func(string) fusebox.Config { panic("no settings") }
	if v := caseRecover(func() { l.Get("a") }); v != "no settings" {
		t.Errorf("Get panicked with %v", v)
	}
	caseSoon(t, func() { l.wantStats(0, 0, 0) })
}

func TestAPanicOfTheClockLeavesNothingLocked(t *testing.T) {
	for name, use := range map[string]func(*regLab){
		"Get":   func(l *regLab) { l.Get("b") },
		"All":   func(l *regLab) { l.keys() },
		"Stats": func(l *regLab) { l.Stats() },
	} {
		t.Run(name, func(t *testing.T) {
			l := newRegLab(t, 0, 0)
			l.fill("a")
			var broken atomic.Bool
			broken.Store(true)
			l.Now = func() time.Time {
				if broken.Load() {
					panic("no clock")
				}
				return l.time()
			}
			if v := caseRecover(func() { use(l) }); v != "no clock" {
				t.Errorf("panicked with %v, want the clock's own", v)
			}
			broken.Store(false)
			caseSoon(t, func() { l.wantKeys("a") })
		})
	}
}

// TestNothingOfTheUsersIsCalledUnderTheLock has clocks that use the registry:
// its own, and that of a breaker which is looked at to make room.
func TestNothingOfTheUsersIsCalledUnderTheLock(t *testing.T) {
	for _, whose := range []string{"the registry's clock", "a breaker's clock"} {
		t.Run(whose, func(t *testing.T) {
			l := newRegLab(t, 1, 0)
			var inside atomic.Bool
			now := func() time.Time {
				if inside.CompareAndSwap(false, true) {
					l.Delete("nobody")
					inside.Store(false)
				}
				return l.time()
			}
			if whose == "the registry's clock" {
				l.Now = now
			} else {
				l.Config = func(string) fusebox.Config { return fusebox.Config{Now: now} }
			}
			caseSoon(t, func() {
				l.fill("a", "b")
				l.keys()
				l.Stats()
			})
		})
	}
}

func TestARegistryIsBounded(t *testing.T) {
	l := newRegLab(t, 10, 0)
	for i, key := range regKeys("", 100) {
		l.fill(key)
		if n := l.Stats().Keys; n != min(i+1, 10) {
			t.Fatalf("%d keys after %d, want at most 10", n, i+1)
		}
	}
	l.wantStats(10, 90, 0)
}

func TestANegativeBoundIsNone(t *testing.T) {
	l := newRegLab(t, -1, -1)
	l.fill(regKeys("", 10_100)...)
	l.advance(1000 * time.Hour)
	l.wantStats(10_100, 0, 0)
}

func TestRoomIsMadeByWhatWasUsedLeastRecently(t *testing.T) {
	l := newRegLab(t, 100, 0)
	l.fill(regKeys("old ", 100)...)
	l.fill(regKeys("new ", 100)...)
	var kept int
	for _, key := range l.keys() {
		if key[:3] == "new" {
			kept++
		}
	}
	if kept != 100 {
		t.Errorf("of the 100 newest %d are kept, while of the 100 used before them %d are", kept, 100-kept)
	}
}

func TestWhatIsUsedAgainAndAgainStays(t *testing.T) {
	l := newRegLab(t, 10, 0)
	hot := l.Get("hot")
	for _, key := range regKeys("once ", 200) {
		l.fill(key)
		if b, ok := l.Lookup("hot"); !ok || b != hot {
			t.Fatalf("gone when %q came, though in constant use", key)
		}
	}
}

func TestAUsedMarkGivesASecondChance(t *testing.T) {
	l := newRegLab(t, 3, 0)
	l.fill("a", "b", "c")
	l.Lookup("a")
	l.Lookup("c")
	l.fill("d")
	l.wantKeys("a", "c", "d")

	all := newRegLab(t, 3, 0)
	all.fill("a", "b", "c", "a", "b", "c") // all of them used
	all.fill("d")
	all.wantStats(3, 1, 0)
}

func TestListingIsNoUse(t *testing.T) {
	l := newRegLab(t, 3, time.Hour)
	l.fill("a", "b", "c")
	for range 8 {
		l.advance(10 * time.Minute)
		l.keys()
		l.Stats()
	}
	l.wantStats(0, 3, 0)
}

func TestAnOpenBreakerStaysWhileAClosedOneCanGo(t *testing.T) {
	l := newRegLab(t, 5, 0)
	l.fill("open", "a", "b", "c", "d")
	l.trip("open")
	l.fill(regKeys("other ", 1000)...)
	if b, ok := l.Lookup("open"); !ok || b.State() != fusebox.Open {
		t.Error("the open breaker is gone")
	}
	l.wantStats(5, 1000, 0)
}

func TestAHalfOpenBreakerStaysWhileAClosedOneCanGo(t *testing.T) {
	l := newRegLab(t, 2, -1)
	l.trip("due", "probing")
	l.advance(time.Hour)
	l.Get("probing")
	if _, err := l.Get("probing").Allow(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.fill("a", "b")
	if _, ok := l.Lookup("due"); !ok {
		t.Error("a breaker past its deadline is gone")
	}
	if _, ok := l.Lookup("probing"); !ok {
		t.Error("a half-open breaker is gone")
	}
	l.wantStats(3, 1, 1)
}

func TestAnOverriddenBreakerNeverGoes(t *testing.T) {
	modes := []fusebox.Mode{fusebox.Enforce, fusebox.Shadow, fusebox.Off, fusebox.ForceOpen, fusebox.ForceClosed}
	l := newRegLab(t, len(modes), time.Hour)
	for _, m := range modes {
		l.Get(m.String()).Override(m, fusebox.Note{})
	}
	l.fill(regKeys("other ", 100)...)
	l.advance(100 * time.Hour)
	l.Stats()
	for _, m := range modes {
		if _, ok := l.Lookup(m.String()); !ok {
			t.Errorf("the breaker with an override to %v is gone", m)
		}
	}
	for _, m := range modes {
		l.Get(m.String()).Lift(fusebox.Note{})
	}
	for range 20 {
		l.advance(10 * time.Hour)
		l.Stats()
	}
	if _, ok := l.Lookup("shadow"); ok {
		t.Error("a breaker whose override was lifted stays for ever")
	}
}

func TestIfAllAreOpenTheBoundIsExceededAndCounted(t *testing.T) {
	l := newRegLab(t, 3, -1)
	l.trip("a", "b", "c")
	l.trip("d", "e")
	l.wantKeys("a", "b", "c", "d", "e")
	l.wantStats(5, 0, 2)
}

func TestTheBoundHoldsAgainOnceBreakersHaveClosed(t *testing.T) {
	l := newRegLab(t, 3, -1)
	l.trip(regKeys("", 10)...)
	l.wantStats(10, 0, 7)
	for _, b := range l.All() {
		b.Reset(fusebox.Note{})
	}
	l.fill("new")
	l.wantStats(3, 8, 7)
}

func TestIdleBreakersGo(t *testing.T) {
	const idle = time.Hour
	l := newRegLab(t, 0, idle)
	l.fill("a", "b")
	l.advance(idle - 1)
	l.wantStats(2, 0, 0)
	l.Lookup("b") // a use
	l.advance(idle / 4)
	l.wantKeys("b")
	l.advance(idle - 1)
	l.wantStats(1, 1, 0)
	l.advance(idle / 4)
	l.wantStats(0, 2, 0)
}

func TestGetSweepsToo(t *testing.T) {
	l := newRegLab(t, 0, time.Hour)
	l.fill("a", "b")
	l.advance(2 * time.Hour)
	l.fill("c")
	if _, ok := l.Lookup("a"); ok {
		t.Error("an idle breaker is still there after another was made")
	}
}

func TestABreakerUsedWhileTheIdleAreLookedForStays(t *testing.T) {
	l := newRegLab(t, 0, time.Hour)
	var looking atomic.Bool
	l.Config = func(key string) fusebox.Config {
		return fusebox.Config{Now: func() time.Time {
			if looking.Load() {
				l.Lookup(key) // as another goroutine might
			}
			return l.time()
		}}
	}
	l.fill("a")
	l.advance(2 * time.Hour)
	looking.Store(true)
	l.wantKeys("a")
}

func TestAnOpenBreakerIsNotIdle(t *testing.T) {
	const idle = 10 * time.Minute
	l := newRegLab(t, 0, idle)
	l.trip("open")
	l.fill("idle")
	l.advance(time.Hour - 1) // open for an hour
	l.wantKeys("open")
	l.advance(1)
	for range 8 {
		l.advance(idle / 4)
		l.Stats()
	}
	l.wantStats(0, 2, 0)
}

func TestAnEvictedBreakerMayBeUsedOn(t *testing.T) {
	l := newRegLab(t, 1, 0)
	old := l.Get("a")
	permit, err := old.Allow(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.fill("b") // evicts a
	again := l.Get("a")
	if again == old {
		t.Fatal("not evicted")
	}
	if !permit.Record(fusebox.Failure) || old.State() != fusebox.Open {
		t.Error("the evicted breaker does not go on")
	}
	if s := again.Snapshot(); s.State != fusebox.Closed || s.Totals.Failures != 0 {
		t.Errorf("what was evicted reached the new breaker: %+v", s)
	}
}

func TestObserveReachesBreakersMadeEarlierAndLater(t *testing.T) {
	l := newRegLab(t, 0, 0)
	l.fill("earlier", "deleted")
	var records []string
	stop := l.Observe(fusebox.Observer{Transition: func(r fusebox.Transition) { records = append(records, r.Name) }})
	deleted := l.Get("deleted")
	l.Delete("deleted")
	l.trip("earlier", "later")
	regFinish(t, deleted, fusebox.Failure)
	if want := []string{"earlier", "later"}; !slices.Equal(records, want) {
		t.Errorf("told of %q, want %q", records, want)
	}

	kept := l.Get("kept")
	forgotten := l.Get("forgotten")
	l.Delete("forgotten")
	stop()
	stop()
	records = nil
	regFinish(t, kept, fusebox.Failure)
	regFinish(t, forgotten, fusebox.Failure)
	l.trip("made after")
	l.Get("earlier").Reset(fusebox.Note{})
	if records != nil {
		t.Errorf("told of %q after stop", records)
	}
}

func TestStopReachesABreakerThatIsTheLastAndForgotten(t *testing.T) {
	l := newRegLab(t, 0, 0)
	b := l.Get("a")
	told := 0
	stop := l.Observe(fusebox.Observer{Transition: func(fusebox.Transition) { told++ }})
	l.Delete("a")
	stop()
	regFinish(t, b, fusebox.Failure)
	if told != 0 {
		t.Errorf("told %d times after stop", told)
	}
}

// One that is evicted, for room or for idleness, or deleted, would be taken for the
// next breaker of its key.
func TestABreakerThatHasGoneDoesNotSpeakForItsSuccessor(t *testing.T) {
	for how, drop := range map[string]func(*regLab){
		"for room":     func(l *regLab) { l.fill("b") },
		"for idleness": func(l *regLab) { l.advance(2 * time.Minute); l.Stats() },
		"by Delete":    func(l *regLab) { l.Delete("a") },
	} {
		t.Run(how, func(t *testing.T) {
			l := newRegLab(t, 1, time.Minute)
			old := l.Get("a")
			regFinish(t, old, fusebox.Success)
			l.Lookup("a")
			l.advance(time.Minute)
			l.Stats() // the mark is taken off
			told := 0
			l.Observe(fusebox.Observer{
				Transition: func(fusebox.Transition) { told++ },
				Finished:   func(fusebox.Completion) { told++ },
				Rejected:   func(*fusebox.OpenError) { told++ },
			})
			drop(l)
			if _, ok := l.Peek("a"); ok {
				t.Fatal("it has not gone")
			}
			l.Get("a")
			regFinish(t, old, fusebox.Failure) // opens
			if _, err := old.Allow(t.Context()); err == nil || told != 0 {
				t.Errorf("told %d times, Allow = %v", told, err)
			}
			regFinish(t, l.Get("a"), fusebox.Failure)
			if told != 2 {
				t.Errorf("told %d times of the successor, want 2", told)
			}
		})
	}
}

// What is queued when its breaker goes is not told either.
func TestABreakerThatGoesWhileItSpeaksSaysNoMore(t *testing.T) {
	l := newRegLab(t, 0, 0)
	old := l.Get("a")
	var told []fusebox.Cause
	l.Observe(fusebox.Observer{Transition: func(r fusebox.Transition) {
		if told = append(told, r.Cause); len(told) == 1 {
			old.Reset(fusebox.Note{}) // to be told next
			l.Delete("a")
		}
	}})
	l.trip("a")
	if want := []fusebox.Cause{fusebox.CauseConsecutive}; !slices.Equal(told, want) {
		t.Errorf("told of %v, want %v", told, want)
	}
}

func TestPeekIsNoUse(t *testing.T) {
	l := newRegLab(t, 0, time.Minute)
	l.fill("looked up", "peeked at")
	for range 8 {
		l.advance(20 * time.Second)
		l.Lookup("looked up")
		l.Peek("peeked at")
		l.Stats()
	}
	if got := l.keys(); !slices.Equal(got, []string{"looked up"}) {
		t.Errorf("%q are kept", got)
	}
	if b, ok := l.Peek("typing error"); ok || b != nil || l.Stats().Keys != 1 {
		t.Errorf("Peek = %v, %t, and %+v", b, ok, l.Stats())
	}
	if b, ok := l.Peek("looked up"); !ok || b != l.Get("looked up") {
		t.Error("Peek finds another one")
	}
}

func TestStatsTellWhetherBreakersCameOrWent(t *testing.T) {
	l := newRegLab(t, 2, 0)
	seen := map[fusebox.RegistryStats]string{}
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"nothing", func() {}},
		{"one comes", func() { l.fill("a") }},
		{"it is deleted", func() { l.Delete("a") }},
		{"another comes", func() { l.fill("b") }},
		{"it is replaced", func() { l.Delete("b"); l.fill("b") }},
		{"full", func() { l.fill("c") }},
		{"one makes room", func() { l.fill("d") }},
	} {
		step.do()
		s := l.Stats()
		if seen[s] != "" {
			t.Errorf("%+v after %q, as after %q", s, step.what, seen[s])
		}
		seen[s] = step.what
		l.Delete("none")
		l.Lookup("b")
		if l.Stats() != s {
			t.Errorf("after %q: %+v, was %+v", step.what, l.Stats(), s)
		}
	}
}

func TestStopOfOneObserverLeavesTheOthers(t *testing.T) {
	l := newRegLab(t, 0, 0)
	var first, second int
	stop := l.Observe(fusebox.Observer{Transition: func(fusebox.Transition) { first++ }})
	l.Observe(fusebox.Observer{Transition: func(fusebox.Transition) { second++ }})
	l.fill("a")
	stop()
	l.trip("a", "b")
	if first != 0 || second != 2 {
		t.Errorf("told %d and %d times, want 0 and 2", first, second)
	}
}

func TestAnObserverMayUseTheRegistry(t *testing.T) {
	l := newRegLab(t, 0, 0)
	var stop func()
	stop = l.Observe(fusebox.Observer{Transition: func(r fusebox.Transition) {
		l.Get("from " + r.Name)
		l.Delete(r.Name)
		l.Stats()
		l.keys()
		stop()
	}})
	caseSoon(t, func() { l.trip("a", "b") })
	l.wantKeys("b", "from a")
}

func TestOneKeyHasOneBreaker(t *testing.T) {
	l := newRegLab(t, 0, 0)
	const goroutines = 32
	for _, key := range regKeys("", 100) {
		var got [goroutines]*fusebox.Breaker
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for i := range got {
			wg.Go(func() {
				<-begin
				got[i] = l.Get(key)
			})
		}
		close(begin)
		wg.Wait()
		for _, b := range got {
			if b != got[0] {
				t.Fatalf("two breakers for %q", key)
			}
		}
	}
	l.wantStats(100, 0, 0)
}

func TestARegistryOfManyGoroutinesStaysWithinItsBound(t *testing.T) {
	l := newRegLab(t, 16, time.Minute)
	keys := regKeys("", 64)
	var told atomic.Int64
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 300 {
				key := keys[(i*(2*g+1)+g)%len(keys)]
				switch i % 16 {
				case 3:
					l.Delete(key)
				case 5:
					l.Observe(fusebox.Observer{Finished: func(fusebox.Completion) { told.Add(1) }})()
				case 7:
					l.advance(time.Second)
					for k, b := range l.All() {
						if b.Name() != k {
							t.Errorf("key %q has the breaker %q", k, b.Name())
						}
					}
				case 9:
					l.Lookup(key)
				default:
					if b := l.Get(key); b.Name() != key {
						t.Errorf("Get(%q) = %q", key, b.Name())
					}
				}
				if s := l.Stats(); s.Keys > 16 || s.Exceeded != 0 {
					t.Errorf("Stats = %+v, want at most 16", s)
				}
			}
		})
	}
	wg.Wait()
	for key, b := range l.All() {
		if got, ok := l.Lookup(key); !ok || got != b {
			t.Errorf("%q is listed and not found", key)
		}
	}
}

// TestALookUpTakesNoLock has the lock held: by a clock that waits, which is
// called under it or not.
func TestALookUpTakesNoLock(t *testing.T) {
	l := newRegLab(t, 0, 0)
	b := l.Get("a")
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	l.Now = func() time.Time {
		once.Do(func() {
			close(entered)
			<-release
		})
		return l.time()
	}
	var wg sync.WaitGroup
	wg.Go(func() { l.Get("b") })
	<-entered
	caseSoon(t, func() {
		if l.Get("a") != b {
			t.Error("Get of a known key = another breaker")
		}
		if got, ok := l.Lookup("a"); got != b || !ok {
			t.Error("Lookup of a known key = another breaker")
		}
		if _, ok := l.Lookup("unknown"); ok {
			t.Error("Lookup of an unknown key reports true")
		}
	})
	close(release)
	wg.Wait()
}

func TestALookUpAllocatesNothing(t *testing.T) {
	l := newRegLab(t, 0, 0)
	l.fill("a")
	if n := testing.AllocsPerRun(1000, func() {
		l.Get("a")
		l.Lookup("a")
		l.Lookup("unknown")
	}); n != 0 && !cellRace {
		t.Errorf("%v allocations, want none", n)
	}
}
