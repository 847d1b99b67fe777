// Package cli is the command line of the program.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/ctl"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/serve"
)

// The exit codes of the program. A command may have further ones: its error
// then has a method ExitCode() int.
const (
	Done   = 0
	Failed = 1 // at run time
	Usage  = 2 // wrong command line or configuration
)

// Main runs the command that the arguments name, without that of the program,
// and returns the exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	root := command()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	running := false
	each(root, func(c *cobra.Command) {
		if run := c.RunE; run != nil {
			c.RunE = func(c *cobra.Command, args []string) error {
				running = true
				return run(c, args)
			}
		}
	})
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return Done
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(stderr, "fusebox:", text)
	}
	var code interface{ ExitCode() int }
	switch {
	case errors.As(err, &code):
		return code.ExitCode()
	case !running: // cobra did not like the command line
		fmt.Fprintln(stderr, "fusebox: --help says how it is used")
		return Usage
	default:
		return Failed
	}
}

// each calls f for a command and all below it.
func each(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		each(sub, f)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "fusebox",
		Short:         "Circuit breakers for services in any language",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(serve.Command(), configCommand(), explainCommand(), ctl.Command(), lab.Command(), versionCommand())
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			b := serve.ThisBuild()
			line := "fusebox " + b.Version
			if b.Revision != "" {
				line += " (" + b.Revision + ")"
			}
			_, err := fmt.Fprintln(c.OutOrStdout(), line, b.Go)
			return err
		},
	}
}
