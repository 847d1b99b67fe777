package fuseboxhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
	"github.com/fusebox-go/fusebox/retry"
)

// outage is a server that is down for its first n calls.
func outage(n int) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n--; n >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, "hello")
	}))
}

func Example_client() {
	server := outage(100)
	defer server.Close()
	client := &http.Client{Transport: &fuseboxhttp.Transport{}} // one breaker a host

	for range 20 {
		if resp, err := getURL(client, server.URL); err == nil {
			resp.Body.Close() // 503
		}
	}
	_, err := getURL(client, server.URL)
	fmt.Println(errors.Is(err, fusebox.ErrOpen))
	// Output: true
}

// Each attempt has its timeout and is one outcome for the breaker; the breaker's
// rejection ends the attempts; what answers in the end, whatever happened, is
// the caller's own.
func ExampleTransport() {
	server := outage(2)
	defer server.Close()
	client := &http.Client{Transport: &fuseboxhttp.Transport{
		Timeout: 2 * time.Second,
		Retry:   retry.New(retry.Config{BaseDelay: time.Millisecond}),
		Registry: &fusebox.Registry{Config: func(host string) fusebox.Config {
			return fusebox.Config{SlowAfter: time.Second}
		}},
	}}
	greeting := "(nobody there)"
	if resp, err := getURL(client, server.URL); err == nil {
		defer resp.Body.Close()
		if text, err := io.ReadAll(resp.Body); err == nil && resp.StatusCode == http.StatusOK {
			greeting = string(text)
		}
	}
	fmt.Println(greeting)
	// Output: hello
}

// Other dependencies behind one host, told apart by the first part of the path.
func ExampleTransport_key() {
	transport := &fuseboxhttp.Transport{Key: func(r *http.Request) string {
		service, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		return service
	}}
	server := outage(1)
	defer server.Close()
	client := &http.Client{Transport: transport}
	for _, path := range []string{"/users/7", "/orders/9"} {
		if resp, err := getURL(client, server.URL+path); err == nil {
			resp.Body.Close()
		}
	}
	for name, b := range transport.Breakers().All() {
		fmt.Println(name, b.Snapshot().Totals.Failures)
	}
	// Output:
	// orders 0
	// users 1
}

// A server that dies in the middle of its answers has sent the head of each.
func ExampleTransport_judgeBody() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hel")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	transport := &fuseboxhttp.Transport{JudgeBody: true}
	client := &http.Client{Transport: transport}
	if resp, err := getURL(client, server.URL); err == nil {
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.Status, string(text), err)
	}
	for _, b := range transport.Breakers().All() {
		fmt.Println(b.Snapshot().Totals.Failures, "failure")
	}
	// Output:
	// 200 OK hel unexpected EOF
	// 1 failure
}

func ExampleTransport_RoundTrip() {
	server := outage(1)
	defer server.Close()
	transport := &fuseboxhttp.Transport{}
	req, _ := http.NewRequestWithContext(context.Background(), "GET", server.URL, nil)
	resp, err := transport.RoundTrip(req) // a response, whatever the breaker thinks of it
	if err == nil {
		defer resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output: 503 Service Unavailable
}

func ExampleTransport_Breakers() {
	transport := &fuseboxhttp.Transport{}
	client := &http.Client{Transport: transport}
	transport.Breakers().Get("api.example.com").Override(fusebox.ForceOpen, fusebox.Note{Reason: "they asked us to", By: "ops"})
	_, err := getURL(client, "https://api.example.com/users/7")
	fmt.Println(err)
	// Output: Get "https://api.example.com/users/7": fusebox: "api.example.com" is open (force-open by ops: they asked us to)
}

func ExampleTransport_CloseIdleConnections() {
	client := &http.Client{Transport: &fuseboxhttp.Transport{Base: &http.Transport{}}}
	client.CloseIdleConnections() // reaches Base
	// Output:
}

func ExampleHost() {
	for _, url := range []string{"https://API.example.com:443/users", "http://[::1]:8080/"} {
		req, _ := http.NewRequestWithContext(context.Background(), "GET", url, nil)
		fmt.Println(fuseboxhttp.Host(req))
	}
	// Output:
	// api.example.com
	// [::1]:8080
}

// "Not found" is an answer by default; here it is not even that of the
// dependency, but of a gateway before it that knows no backend.
func ExampleClassify() {
	transport := &fuseboxhttp.Transport{Classify: func(resp *http.Response) fusebox.Outcome {
		if resp.StatusCode == http.StatusNotFound && resp.Header.Get("Server") == "gateway" {
			return fusebox.Failure
		}
		return fuseboxhttp.Classify(resp)
	}}
	fmt.Println(transport.Classify(&http.Response{StatusCode: http.StatusNotFound}))
	fmt.Println(transport.Classify(&http.Response{StatusCode: http.StatusNotFound, Header: http.Header{"Server": {"gateway"}}}))
	// Output:
	// success
	// failure
}

// What a retry policy retries is for it to say, among what may be retried.
func ExampleStatusError() {
	server := outage(1)
	defer server.Close()
	again := retry.New(retry.Config{Retryable: func(_ context.Context, err error) bool {
		var status *fuseboxhttp.StatusError
		return !errors.As(err, &status) || status.StatusCode != http.StatusServiceUnavailable
	}})
	client := &http.Client{Transport: &fuseboxhttp.Transport{Retry: again}}
	if resp, err := getURL(client, server.URL); err == nil {
		defer resp.Body.Close()
		fmt.Println(resp.Status, again.Stats().Retries)
	}
	// Output: 503 Service Unavailable 0
}

func ExampleErrTimeout() {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	defer server.Close()
	client := &http.Client{Transport: &fuseboxhttp.Transport{Timeout: 10 * time.Millisecond}}
	_, err := getURL(client, server.URL)
	fmt.Println(errors.Is(err, fuseboxhttp.ErrTimeout), errors.Is(err, context.DeadlineExceeded))
	// Output: true true
}

func ExampleRepeatable() {
	failed := errors.New("connection reset by peer") // perhaps after the request had been processed
	get, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://payments.internal/accounts/7", http.NoBody)
	post, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://payments.internal/transfers", http.NoBody)
	fmt.Println(fuseboxhttp.Repeatable(get, failed), fuseboxhttp.Repeatable(post, failed))

	post.Header.Set("Idempotency-Key", "7f3c")
	fmt.Println(fuseboxhttp.Repeatable(post, failed))
	// Output:
	// true false
	// true
}
