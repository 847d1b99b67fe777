package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

func TestTheExample(t *testing.T) {
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	_, hook, _ := strings.Cut(out.String(), "By a hook:")
	for _, want := range []string{
		"get nobody: redis: nil\n", "incr user: ERR value is not an integer", "The breaker is closed: 0 failures.\n",
		"The server is gone: 5 commands failed.\n", `get user: fusebox: "sessions" is open (5 failures in a row >= 5), retry in 1s`,
		"The server is back: the breaker is closed.\n",
	} {
		if strings.Count(out.String(), want) != 2 || !strings.Contains(hook, want) {
			t.Errorf("output lacks %q, twice:\n%s", want, out.String())
		}
	}
}

// guards are the two ways to guard a client.
var guards = map[string]func(*redis.Options, *fusebox.Breaker) *redis.Client{
	"Limiter": func(o *redis.Options, b *fusebox.Breaker) *redis.Client {
		o.Limiter = NewLimiter(b)
		return redis.NewClient(o)
	},
	"Hook": func(o *redis.Options, b *fusebox.Breaker) *redis.Client {
		client := redis.NewClient(o)
		client.AddHook(NewHook(b))
		return client
	},
}

// world is a guarded client of a server in process.
type world struct {
	*redis.Client
	server  *miniredis.Miniredis
	breaker *fusebox.Breaker
	clock   fuseboxtest.Clock
}

// each runs f with a world of either kind. A trip takes three failures.
func each(t *testing.T, c fusebox.Config, f func(*testing.T, *world)) {
	t.Helper()
	for name, guarded := range guards {
		t.Run(name, func(t *testing.T) {
			w := &world{server: miniredis.RunT(t)}
			c.Classify, c.Now, c.Consecutive, c.OpenJitter = Classify, w.clock.Now, 3, -1
			w.breaker = fusebox.New("redis", c)
			w.Client = guarded(&redis.Options{
				Addr: w.server.Addr(), MaxRetries: -1, DialerRetries: 1, PoolSize: 100,
			}, w.breaker)
			t.Cleanup(func() { w.Close() })
			f(t, w)
		})
	}
}

func (w *world) trip(t *testing.T) {
	t.Helper()
	w.server.Close()
	for range 3 {
		if err := w.Get(t.Context(), "key").Err(); err == nil || errors.Is(err, fusebox.ErrOpen) {
			t.Fatalf("while the server is down: %v", err)
		}
	}
	if s := w.breaker.State(); s != fusebox.Open {
		t.Fatalf("%v after three failures", s)
	}
}

func TestAnAnswerIsNoFailure(t *testing.T) {
	each(t, fusebox.Config{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.Set(ctx, "text", "a", 0)
		for range 5 {
			if err := w.Get(ctx, "nothing").Err(); err != redis.Nil { //nolint:errorlint // the very same
				t.Fatal(err)
			}
			if err := w.LPush(ctx, "text", 1).Err(); !redis.HasErrorPrefix(err, "WRONGTYPE") {
				t.Fatal(err)
			}
			_, err := w.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Get(ctx, "nothing")
				p.LPush(ctx, "text", 1)
				return nil
			})
			if !errors.Is(err, redis.Nil) {
				t.Fatal(err)
			}
		}
		if totals := w.breaker.Snapshot().Totals; totals.Failures+totals.Ignored != 0 || totals.Successes < 16 {
			t.Errorf("%+v", totals)
		}
	})
}

func TestAServerThatCannotServeFails(t *testing.T) {
	for _, reply := range []string{
		"LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.",
		"BUSY Redis is busy running a script.", "MISCONF Errors writing to the AOF file", "NOREPLICAS Not enough good replicas to write.", "TRYAGAIN Multiple keys request during rehashing of slot",
		"MASTERDOWN Link with MASTER is down", "CLUSTERDOWN The cluster is down",
		"ERR max number of clients reached", "OOM command not allowed when used memory > 'maxmemory'.",
	} {
		each(t, fusebox.Config{}, func(t *testing.T, w *world) {
			w.Ping(t.Context()) // a connection that has shaken hands
			w.server.SetError(reply)
			for range 3 {
				if err := w.Set(t.Context(), "key", 1, 0).Err(); err == nil {
					t.Fatal("no error")
				}
			}
			if totals := w.breaker.Snapshot().Totals; totals.Failures != 3 {
				t.Errorf("%q: %+v", reply, totals)
			}
		})
	}
}

