package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	defaultTarget  = "http://127.0.0.1:9901"
	defaultPort    = "9901"
	defaultTimeout = 5 * time.Second
	defaultTTL     = 15 * time.Minute
	maxToken       = 4096 // bytes
)

const (
	exitFailed = 1 // all of it
	exitUsage  = 2
	exitSome   = 3
)

// exitError is an error with the exit code that it asks for.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// ExitCode is the code with which the program should end.
func (e *exitError) ExitCode() int { return e.code }

// misused is an error in how a command was called.
func misused(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// options are the flags that all commands have.
type options struct {
	targets   []string
	tokenFile string
	timeout   time.Duration
	output    string
}

// Command returns "fusebox ctl" with its commands. It is good for one
// execution. Errors of its commands say with a method ExitCode() int how the
// program should end; whoever executes it prints them.
func Command() *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use:   "ctl",
		Short: "Look at the breakers of running programs, and override them",
		Long: `Look at the breakers of running programs, and override them.

A target is http://host:port, https://host:port, host:port, unix:/path/of/socket
or dns+http://name:port (every address of the name). Targets come from --target,
else from FUSEBOX_TARGET (a comma between them), else ` + defaultTarget + `.
Writes need the token of the program, from --token-file, else from FUSEBOX_TOKEN;
not over a unix socket.

Exit code: 0 done, 1 all failed, 2 wrong usage, 3 some failed.`,
		Args:                       cobra.ArbitraryArgs,
		SuggestionsMinimumDistance: 2,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			text := fmt.Sprintf("ctl has no command %q", args[0])
			if near := c.SuggestionsFor(args[0]); len(near) > 0 {
				text += "; is it " + strings.Join(near, " or ") + "?"
			}
			return misused("%s", text)
		},
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return misused("%w; see %s --help", err, c.CommandPath())
	})
	f := c.PersistentFlags()
	f.StringArrayVar(&o.targets, "target", nil, "`where` to ask; may be repeated (default $FUSEBOX_TARGET, "+defaultTarget+")")
	f.StringVar(&o.tokenFile, "token-file", "", "`file` with the token for writes (default the token in $FUSEBOX_TOKEN)")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "how long to wait for an answer")
	f.StringVarP(&o.output, "output", "o", "table", "`format`: table or json")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	c.AddCommand(lsCommand(o), getCommand(o), watchCommand(o), eventsCommand(o))
	for _, ch := range changes {
		c.AddCommand(changeCommand(o, ch))
	}
	c.AddCommand(reloadCommand(o), reportCommand(o))
	c.SilenceUsage = true
	for _, sub := range c.Commands() {
		sub.SilenceUsage = true // an error says itself what is wrong
	}
	return c
}

// session is one run of a command.
type session struct {
	out, notes io.Writer // notes: what is not the result
	targets    []*target
	token      string
	timeout    time.Duration
	json       bool
	style      style
}

// run makes the RunE of a command that works with a session.
func run(o *options, do func(ctx context.Context, s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		s, err := o.session(ctx, c.OutOrStdout(), c.ErrOrStderr())
		if err != nil {
			return err
		}
		defer s.close()
		return do(ctx, s, args)
	}
}

// session checks the flags, and finds the targets.
func (o *options) session(ctx context.Context, out, notes io.Writer) (*session, error) {
	if o.output != "table" && o.output != "json" {
		return nil, misused("--output is %q, must be table or json", o.output)
	}
	if o.timeout <= 0 {
		return nil, misused("--timeout is %v, must be above 0", o.timeout)
	}
	token, err := o.token()
	if err != nil {
		return nil, err
	}
	specs, err := o.specs()
	if err != nil {
		return nil, err
	}
	s := &session{out: out, notes: notes, token: token, timeout: o.timeout, json: o.output == "json", style: styleOf(out)}
	s.targets = resolve(ctx, specs, o.timeout)
	return s, nil
}

func (s *session) close() {
	for _, t := range s.targets {
		t.close()
	}
}

// specs are the targets that were asked for.
func (o *options) specs() (specs []spec, _ error) {
	list, from := o.targets, "--target"
	if len(list) == 0 {
		list, from = strings.Split(os.Getenv("FUSEBOX_TARGET"), ","), "FUSEBOX_TARGET"
	}
	var problems []error
	for _, text := range list {
		if text = strings.TrimSpace(text); text == "" && from == "FUSEBOX_TARGET" {
			continue
		}
		one, err := parseTarget(text)
		if err != nil {
			if at := strings.LastIndexByte(text, '@'); at >= 0 {
				text = "…" + text[at:] // before it may be a secret
			}
			problems = append(problems, fmt.Errorf("%s is %q, %w", from, text, err))
		}
		specs = append(specs, one)
	}
	if problems != nil {
		return nil, &exitError{exitUsage, errors.Join(problems...)}
	}
	if specs == nil {
		one, err := parseTarget(defaultTarget)
		return []spec{one}, err
	}
	return specs, nil
}

// token returns the token for writes, "" for none.
func (o *options) token() (string, error) {
	text, from := os.Getenv("FUSEBOX_TOKEN"), "FUSEBOX_TOKEN"
	if o.tokenFile != "" {
		from = "--token-file " + o.tokenFile
		file, err := os.Open(o.tokenFile)
		if err != nil {
			return "", misused("--token-file: %w", err)
		}
		defer func() { _ = file.Close() }()
		read, err := io.ReadAll(io.LimitReader(file, maxToken+1))
		if err != nil {
			return "", misused("--token-file: %w", err)
		}
		if text = string(read); strings.TrimSpace(text) == "" {
			return "", misused("%s: there is no token in it", from)
		}
	}
	text = strings.TrimSpace(text)
	if len(text) > maxToken {
		return "", misused("%s: the token must be at most %d bytes", from, maxToken)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", misused("%s: the token must be one word of printable ASCII", from)
	}
	return text, nil
}
