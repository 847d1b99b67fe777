// Command ratios measures fusebox and its peers in one process, in turn, and
// prints the figures as Markdown tables with the goals they are held to.
//
// It exits with an error if something could not be measured, not if a goal is
// missed: other programs on the machine are part of every figure.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"time"

	"github.com/fusebox-go/fusebox/bench"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "ratios:", err)
		os.Exit(1)
	}
}

func run() error {
	rounds := flag.Int("rounds", 12, "rounds in turn; medians are of these")
	slice := flag.Duration("time", 60*time.Millisecond, "how long each contender runs in each round")
	only := flag.String("row", "", "measure only the rows whose name matches this regular `expression`")
	asJSON := flag.Bool("json", false, "print JSON with the figures of every round")
	flag.Parse()
	if *rounds < 1 || *slice <= 0 || flag.NArg() > 0 {
		return errors.New("-rounds and -time must be positive, and there are no arguments")
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return err
	}

	runtime.GOMAXPROCS(min(2, runtime.NumCPU())) // the rows are about one core and two
	var rows []bench.Row
	for _, r := range bench.Rows() {
		if match.MatchString(r.Name) {
			rows = append(rows, r)
		}
	}
	start := time.Now()
	results, err := bench.Measure(rows, *rounds, *slice, func(round int) {
		fmt.Fprintf(os.Stderr, "\rround %d of %d", round+1, *rounds)
	})
	fmt.Fprintln(os.Stderr)
	if err != nil {
		return err
	}
	var memory []bench.Memory
	if match.MatchString("memory") {
		memory = bench.MeasureMemory()
	}
	if *asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Go     string         `json:"go"`
			Arch   string         `json:"arch"`
			Cores  int            `json:"cores"`
			Rounds int            `json:"rounds"`
			Slice  string         `json:"slice"`
			Rows   []bench.Result `json:"rows"`
			Memory []bench.Memory `json:"memory,omitempty"`
		}{runtime.Version(), runtime.GOARCH, runtime.NumCPU(), *rounds, slice.String(), results, memory})
	}
	fmt.Printf(`# Measured ratios

%s %s/%s, %d cores; %d rounds in turn, each contender %v a round, all in one process of %v.
Nanoseconds are medians of the rounds. A ratio is taken within a round, where noise is shared, and the median of the
rounds is shown: it need not be the quotient of two medians. The floor is the clock reads that the settings need and
one uncontended atomic add.

`, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), *rounds, *slice, time.Since(start).Round(time.Second))
	return bench.WriteMarkdown(os.Stdout, results, memory)
}
