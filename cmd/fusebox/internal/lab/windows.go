package lab

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sony/gobreaker/v2"
	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/sim"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/theory"
)

// windowsOptions are the flags of the experiment.
type windowsOptions struct {
	every    time.Duration
	window   time.Duration
	minCalls int
	rate     float64
	phases   int
	bursts   []time.Duration

	consecutive int // of one breaker that has this rule too
}

func windows() Experiment {
	var o windowsOptions
	return Experiment{
		Name:      "windows",
		Title:     "which bursts of failures a window sees, and how soon",
		Gobreaker: true,
		Long: `A dependency fails altogether for a while. Whether a breaker sees it depends on
how its window moves, and on where in the window the burst begins. Then three
kinds of failure that some windows never see, and what failures by chance do to
rules.`,
		Flags: func(f *pflag.FlagSet) {
			f.DurationVar(&o.every, "every", 100*time.Millisecond, "time between calls")
			f.DurationVar(&o.window, "window", 10*time.Second, "the window")
			f.IntVar(&o.minCalls, "min-calls", 20, "results in the window from which it is judged")
			f.Float64Var(&o.rate, "failure-rate", 0.5, "failure rate that trips, a fraction")
			f.IntVar(&o.consecutive, "consecutive", 20, "failures in a row that trip, of one breaker that has this rule too")
			f.IntVar(&o.phases, "phases", 100, "phases at which each burst is tried, a call apart")
			f.DurationSliceVar(&o.bursts, "bursts", []time.Duration{2e9, 3e9, 4e9, 5e9, 6e9, 8e9, 10e9}, "lengths of the bursts")
		},
		Run: func(ctx context.Context, p *Params) (*report.Report, error) { return o.run(ctx, p) },
	}
}

func (o *windowsOptions) validate(p *Params) error {
	for _, e := range []error{
		p.Positive("every", o.every),
		p.Positive("window", o.window),
		p.Between("min-calls", o.minCalls, 1, 1_000_000),
		p.Between("consecutive", o.consecutive, 1, 1_000_000),
		p.Between("phases", o.phases, 1, 10_000),
	} {
		if e != nil {
			return e
		}
	}
	if !(o.rate > 0 && o.rate <= 1) {
		return p.Bad("failure-rate", o.rate, "above 0 and at most 1")
	}
	for _, b := range o.bursts {
		if err := p.Positive("bursts", b); err != nil {
			return err
		}
	}
	if n := o.window / o.every; o.window%(20*o.every) != 0 || n > 10_000 {
		return p.Bad("window", o.window, fmt.Sprintf("a multiple of 20 times --every, %v, and at most 10 000 times it", o.every))
	}
	return nil
}

func (o *windowsOptions) run(ctx context.Context, p *Params) (*report.Report, error) {
	if err := o.validate(p); err != nil {
		return nil, err
	}
	return p.Parts(
		func(r *report.Report) error { return o.burstTables(ctx, r) },
		func(r *report.Report) error { return o.unseen(ctx, r) },
		func(r *report.Report) error { return o.chance(ctx, p, r) },
	)
}

// windowKind is one way to keep a window.
type windowKind struct {
	name    string
	buckets int
	run     int // failures in a row that trip as well; 0: no such rule
	make    func(l *sim.Loop, on sim.Change) sim.Breaker
}

const (
	tumblingWindow = "gobreaker, tumbling"
	ourWindow      = "fusebox, 10 buckets"
	ourBuckets     = 10
)

// kinds are the windows compared, with the rule of the flags.
func (o *windowsOptions) kinds() []windowKind {
	rival := func(buckets int) func(*sim.Loop, sim.Change) sim.Breaker {
		s := gobreaker.Settings{Interval: o.window, Timeout: time.Hour, ReadyToTrip: sim.RateRule(o.minCalls, o.rate)}
		if buckets > 1 {
			s.BucketPeriod = o.window / time.Duration(buckets)
		}
		return func(_ *sim.Loop, on sim.Change) sim.Breaker { return sim.Gobreaker(s, on) }
	}
	return []windowKind{
		{tumblingWindow, 1, 0, rival(1)},
		{"gobreaker, 2 buckets", 2, 0, rival(2)},
		{"gobreaker, 4 buckets", 4, 0, rival(4)},
		{"gobreaker, 10 buckets", 10, 0, rival(10)},
		{ourWindow, ourBuckets, 0, func(l *sim.Loop, on sim.Change) sim.Breaker { return sim.Fusebox(l, o.config(), on) }},
		{o.bothRules(), ourBuckets, o.consecutive, func(l *sim.Loop, on sim.Change) sim.Breaker {
			c := o.config()
			c.Consecutive = o.consecutive
			return sim.Fusebox(l, c, on)
		}},
	}
}

