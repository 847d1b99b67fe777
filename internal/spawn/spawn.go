// Package spawn runs a function with a result on a goroutine of its own, and
// lets the one who waits for it leave. Whatever ends the function, a return, a
// panic or [runtime.Goexit], reaches the one who waits; once he has left, it
// is dropped.
package spawn

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// Panic is a panic that a function ended in on a goroutine of its own, raised
// again where its result was waited for. It is an error so that its text, with
// the original stack, is what a crash prints.
//
//nolint:errname // it is a panic, and an error for its text
type Panic struct {
	Value any    // what the function panicked with
	Stack []byte // of the goroutine that panicked
}

// Error returns the value and the original stack.
func (p *Panic) Error() string {
	return fmt.Sprintf("fusebox: a function on a goroutine of its own panicked: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns Value if it is an error, else nil.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// caught turns what recover returned into a Panic. One that has been raised
// again already, by a call further down, keeps its origin.
func caught(value any) *Panic {
	if p, ok := value.(*Panic); ok {
		return p
	}
	return &Panic{Value: value, Stack: debug.Stack()}
}

// Call is one run of a function. The one who started it either receives it
// from its channel, or leaves it: settled says who came first.
type Call[T any] struct {
	value   T
	err     error
	panic   *Panic
	exited  bool // by runtime.Goexit
	settled atomic.Bool
}

// Go calls fn on a new goroutine. When fn has ended the Call is sent to ends,
// which must have room for it. If it was left before, its result is dropped
// instead and late is called, with the panic that fn or the dropping ended in,
// if any.
func Go[T any](ctx context.Context, fn func(context.Context) (T, error), ends chan<- *Call[T], late func(*Panic)) *Call[T] {
	c := &Call[T]{}
	go func() {
		defer c.end(ends, late) // also if fn ends the goroutine
		c.run(ctx, fn)
	}()
	return c
}

func (c *Call[T]) run(ctx context.Context, fn func(context.Context) (T, error)) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if r := recover(); r != nil {
			c.panic = caught(r)
		} else {
			c.exited = true
		}
	}()
	c.value, c.err = fn(ctx)
	returned = true
}

func (c *Call[T]) end(ends chan<- *Call[T], late func(*Panic)) {
	if c.settle() {
		ends <- c
		return
	}
	var p *Panic
	defer func() { late(p) }() // also if Close ends the goroutine
	p = c.Drop()
}

// settle reports whether it is the first of two.
func (c *Call[T]) settle() bool { return !c.settled.Swap(true) }

// Leave says that nobody waits for c any more. It reports whether that came in
// time: if not, fn has ended, and c is in its channel or about to be. It may
// be called once.
func (c *Call[T]) Leave() bool { return c.settle() }

// Result returns what fn returned, or ends as fn ended: in a panic, with a
// *Panic, or in a Goexit. c has been received from its channel.
func (c *Call[T]) Result() (T, error) {
	if c.panic != nil {
		panic(c.panic)
	}
	if c.exited {
		runtime.Goexit()
	}
	return c.value, c.err
}

// Drop closes a result that nobody takes, if it is an io.Closer and came
// without an error. It returns the panic of fn, or of Close, or nil. Only who
// received c, or the goroutine of c itself, may call it.
func (c *Call[T]) Drop() (p *Panic) {
	closer, ok := any(c.value).(io.Closer)
	if !ok || c.err != nil || c.panic != nil || c.exited { // then value is none
		return c.panic
	}
	defer func() {
		if r := recover(); r != nil {
			p = caught(r)
		}
	}()
	_ = closer.Close() // nobody is left to be told
	return nil
}
