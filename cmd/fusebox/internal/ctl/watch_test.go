package ctl

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/fusebox-go/fusebox"
)

func TestWatchOnAPipeListsAndThenTellsOfChanges(t *testing.T) {
	a, b := newAdmin(t), newAdmin(t, "stock")
	pay := a.breaker("pay", fusebox.Config{})
	f := follow(t, "watch", "--target", a.url, "--target", b.url)
	f.sees("NAME", "pay", "stock")
	f.connected(2)
	trip(t, pay, errors.New("down"))
	f.sees(a.url+"  20", "pay closed -> open: failure rate 1.00")
	f.over(0)
	if strings.Contains(f.out.String(), "\x1b") {
		t.Errorf("an escape sequence on a pipe: %q", f.out.String())
	}
	if n := strings.Count(f.out.String(), "closed -> open"); n != 1 {
		t.Errorf("told %d times: %s", n, f.out.String())
	}
}

func TestWatchListsAgainWhereEventsAreLost(t *testing.T) {
	first, second := newHandler(t, "of-the-first"), newHandler(t, "of-the-second")
	var now atomic.Pointer[admin]
	now.Store(first)
	url := served(t, func(w http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(w, r) })
	t.Cleanup(second.Close)
	f := follow(t, "watch", "--target", url)
	f.sees("of-the-first")
	f.connected(1)
	now.Store(second)
	first.Close()
	f.sees("of-the-second")
	f.over(0)
}

func TestWatchOfTargetsThatFail(t *testing.T) {
	a := newAdmin(t, "payments")
	f := follow(t, "watch", "--target", a.url, "--target", nobody(t))
	f.sees("payments")
	soon(t, "no word about the one that is down", func() bool { return strings.Contains(f.err.String(), "refused; again in ") })
	f.over(3)
	ctl(t, "watch", "--target", served(t, http.NotFound)).ended(1).complains("404")
	ctl(t, "watch", "-o", "json", "--target", a.url).ended(2).complains("events -o json")
	ctl(t, "watch", "--interval", "1ms", "--target", a.url).ended(2).complains("--interval is")
}

// terminal runs a command on a terminal, and returns what it has drawn so far.
func terminal(t *testing.T, columns, rows uint16, args ...string) (f *following, drawn *text) {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(tty, &pty.Winsize{Cols: columns, Rows: rows}); err != nil {
		t.Fatal(err)
	}
	drawn = new(text)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(drawn, master)
	}()
	t.Cleanup(func() {
		tty.Close()
		<-copied
		master.Close()
	})
	f = followOn(t, tty, args...)
	return f, drawn
}

func TestWatchOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	a := newAdmin(t, "stock", "users", "carts", "search")
	pay := a.breaker("payments", fusebox.Config{})
	f, drawn := terminal(t, 100, 8, "watch", "--interval", "100ms", "--target", a.url, "--target", nobody(t))
	see := func(texts ...string) {
		t.Helper()
		for _, s := range texts {
			soon(t, "not drawn: "+s, func() bool { return strings.Contains(drawn.String(), s) })
		}
	}
	see("\x1b[?1049h", "\x1b[?25l", "payments", "\x1b[32mclosed\x1b[0m", "refused", "more lines")
	trip(t, pay, errors.New("down"))
	see("\x1b[31mopen\x1b[0m")
	for _, frame := range strings.Split(drawn.String(), "\x1b[H")[1:] {
		if n := strings.Count(frame, "\n"); n > 7 {
			t.Errorf("a frame of %d lines on 8: %q", n+1, frame)
		}
	}
	f.over(3)
	see("\x1b[?7h\x1b[?25h\x1b[?1049l")
}

func TestColoursCanBeSwitchedOff(t *testing.T) {
	a := newAdmin(t, "payments")
	for _, c := range []struct{ term, noColor, want string }{
		{"xterm", "", "\x1b[32mclosed"},
		{"xterm", "1", " closed"},
		{"dumb", "", " closed"},
	} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.noColor)
		f, drawn := terminal(t, 100, 20, "ls", "--target", a.url)
		if code := f.end(); code != 0 {
			t.Fatal(code)
		}
		soon(t, "not drawn: "+c.want, func() bool { return strings.Contains(drawn.String(), c.want) })
		if c.want == " closed" && strings.Contains(drawn.String(), "\x1b") {
			t.Errorf("%+v: %q", c, drawn.String())
		}
	}
}

func TestSignalsAreAsBeforeAfterwards(t *testing.T) {
	ctx, stop := untilStopped(t.Context())
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGTERM) // or it would end the test
	defer signal.Stop(got)
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-got
	soon(t, "a signal does not end the context", func() bool { return ctx.Err() != nil })
	stop()
	if signal.Ignored(syscall.SIGPIPE) {
		t.Error("SIGPIPE is ignored")
	}
}
