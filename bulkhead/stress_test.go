package bulkhead_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox/bulkhead"
)

var seed = flag.Uint64("seed", 0, "of the random tests; 0: a new one")

// random returns a source whose seed the log of a failure shows.
func random(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-seed %d", s)
	return rand.New(rand.NewPCG(s, 0))
}

// Calls of all kinds at once, and limits that change. Never are more in flight
// than the highest limit, and at the end nothing is taken.
func TestStressNoPlaceIsLostOrMade(t *testing.T) {
	const workers, rounds, highest = 16, 3000, 6
	p := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: 50 * time.Microsecond, MaxWaiting: workers / 2})
	var inside, refused atomic.Int64
	work := func() {
		if n := inside.Add(1); n > highest {
			t.Errorf("%d in flight, though the limit was never above %d", n, highest)
		}
		runtime.Gosched()
		inside.Add(-1)
		p.Release()
	}
	seeds := random(t)
	var all sync.WaitGroup
	for i := range workers {
		r := rand.New(rand.NewPCG(seeds.Uint64(), 0))
		all.Go(func() {
			for range rounds {
				ctx, cancel := context.WithCancel(context.Background())
				switch r.IntN(8) {
				case 0:
					if i == 0 {
						_ = p.SetLimit(1 + r.IntN(highest))
					}
				case 1:
					if p.TryAcquire() {
						work()
					} else {
						refused.Add(1)
					}
				case 2, 3:
					go cancel()
					fallthrough
				default:
					if err := p.Acquire(ctx); err == nil {
						work()
					} else if err != context.Canceled { //nolint:errorlint // as it is: not counted
						refused.Add(1)
					}
				}
				cancel()
			}
		})
	}
	all.Wait()
	want(t, p, bulkhead.Stats{Limit: p.Config().Limit, Rejected: uint64(refused.Load())})
	take(t, p, p.Config().Limit)
}

// One place goes from hand to hand. Who gets it sees what the one before has
// written, and may give it back before that one has done giving it.
func TestStressOnePlaceGoesFromHandToHand(t *testing.T) {
	const workers, rounds = 64, 4000
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8)) // more than cores: a thread may stop anywhere
	p := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: time.Hour, MaxWaiting: workers})
	n := 0
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range rounds {
				if err := p.Acquire(context.Background()); err != nil {
					t.Error(err)
					return
				}
				n++
				p.Release()
			}
		})
	}
	all.Wait()
	if n != workers*rounds {
		t.Errorf("counted %d, want %d", n, workers*rounds)
	}
	want(t, p, bulkhead.Stats{Limit: 1})
}

// A place freed between a call's look at the places and its joining the queue
// is not missed.
func TestStressAPlaceFreedMeanwhileIsSeen(t *testing.T) {
	const rounds = 30_000
	p := bulkhead.New(bulkhead.Config{Limit: 1, MaxWait: 5 * time.Second})
	take(t, p, 1)
	var turn atomic.Int64 // odd: the other goroutine's
	r := random(t)
	spins := [2][64]int{}
	for i := range spins {
		for j := range spins[i] {
			spins[i][j] = r.IntN(100)
		}
	}
	spin := func(who, round int) {
		for range spins[who][round%(64-who)] {
			turn.Load()
		}
	}
	go func() {
		for i := range rounds {
			for turn.Load() != int64(2*i+1) {
				runtime.Gosched()
			}
			spin(0, i)
			p.Release()
			turn.Add(1)
		}
	}()
	for i := range rounds {
		turn.Add(1)
		spin(1, i)
		if err := p.Acquire(t.Context()); err != nil {
			t.Fatalf("a call waits though a place is free: %v", err)
		}
		for turn.Load() != int64(2*i+2) {
			runtime.Gosched()
		}
	}
	p.Release()
}

// A simple model says who has a place after each step. Steps are not
// concurrent; their effects are.
func TestStressAgainstAModel(t *testing.T) {
	r := random(t)
	for range 200 {
		synctest.Test(t, func(t *testing.T) { model(t, r) })
	}
}

func model(t *testing.T, r *rand.Rand) {
	const maxWaiting = 5
	const maxWait = 10 * time.Second
	type call struct {
		cancel context.CancelFunc
		until  time.Time
		result chan error
	}
	var (
		limit    = 1 + r.IntN(3)
		p        = bulkhead.New(bulkhead.Config{Limit: limit, MaxWait: maxWait, MaxWaiting: maxWaiting})
		inFlight int
		queue    []*call // that ought to wait, in order
		rejected uint64
	)
	expect := func(c *call, given bool) {
		synctest.Wait()
		select {
		case err := <-c.result:
			if (err == nil) != given {
				t.Fatalf("a call got %v, a place: want %v", err, given)
			}
		default:
			t.Fatalf("a call still waits, want an end with a place: %v", given)
		}
	}
	admit := func() {
		for len(queue) > 0 && inFlight < limit {
			inFlight++
			expect(queue[0], true)
			queue = queue[1:]
		}
	}
	for range 200 {
		switch n := r.IntN(10); {
		case n < 4:
			c := &call{until: time.Now().Add(maxWait), result: make(chan error, 1)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.cancel = cancel
			go func() { c.result <- p.Acquire(ctx) }()
			switch {
			case inFlight < limit:
				inFlight++
				expect(c, true)
			case len(queue) == maxWaiting:
				rejected++
				expect(c, false)
			default:
				queue = append(queue, c)
			}
		case n < 7 && inFlight > 0:
			p.Release()
			inFlight--
			admit()
		case n == 7 && len(queue) > 0:
			i := r.IntN(len(queue))
			queue[i].cancel()
			rejected++
			expect(queue[i], false)
			queue = slices.Delete(queue, i, i+1)
		case n == 8:
			limit = 1 + r.IntN(6)
			if err := p.SetLimit(limit); err != nil {
				t.Fatal(err)
			}
			admit()
		default:
			<-time.NewTimer(time.Duration(1+r.IntN(4)) * time.Second).C
			synctest.Wait()
			for len(queue) > 0 && !queue[0].until.After(time.Now()) {
				rejected++
				expect(queue[0], false)
				queue = queue[1:]
			}
		}
		synctest.Wait()
		want(t, p, bulkhead.Stats{InFlight: inFlight, Waiting: len(queue), Limit: limit, Rejected: rejected})
		if t.Failed() {
			t.FailNow()
		}
	}
	for inFlight > 0 || len(queue) > 0 {
		p.Release()
		inFlight--
		admit()
	}
	want(t, p, bulkhead.Stats{Limit: limit, Rejected: rejected})
}
