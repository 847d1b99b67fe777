package ctl

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

var steady = fusebox.Config{OpenJitter: -1, OpenFor: 10 * time.Second, OpenForMax: time.Minute}

// scene is two programs with breakers in all sorts of states, in a bubble.
func scene(t *testing.T) *session {
	a, b := newHandler(t), newHandler(t)
	ctx := t.Context()
	fail := func(b *fusebox.Breaker, n int) {
		for range n {
			_ = b.Do(ctx, func(context.Context) error { return errors.New("connection refused") })
		}
	}
	succeed := func(b *fusebox.Breaker, n int) {
		for range n {
			_ = b.Do(ctx, func(context.Context) error { return nil })
		}
	}
	payments := a.breaker("payments", steady)
	a.breaker("支払い", steady)
	healthy := a.breaker("catalogue/10.0.0.1:9000", steady)
	forced := a.breaker("search", steady)
	hostile := a.breaker("\x1b[2Jx", steady)
	shadow := b.breaker("payments", fusebox.Config{Mode: fusebox.Shadow, OpenJitter: -1, OpenFor: 10 * time.Second})
	probing := b.breaker("stock", steady)

	succeed(healthy, 195)
	fail(healthy, 5)
	fail(probing, 20)
	time.Sleep(10 * time.Second)
	p, err := probing.Allow(ctx) // the first probe is out
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Cancel)
	time.Sleep(6 * time.Second)
	succeed(healthy, 30)
	fail(payments, 20)
	fail(payments, 7) // rejected
	fail(shadow, 21)
	forced.Override(fusebox.ForceOpen, fusebox.Note{Reason: "index is being rebuilt", By: "ann@ops", Until: time.Now().Add(15 * time.Minute)})
	hostile.Override(fusebox.ForceClosed, fusebox.Note{Reason: "bad\x07 \u202ereason", By: "m\u009bal"})
	time.Sleep(4200 * time.Millisecond)
	return bubble(a, b)
}

func scenario(ctx context.Context, s *session) []result[fuseboxadmin.List] {
	return each(s, func(t *target) []result[fuseboxadmin.List] {
		return []result[fuseboxadmin.List]{list(ctx, s, t, nil, nil)}
	})
}

func golden(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimPrefix(want, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTheTableInFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scene(t)
		got := strings.Join(listLines(s, scenario(t.Context(), s), 0), "\n") + "\n"
		golden(t, got, `
TARGET                NAME                     STATE          SINCE  RETRY IN  CALLS  FAILED  SLOW  REJECTED  OVERRIDE                                 WHY
http://10.0.0.1:9901  payments                 open            4.2s      5.8s      0       -     -         7  -                                        failure rate 1.00 >= 0.50, 20 of 20 calls in 10s
http://10.0.0.1:9901  search                   open            4.2s    14m55s      0       -     -         0  force-open by ann@ops, 14m55s left       index is being rebuilt
http://10.0.0.2:9901  payments                 open (shadow)   4.2s      5.8s      0       -     -         0  -                                        failure rate 1.00 >= 0.50, 20 of 20 calls in 10s
http://10.0.0.2:9901  stock                    half-open        10s   probing      0       -     -         0  -                                        open period over
http://10.0.0.1:9901  "\x1b[2Jx"               closed           20s         -      0       -     -         0  force-closed by m\u009bal, until lifted  bad\a \u202ereason
http://10.0.0.1:9901  catalogue/10.0.0.1:9000  closed           20s         -     30      0%    0%         0  -                                        -
http://10.0.0.1:9901  支払い                   closed           20s         -      0       -     -         0  -                                        -
`)
	})
}

