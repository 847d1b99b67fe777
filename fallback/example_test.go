package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fallback"
)

var errUnreachable = errors.New("connection refused")

func unreachable(context.Context) (string, error) { return "", errUnreachable }

func Example() {
	chain := fusebox.New("greetings", fusebox.Config{Consecutive: 1})
	greeting := fallback.New(fallback.Config[string]{Func: fallback.Value("Hello")})
	ctx := context.Background()

	fmt.Println(fallback.Call(ctx, chain, unreachable, greeting))
	fmt.Println(fallback.Call(ctx, chain, unreachable, greeting)) // the breaker is open
	fmt.Printf("%+v\n", greeting.Stats())
	// Output:
	// Hello <nil>
	// Hello <nil>
	// {Answered:2 Stale:0 Failed:0}
}

// The last good result, marked, then a function that looks at the cause. There
// is one Fallback a city: a result answers only the question it was given to.
func Example_lastGood() {
	type weather struct {
		Sky string
		Old bool
	}
	cities := map[string]*fallback.Fallback[weather]{}
	for _, city := range []string{"Rome", "Oslo"} {
		cities[city] = fallback.New(fallback.Config[weather]{
			MaxAge: 10 * time.Minute,
			Stale: func(w weather, _ time.Duration) weather {
				w.Old = true
				return w
			},
			Func: func(_ context.Context, cause error) (weather, error) {
				if errors.Is(cause, fusebox.ErrOpen) {
					return weather{Sky: "unknown for a while"}, nil
				}
				return weather{Sky: "unknown"}, nil
			},
		})
	}
	ctx, up := context.Background(), true
	chain := fusebox.New("weather", fusebox.Config{Consecutive: 1})
	show := func(city string) {
		w, err := fallback.Call(ctx, chain, func(context.Context) (weather, error) {
			if !up {
				return weather{}, errUnreachable
			}
			return weather{Sky: "clear"}, nil
		}, cities[city])
		fmt.Printf("%s %+v %v\n", city, w, err)
	}
	show("Rome")
	up = false
	show("Rome")
	show("Oslo")
	// Output:
	// Rome {Sky:clear Old:false} <nil>
	// Rome {Sky:clear Old:true} <nil>
	// Oslo {Sky:unknown for a while Old:false} <nil>
}

func ExampleCall() {
	f := fallback.New(fallback.Config[string]{
		Func: func(_ context.Context, cause error) (string, error) { return "sorry: " + cause.Error(), nil },
	})
	chain := fusebox.New("greetings", fusebox.Config{})
	fmt.Println(fallback.Call(context.Background(), chain, unreachable, f))
	// Output: sorry: connection refused <nil>
}

// Not found is an answer: no other is put in its place.
func ExampleConfig() {
	errNotFound := errors.New("not found")
	f := fallback.New(fallback.Config[string]{
		Func: fallback.Value("somebody"),
		When: func(ctx context.Context, err error) bool { return ctx.Err() == nil && !errors.Is(err, errNotFound) },
		Observe: func(e fallback.Event) {
			fmt.Println("answered:", e.Cause)
		},
	})
	chain := fusebox.New("users", fusebox.Config{})
	for _, err := range []error{errNotFound, errUnreachable} {
		fmt.Println(fallback.Call(context.Background(), chain, func(context.Context) (string, error) { return "", err }, f))
	}
	// Output:
	//  not found
	// answered: connection refused
	// somebody <nil>
}

func ExampleConfig_Validate() {
	fmt.Println(fallback.Config[string]{}.Validate())
	// Output: fusebox/fallback: Config.Func is nil, must be set without MaxAge: nothing could answer
}

func ExampleNew() {
	f := fallback.New(fallback.Config[string]{MaxAge: time.Minute, Func: fallback.Value("Hello")})
	fmt.Println(f)
	// Output: fallback(last good up to 1m0s, function)
}

