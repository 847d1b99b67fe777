package proxy

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// Of a busy server new connections may be taken by others: it is not one that leaves.
func TestDialsAreBoundedWhileThereIsNoAnswer(t *testing.T) {
	at := httptest.NewUnstartedServer(http.NotFoundHandler())
	at.Config.Protocols = new(http.Protocols)
	at.Config.Protocols.SetUnencryptedHTTP2(true)
	at.Start()
	t.Cleanup(at.Close)
	s := newServer(config.Endpoint("h2c"+strings.TrimPrefix(at.URL, "http")), nil)
	t.Cleanup(s.leave)
	request := func() *http.Request {
		return s.to(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), t.Context())
	}
	try := request().Context()
	connect := func() error {
		c, err := s.transport.DialContext(try, "tcp", s.base.Host)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	for range 2 {
		for range dialsPerTry {
			if err := connect(); err != nil {
				t.Fatal(err)
			}
		}
		resp, err := s.roundTrip(request()) // somebody else's
		if err != nil {
			t.Fatal(err)
		}
		drop(resp)
	}
	for range dialsPerTry {
		if err := connect(); err != nil {
			t.Fatal(err)
		}
	}
	if err := connect(); !errors.Is(err, errLeft) {
		t.Errorf("after %d connections without an answer: %v", dialsPerTry, err)
	}
}
