package ctl

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

func getCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:               "get NAME...",
		Short:             "Show breakers with their rules, last records and settings",
		Long:              "Show breakers with their rules, last records and settings. In a NAME, * stands for any text.",
		Args:              someNames,
		ValidArgsFunction: complete(o),
		RunE: run(o, func(ctx context.Context, s *session, args []string) error {
			results := perName(ctx, s, args, func(t *target, name string) result[fuseboxadmin.Detail] {
				return fetch[fuseboxadmin.Detail](ctx, s, t, name, http.MethodGet, fuseboxadmin.Path(name), nil)
			})
			return report(s, results, func(w io.Writer) {
				first := true
				for _, r := range results {
					if r.Data == nil {
						continue
					}
					if !first {
						fmt.Fprintln(w)
					}
					first = false
					sheet{w, &s.style, r.Data}.write(r.where())
				}
			})
		}),
	}
}

// sheet writes all there is to say about a breaker.
type sheet struct {
	w io.Writer
	*style
	d *fuseboxadmin.Detail
}

func (s sheet) write(where string) {
	d := s.d
	fmt.Fprintf(s.w, "%s at %s\n\n", s.paint(bold, safeName(d.Name)), where)
	s.line("state", s.state())
	if d.Last != nil {
		s.line("why", safe(d.Last.Why))
		s.line("last error", safe(d.Last.LastError))
	}
	if d.State != fusebox.Closed && d.Trip != nil && d.Trip.Generation != d.Last.Generation {
		s.line("tripped", fmt.Sprintf("%s (%s ago): %s", s.stamp(d.Trip.At), span(d.Now.Sub(d.Trip.At)), safe(d.Trip.Why)))
	}
	if d.PeriodNumber > 0 {
		s.line("open period", fmt.Sprintf("number %d in a row; the next one takes %s", d.PeriodNumber, span(time.Duration(d.NextPeriod))))
	}
	s.line("mode", d.Mode.String())
	if d.Override {
		text := overrideText(&d.Breaker, d.Now)
		if !d.Note.Until.IsZero() {
			text += " (until " + s.clock(d.Note.Until) + ")"
		}
		if d.Note.Reason != "" {
			text += ": " + safe(d.Note.Reason)
		}
		s.line("override", s.paint(yellow, text))
	}
	s.counts()
	s.rules()
	over := time.Duration(d.Config.Window)
	if d.Config.WindowCalls > 0 {
		over = 0
	}
	s.window("WINDOW", d.Window, over)
	if d.Trip != nil {
		s.window("WINDOW AT THE LAST TRIP, "+s.stamp(d.Trip.At), d.TripWindow, time.Duration(d.Trip.Window))
	}
	s.probes()
	s.records()
	s.settings()
}

// line writes a value with its name; nothing if there is none.
func (s sheet) line(name, text string) {
	if text != "" {
		fmt.Fprintf(s.w, "  %-13s %s\n", name, text)
	}
}

func (s sheet) heading(text string) { fmt.Fprintf(s.w, "\n%s\n", s.paint(bold, text)) }

// state is the state in a sentence: since when, and what comes next.
func (s sheet) state() string {
	d := s.d
	text := s.paint(stateColour(&d.Breaker), stateText(&d.Breaker))
	if !d.Since.IsZero() {
		text += fmt.Sprintf(" since %s (%s ago)", s.stamp(d.Since), span(d.Now.Sub(d.Since)))
	}
	switch {
	case d.State == fusebox.HalfOpen:
		text += fmt.Sprintf(", %s out, %d of %d passed, %d of %d failed", some(d.Outstanding, "probe"),
			d.Passed, d.Config.CloseAfter, d.Failed, d.Config.ReopenAfter)
	case d.State != fusebox.Open:
	case d.Until.IsZero():
		text += ", until lifted"
	default:
		text += fmt.Sprintf(", probes in %s (at %s)", span(d.Until.Sub(d.Now)), s.clock(d.Until))
	}
	return text
}

func (s sheet) counts() {
	c, t := s.d.Counts, s.d.Totals
	of := "window"
	if s.d.State == fusebox.HalfOpen {
		of = "probes so far"
	}
	s.line(of, fmt.Sprintf("%s, %s failed (%d), %s slow (%d), %s in a row", some(c.Calls, "call"),
		percent(s.d.FailureRate), c.Failures, percent(s.d.SlowRate), c.Slow, some(c.Consecutive, "failure")))
	s.line("in total", fmt.Sprintf("%s, %s, %d ignored, %d late, %d slow",
		total(t.Successes, "success", "successes"), total(t.Failures, "failure", "failures"), t.Ignored, t.Late, t.Slow))
	s.line("rejected", fmt.Sprintf("%d while open, %d while probing", t.RejectedOpen, t.RejectedProbing))
	if w := t.WouldReject; w != (fusebox.WouldReject{}) {
		s.line("would reject", fmt.Sprintf("%s, %s, %d ignored",
			total(w.Successes, "success", "successes"), total(w.Failures, "failure", "failures"), w.Ignored))
	}
	if p := t.Probes; p != (fusebox.ProbeTotals{}) {
		s.line("probes", fmt.Sprintf("%d succeeded, %d failed, %d ignored, %d expired", p.Succeeded, p.Failed, p.Ignored, p.Expired))
	}
	if t.Open > 0 {
		s.line("time open", span(time.Duration(t.Open)))
	}
}

func total(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatUint(n, 10) + " " + many
}

func (s sheet) rules() {
	heading := "RULES"
	if !s.d.Judged {
		heading += " (not judged now)"
	}
	s.heading(heading)
	for _, r := range s.d.Rules {
		s.line(safe(r.Cause.String()), ruleText(&r))
	}
	if len(s.d.Rules) == 0 {
		s.line("none", "this breaker only counts")
	}
}

