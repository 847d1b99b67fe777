package spawn

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

var errBroken = errors.New("broken")

// run runs fn to its end and returns its Call, received.
func run[T any](t *testing.T, fn func(context.Context) (T, error)) *Call[T] {
	t.Helper()
	ends := make(chan *Call[T], 1)
	c := Go(t.Context(), fn, ends, func(*Panic) { t.Error("late") })
	if got := <-ends; got != c {
		t.Fatalf("received %p, want %p", got, c)
	}
	if c.Leave() {
		t.Error("left in time, though it was received")
	}
	return c
}

func TestResultIsWhatTheFunctionReturned(t *testing.T) {
	c := run(t, func(context.Context) (int, error) { return 7, errBroken })
	if v, err := c.Result(); v != 7 || err != errBroken { //nolint:errorlint // unchanged
		t.Errorf("got %v, %v", v, err)
	}
	if c = run(t, func(context.Context) (int, error) { return 7, nil }); c.Drop() != nil {
		t.Error("an int panicked")
	}
}

func panickingFunction(context.Context) (int, error) { panic(errBroken) }

// raised returns what calling f panics with, as a *Panic.
func raised(t *testing.T, f func()) (p *Panic) {
	t.Helper()
	defer func() {
		p, _ = recover().(*Panic)
		if p == nil {
			t.Fatal("did not panic with a *Panic")
		}
	}()
	f()
	return nil
}

func TestPanicIsRaisedWithItsOrigin(t *testing.T) {
	c := run(t, panickingFunction)
	p := raised(t, func() { c.Result() })
	if p.Value != errBroken || !errors.Is(p, errBroken) { //nolint:errorlint // unchanged
		t.Errorf("value is %v", p.Value)
	}
	if text := p.Error(); !strings.Contains(text, "panicked: broken\n") || !strings.Contains(text, "panickingFunction") {
		t.Errorf("text does not show value and origin:\n%s", text)
	}
	if c.Drop() != p {
		t.Error("dropping it does not tell the panic")
	}
	if (&Panic{Value: "x"}).Unwrap() != nil {
		t.Error("a value that is no error is unwrapped")
	}
}

func TestPanicThroughTwoGoroutinesKeepsItsOrigin(t *testing.T) {
	inner := run(t, panickingFunction)
	first := raised(t, func() { inner.Result() })
	outer := run(t, func(context.Context) (int, error) { return inner.Result() })
	if p := raised(t, func() { outer.Result() }); p != first {
		t.Errorf("got %p, want %p", p, first)
	}
}

func TestGoexitIsPassedOn(t *testing.T) {
	c := run(t, func(context.Context) (int, error) { runtime.Goexit(); return 0, nil })
	done := make(chan bool)
	go func() {
		returned := false
		defer func() { done <- returned }()
		c.Result()
		returned = true
	}()
	if <-done {
		t.Error("the goroutine went on")
	}
	if c.Drop() != nil {
		t.Error("Goexit became a panic")
	}
}

type closer struct {
	closed *int
	close  func()
}

func (c closer) Close() error {
	*c.closed++
	if c.close != nil {
		c.close()
	}
	return errBroken
}

func TestWhatIsLeftIsDropped(t *testing.T) {
	closed := 0
	for name, tt := range map[string]struct {
		fn     func() (io.Closer, error)
		closed int
		panics any
	}{
		"a closer is closed":           {func() (io.Closer, error) { return closer{closed: &closed}, nil }, 1, nil},
		"not if it came with an error": {func() (io.Closer, error) { return closer{closed: &closed}, errBroken }, 0, nil},
		"nil":                          {func() (io.Closer, error) { return nil, nil }, 0, nil},
		"a panic is told":              {func() (io.Closer, error) { panic("boom") }, 0, "boom"},
		"a Goexit is none":             {func() (io.Closer, error) { runtime.Goexit(); return nil, nil }, 0, nil},
		"a Close that panics is told": {func() (io.Closer, error) {
			return closer{&closed, func() { panic("in Close") }}, nil
		}, 1, "in Close"},
		"a Close that ends the goroutine": {func() (io.Closer, error) {
			return closer{&closed, runtime.Goexit}, nil
		}, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closed = 0
				proceed, ends, late := make(chan bool), make(chan *Call[io.Closer], 1), 0
				c := Go(t.Context(), func(context.Context) (io.Closer, error) {
					<-proceed
					return tt.fn()
				}, ends, func(p *Panic) {
					late++
					if tt.panics == nil && p != nil || tt.panics != nil && (p == nil || p.Value != tt.panics) {
						t.Errorf("late got %v, want %v", p, tt.panics)
					}
				})
				if !c.Leave() {
					t.Fatal("did not leave in time")
				}
				close(proceed)
				synctest.Wait()
				if late != 1 || closed != tt.closed || len(ends) != 0 {
					t.Errorf("late %d, closed %d, in the channel %d; want 1, %d, 0", late, closed, len(ends), tt.closed)
				}
			})
		})
	}
}

// Either the one who waits gets the result or the dropping does, never both
// and never neither.
func TestResultGoesToOneOfTwo(t *testing.T) {
	received, dropped := 0, 0
	for i := range 10_000 {
		ends, late := make(chan *Call[int], 1), make(chan bool, 1)
		c := Go(t.Context(), func(context.Context) (int, error) { return 7, nil }, ends, func(*Panic) { late <- true })
		for range i % 4 {
			runtime.Gosched()
		}
		if c.Leave() {
			<-late
			dropped++
		} else {
			if v, _ := (<-ends).Result(); v != 7 {
				t.Fatal(v)
			}
			received++
		}
		if len(ends)+len(late) != 0 {
			t.Fatal("both got it")
		}
	}
	t.Logf("received %d, dropped %d", received, dropped) // which, is up to the scheduler
}

// A pointer that is a closer is none before it has been returned.
func TestAPanicBeforeAResultIsToldAndNothingIsClosed(t *testing.T) {
	for name, fn := range map[string]func(context.Context) (*closer, error){
		"a panic":  func(context.Context) (*closer, error) { panic("x") },
		"a Goexit": func(context.Context) (*closer, error) { runtime.Goexit(); return nil, nil },
	} {
		c := run(t, fn)
		if p := c.Drop(); (p != nil && p.Value == "x") != (name == "a panic") {
			t.Errorf("%s: %v", name, p)
		}
	}
}
