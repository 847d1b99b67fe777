package lab

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/theory"
)

// backoffOptions are the flags of the experiment.
type backoffOptions struct {
	trials     int
	every      time.Duration
	closeAfter int
	jitter     float64
	outages    []time.Duration
	flaky      float64
	flakyAfter time.Duration
}

func backoff() Experiment {
	var o backoffOptions
	return Experiment{
		Name:  "backoff",
		Title: "open periods, constant or doubling: what they spare a dependency, and how late they close",
		Long: `A dependency is down for a while. An open period decides how many probes it gets
meanwhile, and how long after its recovery the breaker closes. Each outage's length
is drawn from within ±10 %, or from within an open period if that is less, so that
nothing depends on where in a period it ends.`,
		Flags: func(f *pflag.FlagSet) {
			f.IntVar(&o.trials, "trials", 60, "runs for each row")
			f.DurationVar(&o.every, "every", 50*time.Millisecond, "time between calls")
			f.IntVar(&o.closeAfter, "close-after", 3, "probes that must succeed in a row")
			f.Float64Var(&o.jitter, "jitter", 0.2, "jitter, where there is some")
			f.DurationSliceVar(&o.outages, "outages", []time.Duration{
				3 * time.Second, 20 * time.Second, 90 * time.Second, 10 * time.Minute, 90 * time.Minute,
			}, "lengths of the outages")
			f.Float64Var(&o.flaky, "flaky", 0.7, "fraction of calls that succeed after the recovery in the flaky rows")
			f.DurationVar(&o.flakyAfter, "flaky-after", 90*time.Second, "length of the outage in the flaky rows")
		},
		Run: func(ctx context.Context, p *Params) (*report.Report, error) { return o.run(ctx, p) },
	}
}

func (o *backoffOptions) validate(p *Params) error {
	for _, e := range []error{
		p.Between("trials", o.trials, 10, 1_000_000),
		p.Positive("every", o.every),
		p.Between("close-after", o.closeAfter, 1, 1000),
		p.Positive("flaky-after", o.flakyAfter),
	} {
		if e != nil {
			return e
		}
	}
	if !(o.jitter > 0 && o.jitter < 1) {
		return p.Bad("jitter", o.jitter, "above 0 and below 1")
	}
	if !(o.flaky > 0 && o.flaky <= 1) {
		return p.Bad("flaky", o.flaky, "above 0 and at most 1")
	}
	for _, d := range append([]time.Duration{o.flakyAfter}, o.outages...) {
		if d < 10*o.every || d/o.every > 1_000_000 {
			return p.Bad("outages", d, fmt.Sprintf("from 10 to 1 000 000 times --every, %v", o.every))
		}
	}
	for _, b := range backoffs() {
		if b.from%o.every != 0 {
			return p.Bad("every", o.every, fmt.Sprintf("a part of %v, an open period", b.from))
		}
	}
	return nil
}

// growth is an open period and up to what it doubles.
type growth struct{ from, to time.Duration }

func (g growth) name() string {
	if g.from == g.to {
		return "constant " + g.from.String()
	}
	return fmt.Sprintf("%v to %v", g.from, g.to)
}

func backoffs() []growth {
	const s = time.Second
	byDefault, _ := defaultGrowth()
	return []growth{{s, s}, {5 * s, 5 * s}, {30 * s, 30 * s}, byDefault, {s, 30 * s}, {s, 60 * s}, {s, 300 * s}}
}

// defaultGrowth is that of a breaker by default, and its settings.
func defaultGrowth() (growth, fusebox.Config) {
	c := fusebox.New("", fusebox.Config{}).Config()
	return growth{c.OpenFor, c.OpenForMax}, c
}

// periods are the open periods in ticks.
func (g growth) periods(tick time.Duration) (ticks []float64) {
	for d := g.from; d < g.to; d *= 2 {
		ticks = append(ticks, float64(d)/float64(tick))
	}
	return append(ticks, float64(g.to)/float64(tick))
}

