package ctl

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

// change is a command that changes breakers.
type change struct {
	name, short string
	override    bool // sets the mode of that name; else the action of that name
}

var changes = []change{
	{"force-open", "Reject every call", true},
	{"force-closed", "Admit every call, and never trip", true},
	{"shadow", "Judge, but admit every call", true},
	{"enforce", "Judge, and reject", true},
	{"lift", "End an override", false},
	{"reset", "Close a breaker, with an empty window", false},
}

// request is the body of a change.
type request struct {
	Mode   string                `json:"mode,omitempty"`
	Reason string                `json:"reason"`
	By     string                `json:"by"`
	TTL    fuseboxadmin.Duration `json:"ttl,omitzero"`
}

func changeCommand(o *options, ch change) *cobra.Command {
	var body request
	ttl := defaultTTL
	c := &cobra.Command{
		Use:               ch.name + " NAME...",
		Short:             ch.short,
		Long:              ch.short + ". In a NAME, * stands for any text.",
		Args:              someNames,
		ValidArgsFunction: complete(o),
		RunE: run(o, func(ctx context.Context, s *session, args []string) error {
			if body.By == "" {
				body.By = author()
			}
			if strings.TrimSpace(body.Reason) == "" {
				return misused("--reason is missing: it stands in the records, for who comes next")
			}
			path := "/" + ch.name
			if ch.override {
				if ttl < 0 || ttl > 0 && ttl < time.Second {
					return misused("--ttl is %v, must be at least 1s, or 0: until lifted", ttl)
				}
				body.Mode, body.TTL, path = ch.name, fuseboxadmin.Duration(ttl), "/override"
			}
			results := perName(ctx, s, args, func(t *target, name string) result[fuseboxadmin.Breaker] {
				return fetch[fuseboxadmin.Breaker](ctx, s, t, name, http.MethodPost, fuseboxadmin.Path(name)+path, body)
			})
			return report(s, results, func(w io.Writer) {
				for _, r := range results {
					if r.Data != nil {
						fmt.Fprintf(w, "%s: %s: %s\n", r.where(), safeName(r.Data.Name), changedText(&s.style, r.Data))
					}
				}
			})
		}),
	}
	f := c.Flags()
	f.StringVar(&body.Reason, "reason", "", "`why` it is done; must be given")
	f.StringVar(&body.By, "by", "", "`who` does it (default user@host)")
	if ch.override {
		f.DurationVar(&ttl, "ttl", defaultTTL, "how long it holds; 0: until lifted")
	}
	return c
}

// author is who runs the program, as far as the machine knows.
func author() string {
	name := cmp.Or(os.Getenv("USER"), os.Getenv("USERNAME"))
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return cmp.Or(name, "somebody") + "@" + host
}

// changedText says how a breaker is after a change.
func changedText(s *style, b *fuseboxadmin.Breaker) string {
	text := s.paint(stateColour(b), stateText(b))
	switch {
	case !b.Override:
		return text + ", no override"
	case b.Note.Until.IsZero():
		return text + ", " + b.Mode.String() + " until lifted"
	}
	return text + ", " + b.Mode.String() + " until " + s.stamp(b.Note.Until)
}
