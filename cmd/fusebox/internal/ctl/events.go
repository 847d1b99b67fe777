package ctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/tmaxmax/go-sse"

	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

func eventsCommand(o *options) *cobra.Command {
	var since uint64
	c := &cobra.Command{
		Use:   "events [NAME...]",
		Short: "Follow what happens to breakers",
		Long: `Follow what happens to breakers, until interrupted: a sentence for each event or,
with -o json, an object a line. A stream that breaks off is taken up again where it
was left; if events are lost, a line says so. In a NAME, * stands for any text.`,
		ValidArgsFunction: complete(o),
	}
	c.RunE = run(o, func(ctx context.Context, s *session, args []string) error {
		last := ""
		if c.Flags().Changed("since-id") {
			if len(s.targets) != 1 {
				return misused("--since-id is of one target, but there are %d: each numbers its events by itself", len(s.targets))
			}
			last = strconv.FormatUint(since, 10)
		}
		ctx, stop := untilStopped(ctx)
		defer stop()
		return s.follow(ctx, func(ctx context.Context, t *target, p *printer) error {
			f := follower{s: s, t: t, last: last, note: p.note(t)}
			f.handle = func(e sse.Event) error { return p.event(ctx, t, e, args) }
			return f.run(ctx)
		})
	})
	c.Flags().Uint64Var(&since, "since-id", 0, "begin after the event with this `id`")
	return c
}

// untilStopped ends a context when the program is told to end. Meanwhile a
// reader of the output that goes away is an error of writing, not the end of
// the process.
func untilStopped(ctx context.Context) (context.Context, func()) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return ctx, func() {
		signal.Stop(broken)
		stop()
	}
}

// printer takes lines of many goroutines to one writer.
type printer struct {
	s     *session
	lines chan line
}

type line struct {
	text []byte
	note bool // not a result
}

// follow follows all targets at a time, and prints what they make of it. That
// the output is closed, or the context ends, is no error.
func (s *session) follow(ctx context.Context, one func(ctx context.Context, t *target, p *printer) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &printer{s, make(chan line, 64)}
	results := make([]result[struct{}], len(s.targets))
	var wg sync.WaitGroup
	for i, t := range s.targets {
		wg.Go(func() {
			err := one(ctx, t, p)
			results[i] = newResult[struct{}](t, "", nil, err)
			if err != nil && len(s.targets) > 1 { // else it ends, and says so
				p.note(t)(err.Error())
			}
		})
	}
	go func() {
		wg.Wait()
		close(p.lines)
	}()
	var broken error
	for l := range p.lines {
		w := s.out
		if l.note {
			w = s.notes
		}
		if _, err := w.Write(l.text); err != nil && broken == nil {
			broken = err
			cancel() // and take the rest
		}
	}
	if broken != nil && !errors.Is(broken, syscall.EPIPE) && !errors.Is(broken, io.ErrClosedPipe) {
		return broken
	}
	return failures(results)
}

// print hands a line over. The context is that of who prints: a line is printed
// or, at the end, not handled.
func (p *printer) print(ctx context.Context, text []byte) error {
	select {
	case p.lines <- line{text: text}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note returns a function that tells how a target fares.
func (p *printer) note(t *target) func(string) {
	r := newResult[struct{}](t, "", nil, nil)
	return func(text string) { p.lines <- line{[]byte(r.where() + ": " + safe(text) + "\n"), true} }
}

// eventLine is an event as JSON.
type eventLine struct {
	Target string          `json:"target"`
	Via    string          `json:"via,omitempty"`
	ID     uint64          `json:"id"`
	Event  string          `json:"event"`
	Data   json.RawMessage `json:"data"`
}

// event prints an event, if it is of a breaker that was asked for, or of none.
func (p *printer) event(ctx context.Context, t *target, e sse.Event, only names) error {
	var about struct {
		Name *string `json:"name"`
	}
	if json.Unmarshal([]byte(e.Data), &about) == nil && about.Name != nil && !only.match(*about.Name) {
		return nil
	}
	var text bytes.Buffer
	if p.s.json {
		id, _ := strconv.ParseUint(e.LastEventID, 10, 64)
		data := json.RawMessage(e.Data)
		if !json.Valid(data) {
			data, _ = json.Marshal(e.Data) // as text: nothing is lost
		}
		if err := writeJSON(&text, eventLine{t.name, t.via, id, e.Type, data}, ""); err != nil {
			return err
		}
	} else {
		at, sentence := eventText(&p.s.style, e)
		if !at.IsZero() {
			sentence = p.s.style.stamp(at) + "  " + sentence
		}
		if len(p.s.targets) > 1 {
			sentence = safe(t.name) + "  " + sentence
		}
		fmt.Fprintln(&text, sentence)
	}
	return p.print(ctx, text.Bytes())
}

// eventText is an event as a sentence, and its time if it has one. What is not
// known is shown as it is.
func eventText(s *style, e sse.Event) (at time.Time, sentence string) {
	switch e.Type {
	case "transition":
		var t fuseboxadmin.Transition
		if json.Unmarshal([]byte(e.Data), &t) == nil {
			return t.At, safeName(t.Name) + " " + recordText(s, &t)
		}
	case "audit":
		var a fuseboxadmin.AuditRecord
		if json.Unmarshal([]byte(e.Data), &a) == nil {
			return a.At, auditText(&a)
		}
	case "reload":
		var r reloadEvent
		if json.Unmarshal([]byte(e.Data), &r) == nil && r.Cause != "" {
			return time.Time{}, r.text()
		}
	case "list":
		return time.Time{}, "breakers came or went; ls lists them"
	case "reset":
		return time.Time{}, "events are lost: the program began anew, or there were too many; ls shows how things are"
	}
	return time.Time{}, safe(e.Type + " " + e.Data)
}

// auditText says who did what.
func auditText(a *fuseboxadmin.AuditRecord) string {
	var b strings.Builder
	if a.Name != "" { // none: it is of the program, not of a breaker
		b.WriteString(safeName(a.Name) + " ")
	}
	switch {
	case a.Mode == "":
		b.WriteString(safe(a.Action))
	case a.TTL > 0:
		fmt.Fprintf(&b, "%s for %v", safe(a.Mode), a.TTL)
	default:
		b.WriteString(safe(a.Mode) + " until lifted")
	}
	if a.By != "" {
		b.WriteString(" by " + safe(a.By))
	}
	b.WriteString(" from " + safe(a.Remote))
	if a.Reason != "" {
		b.WriteString(": " + safe(a.Reason))
	}
	return b.String()
}