func (o *backoffOptions) run(ctx context.Context, p *Params) (*report.Report, error) {
	if err := o.validate(p); err != nil {
		return nil, err
	}
	r := p.Report()
	t := o.newTable(r, "outages", "After an outage the dependency answers every call")
	plot := report.Plot{Title: "From recovery to closed, mean", X: "outage, s", Y: "s", LogX: true, LogY: true}
	rows := len(backoffs()) * 2 * (len(o.outages) + 1)
	for i, g := range backoffs() {
		for k, jitter := range []float64{0, o.jitter} {
			line := report.Series{Name: g.name()}
			for j, outage := range o.outages {
				p.Progress((2*i+k)*len(o.outages)+j, rows)
				c := backoffCase{backoffOptions: o, growth: g, jitter: jitter, outage: outage, success: 1}
				lag, err := c.row(ctx, p, r, t)
				if err != nil {
					return nil, err
				}
				line.Points = append(line.Points, report.Point{X: outage.Seconds(), Y: lag})
			}
			if jitter > 0 {
				plot.Series = append(plot.Series, line)
			}
		}
	}
	r.Plot(plot)
	o.teach(t)

	flaky := o.newTable(r, "flaky", fmt.Sprintf("After an outage of %v it answers %.0f %% of calls", o.flakyAfter, 100*o.flaky))
	for i, g := range backoffs() {
		p.Progress(2*len(backoffs())*len(o.outages)+2*i, rows)
		c := backoffCase{backoffOptions: o, growth: g, jitter: o.jitter, outage: o.flakyAfter, success: o.flaky}
		if _, err := c.row(ctx, p, r, flaky); err != nil {
			return nil, err
		}
	}
	o.teachFlaky(flaky)
	return r, nil
}

func (o *backoffOptions) newTable(r *report.Report, name, title string) *report.Table {
	return r.Table(name, title,
		report.Column{Key: "period", Title: "open period"},
		report.Column{Key: "jitter", Title: "jitter", Kind: report.Share},
		report.Column{Key: "outage", Title: "outage", Kind: report.Duration},
		report.Column{Key: "failed", Title: "failed probes", Kind: report.Number, Decimals: 1},
		report.Column{Key: "failed_exact", Title: "exact failed probes", Kind: report.Number, Decimals: 1},
		report.Column{Key: "lag", Title: "recovery to closed, mean", Kind: report.Duration, Decimals: 2},
		report.Column{Key: "lag_exact", Title: "exact mean", Kind: report.Duration, Decimals: 2},
		report.Column{Key: "lag95", Title: "95th percentile", Kind: report.Duration, Decimals: 2},
		report.Column{Key: "lag95_exact", Title: "exact 95th percentile", Kind: report.Duration, Decimals: 2},
		report.Column{Key: "rejected", Title: "good calls rejected", Kind: report.Number, Decimals: 1},
		report.Column{Key: "distance", Title: "worst distance, standard errors", Kind: report.Number, Decimals: 1},
	)
}

func (o *backoffOptions) teach(t *report.Table) {
	longest := o.outages[len(o.outages)-1]
	row := func(t *report.Table, g growth) report.Row {
		return t.Row("period", g.name(), "jitter", o.jitter, "outage", longest)
	}
	gs := backoffs()
	short, long, growing, far := gs[0], gs[2], gs[3], gs[6]
	t.Teach(func(t *report.Table) bool {
		return row(t, growing).Number("lag_exact") < row(t, long).Number("lag_exact")/3 && row(t, growing).Number("failed_exact") < row(t, short).Number("failed_exact")/3 &&
			row(t, far).Number("lag_exact") > 20*row(t, growing).Number("lag_exact") && row(t, growing).Number("lag_exact") > row(t, short).Number("lag_exact") &&
			row(t, growing).Number("failed_exact") > row(t, far).Number("failed_exact")
	}, "In an outage of %s s a constant open period of %v sends %s probes and closes %s s after recovery on average, one that doubles from %v to %v sends %s and takes %s s, to %v it sends %s and takes %s s.",
		row(t, short).Text("outage"), short.to, row(t, short).Text("failed_exact"), row(t, short).Text("lag_exact"),
		growing.from, growing.to, row(t, growing).Text("failed_exact"), row(t, growing).Text("lag_exact"),
		far.to, row(t, far).Text("failed_exact"), row(t, far).Text("lag_exact"))
}

func (o *backoffOptions) teachFlaky(t *report.Table) {
	gs := backoffs()
	row := func(t *report.Table, g growth) report.Row { return t.Row("period", g.name()) }
	growing, far := gs[3], gs[5]
	t.Teach(func(t *report.Table) bool {
		return row(t, far).Number("lag_exact") > 5*row(t, growing).Number("lag_exact") && row(t, far).Number("lag95_exact") > 5*row(t, growing).Number("lag95_exact")
	}, "Growth goes on while recovery is half done: to %v it takes %s s on average and %s s or more for one breaker in twenty, to %v %s s and %s s.",
		growing.to, row(t, growing).Text("lag_exact"), row(t, growing).Text("lag95_exact"), far.to, row(t, far).Text("lag_exact"), row(t, far).Text("lag95_exact"))
}

// backoffCase is one row.
type backoffCase struct {
	*backoffOptions
	growth
	jitter  float64
	outage  time.Duration
	success float64 // after the recovery
}

// lengths are those an outage may have, in ticks, all equally likely: spread
// over the longest open period, so that the recovery comes anywhere in it, but no
// further than ±10 %.
func (c backoffCase) lengths() (ticks []int) {
	const parts = 9
	span := min(c.outage/5, c.to)
	for i := range parts {
		length := c.outage - span/2 + time.Duration(2*i+1)*span/(2*parts)
		ticks = append(ticks, int(length/c.every))
	}
	return ticks
}

// beyond is how many ticks after the recovery are looked at: enough for every
// breaker to close, but for a chance that no check would see.
func (c backoffCase) beyond() int {
	longest := int(c.to/c.every)*2 + 10*c.closeAfter
	if c.success < 1 {
		longest *= 12
	}
	return longest
}

// outcome is what theory says, over all lengths of the outage: the lag as a
// distribution from 0 at the recovery on, and the failed probes.
func (c backoffCase) outcome() theory.Outcome {
	lengths := c.lengths()
	mixed := theory.Outcome{Closed: make([]float64, c.beyond()+1)}
	var second float64 // moment of failures
	for _, length := range lengths {
		o := theory.Recovery{
			Periods: c.periods(c.every), Jitter: c.jitter, Close: c.closeAfter, Reopen: 1, Opened: true,
			Ticks: length + c.beyond(),
			Success: func(tick int) float64 {
				if tick < length {
					return 0
				}
				return c.success
			},
		}.Exact()
		share := 1 / float64(len(lengths))
		for tick, p := range o.Closed[length:] {
			mixed.Closed[tick] += float64(p * share)
		}
		mixed.Never += float64(o.Never * share)
		mixed.Failures.Mean += float64(o.Failures.Mean * share)
		second += float64((o.Failures.Variance + float64(o.Failures.Mean*o.Failures.Mean)) * share)
	}
	mixed.Failures.Variance = second - float64(mixed.Failures.Mean*mixed.Failures.Mean)
	return mixed
}

// row simulates one row, checks it and adds it. It returns the mean lag in
// seconds.
func (c backoffCase) row(ctx context.Context, p *Params, r *report.Report, t *report.Table) (float64, error) {
	s, err := c.sample(ctx, p, uint64(len(r.Checks)))
	if err != nil {
		return 0, err
	}
	exact := c.outcome()
	name := fmt.Sprintf("%s, jitter %v, outage %v, q = %v: ", c.name(), c.jitter, c.outage, c.success)
	lag := exact.Time()
	p95, _ := exact.Quantile(0.95)
	var mean mean
	for _, tick := range s.closed {
		mean.add(float64(min(tick, c.beyond())))
	}
	worst := max(
		math.Abs(s.failures.check(r, name+"failed probes", exact.Failures)),
		math.Abs(mean.check(r, name+"ticks from recovery to closed", lag)),
		math.Abs(s.check(r, name+"share closed by the exact 95th percentile", exact, p95)))
	at := func(ticks float64) time.Duration { return time.Duration(ticks * float64(c.every)) }
	t.Add(c.name(), c.jitter, c.outage, s.failures.value(), exact.Failures.Mean, at(mean.value()), at(lag.Mean),
		at(float64(s.quantile(0.95))), at(float64(p95)), s.rejected.value(), worst)
	return mean.value() * c.every.Seconds(), nil
}

// sample makes the walks; their ticks are counted from the recovery on.
func (c backoffCase) sample(ctx context.Context, p *Params, stream uint64) (s sample, err error) {
	rng := p.Rand(stream)
	lengths := c.lengths()
	config := fusebox.Config{
		OpenFor: c.from, OpenForMax: c.to, OpenJitter: c.jitter,
		Probes: 1, CloseAfter: c.closeAfter, Rand: rng.Float64,
	}
	if c.jitter == 0 {
		config.OpenJitter = -1
	}
	for range c.trials {
		length := lengths[rng.IntN(len(lengths))]
		w := walk{
			tick: c.every, openFor: c.from, ticks: length + c.beyond(), opened: true, recovery: length,
			success: func(tick int) bool { return tick >= length && rng.Float64() < c.success },
		}
		one, err := w.fusebox(ctx, config)
		if err != nil {
			return s, err
		}
		if one.closed >= 0 {
			one.closed -= length
		}
		s.add(one)
	}
	return s, nil
}
