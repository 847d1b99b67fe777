package proxy

import (
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// Between the look at an endpoint and the decision another request may have changed
// its state.
func TestAnEndpointThatHasJustBecomeHalfOpenIsAsked(t *testing.T) {
	text := `
upstreams:
  x: {endpoints: ["http://127.0.0.1:1"], breaker: {scope: endpoint, consecutive: 1, open-for: 1ms, open-for-max: 1ms}}
`
	f, err := config.Parse("fusebox.yaml", []byte(strings.TrimSpace(text)), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(&config.Config{File: *f}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	u := (*p.routes.Load())[0].upstream
	s := &stage{Context: t.Context(), client: t.Context(), call: new(call), upstream: u}
	_, permit, err := u.allOpen(s, 0, time.Now(), refusal{}) // it was open a moment ago
	if err != nil {
		t.Fatal(err)
	}
	permit.Record(fusebox.Success)
}