// ruleText says how close a rule is to tripping.
func ruleText(r *fuseboxadmin.Rule) string {
	var text string
	switch r.Cause {
	case fusebox.CauseTripWhen:
		return "a function decides"
	case fusebox.CauseConsecutive:
		text = fmt.Sprintf("%.0f of %.0f", r.Value, r.Threshold)
	default:
		text = fmt.Sprintf("%s of %s", percent(r.Value), percent(r.Threshold))
	}
	what := "failure"
	if r.Cause == fusebox.CauseSlowRate {
		what = "slow call"
	}
	if r.CallsToTrip == 0 {
		text += ", no number of " + what + "s trips it"
	} else {
		text += ", trips after " + some(r.CallsToTrip, "more "+what)
	}
	if !r.Enough {
		text += fmt.Sprintf(" (needs %d calls in the window)", r.MinCalls)
	}
	return text
}

// window draws buckets, the oldest first. A span of 0 is a window of calls.
func (s sheet) window(heading string, buckets []fusebox.Bucket, over time.Duration) {
	most := 0
	for _, b := range buckets {
		most = max(most, b.Calls)
	}
	if most == 0 {
		return
	}
	s.heading(heading)
	t := &table{head: []column{
		{name: "  FROM", right: true}, {name: "CALLS", right: true}, {name: "FAILED", right: true}, {name: "SLOW", right: true}, {name: "", text: true},
	}}
	for i, b := range buckets {
		from := nothing
		if over > 0 {
			from = "-" + span(over*time.Duration(len(buckets)-i)/time.Duration(len(buckets)))
		}
		failed := bar(b.Failures, most)
		t.rows = append(t.rows, []cell{
			{text: from},
			{text: strconv.Itoa(b.Calls)},
			{text: strconv.Itoa(b.Failures)},
			{text: strconv.Itoa(b.Slow)},
			{text: strings.Repeat("x", failed) + strings.Repeat(".", bar(b.Calls, most)-failed)},
		})
	}
	for _, line := range t.lines(s.style, 0) {
		fmt.Fprintln(s.w, line)
	}
	fmt.Fprintln(s.w, "  x failed, . did not")
}

// bar is the length of a bar: 0 only for 0.
func bar(n, most int) int {
	const longest = 40
	return (n*longest + most - 1) / most
}

func (s sheet) probes() {
	if len(s.d.Probes) == 0 {
		return
	}
	s.heading("PROBES")
	for _, p := range s.d.Probes {
		text := p.Result.String()
		if p.Result == fusebox.ProbeOut {
			text = "out for " + span(time.Duration(p.Duration))
		} else {
			text += " after " + span(time.Duration(p.Duration))
		}
		if p.Slow {
			text += ", slow"
		}
		fmt.Fprintf(s.w, "  %s  %s\n", s.stamp(p.At), text)
	}
}

func (s sheet) records() {
	s.heading("RECORDS")
	if len(s.d.History) == 0 {
		fmt.Fprintln(s.w, "  none: nothing has happened")
	}
	for _, t := range s.d.History {
		fmt.Fprintf(s.w, "  %s  %s\n", s.stamp(t.At), recordText(s.style, &t))
	}
}

// recordText is a record as a sentence, without time and name.
func recordText(s *style, t *fuseboxadmin.Transition) string {
	to := t.To.String()
	if t.From == t.To {
		to = "still " + to
	} else {
		to = t.From.String() + " -> " + to
	}
	text := to + ": " + safe(t.Why)
	if t.Cause == fusebox.CauseOverride {
		if t.Note.Until.IsZero() {
			text += "; until lifted"
		} else {
			text += "; until " + s.clock(t.Note.Until)
		}
	} else if !t.Until.IsZero() {
		text += "; probes at " + s.clock(t.Until)
	}
	if t.LastError != "" {
		text += "; last error: " + safe(t.LastError)
	}
	return text
}

func (s sheet) settings() {
	s.heading("SETTINGS")
	c := &s.d.Config
	if c.WindowCalls > 0 {
		s.line("window", "the last "+some(c.WindowCalls, "call"))
	} else {
		s.line("window", fmt.Sprintf("%v in %s", c.Window, some(c.Buckets, "bucket")))
	}
	s.line("min calls", strconv.Itoa(c.MinCalls))
	s.line("failure rate", orOff(c.FailureRate, percent))
	slow := orOff(c.SlowAfter, fuseboxadmin.Duration.String)
	if c.SlowAfter != nil {
		slow = percent(c.SlowRate) + " of calls, slow from " + slow
	}
	s.line("slow rate", slow)
	s.line("consecutive", orOff(c.Consecutive, strconv.Itoa))
	open := c.OpenFor.String()
	if c.OpenForMax != c.OpenFor {
		open += fmt.Sprintf(", doubling to %v", c.OpenForMax)
	}
	if c.OpenJitter != nil {
		open += ", jitter " + percent(*c.OpenJitter)
	}
	s.line("open for", open)
	s.line("probes", fmt.Sprintf("%d at a time, %v each; %d close, %d reopen", c.Probes, c.ProbeTimeout, c.CloseAfter, c.ReopenAfter))
	s.line("stable after", orOff(c.StableAfter, fuseboxadmin.Duration.String))
	s.line("mode", c.Mode.String())
	var functions []string
	if c.TripWhen {
		functions = append(functions, "decides when to trip")
	}
	if c.Classify {
		functions = append(functions, "classifies outcomes")
	}
	if functions != nil {
		s.line("a function", strings.Join(functions, "; another "))
	}
}

func orOff[T any](v *T, text func(T) string) string {
	if v == nil {
		return "off"
	}
	return text(*v)
}
