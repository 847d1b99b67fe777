package lab

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
)

// chanceRule is a rule that trips.
type chanceRule struct {
	name string
	run  int // failures in a row; 0: a rate
	set  func(*fusebox.Config)
}

func rateRule(minCalls int, rate float64) chanceRule {
	return chanceRule{fmt.Sprintf("%.0f %% of at least %d calls", 100*rate, minCalls), 0, func(c *fusebox.Config) {
		c.MinCalls, c.FailureRate = minCalls, rate
	}}
}

func runRule(n int) chanceRule {
	return chanceRule{fmt.Sprintf("%d in a row", n), n, func(c *fusebox.Config) { c.FailureRate, c.Consecutive = -1, n }}
}

func chanceRules() []chanceRule {
	return []chanceRule{
		rateRule(5, 0.5), rateRule(10, 0.5), rateRule(20, 0.5), rateRule(50, 0.5),
		rateRule(20, 0.3), rateRule(20, 0.8), runRule(5), runRule(20),
	}
}

// chanceShares are the shares of calls that fail by chance.
func chanceShares() []float64 { return []float64{0.1, 0.2, 0.3, 0.4} }

const (
	chanceCalls   = 36_000 // of each cell but the last
	chanceOutages = 101
	chanceLook    = 10 * time.Minute // at each outage
	chanceStream  = 3 << 32
)

// chance tries what luck does to a rule, and what the rule does about an outage.
func (o *windowsOptions) chance(ctx context.Context, p *Params, r *report.Report) error {
	columns := []report.Column{{Key: "traffic", Title: "calls, on average"}, {Key: "rule", Title: "trips at"}}
	for _, q := range chanceShares() {
		columns = append(columns, report.Column{
			Key: chanceKey(q), Title: fmt.Sprintf("trips an hour, %.0f %% fail", 100*q), Kind: report.Number, Decimals: 1,
		})
	}
	columns = append(columns, report.Column{Key: "seen", Title: "sees an outage after, median", Kind: report.Duration, Decimals: 1})
	t := r.Table("chance", fmt.Sprintf("Calls that fail by chance trip a breaker with a window of %v, which is reset and goes on; an outage of all calls trips it too", o.window), columns...)
	for _, every := range []time.Duration{time.Second, 100 * time.Millisecond} {
		traffic := fmt.Sprintf("%d a second", time.Second/every)
		hours := (chanceCalls * every).Hours()
		for _, rule := range chanceRules() {
			c := fusebox.Config{Window: o.window, Buckets: ourBuckets, Consecutive: -1, OpenFor: time.Hour, OpenJitter: -1}
			rule.set(&c)
			cells := []any{traffic, rule.name}
			for i, q := range chanceShares() {
				// The same luck for all rules.
				w := newChanceWorld(c, every, p.Rand(chanceStream+uint64(i)))
				trips := 0
				if err := w.calls(ctx, chanceCalls, q, func() bool { trips++; return true }); err != nil {
					return err
				}
				cells = append(cells, float64(trips)/hours)
				if rule.run > 0 {
					// The mean number of calls up to a run is known; so rare a thing
					// comes as Poisson's does.
					want := chanceCalls * (1 - q) / (math.Pow(q, -float64(rule.run)) - 1)
					r.Statistical(fmt.Sprintf("%s, %s, %g %% fail: trips an hour", traffic, rule.name, 100*q), float64(trips)/hours, want/hours, math.Sqrt(want)/hours, 1/hours)
				}
			}
			seen, err := o.chanceOutage(ctx, p, c, every)
			if err != nil {
				return err
			}
			t.Add(append(cells, seen)...)
		}
	}
	o.teachChance(t)
	return nil
}

func chanceKey(q float64) string { return fmt.Sprintf("trips_%.0f", 100*q) }

