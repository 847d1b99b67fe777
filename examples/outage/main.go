// Command outage shows a breaker open and recover, in real time: a simulated
// dependency breaks after two seconds and heals after five, while it is called
// twenty times a second through a breaker with the default settings.
//
//	go run ./examples/outage
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

const (
	breaks = 2 * time.Second
	heals  = 5 * time.Second
	ends   = 8 * time.Second
	every  = 50 * time.Millisecond
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run(ctx, os.Stdout, isTerminal(os.Stdout))
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// run calls the dependency until the show is over or ctx is done.
func run(ctx context.Context, w io.Writer, live bool) {
	screen := &screen{w: w, live: live, colour: live && os.Getenv("NO_COLOR") == ""}
	screen.print("A call every %v through a breaker with the default settings.\nThe dependency breaks at %v and heals at %v.\n\n", every, breaks, heals)
	screen.print("  %s answered   %s failed   %s rejected by the breaker, not sent\n\n", screen.mark(answered), screen.mark(failed), screen.mark(rejected))

	breaker := fusebox.New("payments", fusebox.Config{})
	payments := &fuseboxtest.Dependency{
		Latency: 5 * time.Millisecond,
		Err:     errors.New("connection refused"),
		Outages: []fuseboxtest.Outage{{From: breaks, To: heals}},
	}
	start := payments.Start()
	breaker.Observe(fusebox.Observer{Transition: func(t fusebox.Transition) {
		screen.record(t.At.Sub(start), t)
	}})

	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for time.Since(start) < ends && ctx.Err() == nil {
		err := breaker.Do(ctx, payments.Call)
		if ctx.Err() != nil {
			break
		}
		screen.call(time.Since(start), breaker.State(), err)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	screen.endRow()
	if ctx.Err() != nil {
		screen.print("\nInterrupted.")
	}
	summarize(screen, breaker, start)
}

func summarize(s *screen, b *fusebox.Breaker, start time.Time) {
	t := b.Snapshot().Totals
	rejections := t.RejectedOpen + t.RejectedProbing
	s.print("\n%d calls: %d answered, %d failed, %d rejected at once instead of sent to a dependency that could not answer.\n",
		t.Successes+t.Failures+rejections, t.Successes, t.Failures, rejections)
	report := fuseboxtest.Report{Start: start, Transitions: b.History()}
	if d, ok := report.Until(fusebox.Open, breaks); ok {
		s.print("The breaker opened %v after the dependency broke", round(d))
		if d, ok = report.Until(fusebox.Closed, heals); ok {
			s.print(", and closed %v after it healed", round(d))
		}
		s.print(".\n")
	}
	s.print("The breaker is %v.\n", b.State())
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// result is what became of a call.
type result int

const (
	answered result = iota
	failed
	rejected
)

// screen shows a row of marks for every second. On a terminal the row grows
// with every call; elsewhere it is written when it is complete.
type screen struct {
	w      io.Writer
	live   bool
	colour bool

	row   []result
	at    time.Duration // start of the row
	state fusebox.State
}

func (s *screen) print(format string, args ...any) { _, _ = fmt.Fprintf(s.w, format, args...) }

func (s *screen) call(at time.Duration, state fusebox.State, err error) {
	if second := at.Truncate(time.Second); second != s.at {
		s.endRow()
		s.at = second
	}
	r := answered
	if errors.Is(err, fusebox.ErrOpen) {
		r = rejected
	} else if err != nil {
		r = failed
	}
	s.row, s.state = append(s.row, r), state
	if s.live {
		s.print("\r\x1b[K%s", s.line())
	}
}

func (s *screen) record(at time.Duration, t fusebox.Transition) {
	if s.live {
		s.print("\r\x1b[K")
	}
	s.print("       %5.2fs %v → %s: %s\n", at.Seconds(), t.From, s.paint(stateColours[t.To], t.To.String()), t.Why())
	if s.live {
		s.print("%s", s.line())
	}
}

func (s *screen) endRow() {
	if len(s.row) == 0 {
		return
	}
	if s.live {
		s.print("\r\x1b[K")
	}
	s.print("%s\n", s.line())
	s.row = s.row[:0]
}

func (s *screen) line() string {
	var line strings.Builder
	fmt.Fprintf(&line, "%4v  ", s.at)
	for _, r := range s.row {
		line.WriteString(s.mark(r))
	}
	line.WriteString(strings.Repeat(" ", max(int(time.Second/every)-len(s.row), 0)))
	fmt.Fprintf(&line, "  %s", s.paint(stateColours[s.state], s.state.String()))
	return line.String()
}

const (
	red    = "31"
	green  = "32"
	yellow = "33"
)

var stateColours = map[fusebox.State]string{fusebox.Closed: green, fusebox.HalfOpen: yellow, fusebox.Open: red}

func (s *screen) mark(r result) string {
	switch r {
	case answered:
		return s.paint(green, ".")
	case failed:
		return s.paint(red, "x")
	default:
		return s.paint(yellow, "-")
	}
}

func (s *screen) paint(colour, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
