package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// faultResult is one contender and its runs.
type faultResult struct {
	Name    string    `json:"name"`
	Title   string    `json:"title"`
	Version string    `json:"version,omitempty"`
	Skipped string    `json:"skipped,omitempty"` // why there are no runs
	Runs    []figures `json:"runs,omitempty"`
}

// faultOptions says what to measure.
type faultOptions struct {
	only     string
	scale    float64
	runs     int
	parallel int
}

// measureFaults runs each contender that is there so many times through the
// schedule, all of them once before any of them twice.
func measureFaults(ctx context.Context, p programs, o faultOptions, progress func(string)) ([]faultResult, error) {
	chosen, err := choose(o.only)
	if err != nil {
		return nil, err
	}
	s := newSchedule(o.scale)
	results := make([]faultResult, len(chosen))
	for i, c := range chosen {
		results[i] = faultResult{Name: c.Name, Title: c.Title, Runs: make([]figures, o.runs)}
		path, err := p.path(c.program)
		switch {
		case err == nil:
			results[i].Version = printVersion(ctx, c.program, path, c.version)
		case o.only != "":
			return nil, err // asked for by name
		default:
			results[i].Skipped, results[i].Runs = err.Error(), nil
		}
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	places := make(chan struct{}, o.parallel)
	var running sync.WaitGroup
	for run := range o.runs {
		for i, c := range chosen {
			if results[i].Skipped != "" {
				continue
			}
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				running.Wait()
				return nil, context.Cause(ctx)
			}
			progress(fmt.Sprintf("run %d of %d: %s", run+1, o.runs, c.Title))
			running.Go(func() {
				defer func() { <-places }()
				f, err := oneRun(ctx, p, c, s)
				if err != nil {
					cancel(err)
				}
				results[i].Runs[run] = f
			})
		}
	}
	running.Wait()
	return results, context.Cause(ctx)
}

// observation is what was seen of one run of one contender.
type observation struct {
	answers  []answer
	reached  []int32 // how often each call came to the upstream
	arrivals []int32 // calls that came to the upstream in each phase
	checks   int32
	used     usage // by the proxy; of RSS and Peak what stood at the end
}

// oneRun observes and judges. A run that the machine was too busy for is made
// again, up to twice: the load was late then, whatever the proxy did.
func oneRun(ctx context.Context, p programs, c contender, s schedule) (f figures, err error) {
	for repeats := range 3 {
		o, err := observe(ctx, p, c, s)
		if err != nil {
			return f, fmt.Errorf("%s: %w", c.Name, err)
		}
		f = judge(s, o)
		f.Repeats = repeats
		if !f.disturbed() {
			break
		}
	}
	return f, nil
}

// observe puts a contender between an upstream and a load of its own.
func observe(ctx context.Context, p programs, c contender, s schedule) (o observation, err error) {
	u, err := newUpstream(s)
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, u.Close()) }()
	between, err := p.start(ctx, c, u.urls)
	if err != nil {
		return o, err
	}
	defer between.stop()

	before, err := between.usage()
	if err != nil {
		return o, err
	}
	began := time.Now().Add(100 * time.Millisecond)
	u.start(began)
	if o.answers, err = openLoop(ctx, s, began, between.target); err != nil {
		return o, err
	}
	if o.used, err = between.usage(); err != nil {
		return o, err
	}
	o.used.CPU -= before.CPU
	o.reached, o.arrivals = u.counts()
	o.checks = u.checks.Load()
	return o, nil
}

// buildFusebox builds the program from the source beside this module and
// returns its path.
func buildFusebox(ctx context.Context, folder string) (string, error) {
	source, err := findSource()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "fusebox")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build in %s: %w\n%s", source, err, out)
	}
	return path, nil
}

// findSource looks for cmd/fusebox from the working folder upwards.
func findSource() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		source := filepath.Join(folder, "cmd", "fusebox")
		if _, err := os.Stat(filepath.Join(source, "go.mod")); err == nil {
			return source, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("no cmd/fusebox above the working folder: run this in the repository, or give --fusebox")
		}
		folder = parent
	}
}
