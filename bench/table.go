package bench

import (
	"fmt"
	"io"
	"strings"
)

// WriteMarkdown writes results as Markdown: a table a row, then the goals.
func WriteMarkdown(w io.Writer, results []Result, memory []Memory) error {
	var b strings.Builder
	for _, r := range results {
		r.markdown(&b)
	}
	if len(memory) > 0 {
		b.WriteString("## Memory of an idle breaker\n\n")
		b.WriteString("| | breakers | bytes each | goroutines each | goal | note |\n| --- | ---: | ---: | ---: | --- | --- |\n")
		for _, m := range memory {
			goal := ""
			if m.Limit > 0 {
				goal = fmt.Sprintf("≤ %g bytes, no goroutine: %s", m.Limit, verdict(m.Met))
			}
			fmt.Fprintf(&b, "| %s | %d | %.0f | %.3g | %s | %s |\n", m.Name, m.Breakers, m.Bytes, m.Goroutines, goal, m.Note)
		}
		b.WriteString("\n")
	}
	b.WriteString("## Goals\n\n| row | goal | measured | quartiles of the rounds | |\n| --- | --- | ---: | --- | --- |\n")
	for _, r := range results {
		for _, j := range r.Goals {
			fmt.Fprintf(&b, "| %s | %s | %.2f | %.2f to %.2f | %s |\n", r.Name, j.Goal, j.Value, j.Low, j.High, verdict(j.Met))
		}
	}
	for _, m := range memory {
		if m.Limit > 0 {
			fmt.Fprintf(&b, "| memory | idle breaker, settings shared ≤ %g bytes, no goroutine | %.0f | | %s |\n", m.Limit, m.Bytes, verdict(m.Met))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

func (r *Result) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "## %s\n\n", r.Title)
	if r.Note != "" {
		fmt.Fprintf(b, "%s\n\n", r.Note)
	}
	b.WriteString("| | ns/call | allocs | × floor | × gobreaker | goal | note |\n| --- | ---: | ---: | ---: | ---: | --- | --- |\n")
	for _, l := range r.Lines {
		var goals []string
		for _, j := range r.Goals {
			if j.Of == l.Name {
				goals = append(goals, fmt.Sprintf("%s: %.2f, %s", j.Short, j.Value, verdict(j.Met)))
			}
		}
		allocs := fmt.Sprintf("%.1f", l.Allocs)
		if l.chunked {
			allocs = ""
		}
		fmt.Fprintf(b, "| %s | %.1f | %s | %s | %s | %s | %s |\n", l.Name, l.Nanoseconds, allocs,
			ratio(l.OverFloor), ratio(l.OverGobreaker), strings.Join(goals, "; "), l.Note)
	}
	b.WriteString("\n")
}

func ratio(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", v)
}
