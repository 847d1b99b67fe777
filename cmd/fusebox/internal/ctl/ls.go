package ctl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

func lsCommand(o *options) *cobra.Command {
	var states []string
	c := &cobra.Command{
		Use:   "ls [NAME...]",
		Short: "List breakers, the most severe first",
		Long: `List breakers, the most severe first. In a NAME, * stands for any text.

CALLS, FAILED and SLOW are of the window; REJECTED counts since the program began.`,
		ValidArgsFunction: complete(o),
		RunE: run(o, func(ctx context.Context, s *session, args []string) error {
			query := url.Values{}
			for _, text := range states {
				if new(fusebox.State).UnmarshalText([]byte(text)) != nil {
					return misused("--state is %q, must be closed, half-open or open", text)
				}
				query.Add("state", text)
			}
			results := each(s, func(t *target) []result[fuseboxadmin.List] {
				return []result[fuseboxadmin.List]{list(ctx, s, t, query, args)}
			})
			return report(s, results, func(w io.Writer) {
				width, _ := s.style.size()
				for _, line := range listLines(s, results, width) {
					fmt.Fprintln(w, line)
				}
			})
		}),
	}
	c.Flags().StringSliceVar(&states, "state", nil, "only those in this `state`: open, half-open or closed; may be repeated")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]string{"open", "half-open", "closed"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// list asks a target for its breakers.
func list(ctx context.Context, s *session, t *target, query url.Values, only names) result[fuseboxadmin.List] {
	path := "api/breakers"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	r := fetch[fuseboxadmin.List](ctx, s, t, "", http.MethodGet, path, nil)
	if r.Data != nil {
		r.Data.Breakers = slices.DeleteFunc(r.Data.Breakers, func(b fuseboxadmin.Breaker) bool { return !only.match(b.Name) })
	}
	return r
}

// listed is a breaker of some target.
type listed struct {
	*fuseboxadmin.Breaker
	where string
	now   time.Time // at the target
}

// listLines are the breakers of all targets in one table, and what else there is to say.
func listLines(s *session, results []result[fuseboxadmin.List], width int) (lines []string) {
	var all []listed
	var remarks []string
	answers := 0
	for _, r := range results {
		if r.Data == nil {
			continue
		}
		answers++
		for i := range r.Data.Breakers {
			all = append(all, listed{&r.Data.Breakers[i], safe(r.Target), r.Data.Now})
		}
		for _, name := range r.Data.Hidden {
			remarks = append(remarks, fmt.Sprintf("%s has another breaker %s, which is not shown", r.where(), safeName(name)))
		}
	}
	slices.SortStableFunc(all, bySeverity)
	if len(all) > 0 {
		lines = breakerTable(all, len(s.targets) > 1).lines(&s.style, width)
	} else if answers > 0 {
		lines = []string{"no breakers"}
	}
	return append(lines, remarks...)
}

// bySeverity is the order in which each target lists, for the breakers of several.
func bySeverity(a, b listed) int {
	harmless := func(b *fuseboxadmin.Breaker) int {
		if b.State == fusebox.Closed && !b.Override || b.State != fusebox.Closed && b.Mode == fusebox.Shadow {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(b.State, a.State), // closed, half-open, open
		cmp.Compare(harmless(a.Breaker), harmless(b.Breaker)),
		cmp.Compare(a.Name, b.Name),
	)
}

func breakerTable(all []listed, targets bool) *table {
	t := &table{head: []column{
		{name: "NAME"},
		{name: "STATE"},
		{name: "SINCE", right: true},
		{name: "RETRY IN", right: true},
		{name: "CALLS", right: true},
		{name: "FAILED", right: true},
		{name: "SLOW", right: true},
		{name: "REJECTED", right: true},
		{name: "OVERRIDE", text: true},
		{name: "WHY", text: true},
	}}
	if targets {
		t.head = append([]column{{name: "TARGET"}}, t.head...)
	}
	for _, b := range all {
		failed, slow := nothing, nothing
		if b.Counts.Calls > 0 {
			failed, slow = percent(b.FailureRate), percent(b.SlowRate)
		}
		row := []cell{
			{text: safeName(b.Name)},
			{stateText(b.Breaker), stateColour(b.Breaker)},
			{text: cmp.Or(sinceText(b.Breaker, b.now), nothing)},
			{text: cmp.Or(retryText(b.Breaker, b.now), nothing)},
			{text: strconv.Itoa(b.Counts.Calls)},
			{text: failed},
			{text: slow},
			{text: strconv.FormatUint(b.Totals.RejectedOpen+b.Totals.RejectedProbing, 10)},
			{cmp.Or(overrideText(b.Breaker, b.now), nothing), yellow},
			{text: cmp.Or(whyText(b.Breaker), nothing)},
		}
		if targets {
			row = append([]cell{{text: b.where}}, row...)
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// stateText is the state, and the mode where that makes it harmless.
func stateText(b *fuseboxadmin.Breaker) string {
	text := b.State.String()
	if b.Mode == fusebox.Shadow || b.Mode == fusebox.Off {
		text += " (" + b.Mode.String() + ")"
	}
	return text
}

func stateColour(b *fuseboxadmin.Breaker) colour {
	switch {
	case b.State == fusebox.Closed:
		return green
	case b.State == fusebox.HalfOpen || b.Mode == fusebox.Shadow:
		return yellow
	}
	return red
}

// sinceText is how long the state has been so.
func sinceText(b *fuseboxadmin.Breaker, now time.Time) string {
	if b.Since.IsZero() {
		return ""
	}
	return span(now.Sub(b.Since))
}

// retryText is when the breaker lets a call through again.
func retryText(b *fuseboxadmin.Breaker, now time.Time) string {
	switch {
	case b.State == fusebox.HalfOpen:
		return "probing"
	case b.State != fusebox.Open:
		return ""
	case b.Until.IsZero():
		return "when lifted"
	}
	return span(b.Until.Sub(now))
}

// overrideText says which mode was set by hand, by whom, and how long it holds.
func overrideText(b *fuseboxadmin.Breaker, now time.Time) string {
	if !b.Override {
		return ""
	}
	text := b.Mode.String()
	if b.Note.By != "" {
		text += " by " + safe(b.Note.By)
	}
	if b.Note.Until.IsZero() {
		return text + ", until lifted"
	}
	return fmt.Sprintf("%s, %s left", text, span(b.Note.Until.Sub(now)))
}

// whyText is one sentence: why the state is what it is, or an override.
func whyText(b *fuseboxadmin.Breaker) string {
	var parts []string
	if b.Override && b.Note.Reason != "" {
		parts = append(parts, safe(b.Note.Reason))
	}
	if b.Last != nil && (!b.Override || b.Last.Cause != fusebox.CauseOverride) {
		parts = append(parts, safe(b.Last.Why))
	}
	return strings.Join(parts, "; ")
}
