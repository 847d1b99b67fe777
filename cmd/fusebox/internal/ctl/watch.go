package ctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/tmaxmax/go-sse"

	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

func watchCommand(o *options) *cobra.Command {
	interval := time.Second
	c := &cobra.Command{
		Use:   "watch [NAME...]",
		Short: "List breakers again and again",
		Long: `List breakers again and again, until interrupted. In a NAME, * stands for any text.
Where the output is no terminal: list once, then a line for each change.`,
		ValidArgsFunction: complete(o),
		RunE: run(o, func(ctx context.Context, s *session, args []string) error {
			if s.json {
				return misused("watch has no -o json; events -o json prints what happens")
			}
			if interval < 100*time.Millisecond {
				return misused("--interval is %v, must be at least 100ms", interval)
			}
			ctx, stop := untilStopped(ctx)
			defer stop()
			if s.style.terminal == nil {
				return s.follow(ctx, func(ctx context.Context, t *target, p *printer) error { return watchLines(ctx, t, p, args) })
			}
			return s.watchScreen(ctx, interval, args)
		}),
	}
	c.Flags().DurationVar(&interval, "interval", interval, "how often to ask, on a terminal")
	return c
}

// errAgain ends a stream that has lost events: the breakers have to be listed again.
var errAgain = errors.New("events are lost")

// watchLines prints the breakers of a target, and then what happens to them.
func watchLines(ctx context.Context, t *target, p *printer, only names) error {
	f := follower{s: p.s, t: t, note: p.note(t)}
	f.handle = func(e sse.Event) error {
		switch e.Type {
		case "reset":
			return errAgain
		case "transition":
			return p.event(ctx, t, e, only)
		}
		return nil
	}
	var failed error
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
		case <-ctx.Done():
			return failed
		}
		r := list(ctx, p.s, t, nil, only)
		if ctx.Err() != nil {
			return failed
		}
		if r.Error != "" {
			if failed = errors.New(r.Error); r.Status != 0 && r.Status < 500 {
				return failed
			}
			f.note(r.Error + "; again in " + span(retryLimit/4))
			wait.Reset(retryLimit / 4)
			continue
		}
		failed = nil
		var text bytes.Buffer
		for _, line := range listLines(p.s, []result[fuseboxadmin.List]{r}, 0) {
			fmt.Fprintln(&text, line)
		}
		if err := p.print(ctx, text.Bytes()); err != nil {
			return nil
		}
		f.last = strconv.FormatUint(r.Data.LastEventID, 10)
		if err := f.run(ctx); !errors.Is(err, errAgain) {
			return err
		}
		wait.Reset(0)
	}
}

// screen is what is known for drawing.
type screen struct {
	results []result[fuseboxadmin.List]
	asked   []time.Time // when the last good answer of each came
}

// watchScreen draws the list on the whole terminal, each time one comes.
func (s *session) watchScreen(ctx context.Context, interval time.Duration, only names) error {
	const (
		enter = "\x1b[?1049h\x1b[?25l\x1b[?7l" // other screen, no cursor, no wrapping
		leave = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	)
	if _, err := s.out.Write([]byte(enter)); err != nil {
		return err
	}
	defer func() { _, _ = s.out.Write([]byte(leave)) }()

	type answer struct {
		of int
		result[fuseboxadmin.List]
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	answers := make(chan answer)
	for i, t := range s.targets {
		wg.Go(func() { // each at its own pace: one that is down holds up no other
			tick := time.NewTicker(interval)
			defer tick.Stop()
			for {
				a := answer{i, list(ctx, s, t, nil, only)}
				if ctx.Err() != nil {
					return // not the target's fault
				}
				select {
				case answers <- a:
				case <-ctx.Done():
					return
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	known := screen{make([]result[fuseboxadmin.List], len(s.targets)), make([]time.Time, len(s.targets))}
	for i, t := range s.targets {
		known.results[i] = result[fuseboxadmin.List]{Target: t.name, Via: t.via}
	}
	draw := time.NewTicker(min(interval, 250*time.Millisecond))
	defer draw.Stop()
	for fresh := false; ; {
		select {
		case <-ctx.Done():
			return failures(known.results)
		case a := <-answers:
			known.results[a.of], fresh = a.result, true
			if a.Error == "" {
				known.asked[a.of] = time.Now()
			}
		case <-draw.C:
			if !fresh {
				continue
			}
			fresh = false
			if _, err := s.out.Write(s.frame(&known)); errors.Is(err, syscall.EPIPE) {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
}

// frame is what a terminal has to be sent.
func (s *session) frame(known *screen) []byte {
	width, height := s.style.size()
	lines := []string{s.style.paint(bold, "fusebox ctl watch") + "  " + s.style.stamp(time.Now()), ""}
	for i, r := range known.results {
		if r.Error == "" {
			continue
		}
		text := r.where() + ": " + safe(r.Error)
		if at := known.asked[i]; !at.IsZero() {
			text += "; last answer " + s.style.clock(at)
		}
		lines = append(lines, s.style.paint(red, text))
	}
	lines = append(lines, listLines(s, known.results, width)...)
	if height > 1 && len(lines) > height {
		more := len(lines) - height + 1
		lines = append(lines[:height-1], "… and "+some(more, "more line"))
	}
	var b bytes.Buffer
	b.WriteString("\x1b[H")
	b.WriteString(strings.Join(lines, "\x1b[K\r\n"))
	b.WriteString("\x1b[K\x1b[J")
	return b.Bytes()
}