func TestErrorsWithoutAServer(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want fusebox.Outcome
	}{
		{t.Context(), nil, fusebox.Success},
		{t.Context(), fmt.Errorf("session: %w", redis.Nil), fusebox.Success},
		{t.Context(), redis.TxFailedErr, fusebox.Success},
		{t.Context(), redis.ErrClosed, fusebox.Ignored},
		{t.Context(), redis.ErrPoolTimeout, fusebox.Failure},
		{t.Context(), os.ErrDeadlineExceeded, fusebox.Failure},
		{t.Context(), context.Canceled, fusebox.Failure}, // not by the caller
		{cancelled, context.Canceled, fusebox.Ignored},
		{cancelled, redis.Nil, fusebox.Success},
	} {
		if got := Classify(c.ctx, c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

func TestWhileOpenNothingIsSent(t *testing.T) {
	each(t, fusebox.Config{}, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.trip(t)
		if err := w.server.Restart(); err != nil {
			t.Fatal(err)
		}
		before := w.server.CommandCount()
		err := w.Get(ctx, "key").Err()
		var open *fusebox.OpenError
		if !errors.Is(err, fusebox.ErrOpen) || !errors.As(err, &open) || open.RetryAfter() != time.Second {
			t.Errorf("rejection: %v", err)
		}
		for name, pipelined := range map[string]func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error){
			"Pipelined": w.Pipelined, "TxPipelined": w.TxPipelined,
		} {
			cmds, err := pipelined(ctx, func(p redis.Pipeliner) error {
				p.Get(ctx, "a")
				p.Get(ctx, "b")
				return nil
			})
			if !errors.Is(err, fusebox.ErrOpen) {
				t.Errorf("%s: %v", name, err)
			}
			for _, cmd := range cmds {
				if !errors.Is(cmd.Err(), fusebox.ErrOpen) {
					t.Errorf("%s: %v: %v", name, cmd, cmd.Err())
				}
			}
		}
		if n := w.server.CommandCount() - before; n != 0 || w.server.CurrentConnectionCount() != 0 {
			t.Errorf("%d commands and %d connections reached the server", n, w.server.CurrentConnectionCount())
		}
		if n := w.breaker.Snapshot().Totals.RejectedOpen; n != 3 {
			t.Errorf("%d rejections, want 3: a rejection is not retried", n)
		}
	})
}

func TestARejectionIsNotRetriedByTheClient(t *testing.T) {
	for name, guarded := range guards {
		breaker := fusebox.New("redis", fusebox.Config{})
		breaker.Override(fusebox.ForceOpen, fusebox.Note{})
		client := guarded(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: 5}, breaker)
		err := client.Get(t.Context(), "key").Err()
		if n := breaker.Snapshot().Totals.RejectedOpen; n != 1 || !errors.Is(err, fusebox.ErrOpen) {
			t.Errorf("%s: %d rejections, %v", name, n, err)
		}
		client.Close()
	}
}

// After an outage every connection is new. Its handshake must not starve for
// want of a probe, however few there are.
func TestOneProbeIsEnoughToRecover(t *testing.T) {
	each(t, fusebox.Config{Probes: 1}, func(t *testing.T, w *world) {
		w.trip(t)
		if err := w.server.Restart(); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(time.Second)
		err := w.Set(t.Context(), "key", 1, 0).Err()
		if w.Options().Limiter == nil && err != nil {
			t.Errorf("the probe: %v", err)
		}
		if s := w.breaker.State(); s != fusebox.Closed {
			t.Errorf("%v after a probe that reached the server: %v", s, err)
		}
		if err := w.Get(t.Context(), "key").Err(); err != nil && err != redis.Nil { //nolint:errorlint // the very same
			t.Error(err)
		}
	})
}

func TestWithAHookAHandshakeIsPartOfTheCall(t *testing.T) {
	each(t, fusebox.Config{}, func(t *testing.T, w *world) {
		w.Ping(t.Context())
		n := w.breaker.Snapshot().Totals.Successes
		if hook := w.Options().Limiter == nil; hook != (n == 1) {
			t.Errorf("%d successes", n)
		}
	})
}

// silent is a server that accepts connections and says nothing.
func silent(t *testing.T) (addr string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	})
	t.Cleanup(func() {
		l.Close()
		open.Wait()
	})
	return l.Addr().String()
}

func TestAServerThatHangsFails(t *testing.T) {
	for name, guarded := range guards {
		addr := silent(t)
		breaker := fusebox.New("redis", fusebox.Config{Classify: Classify, Consecutive: 4})
		client := guarded(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: 5 * time.Millisecond}, breaker)
		for range 4 {
			client.Get(t.Context(), "key")
		}
		if s := breaker.State(); s != fusebox.Open {
			t.Errorf("%s: %v, %+v", name, s, breaker.Snapshot().Totals)
		}
		client.Close()
	}
}

func TestACallerThatLeavesIsIgnored(t *testing.T) {
	for name, guarded := range guards {
		ctx, cancel := context.WithCancel(t.Context())
		breaker := fusebox.New("redis", fusebox.Config{Classify: Classify})
		client := guarded(&redis.Options{MaxRetries: -1, DialerRetries: 1, Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel()
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: context.Canceled}
		}}, breaker)
		err := client.Get(ctx, "key").Err()
		if totals := breaker.Snapshot().Totals; totals.Ignored != 1 || totals.Failures != 0 {
			t.Errorf("%s: %v: %+v", name, err, totals)
		}
		client.Close()
	}
}

