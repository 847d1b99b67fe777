package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

func TestTheExample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		run(&out)
		for _, want := range []string{
			"call 4: made\n", "call 5: rate limit reached, try again in 100ms\n",
			"The breaker is closed: 5 successes, 0 failures, 7 ignored.\n",
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("output lacks %q:\n%s", want, out.String())
			}
		}
	})
}

func TestBothArePolicies(t *testing.T) {
	for name, policy := range map[string]func(*rate.Limiter) fusebox.Policy{"Limited": Limited, "Waiting": Waiting} {
		t.Run(name, func(t *testing.T) {
			fuseboxtest.Conform(t, func() fusebox.Policy { return policy(rate.NewLimiter(rate.Every(time.Second), 100)) })
		})
	}
}

func TestC131RefusedCallsTakeNoTokensTogether(t *testing.T) {
	l := rate.NewLimiter(rate.Every(time.Hour), 1)
	l.Allow()
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 100 {
				_ = Limited(l).Do(context.Background(), func(context.Context) error { return nil })
			}
		})
	}
	wg.Wait()
	if n := l.Tokens(); n < 0 {
		t.Errorf("%v tokens", n)
	}
}

func TestC131ARefusedCallTakesNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rate.NewLimiter(rate.Every(time.Second), 1)
		nop := func(context.Context) error { return nil }
		if err := Limited(l).Do(t.Context(), nop); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := Limited(l).Do(t.Context(), nop); !errors.Is(err, ErrLimited) {
				t.Fatal(err)
			}
		}
		if n := l.Tokens(); n != 0 {
			t.Errorf("%v tokens, want 0", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := Waiting(l).Do(ctx, nop); !errors.Is(err, ErrLimited) || time.Since(start) != 0 {
			t.Errorf("no time for the token: %v after %v", err, time.Since(start))
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		err := Waiting(l).Do(ctx, nop)
		if _, refused := fusebox.Rejected(err); !refused || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled while waiting: %v", err)
		}
		time.Sleep(time.Second - time.Millisecond) // the cancelled wait has given its token back
		if err := Limited(l).Do(t.Context(), nop); err != nil {
			t.Error(err)
		}
	})
}
