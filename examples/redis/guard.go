package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fusebox-go/fusebox"
)

// Classify takes what Redis has said for an answer, whatever it said: "not
// found" ([redis.Nil]), a transaction that lost its race, a key of the wrong
// type. A server that says it cannot serve just now is unwell. All else is left
// to the default: network errors and timeouts are failures, one for want of a
// connection too, and a caller that cancels is ignored.
func Classify(ctx context.Context, err error) fusebox.Outcome {
	var reply redis.Error
	switch {
	case errors.Is(err, redis.ErrClosed): // the client was closed, here
		return fusebox.Ignored
	case errors.As(err, &reply) && !unwell(reply):
		return fusebox.Success
	default:
		return fusebox.DefaultClassify(ctx, err)
	}
}

// unwell reports whether a reply says that the server cannot serve.
func unwell(err error) bool {
	text := err.Error()
	for _, prefix := range []string{"BUSY ", "MISCONF ", "NOREPLICAS ", "TRYAGAIN "} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsMasterDownError(err) ||
		redis.IsClusterDownError(err) || redis.IsMaxClientsError(err) || redis.IsOOMError(err)
}

// Limiter is a breaker as the Limiter option of a client: it is asked before,
// and told after, each attempt at a command or a pipeline. It is safe for
// concurrent use. Each client has one of its own.
//
// The option hands neither a context nor anything that ties a result to its
// Allow, and the attempt may be one at shaking hands on a new connection, made
// inside of one that has been allowed. So:
//
//   - The permits are on a stack, and a result takes the latest. Of permits of
//     one period any will do; of older ones it takes none while there are newer.
//     But a call that was out when the breaker tripped may end while a probe is
//     out, and be taken for it: each of them once, at worst.
//   - How long a call took is not known when several are out: no
//     Config.SlowAfter.
//   - The caller's cancellation is seen by the error only.
//   - A handshake takes a second probe. Where there is none left for it, the
//     connection had been made, which is a success of its attempt; else callers
//     enough at a time could keep the breaker from ever closing.
//
// A [Hook] knows better on all of these. Use this where the option is what a
// client has, or what a program sets already.
type Limiter struct {
	breaker *fusebox.Breaker

	mu  sync.Mutex
	out []fusebox.Permit // of the calls that are out, the latest last
}

var _ redis.Limiter = (*Limiter)(nil)

// NewLimiter returns b as a limiter. The limiters of several clients may share b.
func NewLimiter(b *fusebox.Breaker) *Limiter { return &Limiter{breaker: b} }

// Allow implements [redis.Limiter]. A rejection is an [*fusebox.OpenError],
// which the client does not retry.
func (l *Limiter) Allow() error {
	permit, err := l.breaker.Allow(context.Background())
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = append(l.out, permit.Take())
	return nil
}

// ReportResult implements [redis.Limiter].
func (l *Limiter) ReportResult(err error) {
	permit := l.latest()
	var open *fusebox.OpenError
	switch {
	case errors.As(err, &open) && open.Name() == l.breaker.Name(): // its handshake was rejected
		permit.Record(fusebox.Success)
	case errors.Is(err, context.Canceled): // by the caller: the client cancels nothing
		permit.Record(fusebox.Ignored)
	default:
		permit.Finish(context.Background(), err)
	}
}

// latest takes a permit off the stack.
func (l *Limiter) latest() fusebox.Permit {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.out) - 1
	if last < 0 {
		return fusebox.Permit{}
	}
	defer func() { l.out = l.out[:last] }()
	return l.out[last].Take()
}

// Hook is a breaker as a hook of a client, for its AddHook: every command or
// pipeline, its retries included, is one call with a permit and a context of
// its own. It is safe for concurrent use, also by several clients.
type Hook struct{ breaker *fusebox.Breaker }

var _ redis.Hook = Hook{}

// NewHook returns b as a hook.
func NewHook(b *fusebox.Breaker) Hook { return Hook{b} }

// admitted marks the context of a call, by which the commands of a handshake
// inside it are known: they are part of it.
type admitted struct{}

func (h Hook) do(ctx context.Context, call func(context.Context) error) error {
	if ctx.Value(admitted{}) == h {
		return call(ctx)
	}
	return h.breaker.Do(context.WithValue(ctx, admitted{}, h), call)
}

// DialHook implements [redis.Hook]. Dialling is part of a command's call.
func (h Hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements [redis.Hook].
func (h Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.do(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements [redis.Hook]. The commands of a pipeline that
// was rejected say so.
func (h Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		called := false
		err := h.do(ctx, func(ctx context.Context) error {
			called = true
			return next(ctx, cmds)
		})
		if !called {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		}
		return err
	}
}
