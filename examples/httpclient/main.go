// Command httpclient shows the whole chain around an HTTP client: a time limit
// for each attempt, a breaker a host, retries, and the last good answer when all
// of that has failed. It needs nothing from outside.
//
// A server on loopback answers, then hangs, then answers again. The caller has
// an answer to every call: first after a few time limits, and at once as soon as
// the breaker is open.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fallback"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
	"github.com/fusebox-go/fusebox/retry"
)

// Rate is an answer; one that stands in for a newer has an age.
type Rate struct {
	Text string
	Age  time.Duration
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second) // it takes one or two
	defer cancel()

	var hangs atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hangs.Load() {
			<-r.Context().Done()
		}
		fmt.Fprint(w, "1.0871")
	}))
	defer server.Close()

	transport := &fuseboxhttp.Transport{
		Timeout: 100 * time.Millisecond, // without one a server that hangs shows a breaker nothing
		Retry:   retry.New(retry.Config{BaseDelay: 10 * time.Millisecond}),
		Registry: &fusebox.Registry{Config: func(string) fusebox.Config {
			return fusebox.Config{Consecutive: 5, OpenFor: 500 * time.Millisecond}
		}},
	}
	transport.Breakers().Observe(fusebox.Observer{Transition: func(t fusebox.Transition) {
		fmt.Fprintf(w, "  the breaker: %v → %v: %s\n", t.From, t.To, t.Why())
	}})
	client := &http.Client{Transport: transport}

	last := fallback.New(fallback.Config[Rate]{
		MaxAge: time.Hour,
		Stale:  func(r Rate, age time.Duration) Rate { return Rate{r.Text, age} },
		Observe: func(e fallback.Event) {
			fmt.Fprintf(w, "  failed: %v\n", e.Cause)
		},
	})
	ask := func() {
		start := time.Now()
		rate, err := fallback.Call(ctx, nil, func(ctx context.Context) (Rate, error) {
			return fetch(ctx, client, server.URL)
		}, last)
		if err != nil {
			fmt.Fprintln(w, "no answer:", err)
			return
		}
		fmt.Fprintf(w, "%s, %.2fs old, after %.2fs\n", rate.Text, rate.Age.Seconds(), time.Since(start).Seconds())
	}

	fmt.Fprintln(w, "The server answers.")
	ask()
	breaker := transport.Breakers().Get(server.Listener.Addr().String()) // that of the host

	fmt.Fprintln(w, "\nIt hangs.")
	hangs.Store(true)
	for breaker.State() == fusebox.Closed && ctx.Err() == nil {
		ask()
	}
	ask()

	fmt.Fprintln(w, "\nIt answers again.")
	hangs.Store(false)
	for breaker.State() != fusebox.Closed && ctx.Err() == nil {
		time.Sleep(200 * time.Millisecond)
		ask()
	}
	return ctx.Err()
}

// fetch is a call as a program makes it: it knows of no policy. A response with
// the status of a failure is an answer to the transport, and an error here.
func fetch(ctx context.Context, client *http.Client, url string) (Rate, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Rate{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return Rate{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // it has been read
	if resp.StatusCode != http.StatusOK {
		return Rate{}, &fuseboxhttp.StatusError{StatusCode: resp.StatusCode}
	}
	text, err := io.ReadAll(resp.Body)
	return Rate{Text: string(text)}, err
}
