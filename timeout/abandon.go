package timeout

import (
	"context"

	"github.com/fusebox-go/fusebox/internal/spawn"
)

// Panic is what [Abandon] panics with when its function panicked on another
// goroutine. Its fields are Value (any), what the function panicked with, and
// Stack ([]byte), that of its goroutine. It is an error whose text shows both,
// and wraps Value if that is an error.
//
//nolint:errname // it is a panic, and an error for its text
type Panic = spawn.Panic

// Abandon calls fn on a goroutine of its own, with a context as [Policy.Do]
// gives it, and returns what fn returns, as Do does. When the limit has passed
// it leaves, with a zero result and an [*Error] that wraps nothing; when ctx
// has ended before that, with a zero result and ctx.Err(). It is for functions that do not heed their context; a
// limit cannot stop them. If fn ends as the limit passes, its result is
// preferred.
//
// A function that was left runs on, and is in [Stats] as abandoned until it
// ends. Its result is dropped, closed if it is an [io.Closer] without an
// error. (A resource that ends with its context, like an HTTP response, needs
// no closing.) What fn writes elsewhere it writes while the caller goes on:
// return it instead.
//
// If fn panics while Abandon waits, Abandon panics with a [*Panic]; if it ends
// its goroutine by [runtime.Goexit], Abandon ends that of the caller. A panic
// after that is counted, and the first one of the policy logged by [log/slog].
//
// Abandon is no Policy, since fn may run on after it returns. It stands inside
// a chain as the function that the chain calls:
//
//	fusebox.Call(ctx, breaker, func(ctx context.Context) (*User, error) {
//		return timeout.Abandon(ctx, limit, fetchUser)
//	})
//
// Here the breaker sees the timeout at once. A bulkhead belongs inside, around
// the function, so that a permit is held until the work is really over, and
// not given to the next call while the abandoned ones pile up:
//
//	timeout.Abandon(ctx, limit, func(ctx context.Context) (*User, error) {
//		return fusebox.Call(ctx, bulkhead, fetchUser)
//	})
//
// Beyond what Do costs, it costs a goroutine.
func Abandon[T any](ctx context.Context, p *Policy, fn func(context.Context) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	inner, cancel := context.WithTimeoutCause(ctx, p.limit, p.over)
	defer cancel()
	ends := make(chan *spawn.Call[T], 1)
	call := spawn.Go(inner, fn, ends, p.late)
	select {
	case <-ends:
	case <-inner.Done():
		p.abandoned.Add(1) // before leaving: from then on fn may end and subtract it
		if call.Leave() {
			if p.expired(ctx, inner) {
				p.timeouts.Add(1)
				return none, p.over
			}
			return none, ctx.Err()
		}
		p.abandoned.Add(-1)
		<-ends
	}
	value, err := call.Result()
	return value, p.judge(ctx, inner, err)
}