func TestPermitsPairUnderLoad(t *testing.T) {
	each(t, fusebox.Config{Probes: 2}, func(t *testing.T, w *world) {
		var load sync.WaitGroup
		for range 10 {
			load.Go(func() {
				for i := range 50 {
					ctx, cancel := context.WithCancel(t.Context())
					if i%7 == 0 {
						cancel()
					}
					w.Set(ctx, "key", i, 0)
					w.Pipelined(ctx, func(p redis.Pipeliner) error { return p.Get(ctx, "key").Err() })
					w.clock.Advance(100 * time.Millisecond)
					cancel()
				}
			})
		}
		for range 3 {
			w.server.SetError("LOADING")
			w.server.SetError("")
			w.server.Close()
			if err := w.server.Restart(); err != nil {
				t.Error(err)
			}
		}
		load.Wait()
		w.clock.Advance(time.Minute)
		for range 6 {
			w.Ping(t.Context())
		}
		if s := w.breaker.State(); s != fusebox.Closed {
			t.Errorf("%v when all is well: a slot is lost", s)
		}
		if l, ok := w.Options().Limiter.(*Limiter); ok && len(l.out) != 0 {
			t.Errorf("%d permits left", len(l.out))
		}
	})
}

// oneProbe returns a breaker that one good probe closes.
func oneProbe() (*fusebox.Breaker, *fuseboxtest.Clock) {
	clock := new(fuseboxtest.Clock)
	return fusebox.New("redis", fusebox.Config{
		Classify: Classify, Consecutive: 3, CloseAfter: 1, OpenJitter: -1, Now: clock.Now,
	}), clock
}

func fail(b *fusebox.Breaker) error {
	return b.Do(context.Background(), func(context.Context) error { return net.ErrClosed })
}

func TestALimiterTakesTheLatestPermit(t *testing.T) {
	b, clock := oneProbe()
	l := NewLimiter(b)
	l.ReportResult(nil) // without Allow: nothing happens
	allow := func() {
		t.Helper()
		if err := l.Allow(); err != nil {
			t.Fatal(err)
		}
	}
	allow() // a call that will be out for long
	for b.State() == fusebox.Closed {
		fail(b)
	}
	if err := l.Allow(); !errors.Is(err, fusebox.ErrOpen) {
		t.Fatal(err)
	}
	clock.Advance(time.Second)
	allow()
	l.ReportResult(nil) // the probe's
	if s := b.State(); s != fusebox.Closed {
		t.Fatalf("%v after the probe succeeded", s)
	}
	l.ReportResult(net.ErrClosed) // the old one's
	if totals := b.Snapshot().Totals; totals.Late != 1 || totals.Failures != 3 {
		t.Errorf("%+v", totals)
	}
}

func TestALimiterMayTakeAnOldCallForAProbeOnce(t *testing.T) {
	b, clock := oneProbe()
	l := NewLimiter(b)
	l.Allow()
	for b.State() == fusebox.Closed {
		fail(b)
	}
	clock.Advance(time.Second)
	l.Allow()
	l.ReportResult(net.ErrClosed) // the old one's, while the probe is out
	if s := b.State(); s != fusebox.Open {
		t.Fatalf("%v: the documentation of Limiter says too little of it", s)
	}
	l.ReportResult(nil) // the probe's
	clock.Advance(2 * time.Second)
	l.Allow()
	l.ReportResult(nil)
	if s := b.State(); s != fusebox.Closed || len(l.out) != 0 {
		t.Errorf("%v with %d permits out", s, len(l.out))
	}
}

func TestAHookKnowsAnOldCallFromAProbe(t *testing.T) {
	b, clock := oneProbe()
	process := func(err error, meanwhile func()) error {
		return NewHook(b).ProcessHook(func(context.Context, redis.Cmder) error {
			meanwhile()
			return err
		})(context.Background(), redis.NewStatusCmd(context.Background(), "ping"))
	}
	var end sync.WaitGroup
	out, goOn := make(chan struct{}), make(chan struct{})
	end.Go(func() {
		process(net.ErrClosed, func() {
			close(out)
			<-goOn
		})
	})
	<-out
	for b.State() == fusebox.Closed {
		fail(b)
	}
	clock.Advance(time.Second)
	process(nil, func() { // the probe
		close(goOn)
		end.Wait()
		if s := b.State(); s != fusebox.HalfOpen {
			t.Errorf("%v: the old call has been taken for the probe", s)
		}
	})
	if totals := b.Snapshot().Totals; b.State() != fusebox.Closed || totals.Late != 1 {
		t.Errorf("%v, %+v", b.State(), totals)
	}
}

func TestAPanicIsAFailureToAHook(t *testing.T) {
	b := fusebox.New("redis", fusebox.Config{})
	defer func() {
		if recover() == nil || b.Snapshot().Totals.Failures != 1 {
			t.Errorf("%+v", b.Snapshot().Totals)
		}
	}()
	NewHook(b).ProcessPipelineHook(func(context.Context, []redis.Cmder) error { panic("!") })(t.Context(), nil)
}
