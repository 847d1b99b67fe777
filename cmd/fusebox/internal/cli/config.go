package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/serve"
)

func configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration, or show it",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(checkCommand(), printCommand(), schemaCommand())
	return c
}

func checkCommand() *cobra.Command {
	var s serve.Source
	c := &cobra.Command{
		Use:   "check",
		Short: "Check a configuration, and say all that is wrong with it",
		Long: `Check reads a configuration as serve does, starts nothing, and says all that is
wrong with it. The exit code is 2 if something is.`,
		Example: "  fusebox config check -c fusebox.yaml",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := s.Load()
			if err != nil {
				return err
			}
			for _, w := range loaded.Warnings {
				fmt.Fprintln(c.ErrOrStderr(), "warning:", w)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "good: %s, %s\n", plural(len(loaded.Upstreams), "upstream"), plural(len(loaded.Routes), "route"))
			return err
		},
	}
	s.AddFlags(c.Flags())
	return c
}

func printCommand() *cobra.Command {
	var s serve.Source
	var effective bool
	c := &cobra.Command{
		Use:   "print",
		Short: "Print a configuration, with where each value comes from",
		Long: `Print shows what a configuration sets, by the path of each setting, and where it
comes from. With --effective it writes all that is in effect, the defaults too,
as a file. Secrets are not shown.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := s.Load()
			if err != nil {
				return err
			}
			if effective {
				return loaded.Print(c.OutOrStdout())
			}
			return printSet(c.OutOrStdout(), loaded)
		},
	}
	s.AddFlags(c.Flags())
	c.Flags().BoolVar(&effective, "effective", false, "the defaults too, as a file")
	return c
}

// printSet writes the values that are not defaults.
func printSet(w io.Writer, c *config.Config) error {
	for _, e := range c.Effective() {
		if e.Origin.Kind == config.FromDefault {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %s  # %v\n", e.Path, e.Value, e.Origin); err != nil {
			return err
		}
	}
	return nil
}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the file, for editors",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := io.WriteString(c.OutOrStdout(), config.Schema())
			return err
		},
	}
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if strings.HasSuffix(thing, "s") {
		thing += "e"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
