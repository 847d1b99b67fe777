package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/demo"
)

// usageError is a wrong command line or configuration.
type usageError struct{ err error }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func (e *usageError) Error() string {
	var all config.Errors
	if !errors.As(e.err, &all) {
		return e.err.Error()
	}
	if len(all) == 1 {
		return "the configuration has an error\n" + e.err.Error()
	}
	return fmt.Sprintf("the configuration has %d errors\n%v", len(all), e.err)
}

func (e *usageError) Unwrap() error { return e.err }

// ExitCode returns that of the program.
func (*usageError) ExitCode() int { return 2 }

// Command returns the command "serve".
func Command() *cobra.Command {
	var s Source
	var pace float64
	c := &cobra.Command{
		Use:   "serve",
		Short: "Guard upstreams: a proxy with circuit breakers",
		Long: `Serve stands between clients and the services they call, and guards each with a
circuit breaker. Without a file and an upstream it shows itself, with a
dependency of its own that misbehaves.

SIGTERM and SIGINT end it in order, a second one at once. SIGHUP reads the
configuration again, and opens the access log anew; a change of the file is
noticed by itself.`,
		Example: `  fusebox serve
  fusebox serve --upstream http://localhost:9000 --listen :8080
  fusebox serve -c fusebox.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags, err := s.Flags()
			if err != nil {
				return err
			}
			o := options{file: s.File(), env: os.Environ(), flags: flags, stderr: cmd.ErrOrStderr()}
			if !s.Empty() {
				return run(o)
			}
			if !(pace > 0 && pace <= 100) {
				return usagef("--demo-pace is %v, must be above 0 and at most 100", pace)
			}
			return runDemo(cmd, &s, o, pace)
		},
	}
	s.AddFlags(c.Flags())
	c.Flags().Float64Var(&pace, "demo-pace", 1, "how many times as fast the demonstration goes")
	_ = c.Flags().MarkHidden("demo-pace") // it exists
	return c
}

// runDemo runs the program as a demonstration: the dependency and its clients
// are on this machine, and so is everything that listens, unless a flag says
// otherwise.
func runDemo(cmd *cobra.Command, s *Source, o options, pace float64) error {
	d, err := demo.New(cmd.Context(), pace)
	if err != nil {
		return err
	}
	defer d.Close()
	for _, flag := range d.Flags() {
		if !s.given(flag.Path) {
			o.flags = append(o.flags, flag)
		}
	}
	o.anyPort = map[string]bool{"listen": !s.given("listen"), "admin.listen": !s.given("admin.listen")}
	o.started = func(ctx context.Context, proxy, admin net.Addr) {
		d.Run(ctx, cmd.OutOrStdout(), proxy, admin)
	}
	return run(o)
}