func (o *windowsOptions) teachChance(t *report.Table) {
	const few, many, at = "1 a second", "10 a second", "trips_30"
	row := func(t *report.Table, traffic string, rule chanceRule) report.Row {
		return t.Row("traffic", traffic, "rule", rule.name)
	}
	five, ten, twenty, fifty := rateRule(5, 0.5), rateRule(10, 0.5), rateRule(20, 0.5), rateRule(50, 0.5)
	t.Teach(func(t *report.Table) bool {
		return row(t, few, five).Number(at) > 2*row(t, few, ten).Number(at) && row(t, few, ten).Number(at) > 2*row(t, few, twenty).Number(at) &&
			row(t, few, fifty).Cell("seen") == nil
	}, "With %s a rate of half that is judged on 5 calls trips %s times an hour while 30 %% of calls fail by chance, on 10 calls %s times; one that wants 50 calls does not see an outage at all, as the window does not hold so many.",
		few, row(t, few, five).Text(at), row(t, few, ten).Text(at))
	t.Teach(func(t *report.Table) bool {
		return row(t, many, runRule(5)).Number(at) > 10 && row(t, many, runRule(20)).Number("trips_40") == 0 &&
			row(t, many, runRule(20)).Number("seen") < row(t, many, twenty).Number("seen")
	}, "With %s, 5 failures in a row come by chance %s times an hour, 20 in a row not once, not even where 40 %% fail; they see an outage after %s s, where the rate takes %s s.",
		many, row(t, many, runRule(5)).Text(at), row(t, many, runRule(20)).Text("seen"), row(t, many, twenty).Text("seen"))
	t.Teach(func(t *report.Table) bool {
		return row(t, many, rateRule(20, 0.3)).Number(at) > float64(10*row(t, many, twenty).Number(at))+10
	}, "A rate of 30 %% trips %s times an hour where 30 %% fail, half %s times.", row(t, many, rateRule(20, 0.3)).Text(at), row(t, many, twenty).Text(at))
}

// chanceOutage returns how long after the beginning of an outage the breaker has
// tripped in half the trials; nil if it has not.
func (o *windowsOptions) chanceOutage(ctx context.Context, p *Params, c fusebox.Config, every time.Duration) (any, error) {
	rng := p.Rand(chanceStream + 1<<16)
	var delays []time.Duration
	for range chanceOutages {
		w := newChanceWorld(c, every, rng)
		if err := w.calls(ctx, int(2*o.window/every), 0, nil); err != nil {
			return nil, err
		}
		from := w.now
		if err := w.calls(ctx, int(chanceLook/every), 1, func() bool {
			delays = append(delays, w.now-from)
			return false
		}); err != nil {
			return nil, err
		}
	}
	if 2*len(delays) < chanceOutages {
		return nil, nil
	}
	slices.Sort(delays)
	return delays[chanceOutages/2], nil
}

// chanceWorld is a breaker under calls that come by chance and take no time.
type chanceWorld struct {
	breaker *fusebox.Breaker
	rng     *rand.Rand
	every   time.Duration // between two calls, on average
	now     time.Duration
}

func newChanceWorld(c fusebox.Config, every time.Duration, rng *rand.Rand) *chanceWorld {
	w := &chanceWorld{rng: rng, every: every}
	begin := time.Unix(0, 0)
	c.Now = func() time.Time { return begin.Add(w.now) }
	w.breaker = fusebox.New("chance", c)
	return w
}

// calls makes n calls of which each fails with the chance q. When the breaker
// has tripped it asks whether to reset it and go on.
func (w *chanceWorld) calls(ctx context.Context, n int, q float64, tripped func() bool) error {
	for i := range n {
		if i%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		w.now += time.Duration(w.rng.ExpFloat64() * float64(w.every))
		failed := w.rng.Float64() < q
		permit, err := w.breaker.Allow(context.Background())
		if err != nil {
			return err
		}
		if !failed {
			permit.Record(fusebox.Success)
			continue
		}
		permit.Record(fusebox.Failure)
		if w.breaker.State() == fusebox.Open {
			if !tripped() {
				return nil
			}
			w.breaker.Reset(fusebox.Note{})
		}
	}
	return nil
}
