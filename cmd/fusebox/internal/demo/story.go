package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

// story tells what happens.
type story struct {
	w     io.Writer
	began time.Time

	mu                        sync.Mutex
	answered, failed, refused int // since the last count
}

// opening says what this is.
func (s *story) opening(proxy, admin net.Addr) {
	fmt.Fprintf(s.w, `There is nothing to guard, so this is a demonstration. A dependency that
misbehaves from time to time, its clients, and the proxy between them are all in
this process, on this machine. To guard something real:

  fusebox serve --upstream http://localhost:9000 --listen :8080
  fusebox serve -c fusebox.yaml

proxy  %s
`, shown(proxy))
	if admin != nil {
		fmt.Fprintf(s.w, "admin  %s\n", shown(admin))
	}
	fmt.Fprintln(s.w)
}

// shown returns an address as a browser takes it.
func shown(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return "http://" + reachable(a) + "/"
}

// tell writes a line, with the seconds since the beginning.
func (s *story) tell(format string, args ...any) {
	text := strings.Map(func(r rune) rune { // a reason, say, is what somebody wrote
		if !unicode.IsPrint(r) {
			return '\ufffd'
		}
		return r
	}, fmt.Sprintf(format, args...))
	fmt.Fprintf(s.w, "%6.1fs  %s\n", time.Since(s.began).Seconds(), text)
}

func (s *story) result(answered, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case answered:
		s.answered++
	case refused:
		s.refused++
	default:
		s.failed++
	}
}

// count tells what became of the calls since the last time.
func (s *story) count() {
	s.mu.Lock()
	answered, failed, refused := s.answered, s.failed, s.refused
	s.answered, s.failed, s.refused = 0, 0, 0
	s.mu.Unlock()
	s.tell("         of %d calls %d were answered, %d failed, %d were rejected by the breaker", answered+failed+refused, answered, failed, refused)
}

// listen tells of the breaker's records, as the admin API sends them.
func (s *story) listen(ctx context.Context, admin net.Addr) {
	client := newClient(admin)
	client.Timeout = 0 // the stream ends with the context
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/events", http.NoBody)
	if err != nil {
		return
	}
	resp, err := client.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			s.tell("the breaker's records cannot be read: %v", err)
		}
		return
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	event := ""
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "event":
			event = value
		case "data":
			var t fuseboxadmin.Transition
			if event == "transition" && json.Unmarshal([]byte(value), &t) == nil {
				s.tell("%s", sentence(t))
			}
		}
	}
}

// sentence says what a record means.
func sentence(t fuseboxadmin.Transition) string {
	until := ""
	if !t.Until.IsZero() {
		until = fmt.Sprintf("; it rejects, and probes in %v", t.Until.Sub(t.At).Round(10*time.Millisecond))
	}
	switch {
	case t.From == fusebox.Closed && t.To == fusebox.Open:
		return fmt.Sprintf("breaker %s opened: %s%s", t.Name, t.Why, until)
	case t.From == fusebox.HalfOpen && t.To == fusebox.Open:
		return fmt.Sprintf("breaker %s reopened: %s%s", t.Name, t.Why, until)
	case t.To == fusebox.HalfOpen:
		return fmt.Sprintf("breaker %s probes: it lets a few calls through", t.Name)
	case t.From == fusebox.HalfOpen && t.To == fusebox.Closed:
		return fmt.Sprintf("breaker %s closed: %s", t.Name, t.Why)
	default:
		return fmt.Sprintf("breaker %s: %s to %s, %s%s", t.Name, t.From, t.To, t.Why, until)
	}
}
