package lab

import (
	"context"
	_ "embed" // step.html
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/scenario"
)

// stepOptions are the flags of the experiment.
type stepOptions struct {
	steps   int
	breaker string
	print   bool
}

// stepScenario is what is stepped through where no other is named.
const stepScenario = "timeline"

func step() Experiment {
	var o stepOptions
	return Experiment{
		Name:  "step",
		Title: "a breaker one step at a time: the call, the rule that applied, what the breaker holds",
		Long: `Goes through a scenario (a file, or one that ships: see lab run) one
step at a time: what a call did, what the breaker held before, which rule applied,
what it holds after. In the terminal it asks for the way: next, back, run. With
--html the page has the steps, with buttons and keys; with --print, --json,
--markdown or --plot there is a report of the steps that change the state.`,
		Flags: func(f *pflag.FlagSet) {
			f.IntVar(&o.steps, "steps", 2000, "how many steps are kept")
			f.StringVar(&o.breaker, "breaker", "", "the breaker whose steps are kept; default: all")
			f.BoolVar(&o.print, "print", false, "print the report, and ask nothing")
		},
		Run: func(ctx context.Context, p *Params) (*report.Report, error) { return o.run(ctx, p) },
		Setup: func(c *cobra.Command) {
			c.Use = "step [FILE | NAME]"
			c.Args = cobra.MaximumNArgs(1)
			printed := c.RunE
			c.RunE = func(c *cobra.Command, args []string) error {
				for _, name := range []string{"print", "json", "html", "markdown", "plot"} {
					if c.Flags().Changed(name) {
						return printed(c, args)
					}
				}
				seed, err := c.Flags().GetUint64("seed")
				if err != nil {
					return err
				}
				p := &Params{Seed: seed, Args: args, experiment: Experiment{Name: c.Name()}, progress: newProgress(c.ErrOrStderr(), c.Name())}
				result, err := o.play(c.Context(), p)
				if err != nil {
					return err
				}
				return (&walker{steps: result.Steps, more: result.MoreSteps, in: c.InOrStdin(), out: c.OutOrStdout()}).walk()
			}
		},
	}
}

// play plays the scenario and keeps the steps.
func (o *stepOptions) play(ctx context.Context, p *Params) (*scenario.Result, error) {
	if err := p.Between("steps", o.steps, 1, 100_000); err != nil {
		return nil, err
	}
	name := stepScenario
	if len(p.Args) > 0 {
		name = p.Args[0]
	}
	s, err := loadScenario(name)
	if err != nil {
		return nil, err
	}
	result, err := playScenario(ctx, p, s, scenario.Options{Seed: p.Seed, Steps: o.steps, StepsOf: o.breaker})
	if err != nil {
		return nil, err
	}
	if len(result.Steps) == 0 {
		why := "no call passes a breaker"
		if o.breaker != "" {
			why = fmt.Sprintf("no call passes a breaker %s; there are %s", o.breaker, strings.Join(result.Breakers, ", "))
		}
		return nil, &UsageError{fmt.Sprintf("lab step: %s has no steps: %s", name, why)}
	}
	return result, nil
}

func (o *stepOptions) run(ctx context.Context, p *Params) (*report.Report, error) {
	result, err := o.play(ctx, p)
	if err != nil {
		return nil, err
	}
	r := p.Report()
	r.Parameters = append(r.Parameters, report.Named{Name: "scenario", Value: result.Scenario.Title})
	t := r.Table("changes", "The steps that change the state",
		report.Column{Key: "step", Title: "step", Kind: report.Count},
		report.Column{Key: "at", Title: "at", Kind: report.Duration, Decimals: 3},
		report.Column{Key: "breaker", Title: "breaker"},
		report.Column{Key: "what", Title: "what"},
		report.Column{Key: "before", Title: "before"},
		report.Column{Key: "rule", Title: "rule"},
		report.Column{Key: "after", Title: "after"},
	)
	previous, breaks := map[string]scenario.Held{}, 0
	for i, s := range result.Steps {
		if s.Changed() || previous[s.Breaker].State != s.Before.State {
			t.Add(i+1, s.At, s.Breaker, s.What, heldText(s.Before), s.Rule, heldText(s.After))
		}
		was, is := previous[s.Breaker].State, s.Before.State
		lapsed := was == fusebox.HalfOpen && is == fusebox.Open // a lease has ended
		if i > 0 && was != is && is != fusebox.HalfOpen && !lapsed && len(result.Scenario.Overrides) == 0 {
			breaks++
		}
		previous[s.Breaker] = s.After
	}
	r.Near("changes of state between the steps, but by time", float64(breaks), 0, 0, "changes")
	r.Plot(statesOf(result, stepped(result.Steps)))
	r.Widgets = append(r.Widgets, widgetOf(result))
	o.teach(t)
	return r, nil
}

// stepped returns the breakers that have steps, in the order of the first ones.
func stepped(steps []scenario.Step) (names []string) {
	for _, s := range steps {
		if !slices.Contains(names, s.Breaker) {
			names = append(names, s.Breaker)
		}
	}
	return names
}

// teach says what the first trip shows.
func (o *stepOptions) teach(t *report.Table) {
	first := func(t *report.Table, rule string) report.Row {
		for _, row := range t.Select() {
			if strings.HasPrefix(row.Text("rule"), rule) {
				return row
			}
		}
		return report.Row{}
	}
	const trips, probes, closes = "trips", "the open period is over", "closes"
	t.Teach(func(t *report.Table) bool {
		return first(t, trips).Number("at") < first(t, probes).Number("at") && first(t, probes).Number("at") <= first(t, closes).Number("at") &&
			first(t, trips).Number("step") < first(t, probes).Number("step") && first(t, trips).Number("at") > 0
	}, "The breaker trips at step %s, %s s after the start; the first call after its open period is a probe, at %s s; at %s s the breaker closes.",
		first(t, trips).Text("step"), first(t, trips).Text("at"), first(t, probes).Text("at"), first(t, closes).Text("at"))
}

func heldText(h scenario.Held) string { return h.State.String() + ": " + h.Text }

//go:embed step.html
var stepSource string

// stepView is a step as step.html has it.
type stepView struct {
	At      string   `json:"at"`
	Breaker string   `json:"breaker"`
	What    string   `json:"what"`
	Rule    string   `json:"rule"`
	Before  heldView `json:"before"`
	After   heldView `json:"after"`
}

type heldView struct {
	State string `json:"state"`
	Text  string `json:"text"`
}

// widgetOf returns the steps with buttons.
func widgetOf(result *scenario.Result) report.Widget {
	steps := make([]stepView, len(result.Steps))
	for i, s := range result.Steps {
		steps[i] = stepView{
			At: seconds(s.At), Breaker: s.Breaker, What: s.What, Rule: s.Rule,
			Before: heldView{s.Before.State.String(), s.Before.Text}, After: heldView{s.After.State.String(), s.After.Text},
		}
	}
	var b strings.Builder
	page := template.Must(template.New("step").Parse(stepSource)) // of this program
	err := page.Execute(&b, struct {
		Steps       []stepView
		Count, More int
	}{steps, len(steps), result.MoreSteps})
	if err != nil {
		panic(err) // there is nothing in it that cannot be written
	}
	return report.Widget{Title: "One step at a time: " + result.Scenario.Title, HTML: template.HTML(b.String())}
}

// seconds writes an instant in seconds.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }
