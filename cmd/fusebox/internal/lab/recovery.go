package lab

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/sony/gobreaker/v2"
	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/sim"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/theory"
)

// recoveryOptions are the flags of the experiment.
type recoveryOptions struct {
	trials      int
	every, open time.Duration
	limit       time.Duration // how long a trial lasts at most
}

func recovery() Experiment {
	var o recoveryOptions
	return Experiment{
		Name:      "recovery",
		Title:     "how long a breaker takes to close when a dependency answers only some calls",
		Gobreaker: true,
		Long: `A breaker's open period is over, and each call succeeds with the chance q. How
long until it is closed, when N successes in a row close it; and when half-open
is a race of N successes against M failures.`,
		Flags: func(f *pflag.FlagSet) {
			f.IntVar(&o.trials, "trials", 1000, "runs for each row")
			f.DurationVar(&o.every, "every", 50*time.Millisecond, "time between calls")
			f.DurationVar(&o.open, "open", time.Second, "open period, a multiple of --every")
			f.DurationVar(&o.limit, "cap", 10*time.Minute, "what is looked at of each run")
		},
		Run: func(ctx context.Context, p *Params) (*report.Report, error) { return o.run(ctx, p) },
	}
}

func (o *recoveryOptions) validate(p *Params) error {
	for _, e := range []error{
		p.Between("trials", o.trials, 10, 1_000_000),
		p.Positive("every", o.every),
		p.Positive("open", o.open),
		p.Positive("cap", o.limit),
	} {
		if e != nil {
			return e
		}
	}
	if o.open%o.every != 0 {
		return p.Bad("open", o.open, fmt.Sprintf("a multiple of --every, %v", o.every))
	}
	if ticks := o.limit / o.every; ticks < 1 || ticks > 1_000_000 {
		return p.Bad("cap", o.limit, fmt.Sprintf("from 1 to 1 000 000 times --every, %v", o.every))
	}
	return nil
}

func (o *recoveryOptions) run(ctx context.Context, p *Params) (*report.Report, error) {
	if err := o.validate(p); err != nil {
		return nil, err
	}
	r := p.Report()
	if err := o.runs(ctx, p, r); err != nil {
		return nil, err
	}
	if err := o.races(ctx, p, r); err != nil {
		return nil, err
	}
	return r, nil
}

const (
	runStream  = 1 << 32 // of random numbers, for each row
	raceStream = 2 << 32
)

// recoveryQs are the chances of success of the table of runs.
func recoveryQs() []float64 { return []float64{1, 0.9, 0.7, 0.5} }

func (o *recoveryOptions) runs(ctx context.Context, p *Params, r *report.Report) error {
	t := r.Table("runs", fmt.Sprintf("N successes in a row close, one failure reopens; what is not closed after %v counts as that", o.limit),
		report.Column{Key: "q", Title: "calls that succeed", Kind: report.Share},
		report.Column{Key: "n", Title: "N", Kind: report.Count},
		report.Column{Key: "median", Title: "median", Kind: report.Duration, Decimals: 2},
		report.Column{Key: "median_exact", Title: "exact median", Kind: report.Duration, Decimals: 2},
		report.Column{Key: "p90", Title: "90th percentile", Kind: report.Duration, Decimals: 2},
		report.Column{Key: "p90_exact", Title: "exact 90th percentile", Kind: report.Duration, Decimals: 2},
		report.Column{Key: "reopenings", Title: "reopenings", Kind: report.Number, Decimals: 1},
		report.Column{Key: "reopenings_exact", Title: "exact reopenings", Kind: report.Number, Decimals: 1},
		report.Column{Key: "reopenings_formula", Title: "1/qᴺ - 1, for ever", Kind: report.Number, Decimals: 1},
		report.Column{Key: "gobreaker", Title: "reopenings of gobreaker", Kind: report.Number, Decimals: 1},
		report.Column{Key: "distance", Title: "worst distance, standard errors", Kind: report.Number, Decimals: 1},
	)
	ns := []int{1, 3, 10}
	rows := len(ns) * len(recoveryQs())
	plot := report.Plot{Title: "Closed after the end of the open period, N in a row", X: "time, s", Y: "share closed", LogX: true}
	for i, q := range recoveryQs() {
		for j, n := range ns {
			p.Progress(i*len(ns)+j, rows+len(races()))
			c := recoveryCase{recoveryOptions: o, q: q, close: n, reopen: 1}
			exact := c.exact(o.open)
			ours, err := c.ours(ctx, p.Rand(runStream+uint64(len(t.Rows))).Float64)
			if err != nil {
				return err
			}
			theirs, err := c.theirs(ctx, p.Rand(runStream+uint64(rows+len(t.Rows))).Float64)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("q = %v, N = %d: ", q, n)
			worst := c.check(r, name, &ours, exact)
			worst = max(worst, math.Abs(theirs.reopenings.check(r, name+"reopenings of gobreaker", c.exact(o.open+o.every).Reopenings)))
			median, _ := exact.Quantile(0.5)
			p90, _ := exact.Quantile(0.9)
			t.Add(q, n, o.at(ours.quantile(0.5)), o.at(orNever(exact, median, 0.5)), o.at(ours.quantile(0.9)), o.at(orNever(exact, p90, 0.9)),
				ours.reopenings.value(), exact.Reopenings.Mean, theory.RunReopenings(q, n), theirs.reopenings.value(), worst)
			if q == 0.7 || q == 0.9 && n == 10 {
				plot.Series = append(plot.Series, o.curve(fmt.Sprintf("q %v %%, N %d", 100*q, n), exact))
			}
		}
	}
	r.Plot(plot)
	a, b := t.Row("q", 0.7, "n", 3), t.Row("q", 0.7, "n", 10)
	t.Teach(func(t *report.Table) bool {
		three, ten := t.Row("q", 0.7, "n", 3), t.Row("q", 0.7, "n", 10)
		return ten.Number("median_exact") > 10*three.Number("median_exact") && ten.Number("reopenings_exact") > 10*three.Number("reopenings_exact")
	}, "With %s %% of calls answered, %s successes in a row take %s s (median) and %s reopenings, %s in a row %s s and %s.",
		a.Text("q"), a.Text("n"), a.Text("median_exact"), a.Text("reopenings_exact"), b.Text("n"), b.Text("median_exact"), b.Text("reopenings_exact"))
	worst := t.Row("q", 0.5, "n", 10)
	t.Teach(func(t *report.Table) bool {
		row := t.Row("q", 0.5, "n", 10)
		return row.Number("median_exact") >= o.limit.Seconds() && row.Number("reopenings_exact") > 100
	}, "At %s %% most breakers that want %s are not closed after %v; on average a breaker has reopened %s times by then.", worst.Text("q"), worst.Text("n"), o.limit, worst.Text("reopenings_exact"))
	return nil
}

func orNever(exact theory.Outcome, tick int, p float64) int {
	if 1-exact.Never < p-1e-12 {
		return never
	}
	return tick
}

// at returns the time of a tick; never is the cap.
func (o *recoveryOptions) at(tick int) time.Duration {
	if tick == never {
		return o.limit
	}
	return time.Duration(tick) * o.every
}

// curve draws the distribution of the time to close.
func (o *recoveryOptions) curve(name string, exact theory.Outcome) report.Series {
	s := report.Series{Name: name, Style: report.Steps}
	sum, shown := 0.0, -1.0
	for tick, p := range exact.Closed {
		sum += p
		if tick > 0 && (sum > shown+0.005 || tick == len(exact.Closed)-1) {
			s.Points = append(s.Points, report.Point{X: o.at(tick).Seconds(), Y: sum})
			shown = sum
		}
	}
	return s
}

// recoveryCase is one row of a table.
type recoveryCase struct {
	*recoveryOptions
	q             float64
	close, reopen int
}

func (c recoveryCase) ticks() int { return int(c.limit / c.every) }

// exact is what theory says if the first call at or after open probes.
func (c recoveryCase) exact(open time.Duration) theory.Outcome {
	return theory.Recovery{
		Periods: []float64{float64(open / c.every)},
		Close:   c.close, Reopen: c.reopen, Ticks: c.ticks(),
		Success: func(int) float64 { return c.q },
	}.Exact()
}

// usually is what theory says with another open period.
func (c recoveryCase) usually(g growth, jitter float64) theory.Outcome {
	return theory.Recovery{
		Periods: g.periods(c.every), Jitter: jitter,
		Close: c.close, Reopen: c.reopen, Ticks: c.ticks(),
		Success: func(int) float64 { return c.q },
	}.Exact()
}

func (c recoveryCase) walk(draw func() float64) walk {
	return walk{
		tick: c.every, openFor: c.open, ticks: c.ticks(),
		success: func(int) bool { return draw() < c.q },
	}
}

func (c recoveryCase) ours(ctx context.Context, draw func() float64) (s sample, err error) {
	config := sim.Constant(fusebox.Config{OpenFor: c.open, Probes: 1, CloseAfter: c.close, ReopenAfter: c.reopen})
	for range c.trials {
		w, err := c.walk(draw).fusebox(ctx, config)
		if err != nil {
			return s, err
		}
		s.add(w)
	}
	return s, nil
}

// theirs makes the walks with gobreaker, whose open period ends with the first
// call after it, and not at it. The trials are one after another in one bubble.
func (c recoveryCase) theirs(ctx context.Context, draw func() float64) (s sample, err error) {
	settings := gobreaker.Settings{MaxRequests: uint32(c.close), Timeout: c.open, ReadyToTrip: sim.ConsecutiveRule(1)}
	w := c.walk(draw)
	w.openFor += c.every
	w.skip = int(c.open/c.every) - 1
	sim.Bubble(func(l *sim.Loop) {
		for range c.trials {
			var one walked
			if one, err = w.run(ctx, l, sim.Gobreaker(settings, nil)); err != nil {
				return
			}
			s.add(one)
		}
	})
	return s, err
}

// check compares a sample with theory: the share closed by the exact median,
// by the exact 90th percentile, and the mean of reopenings. It returns the worst
// distance.
func (c recoveryCase) check(r *report.Report, name string, s *sample, exact theory.Outcome) (worst float64) {
	for _, p := range []float64{0.5, 0.9} {
		tick, ok := exact.Quantile(p)
		if !ok {
			tick = c.ticks() // the share that closes at all
		}
		worst = max(worst, math.Abs(s.check(r, fmt.Sprintf("%sshare closed by the exact %v-quantile", name, p), exact, tick)))
	}
	return max(worst, math.Abs(s.reopenings.check(r, name+"reopenings", exact.Reopenings)))
}

// race is a pair of limits in half-open.
type race struct{ close, reopen int }

func races() []race { return []race{{3, 1}, {10, 1}, {3, 2}, {10, 3}, {10, 5}, {10, 10}} }

// soon is how long the table of races looks at a breaker: one that should stay
// open has plenty of chances to close in it.
const soon = time.Minute

func (o *recoveryOptions) races(ctx context.Context, p *Params, r *report.Report) error {
	short := *o
	short.limit = min(o.limit, soon)
	byDefault, usual := defaultGrowth()
	t := r.Table("races", fmt.Sprintf("N successes before M failures close, else it reopens for %v; looked at for %v", o.open, short.limit),
		report.Column{Key: "n", Title: "N", Kind: report.Count},
		report.Column{Key: "m", Title: "M", Kind: report.Count},
		report.Column{Key: "q", Title: "calls that succeed", Kind: report.Share},
		report.Column{Key: "won", Title: "half-open periods that close, exact", Kind: report.Share, Decimals: 2},
		report.Column{Key: "reopenings", Title: "reopenings", Kind: report.Number, Decimals: 1},
		report.Column{Key: "reopenings_exact", Title: "exact reopenings", Kind: report.Number, Decimals: 1},
		report.Column{Key: "reopenings_formula", Title: "closed form, for ever", Kind: report.Number, Decimals: 1},
		report.Column{Key: "median", Title: "median", Kind: report.Duration, Decimals: 2},
		report.Column{Key: "median_exact", Title: "exact median", Kind: report.Duration, Decimals: 2},
		report.Column{Key: "closed", Title: "closed by then", Kind: report.Share, Decimals: 1},
		report.Column{Key: "closed_exact", Title: "exact share closed", Kind: report.Share, Decimals: 1},
		report.Column{Key: "closed_default", Title: fmt.Sprintf("exact share closed, open %s ± %.0f %%", byDefault.name(), 100*usual.OpenJitter), Kind: report.Share, Decimals: 1},
		report.Column{Key: "probes", Title: "failed probes", Kind: report.Number, Decimals: 1},
		report.Column{Key: "probes_exact", Title: "exact failed probes", Kind: report.Number, Decimals: 1},
		report.Column{Key: "distance", Title: "worst distance, standard errors", Kind: report.Number, Decimals: 1},
	)
	for i, x := range races() {
		p.Progress(len(recoveryQs())*3+i, len(recoveryQs())*3+len(races()))
		for _, q := range []float64{0.9, 0.7, 0.3} {
			c := recoveryCase{recoveryOptions: &short, q: q, close: x.close, reopen: x.reopen}
			exact := c.exact(o.open)
			s, err := c.ours(ctx, p.Rand(raceStream+uint64(len(t.Rows))).Float64)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("q = %v, %d before %d: ", q, x.close, x.reopen)
			worst := c.check(r, name, &s, exact)
			worst = max(worst, math.Abs(s.check(r, name+"share closed", exact, c.ticks())),
				math.Abs(s.failures.check(r, name+"failed probes", exact.Failures)))
			median, _ := exact.Quantile(0.5)
			won := theory.RaceWon(q, x.close, x.reopen)
			t.Add(x.close, x.reopen, q, won, s.reopenings.value(), exact.Reopenings.Mean, 1/won-1, short.at(s.quantile(0.5)), short.at(orNever(exact, median, 0.5)),
				s.within(c.ticks()), exact.CDF(c.ticks()), c.usually(byDefault, usual.OpenJitter).CDF(c.ticks()),
				s.failures.value(), exact.Failures.Mean, worst)
		}
	}
	strict, fair := t.Row("n", 10, "m", 1, "q", 0.7), t.Row("n", 10, "m", 5, "q", 0.7)
	t.Teach(func(t *report.Table) bool {
		strict, fair := t.Row("n", 10, "m", 1, "q", 0.7), t.Row("n", 10, "m", 5, "q", 0.7)
		return fair.Number("reopenings_formula") < 1 && strict.Number("reopenings_formula") > 20
	}, "At %s %%, %s successes before %s failures need %s reopenings on average, %s before %s need %s.",
		fair.Text("q"), fair.Text("n"), fair.Text("m"), fair.Text("reopenings_formula"), strict.Text("n"), strict.Text("m"), strict.Text("reopenings_formula"))
	// The failed probes of two rows compare where both breakers stay open: one
	// that closes wrongly has few, and lets everything through.
	bad := func(t *report.Table, n, m int) report.Row { return t.Row("n", n, "m", m, "q", 0.3) }
	t.Teach(func(t *report.Table) bool {
		strict, fair := bad(t, 10, 1), bad(t, 10, 5)
		return strict.Number("closed_exact") < 20 && fair.Number("closed_exact") < 20 &&
			fair.Number("closed_exact") > 2*strict.Number("closed_exact") && fair.Number("probes_exact") > 2*strict.Number("probes_exact")
	}, "The price is paid where a breaker should stay open, at %s %%: 10 before %s closes wrongly in %s %% of runs instead of %s %%, and lets %s failed probes through instead of %s.",
		bad(t, 10, 5).Text("q"), bad(t, 10, 5).Text("m"), bad(t, 10, 5).Text("closed_exact"), bad(t, 10, 1).Text("closed_exact"), bad(t, 10, 5).Text("probes_exact"), bad(t, 10, 1).Text("probes_exact"))
	t.Teach(func(t *report.Table) bool {
		return bad(t, 3, 1).Number("closed_exact") > 4*bad(t, 10, 5).Number("closed_exact") && bad(t, 3, 2).Number("closed_exact") > bad(t, 3, 1).Number("closed_exact")
	}, "Three successes are soon had by luck: 3 before 1 closes wrongly in %s %%, 3 before 2 in %s %%.", bad(t, 3, 1).Text("closed_exact"), bad(t, 3, 2).Text("closed_exact"))
	t.Teach(func(t *report.Table) bool {
		luck, fair := bad(t, 3, 1), bad(t, 10, 5)
		return luck.Number("closed_default") < 0.7*luck.Number("closed_exact") && fair.Number("closed_default") < luck.Number("closed_default")/5
	}, "An open period that grows as by default makes such accidents rarer: %s %% and, of 10 before 5, %s %%.", bad(t, 3, 1).Text("closed_default"), bad(t, 10, 5).Text("closed_default"))
	return nil
}
