package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// overUnix makes a request over a unix socket.
func overUnix(socket, method, path string) (int, string, error) {
	t := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	resp, err := t.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// answerWithHost makes a request that names another host.
func answerWithHost(tb testing.TB, url, host string) (int, string) {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	r.Host = host
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// dial opens a connection to what serves a URL.
func dial(ctx context.Context, url string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(url, "http://"))
}

// occupy listens at an address until the test ends.
func occupy(tb testing.TB, address string) (net.Listener, error) {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", address)
	if err == nil {
		tb.Cleanup(func() { _ = l.Close() })
	}
	return l, err
}

// sockets returns a folder for sockets: their paths may be about 100 bytes long,
// and those of tests are longer.
func sockets(tb testing.TB) string {
	tb.Helper()
	folder, err := os.MkdirTemp("", "fb") //nolint:usetesting // it is too long
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

func receive[T any](tb testing.TB, c <-chan T) T {
	tb.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		tb.Fatal("nothing comes")
		panic("not reached")
	}
}