func TestTheTableOnTerminals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scene(t)
		s.targets = s.targets[:1]
		results := scenario(t.Context(), s)
		golden(t, strings.Join(listLines(s, results, 160), "\n")+"\n", `
NAME                     STATE   SINCE  RETRY IN  CALLS  FAILED  SLOW  REJECTED  OVERRIDE                                 WHY
payments                 open     4.2s      5.8s      0       -     -         7  -                                        failure rate 1.00 >= 0.50, 20 of 20 c…
search                   open     4.2s    14m55s      0       -     -         0  force-open by ann@ops, 14m55s left       index is being rebuilt
"\x1b[2Jx"               closed    20s         -      0       -     -         0  force-closed by m\u009bal, until lifted  bad\a \u202ereason
catalogue/10.0.0.1:9000  closed    20s         -     30      0%    0%         0  -                                        -
支払い                   closed    20s         -      0       -     -         0  -                                        -
`)
		golden(t, strings.Join(listLines(s, results, 80), "\n")+"\n", `
NAME                     STATE   SINCE  RETRY IN  CALLS  FAILED  SLOW  REJECTED
payments                 open     4.2s      5.8s      0       -     -         7
    failure rate 1.00 >= 0.50, 20 of 20 calls in 10s
search                   open     4.2s    14m55s      0       -     -         0
    force-open by ann@ops, 14m55s left: index is being rebuilt
"\x1b[2Jx"               closed    20s         -      0       -     -         0
    force-closed by m\u009bal, until lifted: bad\a \u202ereason
catalogue/10.0.0.1:9000  closed    20s         -     30      0%    0%         0
支払い                   closed    20s         -      0       -     -         0
`)
	})
}

func TestOneBreakerInFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scene(t)
		for name, want := range map[string]string{
			"payments": `
payments at http://10.0.0.1:9901

  state         open since 2000-01-01 01:00:16 CET (4.2s ago), probes in 5.8s (at 01:00:26 CET)
  why           failure rate 1.00 >= 0.50, 20 of 20 calls in 10s
  last error    connection refused
  open period   number 1 in a row; the next one takes 20s
  mode          enforce
  window        0 calls, 0% failed (0), 0% slow (0), 0 failures in a row
  in total      0 successes, 20 failures, 0 ignored, 0 late, 0 slow
  rejected      7 while open, 0 while probing
  time open     4.2s

RULES (not judged now)
  failure-rate  0% of 50%, trips after 20 more failures (needs 20 calls in the window)
  consecutive   0 of 20, trips after 20 more failures

WINDOW AT THE LAST TRIP, 2000-01-01 01:00:16 CET
  FROM  CALLS  FAILED  SLOW
  -10s      0       0     0
   -9s      0       0     0
   -8s      0       0     0
   -7s      0       0     0
   -6s      0       0     0
   -5s      0       0     0
   -4s      0       0     0
   -3s      0       0     0
   -2s      0       0     0
   -1s     20      20     0  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
  x failed, . did not

RECORDS
  2000-01-01 01:00:16 CET  closed -> open: failure rate 1.00 >= 0.50, 20 of 20 calls in 10s; probes at 01:00:26 CET; last error: connection refused

SETTINGS
  window        10s in 10 buckets
  min calls     20
  failure rate  50%
  slow rate     off
  consecutive   20
  open for      10s, doubling to 1m0s
  probes        3 at a time, 30s each; 3 close, 1 reopen
  stable after  10s
  mode          enforce
`,
			"catalogue/10.0.0.1:9000": `
catalogue/10.0.0.1:9000 at http://10.0.0.1:9901

  state         closed since 2000-01-01 01:00:00 CET (20s ago)
  mode          enforce
  window        30 calls, 0% failed (0), 0% slow (0), 0 failures in a row
  in total      225 successes, 5 failures, 0 ignored, 0 late, 0 slow
  rejected      0 while open, 0 while probing

RULES
  failure-rate  0% of 50%, trips after 30 more failures
  consecutive   0 of 20, trips after 20 more failures

WINDOW
  FROM  CALLS  FAILED  SLOW
  -10s      0       0     0
   -9s      0       0     0
   -8s      0       0     0
   -7s      0       0     0
   -6s      0       0     0
   -5s     30       0     0  ........................................
   -4s      0       0     0
   -3s      0       0     0
   -2s      0       0     0
   -1s      0       0     0
  x failed, . did not

RECORDS
  none: nothing has happened

SETTINGS
  window        10s in 10 buckets
  min calls     20
  failure rate  50%
  slow rate     off
  consecutive   20
  open for      10s, doubling to 1m0s
  probes        3 at a time, 30s each; 3 close, 1 reopen
  stable after  10s
  mode          enforce
`,
			"search": `
search at http://10.0.0.1:9901

  state         open since 2000-01-01 01:00:16 CET (4.2s ago), probes in 14m55s (at 01:15:16 CET)
  why           force-open by ann@ops: index is being rebuilt
  open period   number 1 in a row; the next one takes 10s
  mode          force-open
  override      force-open by ann@ops, 14m55s left (until 01:15:16 CET): index is being rebuilt
  window        0 calls, 0% failed (0), 0% slow (0), 0 failures in a row
  in total      0 successes, 0 failures, 0 ignored, 0 late, 0 slow
  rejected      0 while open, 0 while probing
  time open     4.2s

RULES (not judged now)
  failure-rate  0% of 50%, trips after 20 more failures (needs 20 calls in the window)
  consecutive   0 of 20, trips after 20 more failures

RECORDS
  2000-01-01 01:00:16 CET  closed -> open: force-open by ann@ops: index is being rebuilt; until 01:15:16 CET

SETTINGS
  window        10s in 10 buckets
  min calls     20
  failure rate  50%
  slow rate     off
  consecutive   20
  open for      10s, doubling to 1m0s
  probes        3 at a time, 30s each; 3 close, 1 reopen
  stable after  10s
  mode          enforce
`,
			"stock": `
stock at http://10.0.0.2:9901

  state         half-open since 2000-01-01 01:00:10 CET (10s ago), 1 probe out, 0 of 3 passed, 0 of 1 failed
  why           open period over
  tripped       2000-01-01 01:00:00 CET (20s ago): failure rate 1.00 >= 0.50, 20 of 20 calls in 10s
  open period   number 1 in a row; the next one takes 20s
  mode          enforce
  probes so far 0 calls, 0% failed (0), 0% slow (0), 0 failures in a row
  in total      0 successes, 20 failures, 0 ignored, 0 late, 0 slow
  rejected      0 while open, 0 while probing
  time open     10s

RULES (not judged now)
  failure-rate  0% of 50%, trips after 20 more failures (needs 20 calls in the window)
  consecutive   0 of 20, trips after 20 more failures

WINDOW AT THE LAST TRIP, 2000-01-01 01:00:00 CET
  FROM  CALLS  FAILED  SLOW
  -10s      0       0     0
   -9s      0       0     0
   -8s      0       0     0
   -7s      0       0     0
   -6s      0       0     0
   -5s      0       0     0
   -4s      0       0     0
   -3s      0       0     0
   -2s      0       0     0
   -1s     20      20     0  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
  x failed, . did not

PROBES
  2000-01-01 01:00:10 CET  out for 10s

RECORDS
  2000-01-01 01:00:00 CET  closed -> open: failure rate 1.00 >= 0.50, 20 of 20 calls in 10s; probes at 01:00:10 CET; last error: connection refused
  2000-01-01 01:00:10 CET  open -> half-open: open period over

SETTINGS
  window        10s in 10 buckets
  min calls     20
  failure rate  50%
  slow rate     off
  consecutive   20
  open for      10s, doubling to 1m0s
  probes        3 at a time, 30s each; 3 close, 1 reopen
  stable after  10s
  mode          enforce
`,
		} {
			at := s.targets[0]
			if name == "stock" {
				at = s.targets[1]
			}
			r := fetch[fuseboxadmin.Detail](t.Context(), s, at, name, http.MethodGet, fuseboxadmin.Path(name), nil)
			if r.Error != "" {
				t.Fatal(r.Error)
			}
			var b bytes.Buffer
			sheet{&b, &s.style, r.Data}.write(r.where())
			golden(t, b.String(), want)
		}
	})
}
