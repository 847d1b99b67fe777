package sim

import (
	"context"
	"fmt"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// Bubble calls fn in a testing/synctest bubble, with a loop that moves the
// bubble's time: what reads time.Now in fn, and in what fn calls, sees the
// loop's time. It returns when fn has, and every goroutine that fn started.
// A panic in fn goes on in the caller's goroutine; fn may not end its own with
// runtime.Goexit, as FailNow of a test does.
//
// Contexts, channels and breakers made outside belong to the time outside: fn
// may ask a context for its Err, but not wait for it.
//
// Bubble may not be called in a bubble.
func Bubble(fn func(l *Loop)) {
	var problem any
	done := make(chan struct{})
	// The bubble's end looks at its test, which may end the goroutine.
	go func() {
		defer close(done)
		// A bubble wants a test, and this program is none: testing.MainStart
		// would read the program's arguments and print a verdict, and flags
		// would be registered for it. A bubble makes a test of its own and
		// looks at nothing of the one it is given, as long as nothing is
		// logged and nothing panics: so the zero one does.
		synctest.Test(new(testing.T), func(*testing.T) {
			defer func() {
				if p := recover(); p != nil {
					problem = fmt.Sprintf("%v\n\n%s", p, debug.Stack())
				}
			}()
			fn(&Loop{start: time.Now(), wait: func(_ context.Context, d time.Duration) {
				time.Sleep(d) // moves the time
			}})
		})
	}()
	<-done
	if problem != nil {
		panic(problem)
	}
}