func (o *windowsOptions) bothRules() string {
	return fmt.Sprintf("%s, or %d in a row", ourWindow, o.consecutive)
}

// config is ours: the rule of the flags and no other.
func (o *windowsOptions) config() fusebox.Config {
	return fusebox.Config{
		Window: o.window, Buckets: ourBuckets, MinCalls: o.minCalls, FailureRate: o.rate, Consecutive: -1,
		OpenFor: time.Hour, OpenJitter: -1,
	}
}

// windowTrial is one breaker that meets one burst.
type windowTrial struct {
	breaker     sim.Breaker
	from, until time.Duration // of the burst
	tripped     time.Duration // 0: not
}

// burstTables plays all bursts at all phases with all windows at a time: they
// share the calls' instants and nothing else.
func (o *windowsOptions) burstTables(ctx context.Context, r *report.Report) (err error) {
	kinds := o.kinds()
	trials := make([][][]*windowTrial, len(kinds)) // by window, burst, phase
	sim.Bubble(func(l *sim.Loop) {
		// Two windows of health come before the first burst.
		begin := 2 * (o.window / o.every) * o.every
		var all []*windowTrial
		end := time.Duration(0)
		for i, k := range kinds {
			trials[i] = make([][]*windowTrial, len(o.bursts))
			for j, burst := range o.bursts {
				for phase := range o.phases {
					t := &windowTrial{from: begin + time.Duration(phase)*o.every}
					t.until = t.from + burst
					t.breaker = k.make(l, func(_, to fusebox.State) {
						if to == fusebox.Open {
							t.tripped = l.Elapsed()
						}
					})
					end = max(end, t.until)
					trials[i][j] = append(trials[i][j], t)
					all = append(all, t)
				}
			}
		}
		// A burst may be seen as long as a failure of it is in the window.
		l.Every(0, o.every, int((end+o.window)/o.every), func(int) {
			for _, t := range all {
				t.call(l.Elapsed())
			}
		})
		err = l.Run(ctx, end+o.window)
	})
	if err != nil {
		return err
	}
	o.shares(r, kinds, trials)
	o.delays(r, kinds, trials)
	return nil
}

func (t *windowTrial) call(now time.Duration) {
	if t.tripped > 0 {
		return
	}
	done, v := t.breaker.Allow()
	if v == sim.Admitted {
		done(now < t.from || now >= t.until)
	}
}

func (o *windowsOptions) burstColumns(column report.Column) []report.Column {
	columns := []report.Column{{Key: "window", Title: "window"}}
	for _, b := range o.bursts {
		c := column
		c.Key, c.Title = "burst_"+b.String(), "burst of "+b.String()
		columns = append(columns, c)
	}
	return columns
}

