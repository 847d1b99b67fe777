package hedge

import (
	"context"
	"time"

	"github.com/fusebox-go/fusebox/internal/spawn"
)

// Call calls fn through p, and again while that has not answered: attempt n+1
// is made h's delay after attempt n, up to Config.Attempts, unless one has
// succeeded before or the Budget gives none. FN IS CALLED CONCURRENTLY: see the
// package comment. p may be nil; fn is called directly then.
//
// The first success is the answer. The other attempts' contexts are cancelled,
// with [ErrLost] as their cause; they are not waited for, and their results
// are dropped, closed if they are an [io.Closer] without an error. (A resource
// that ends with its context, like an HTTP response, needs no closing.) The
// winner's context ends with ctx, see Config.CancelWinner; one that a policy
// in p has made, a timeout, ends as that policy says.
//
// An attempt that fails is not made again, nor does it hasten the next: that
// is for a retry, inside p or around Call. Others that are out go on. When all
// have failed, the error of a single attempt comes back unchanged, with its
// value; those of several are wrapped in an [*Error]. If ctx ends first, all
// attempts are cancelled, and Call returns ctx.Err(), or an *Error with it and
// with the errors of the attempts that have failed.
//
// If an attempt panics while Call waits, Call panics with a [*Panic]; if one
// ends its goroutine by [runtime.Goexit], Call ends that of the caller. A
// panic after that is counted, and the first one of the policy logged by
// [log/slog].
//
// Each attempt costs a goroutine and a context, each call a timer.
func Call[T any](ctx context.Context, p Doer, fn func(context.Context) (T, error), h *Policy) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	h.calls.Add(1)
	if h.config.Budget != nil {
		h.config.Budget.Deposit()
	}
	r := &race[T]{
		Policy: h, ctx: ctx, p: p, fn: fn,
		delay:    h.patience(),
		ends:     make(chan *spawn.Call[T], h.config.Attempts),
		attempts: make([]attempt[T], 0, h.config.Attempts),
	}
	defer r.over() // also if an attempt's panic is raised here
	timer := time.NewTimer(r.delay)
	defer timer.Stop()
	r.start()
	for {
		call := r.received()
		if call == nil {
			select {
			case call = <-r.ends:
			case <-timer.C:
				if r.mayHedge() {
					timer.Reset(r.delay)
					h.hedged.Add(1)
					r.start()
				}
				continue
			case <-ctx.Done():
				return none, r.ctxEnded()
			}
		}
		if value, done, err := r.finish(call); done {
			return value, err
		}
	}
}

// race is one Call. Only the caller's goroutine uses it.
type race[T any] struct {
	*Policy
	ctx      context.Context
	p        Doer
	fn       func(context.Context) (T, error)
	delay    time.Duration
	ends     chan *spawn.Call[T] // has room for every attempt
	attempts []attempt[T]
	ended    int // of attempts
}

type attempt[T any] struct {
	call   *spawn.Call[T]
	cancel context.CancelCauseFunc // nil: ended, or not to be cancelled
	began  time.Time
	err    error
	ended  bool
}

// received returns an attempt that has ended already: an answer that is there
// goes before the delay and before the end of ctx.
func (r *race[T]) received() *spawn.Call[T] {
	select {
	case call := <-r.ends:
		return call
	default:
		return nil
	}
}

// ctxEnded returns the error of a call whose context ended: with it, those of
// the attempts that had failed by then.
func (r *race[T]) ctxEnded() error {
	var errs []error
	for i := range r.attempts {
		if err := r.attempts[i].err; err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return r.ctx.Err()
	}
	return &Error{append(errs, r.ctx.Err())}
}

func (r *race[T]) mayHedge() bool {
	if len(r.attempts) == r.config.Attempts || r.ctx.Err() != nil {
		return false
	}
	if b := r.config.Budget; b != nil && !b.Withdraw() {
		r.denied.Add(1)
		return false
	}
	return true
}

func (r *race[T]) start() {
	ctx, cancel := context.WithCancelCause(r.ctx)
	began := time.Now()
	call := spawn.Go(ctx, r.through, r.ends, r.late)
	r.attempts = append(r.attempts, attempt[T]{call: call, cancel: cancel, began: began})
}

// through calls fn through p. It runs on an attempt's goroutine.
func (r *race[T]) through(ctx context.Context) (value T, err error) {
	if r.p == nil {
		return r.fn(ctx)
	}
	err = r.p.Do(ctx, func(inner context.Context) (err error) {
		var none T
		value = none // should p call twice, and fn panic
		value, err = r.fn(inner)
		return err
	})
	return value, err
}

// finish takes the result of an attempt, and reports whether it is that of the
// call. It panics, or ends the goroutine, if the attempt did.
func (r *race[T]) finish(call *spawn.Call[T]) (value T, done bool, err error) {
	n := 0
	for r.attempts[n].call != call {
		n++
	}
	a := &r.attempts[n]
	a.ended = true
	r.ended++
	value, a.err = call.Result()
	if a.err == nil {
		r.answered(time.Since(a.began))
		if n > 0 {
			r.won.Add(1)
		}
		if !r.config.CancelWinner {
			a.cancel = nil
		}
		return value, true, nil
	}
	a.release()
	if r.ended < len(r.attempts) {
		return value, false, nil
	}
	if len(r.attempts) == 1 {
		return value, true, a.err
	}
	errs := make([]error, len(r.attempts))
	for i := range r.attempts {
		errs[i] = r.attempts[i].err
	}
	var none T
	return none, true, &Error{errs}
}

// over cancels the attempts that are still out, and leaves them.
func (r *race[T]) over() {
	for i := range r.attempts {
		a := &r.attempts[i]
		a.release()
		if a.ended {
			continue
		}
		r.gaveUp(time.Since(a.began), r.delay)
		if !a.call.Leave() {
			go func() { r.late((<-r.ends).Drop()) }() // Close may take its time
		}
	}
}

// release cancels the context of an attempt whose result nobody needs.
func (a *attempt[T]) release() {
	if a.cancel != nil {
		a.cancel(lost{})
		a.cancel = nil
	}
}
