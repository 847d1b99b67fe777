package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
)

// Command returns `lab`, with a command for each experiment, one for all of them,
// and those that print what there is. What its errors say about the program's exit code they tell by a method
// ExitCode.
func Command() *cobra.Command {
	lab := &cobra.Command{
		Use:   "lab",
		Short: "Try what a setting does, against theory and against other breakers",
		Long: `Experiments with the breaker of this program, in a time that jumps: hours take
milliseconds. Each prints tables, what they teach, and whether the numbers are
what theory says; if they are not, the program ends with 1.

Begin with one of the examples. Every experiment has flags for its parameters;
--html writes a page with the plots besides, --plot the plots alone, --json is for
programs, and --markdown renews the tables of a document.`,
		Example: `  fusebox lab step                        one breaker, one step at a time
  fusebox lab recovery --help             what can be changed, and how
  fusebox lab recovery --plot closed.svg
  fusebox lab all --html report.html      every experiment, in a minute or so
  fusebox lab schema --example > mine.yaml
  fusebox lab run mine.yaml               your own scenario, with what it expects`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, e := range Experiments() {
		lab.AddCommand(e.command())
	}
	lab.AddCommand(allCommand(), listCommand(), scenariosCommand(), schemaCommand())
	return lab
}

// output is where and how a report is written.
type output struct {
	seed                 uint64
	json                 bool
	plot, html, markdown string
}

func (o *output) flags(f *pflag.FlagSet, plot bool) {
	f.Uint64Var(&o.seed, "seed", DefaultSeed, "what random numbers start from; the same seed gives the same output")
	f.BoolVar(&o.json, "json", false, "write JSON instead of tables")
	f.StringVar(&o.html, "html", "", "write a page with tables and plots to `FILE` as well")
	f.StringVar(&o.markdown, "markdown", "", "write the tables into `FILE` as well, a document in Markdown that has places for them")
	if plot {
		f.StringVar(&o.plot, "plot", "", "draw the plots to `FILE`, .svg or .png, as well")
	}
}

// check finds out what cannot work before anything takes time.
func (o *output) check() error {
	if o.plot != "" {
		if _, err := report.PlotFormat(o.plot); err != nil {
			return &UsageError{err.Error()}
		}
	}
	for _, file := range []struct{ flag, path string }{{"html", o.html}, {"plot", o.plot}} {
		if file.path == "" {
			continue
		}
		if _, err := os.Stat(filepath.Dir(file.path)); err != nil {
			return &UsageError{fmt.Sprintf("lab: --%s %s: %v", file.flag, file.path, err)}
		}
	}
	if o.markdown != "" {
		if _, err := os.Stat(o.markdown); err != nil {
			return &UsageError{fmt.Sprintf("lab: --markdown: %v", err)}
		}
	}
	return nil
}

// write writes the reports. The error is of a check that has failed, if writing
// has not.
func (o *output) write(w io.Writer, reports ...*report.Report) error {
	write := report.WriteText
	if o.json {
		write = report.WriteJSON
	}
	if err := write(w, reports...); err != nil {
		return err
	}
	if o.html != "" {
		err := report.WriteFile(o.html, func(w io.Writer) error { return report.WriteHTML(w, reports...) })
		if err != nil {
			return err
		}
	}
	if o.markdown != "" {
		if err := updateMarkdown(o.markdown, reports); err != nil {
			return err
		}
	}
	if o.plot != "" {
		if err := writePlots(o.plot, reports[0]); err != nil {
			return err
		}
	}
	return failure(reports)
}

// updateMarkdown writes the tables into a document, or nothing.
func updateMarkdown(path string, reports []*report.Report) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	updated, err := report.UpdateMarkdown(old, reports...)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return report.WriteFile(path, func(w io.Writer) error {
		_, err := w.Write(updated)
		return err
	})
}

func writePlots(path string, r *report.Report) error {
	format, err := report.PlotFormat(path)
	if err != nil {
		return err
	}
	if len(r.Plots) == 0 {
		return &UsageError{fmt.Sprintf("lab %s: --plot: this experiment draws nothing", r.Name)}
	}
	return report.WriteFile(path, func(w io.Writer) error { return report.WritePlots(w, format, r.Plots...) })
}

// FailedError says that checks of experiments have failed. The report is
// written all the same.
type FailedError struct{ text string }

// Error implements error.
func (e *FailedError) Error() string { return e.text }

// ExitCode returns what the program ends with.
func (e *FailedError) ExitCode() int { return 1 }

func failure(reports []*report.Report) error {
	for _, r := range reports {
		if failed := r.Failed(); len(failed) > 0 {
			return &FailedError{fmt.Sprintf("lab %s: %d of %d checks failed, the first one: %s", r.Name, len(failed), len(r.Checks), failed[0])}
		}
	}
	return nil
}

func (e Experiment) command() *cobra.Command {
	var o output
	c := &cobra.Command{Use: e.Name, Short: e.Title, Long: e.Long, Args: cobra.NoArgs}
	own := newParams(e, 0, nil).flags
	c.Flags().SortFlags = false
	c.Flags().AddFlagSet(own)
	o.flags(c.Flags(), true)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		p := &Params{Seed: o.seed, Args: args, experiment: e, flags: own, progress: newProgress(c.ErrOrStderr(), e.Name)}
		r, err := e.Run(c.Context(), p)
		if err != nil {
			return err
		}
		return o.write(c.OutOrStdout(), r)
	}
	if e.Setup != nil {
		e.Setup(c)
	}
	return c
}

func allCommand() *cobra.Command {
	var o output
	c := &cobra.Command{Use: "all", Short: "Run all experiments as they are by default", Args: cobra.NoArgs}
	o.flags(c.Flags(), false)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		reports, err := All(c.Context(), o.seed, c.ErrOrStderr())
		if err != nil {
			return err
		}
		return o.write(c.OutOrStdout(), reports...)
	}
	return c
}

// All runs all experiments with their default flags. Progress is written to w;
// nil: nowhere.
func All(ctx context.Context, seed uint64, w io.Writer) (reports []*report.Report, err error) {
	for _, e := range Experiments() {
		r, err := e.Run(ctx, newParams(e, seed, w))
		if err != nil {
			return nil, fmt.Errorf("lab %s: %w", e.Name, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the experiments", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, e := range Experiments() {
				if _, err := fmt.Fprintf(c.OutOrStdout(), "%-10s %s\n", e.Name, e.Title); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
