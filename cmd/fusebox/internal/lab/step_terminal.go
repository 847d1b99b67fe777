package lab

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/scenario"
)

// walker goes through steps as somebody types.
type walker struct {
	steps []scenario.Step
	more  int // steps that were made and not kept
	in    io.Reader
	out   io.Writer

	at  int
	err error // of writing
}

const walkerHelp = `n or enter: next    b: back    r: run to the next change of state
e: run to the end   s N: to step N   q: quit
`

// walk shows the first step, and goes on as it is told until the input ends.
func (w *walker) walk() error {
	w.write("%s", walkerHelp)
	w.show()
	lines := bufio.NewScanner(w.in)
	for w.prompt(); w.err == nil && lines.Scan(); w.prompt() {
		command, number, _ := strings.Cut(strings.ToLower(strings.TrimSpace(lines.Text())), " ")
		switch command {
		case "", "n", "next":
			w.to(w.at + 1)
		case "b", "back":
			w.to(w.at - 1)
		case "r", "run":
			w.run()
		case "e", "end":
			for w.err == nil && w.at < len(w.steps)-1 {
				w.to(w.at + 1)
			}
		case "s", "step":
			n, err := strconv.Atoi(strings.TrimSpace(number))
			if err != nil || n < 1 || n > len(w.steps) {
				w.write("s %s: there are steps 1 to %d\n", number, len(w.steps))
				continue
			}
			w.to(n - 1)
		case "q", "quit":
			return w.err
		default:
			w.write("%s", walkerHelp)
		}
	}
	w.write("\n")
	if w.err != nil {
		return w.err
	}
	return lines.Err()
}

func (w *walker) prompt() { w.write("> ") }

func (w *walker) write(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.out, format, args...)
	}
}

// run goes on to the next step that changes the state.
func (w *walker) run() {
	next := w.at + 1
	for next < len(w.steps)-1 && !w.steps[next].Changed() && w.steps[next].Before.State == w.steps[next-1].After.State { // time changes it too
		next++
	}
	w.to(next)
}

// to shows a step, if there is such a one.
func (w *walker) to(step int) {
	switch {
	case step < 0:
		w.write("this is the first step\n")
	case step >= len(w.steps) && w.more > 0:
		w.write("this is the last step that was kept; %d more were made (see --steps)\n", w.more)
	case step >= len(w.steps):
		w.write("this is the last step\n")
	default:
		w.at = step
		w.show()
	}
}

func (w *walker) show() {
	s := w.steps[w.at]
	w.write("\nstep %d of %d, at %s, breaker %s\n", w.at+1, len(w.steps), seconds(s.At), s.Breaker)
	w.write("  call    %s\n  before  %s\n  rule    %s\n  after   %s\n", s.What, heldText(s.Before), s.Rule, heldText(s.After))
}