func (o *windowsOptions) shares(r *report.Report, kinds []windowKind, trials [][][]*windowTrial) {
	t := r.Table("shares", fmt.Sprintf("Bursts that trip: at least %d calls and %v of them failed in %v, %d phases", o.minCalls, o.rate, o.window, o.phases),
		o.burstColumns(report.Column{Kind: report.Share})...)
	plot := report.Plot{Title: "Bursts that trip", X: "length of the burst, s", Y: "share"}
	for i, k := range kinds {
		row := []any{k.name}
		line := report.Series{Name: k.name}
		for j, b := range o.bursts {
			share := 0.0
			for _, trial := range trials[i][j] {
				if trial.tripped > 0 {
					share += 1 / float64(o.phases)
				}
			}
			row = append(row, share)
			r.Near(fmt.Sprintf("%s, burst of %v: share that trips", k.name, b), 100*share, 100*o.expected(k, b), 1e-6, "points")
			line.Points = append(line.Points, report.Point{X: b.Seconds(), Y: share})
		}
		t.Add(row...)
		plot.Series = append(plot.Series, line)
	}
	r.Plot(plot)
	tumbling, ours := t.Row("window", tumblingWindow), t.Row("window", ourWindow)
	const five, two = "burst_5s", "burst_2s"
	if !o.has(5*time.Second) || !o.has(2*time.Second) {
		return
	}
	t.Teach(func(t *report.Table) bool {
		tumbling, fine, ours := t.Row("window", tumblingWindow), t.Row("window", "gobreaker, 10 buckets"), t.Row("window", ourWindow)
		return tumbling.Number(five) < 95 && fine.Number(five) > 99.9 && ours.Number(five) > 99.9
	}, "A burst of 5s trips the tumbling window in %s %% of phases, ten buckets in %s %%, fusebox's and gobreaker's.", tumbling.Text(five), ours.Text(five))
	t.Teach(func(t *report.Table) bool {
		tumbling, fine, ours := t.Row("window", tumblingWindow), t.Row("window", "gobreaker, 10 buckets"), t.Row("window", ourWindow)
		return tumbling.Number(two) > 5 && fine.Number(two) == 0 && ours.Number(two) == 0
	}, "One of 2s, too short to trip, does so in %s %% of phases where the window has just begun, and in %s %% with ten buckets.", tumbling.Text(two), ours.Text(two))
	both := t.Row("window", o.bothRules())
	t.Teach(func(t *report.Table) bool {
		return t.Row("window", o.bothRules()).Number(two) > 99.9 && t.Row("window", ourWindow).Number(two) == 0
	}, "A rule for %d failures in a row sees it in %s %%.", o.consecutive, both.Text(two))
}

// expected is the share that trips. Where a bucket is to begin it does; but a
// tumbling window of gobreaker's begins with the first call after the end of the
// one before, so that each has a call more than fits.
func (o *windowsOptions) expected(k windowKind, burst time.Duration) (share float64) {
	window := int(o.window / o.every)
	for phase := range o.phases {
		b := theory.Burst{
			From: 2*window + phase, Length: int((burst + o.every - 1) / o.every),
			MinCalls: o.minCalls, Rate: o.rate,
		}
		trips := b.TripsTumbling(window + 1)
		if k.buckets > 1 {
			trips = b.TripsRolling(k.buckets, window/k.buckets)
		}
		if trips || k.run > 0 && b.Length >= k.run {
			share += 1 / float64(o.phases)
		}
	}
	return share
}

func (o *windowsOptions) has(burst time.Duration) bool { return slices.Contains(o.bursts, burst) }

func (o *windowsOptions) delays(r *report.Report, kinds []windowKind, trials [][][]*windowTrial) {
	t := r.Table("delays", "From the beginning of a burst to the trip: median of those that trip",
		o.burstColumns(report.Column{Kind: report.Duration, Decimals: 1})...)
	for i, k := range kinds {
		row := []any{k.name}
		for j := range o.bursts {
			var delays []time.Duration
			for _, trial := range trials[i][j] {
				if trial.tripped > 0 {
					delays = append(delays, trial.tripped-trial.from)
				}
			}
			slices.Sort(delays)
			if len(delays) == 0 {
				row = append(row, nil)
				continue
			}
			row = append(row, delays[(len(delays)-1)/2])
		}
		t.Add(row...)
	}
	last := "burst_" + o.bursts[len(o.bursts)-1].String()
	ours := t.Row("window", ourWindow)
	t.Teach(func(t *report.Table) bool {
		ours := t.Row("window", ourWindow).Number(last)
		want := float64(o.rate * o.window.Seconds()) // of a window full of health
		run := float64(o.consecutive-1) * o.every.Seconds()
		return math.Abs(ours-want) < want/4 && math.Abs(t.Row("window", o.bothRules()).Number(last)-min(run, ours)) < 1e-6
	}, "A failure rate over %v of steady calls takes %s s to see a total outage, a run of %d failures (Config.Consecutive) %s s, whatever the window holds.",
		o.window, ours.Text(last), o.consecutive, t.Row("window", o.bothRules()).Text(last))
}