func ExampleFallback() {
	f := fallback.New(fallback.Config[int]{Func: fallback.Value(0)})
	fmt.Println(f)
	// Output: fallback(function)
}

func ExampleFallback_Config() {
	f := fallback.New(fallback.Config[string]{MaxAge: time.Minute})
	fmt.Println(f.Config().MaxAge, f.Config().When(context.Background(), errUnreachable))
	// Output: 1m0s true
}

func ExampleFallback_Stats() {
	f := fallback.New(fallback.Config[string]{MaxAge: time.Minute})
	chain := fusebox.New("greetings", fusebox.Config{})
	ctx := context.Background()
	_, _ = fallback.Call(ctx, chain, unreachable, f) // nothing kept yet
	_, _ = fallback.Call(ctx, chain, func(context.Context) (string, error) { return "Hello", nil }, f)
	_, _ = fallback.Call(ctx, chain, unreachable, f)
	fmt.Printf("%+v\n", f.Stats())
	// Output: {Answered:1 Stale:1 Failed:1}
}

func ExampleStats() {
	s := fallback.Stats{Answered: 3, Stale: 2, Failed: 1}
	fmt.Printf("%d of %d calls answered, %d with old results\n", s.Answered, s.Answered+s.Failed, s.Stale)
	// Output: 3 of 4 calls answered, 2 with old results
}

func ExampleValue() {
	answer := fallback.Value("Hello")
	fmt.Println(answer(context.Background(), errUnreachable))
	// Output: Hello <nil>
}

func ExampleEvent() {
	f := fallback.New(fallback.Config[string]{
		MaxAge: time.Minute,
		Observe: func(e fallback.Event) {
			switch {
			case e.Err != nil:
				fmt.Println("no answer:", e.Cause)
			case e.Stale:
				fmt.Println("an old answer:", e.Cause)
			}
		},
	})
	chain := fusebox.New("greetings", fusebox.Config{})
	ctx := context.Background()
	_, _ = fallback.Call(ctx, chain, unreachable, f)
	_, _ = fallback.Call(ctx, chain, func(context.Context) (string, error) { return "Hello", nil }, f)
	_, _ = fallback.Call(ctx, chain, unreachable, f)
	// Output:
	// no answer: connection refused
	// an old answer: connection refused
}

func ExampleError() {
	f := fallback.New(fallback.Config[string]{Func: func(context.Context, error) (string, error) {
		return "", errors.New("no file greetings.txt")
	}})
	_, err := fallback.Call(context.Background(), fusebox.New("greetings", fusebox.Config{}), unreachable, f)
	fmt.Println(err)
	fmt.Println(errors.Is(err, errUnreachable))
	// Output:
	// fusebox: call and fallback failed: connection refused; no file greetings.txt
	// true
}

// failed returns the error of a call whose fallback failed too.
func failed(err error) *fallback.Error {
	f := fallback.New(fallback.Config[string]{Func: func(context.Context, error) (string, error) {
		return "", errors.New("no file")
	}})
	_, err = fallback.Call(context.Background(), direct, func(context.Context) (string, error) { return "", err }, f)
	var both *fallback.Error
	errors.As(err, &both)
	return both
}

func ExampleError_Cause() {
	fmt.Println(failed(errUnreachable).Cause())
	// Output: connection refused
}

func ExampleError_Unwrap() {
	for _, err := range failed(errUnreachable).Unwrap() {
		fmt.Println(err)
	}
	// Output:
	// connection refused
	// no file
}

func ExampleError_RetryAfter() {
	fmt.Println(failed(errUnreachable).RetryAfter())
	// Output: 0s
}

func ExamplePolicy() {
	var chain fallback.Policy = fusebox.New("greetings", fusebox.Config{})
	f := fallback.New(fallback.Config[string]{Func: fallback.Value("Hello")})
	fmt.Println(fallback.Call(context.Background(), chain, unreachable, f))
	// Output: Hello <nil>
}
