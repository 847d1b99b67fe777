// Command faults puts proxies between a load and an upstream that fails on a
// schedule, and counts at both ends what each of them lets through and turns
// away. It also measures what a call costs fusebox, and its memory under load.
// The README beside it says what the figures mean.
//
// It exits with an error if something could not be measured, not if a goal is
// missed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	if isPlain(os.Args) {
		exit(servePlain(os.Args[2], os.Args[3], os.Args[4]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// result is all that was measured; a part that was not is nil.
type result struct {
	Go     string        `json:"go"`
	Arch   string        `json:"arch"`
	Cores  int           `json:"cores"`
	Scale  float64       `json:"scale"`
	Faults []faultResult `json:"faults,omitempty"`
	CPU    *cpuResult    `json:"cpu,omitempty"`
	Memory *memoryResult `json:"memory,omitempty"`
	Goals  []goal        `json:"goals,omitempty"`
}

func run(ctx context.Context) error {
	var o faultOptions
	var c cpuOptions
	flag.StringVar(&o.only, "only", "", "only these contenders, `names` with commas; a program stands for all its settings")
	flag.Float64Var(&o.scale, "scale", 1, "`factor` for the times of the schedule and of --memory")
	flag.IntVar(&o.runs, "runs", 5, "runs of each contender")
	flag.IntVar(&o.parallel, "parallel", 1, "contenders at a time, each with an upstream and a load of its own")
	cpu := flag.Bool("cpu", false, "measure the CPU time of a call, in place of the faults")
	memory := flag.Bool("memory", false, "measure memory under load, in place of the faults")
	all := flag.Bool("all", false, "measure faults, CPU and memory")
	flag.IntVar(&c.rounds, "rounds", 15, "rounds of --cpu")
	flag.DurationVar(&c.slice, "time", 2*time.Second, "how long each proxy is loaded in a round of --cpu")
	flag.IntVar(&c.connections, "connections", 16, "connections of --cpu")
	simulations := flag.Int("simulate", 0, "simulate the breaker alone on the schedule `n` times, at least 5, and measure nothing")
	binary := flag.String("fusebox", "", "`path` of the fusebox program; default: it is built")
	asJSON := flag.Bool("json", false, "print JSON with the figures of every run")
	write := flag.String("write", "", "write the tables into this `file` too, between its markers")
	flag.Parse()
	if *simulations >= 5 {
		_, err := os.Stdout.WriteString(simulate(*simulations))
		return err
	}
	if *simulations != 0 || o.scale < 0.01 || o.scale > 10 || min(o.runs, o.parallel, c.rounds, c.connections) < 1 || c.slice <= 0 || flag.NArg() > 0 {
		return errors.New("--scale is from 0.01 to 10, --simulate at least 5, the other numbers are positive, and there are no arguments")
	}
	faults := *all || !*cpu && !*memory
	progress := func(text string) { fmt.Fprintln(os.Stderr, text) }

	p := programs{fusebox: *binary}
	var err error
	if p.self, err = os.Executable(); err != nil {
		return err
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	needed := *all || *cpu || *memory
	for _, c := range chosen {
		needed = needed || c.program == fusebox
	}
	if needed && p.fusebox == "" {
		folder, err := os.MkdirTemp("", "faults-build-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(folder) }() // of the system's temporary files
		progress("building fusebox")
		if p.fusebox, err = buildFusebox(ctx, folder); err != nil {
			return err
		}
	}

	start := time.Now()
	r := result{Go: runtime.Version(), Arch: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Scale: o.scale}
	if *all || *cpu {
		measured, err := measureCPU(ctx, p, c, progress)
		if err != nil {
			return err
		}
		r.CPU = &measured
	}
	if *all || *memory {
		d := time.Duration(o.scale * float64(time.Minute))
		measured, err := measureMemory(ctx, p, max(d, 3*time.Second), progress)
		if err != nil {
			return err
		}
		r.Memory = &measured
	}
	if faults {
		if r.Faults, err = measureFaults(ctx, p, o, progress); err != nil {
			return err
		}
	}
	r.Goals = goals(r)

	var text strings.Builder
	r.markdown(&text, o.runs, time.Since(start))
	if *write != "" {
		if err := writeBetween(*write, text.String()); err != nil {
			return err
		}
	}
	if *asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err = os.Stdout.WriteString(text.String())
	return err
}
