// Package reload keeps a configuration up to date with its files while the
// program runs.
//
// A reload reads the file again, with the environment and flags of the start,
// checks it whole, and only then applies it. A bad file changes nothing; it is
// logged, and stays in [Status] until a good one comes. Reloads happen one at a
// time, on the goroutine of [Reloader.Run].
package reload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// Options say what is reloaded, and what becomes of it.
type Options struct {
	// Path is the configuration file; empty: there is none, and nothing is watched.
	Path string

	// Env and Flags are those of the start. Both beat the file.
	Env   []string
	Flags []config.Flag

	// Apply puts a configuration that has passed every check into effect. If it
	// returns an error it has changed nothing.
	Apply func(before, after *config.Config) error

	// Restart are the paths of settings that hold until a restart.
	Restart []string

	// Told, if not nil, is told of each reload that changed something or failed
	// otherwise than the one before.
	Told func(cause string, r Result)

	// Logger says what was reloaded, and what not; nil: slog.Default().
	Logger *slog.Logger
}

// Status is how things stand with the configuration.
type Status struct {
	Config   *config.Config // in effect, but for Restart
	LoadedAt time.Time      // when Config was last read and found good
	Err      error          // why the last attempt failed; nil: it did not
	FailedAt time.Time      // when it failed
	Restart  []string       // settings of Config that differ from those of the start and wait for a restart
}

// Result is what one reload did.
type Result struct {
	Changes config.Changes
	Restart []string // see [Status]
	Err     error    // why nothing changed: config.Errors, that of reading the file, or that of Apply
}

// ErrStopped is what a reload gets that comes when the program is ending.
var ErrStopped = errors.New("the program is ending, and does not reload")

var errOnce = errors.New("the configuration is no regular file, and cannot be read again")

// Reloader reloads one configuration. Its methods are safe for concurrent use.
type Reloader struct {
	o        Options
	started  *config.Config
	once     bool // the file was a pipe: it has been read, and cannot be again
	status   atomic.Pointer[Status]
	requests chan request
	stopped  chan struct{}
	interval time.Duration
}

type request struct {
	cause string
	reply chan Result // has room for one
}

// New returns a Reloader of a configuration that is in effect already.
func New(c *config.Config, o Options) *Reloader {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	r := &Reloader{o: o, started: c, requests: make(chan request), stopped: make(chan struct{}), interval: interval}
	if info, err := os.Stat(o.Path); err == nil && !info.Mode().IsRegular() {
		r.once = true
	}
	r.status.Store(&Status{Config: c, LoadedAt: time.Now()})
	return r
}

// Status returns how things stand.
func (r *Reloader) Status() Status { return *r.status.Load() }

// Reload reads the configuration again and waits for the result. The cause is
// for the log. The error of the result is that of the context if it ends first;
// the reload may happen nevertheless.
func (r *Reloader) Reload(ctx context.Context, cause string) Result {
	q := request{cause: cause, reply: make(chan Result, 1)}
	select {
	case r.requests <- q:
	case <-r.stopped:
		return Result{Err: ErrStopped}
	case <-ctx.Done():
		return Result{Err: ctx.Err()}
	}
	select {
	case result := <-q.reply:
		return result
	case <-ctx.Done():
		return Result{Err: ctx.Err()}
	}
}

// Run watches the files and does reloads until the context ends. It is called
// once.
func (r *Reloader) Run(ctx context.Context) {
	defer close(r.stopped)
	path := r.o.Path
	if r.once {
		path = ""
	}
	w := newWatch(path, r.interval, r.o.Logger)
	defer w.close()
	if path != "" { // it may have changed since it was read
		w.look(r.Status().Config)
		r.reload("start")
		w.keep(r.Status().Config)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-r.requests:
			w.look(r.Status().Config)
			q.reply <- r.reload(q.cause)
			w.keep(r.Status().Config)
		case <-w.events():
			w.event()
		case err := <-w.lost(): // something may have happened
			r.o.Logger.Debug("the file system", "error", err)
			w.event()
		case <-w.settled():
			r.check(w)
		case <-w.tick():
			r.check(w)
		}
	}
}

// check reloads if what the files hold has changed, or if they were bad: what
// they wait for may be there now.
func (r *Reloader) check(w *watch) {
	if w.look(r.Status().Config) || r.Status().Err != nil {
		r.reload("change of the file")
		w.keep(r.Status().Config)
	}
}

// reload does the whole of it.
func (r *Reloader) reload(cause string) Result {
	before := r.Status()
	var after *config.Config
	var changes config.Changes
	err := errOnce
	if !r.once {
		after, err = config.Load(r.o.Path, r.o.Env, r.o.Flags)
	}
	if err == nil {
		changes = config.Diff(before.Config, after)
		err = r.o.Apply(before.Config, after)
	}
	now := time.Now()
	if err != nil {
		failed := before
		failed.Err, failed.FailedAt = err, now
		r.status.Store(&failed)
		result := Result{Restart: before.Restart, Err: err}
		if before.Err == nil || before.Err.Error() != err.Error() {
			r.o.Logger.Error("reload failed, nothing has changed", "cause", cause, "error", err.Error())
			r.tell(cause, result)
		}
		return result
	}
	s := &Status{Config: after, LoadedAt: now, Restart: r.waiting(after)}
	r.status.Store(s)
	result := Result{Changes: changes, Restart: s.Restart}
	if changes.Empty() && before.Err == nil {
		r.o.Logger.Debug("configuration read again, nothing differs", "cause", cause)
		return result
	}
	r.o.Logger.Info("configuration reloaded", "cause", cause, "changes", Describe(changes))
	if len(s.Restart) > 0 && !slices.Equal(s.Restart, before.Restart) {
		r.o.Logger.Warn("these settings have changed and wait for a restart", "settings", strings.Join(s.Restart, ", "))
	}
	r.tell(cause, result)
	return result
}

func (r *Reloader) tell(cause string, result Result) {
	if r.o.Told != nil {
		r.o.Told(cause, result)
	}
}

// waiting returns the settings that differ from those of the start and hold
// until a restart. A list is one.
func (r *Reloader) waiting(c *config.Config) (paths []string) {
	for _, path := range config.Diff(r.started, c).Other {
		path, _, _ = strings.Cut(path, "[")
		if slices.Contains(r.o.Restart, path) && !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// Paths returns the paths of the settings that differ, sorted. What upstreams
// have that were added or removed is not among them.
func Paths(c config.Changes) []string {
	all := append([]string{}, c.Other...)
	for name, below := range c.Changed {
		for _, path := range below {
			all = append(all, "upstreams."+name+"."+path)
		}
	}
	slices.Sort(all)
	return all
}

// Describe returns what differs as a line for a log, which names ten things at most.
func Describe(c config.Changes) string {
	const most = 10
	var all []string
	for _, name := range c.Added {
		all = append(all, "+upstreams."+name)
	}
	for _, name := range c.Removed {
		all = append(all, "-upstreams."+name)
	}
	all = append(all, Paths(c)...)
	switch {
	case len(all) == 0:
		return "none"
	case len(all) > most:
		return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more", len(all)-most)
	}
	return strings.Join(all, ", ")
}
