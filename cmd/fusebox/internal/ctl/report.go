package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	file "github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/fuseboxadmin/page"
)

func reportCommand(o *options) *cobra.Command {
	var to string
	c := &cobra.Command{
		Use:   "report -o FILE",
		Short: "Write the operators' page of this moment to a file",
		Long: `Write the operators' page of this moment to a file, which needs no server and
can be attached to an incident. An old file is replaced once the new one is whole.
Of several targets each has a file of its own, with the target in its name.`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: run(o, func(ctx context.Context, s *session, _ []string) error {
			if to == "" {
				return misused("-o must name a file: fusebox ctl report -o incident.html")
			}
			files := fileNames(to, s.targets)
			results := each(s, func(t *target) []result[string] {
				name := files[t]
				return []result[string]{newResult(t, "", &name, file.WriteFile(name, func(w io.Writer) error {
					return page.Report(ctx, w, s.getter(t))
				}))}
			})
			for _, r := range results {
				if r.Data != nil {
					fmt.Fprintf(s.notes, "%s: written to %s\n", r.where(), safe(*r.Data))
				}
			}
			return failures(results)
		}),
	}
	// Here it is no format. A flag of a command hides that of the commands above.
	c.Flags().StringVarP(&to, "output", "o", "", "`file` to write (required)")
	return c
}

// getter asks a target for the parts of a report.
func (s *session) getter(t *target) page.Getter {
	return func(ctx context.Context, path string) ([]byte, error) {
		var answer json.RawMessage
		err := s.call(ctx, t, http.MethodGet, path, nil, &answer)
		if refused := new(refusedError); errors.As(err, &refused) && refused.status == http.StatusNotFound {
			return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		return answer, err
	}
}

// fileNames gives each target a file: that which was asked for, or several
// beside it.
func fileNames(to string, targets []*target) map[*target]string {
	names := map[*target]string{}
	taken := map[string]bool{}
	for i, t := range targets {
		name := to
		if len(targets) > 1 {
			end := filepath.Ext(to)
			start := strings.TrimSuffix(to, end)
			_, where, _ := strings.Cut(t.name, ":")
			name = start + "-" + asFileName(where) + end
			if taken[name] {
				name = start + "-" + asFileName(where) + "-" + strconv.Itoa(i+1) + end
			}
		}
		taken[name] = true
		names[t] = name
	}
	return names
}

// asFileName makes a word of letters and digits, with - and . between them.
func asFileName(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool {
		return r != '.' && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	})
	return strings.Join(words, "-")
}
