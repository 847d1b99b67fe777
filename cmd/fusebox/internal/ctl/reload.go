package ctl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

// reloaded is the answer to a reload: what is different now.
type reloaded struct {
	Changed []string `json:"changed"`           // paths of settings
	Added   []string `json:"added,omitempty"`   // upstreams
	Removed []string `json:"removed,omitempty"` // upstreams
	Restart []string `json:"restart,omitempty"` // settings that hold only after a restart
}

// unloadable is the answer where the configuration is bad.
type unloadable struct {
	Errors []struct {
		Path    string `json:"path"`
		File    string `json:"file"`
		Line    int    `json:"line"`
		Column  int    `json:"column"`
		Origin  string `json:"origin"`
		Message string `json:"message"`
	} `json:"errors"`
}

func reloadCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:               "reload",
		Short:             "Make fusebox serve read its configuration again",
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: run(o, func(ctx context.Context, s *session, _ []string) error {
			results := each(s, func(t *target) []result[reloaded] { return []result[reloaded]{reload(ctx, s, t)} })
			return report(s, results, func(w io.Writer) {
				for _, r := range results {
					if r.Data != nil {
						r.Data.write(w, r.where())
					}
				}
			})
		}),
	}
}

func reload(ctx context.Context, s *session, t *target) result[reloaded] {
	data := new(reloaded)
	err := s.call(ctx, t, http.MethodPost, "-/reload", request{By: author()}, data)
	refused, bad := new(refusedError), new(unloadable)
	if errors.As(err, &refused) && refused.status == http.StatusUnprocessableEntity &&
		json.Unmarshal(refused.body, bad) == nil && len(bad.Errors) > 0 {
		refused.text = bad.text()
	}
	return newResult(t, "", data, err)
}

// text is everything that is wrong.
func (u *unloadable) text() string {
	var parts []string
	for _, e := range u.Errors {
		var part string
		if e.File != "" && e.Line > 0 {
			part = fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
		} else if from := cmp.Or(e.File, e.Origin); from != "" {
			part = from + ": "
		}
		if e.Path != "" {
			part += e.Path + " "
		}
		parts = append(parts, part+e.Message)
	}
	return "the configuration is as before: " + strings.Join(parts, "; ")
}

// reloadEvent is the data of an event "reload".
type reloadEvent struct {
	Cause   string   `json:"cause"`
	Success bool     `json:"success"`
	Changes string   `json:"changes"`
	Restart []string `json:"restart"`
	unloadable
}

// text is the event as a sentence.
func (r *reloadEvent) text() string {
	if !r.Success {
		return safe("reload failed (" + r.Cause + "): " + r.unloadable.text())
	}
	text := "configuration reloaded (" + r.Cause + "), changes: " + r.Changes
	if len(r.Restart) > 0 {
		text += "; holds only after a restart: " + strings.Join(r.Restart, ", ")
	}
	return safe(text)
}

func (r *reloaded) write(w io.Writer, where string) {
	lines := 0
	list := func(what string, names []string) {
		for _, name := range names {
			fmt.Fprintf(w, "%s: %s %s\n", where, what, safe(name))
			lines++
		}
	}
	list("changed", r.Changed)
	list("added", r.Added)
	list("removed", r.Removed)
	list("holds only after a restart:", r.Restart)
	if lines == 0 {
		fmt.Fprintf(w, "%s: nothing has changed\n", where)
	}
}
