package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long a client waits for an answer.
const patience = 10 * time.Second

// newClient returns a client that keeps as many connections as it has had calls
// at a time.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true},
		Timeout:   patience,
	}
}

// target is where calls go, and what marks the answers of the upstream behind it:
// an answer of another is none.
type target struct{ base, mark string }

// get makes one call and reads its answer to the end.
func get(ctx context.Context, c *http.Client, to target, path string) (a answer, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to.base+path, http.NoBody)
	if err != nil {
		return a, err
	}
	res, err := c.Do(r)
	if err != nil {
		return a, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return a, err
	}
	return answer{Status: res.StatusCode, Theirs: res.Header.Get(mark) == to.mark}, nil
}

// openLoop makes every call of the schedule at its time, whatever became of
// those before, and returns when all have ended. A call without an answer is
// an answer with status 0. The error is that of ctx.
func openLoop(ctx context.Context, s schedule, began time.Time, to target) ([]answer, error) {
	client := newClient()
	defer client.CloseIdleConnections()
	answers := make([]answer, s.calls())
	var calls sync.WaitGroup
	defer calls.Wait()
	for id := range answers {
		if err := wait(ctx, time.Until(began.Add(planned(id)))); err != nil {
			return nil, err
		}
		calls.Go(func() {
			sent := time.Since(began)
			a, err := get(ctx, client, to, "/call/"+strconv.Itoa(id))
			if err != nil {
				a = answer{Err: err}
			}
			a.Sent, a.Done = sent, time.Since(began)
			answers[id] = a
		})
	}
	calls.Wait()
	return answers, ctx.Err()
}

// closedLoop makes calls on so many connections for a time, each as soon as the
// one before has been answered, and returns how many the upstream answered
// 200. Any other answer is an error.
func closedLoop(ctx context.Context, connections int, d time.Duration, to target) (int, error) {
	client := newClient()
	defer client.CloseIdleConnections()
	end := time.Now().Add(d)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var n atomic.Int64
	var workers sync.WaitGroup
	for range connections {
		workers.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				a, err := get(ctx, client, to, "/")
				if err == nil && (a.Status != http.StatusOK || !a.Theirs) {
					err = fmt.Errorf("status %d from %s", a.Status, to.base)
				}
				if err != nil {
					stop(err)
					return
				}
				n.Add(1)
			}
		})
	}
	workers.Wait()
	return int(n.Load()), context.Cause(ctx)
}
