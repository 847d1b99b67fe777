package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/serve"
	"github.com/fusebox-go/fusebox/retry"
)

func explainCommand() *cobra.Command {
	var s serve.Source
	c := &cobra.Command{
		Use:   "explain",
		Short: "Say what a configuration does to a request, and the worst case",
		Long: `Explain goes through a configuration as a request does: which upstream answers
it, what it passes there, in which order, and how many attempts and seconds it
may take at worst.`,
		Example: "  fusebox explain -c fusebox.yaml",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			loaded, err := s.Load()
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(explain(loaded))
			return err
		},
	}
	s.AddFlags(c.Flags())
	return c
}

// explain returns the text of the command.
func explain(c *config.Config) []byte {
	var b bytes.Buffer
	b.WriteString("Which upstream answers is decided by the most specific host, then by the longest prefix:\n")
	for _, r := range inOrder(c.Routes) {
		fmt.Fprintf(&b, "  %-40s %s\n", cmp.Or(r.Host, "any host")+" "+r.Prefix, r.Upstream)
	}
	if len(c.Routes) == 0 {
		b.WriteString("  there is no route: every request is answered 404\n")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u := c.Upstreams[name]
		fmt.Fprintf(&b, "\n%s: a request passes, from the outside in\n", name)
		for i, step := range steps(u) {
			fmt.Fprintf(&b, "  %d. %-9s %s\n", i+1, step[0], step[1])
		}
		fmt.Fprintf(&b, "  worst case: %s\n", worst(c, name))
	}
	return b.Bytes()
}

// inOrder returns the routes as they are tried.
func inOrder(routes []config.Route) []config.Route {
	return slices.SortedStableFunc(slices.Values(routes), func(a, b config.Route) int {
		exact := func(r config.Route) int { // an exact name, then below a name, then any
			switch {
			case r.Host == "":
				return 2
			case strings.HasPrefix(r.Host, "*."):
				return 1
			}
			return 0
		}
		return cmp.Or(
			cmp.Compare(exact(a), exact(b)),
			-cmp.Compare(len(a.Host), len(b.Host)),
			cmp.Compare(a.Host, b.Host),
			-cmp.Compare(len(a.Prefix), len(b.Prefix)),
			cmp.Compare(a.Prefix, b.Prefix),
		)
	})
}

// steps returns the policies of an upstream, outermost first, each with what it does.
func steps(u *config.Upstream) [][2]string {
	return [][2]string{
		{"fallback", fallbackText(u.Fallback)},
		{"bulkhead", bulkheadText(u.Bulkhead)},
		{"retry", retryText(u)},
		{"breaker", breakerText(u)},
		{"timeout", timeoutText(u.Timeouts)},
		{"call", callText(u)},
	}
}

func fallbackText(f *config.Fallback) string {
	if f == nil {
		return "none: a rejection is answered 503 with Retry-After, a failure as it is"
	}
	var answers []string
	if f.LastGood != nil {
		answers = append(answers, fmt.Sprintf("the last good answer to the same GET, if it is at most %v old", f.LastGood.MaxAge))
	}
	switch {
	case f.Upstream != "":
		answers = append(answers, "the upstream "+f.Upstream+", where the request may be made again")
	case f.File != "":
		answers = append(answers, fmt.Sprintf("%d with the body of %s", f.Status, f.File))
	case f.Status != 0:
		answers = append(answers, fmt.Sprintf("%d with %s", f.Status, config.Size(len(f.Body))))
	}
	return "after a rejection or a failure: " + strings.Join(answers, ", else ")
}

func bulkheadText(b *config.Bulkhead) string {
	switch {
	case b == nil:
		return "none: any number of requests at a time"
	case b.MaxWait > 0:
		return fmt.Sprintf("%s at a time; %d more wait for up to %v, others are refused", plural(b.Limit, "request"), b.MaxWaiting, b.MaxWait)
	default:
		return plural(b.Limit, "request") + " at a time, others are refused at once"
	}
}

func retryText(u *config.Upstream) string {
	r := u.Retry
	if r == nil || r.Attempts == 1 {
		return "none: one attempt"
	}
	text := fmt.Sprintf("up to %d attempts where a request may be made twice; waits of %v that double up to %v", r.Attempts, r.BaseDelay, r.MaxDelay)
	var budget []string // a configuration has one or both
	if r.BudgetShare > 0 {
		budget = append(budget, percent(r.BudgetShare)+" of the requests")
	}
	if r.BudgetPerSecond > 0 {
		budget = append(budget, fmt.Sprintf("%v a second", float64(r.BudgetPerSecond)))
	}
	text += "; retries are bounded by " + strings.Join(budget, " and ")
	if len(u.Endpoints) > 1 {
		text += "; each attempt goes to another endpoint, if one is left"
	}
	return text
}

func percent(f config.Fraction) string { return fmt.Sprintf("%v%%", math.Round(float64(f)*1e4)/100) }

func breakerText(u *config.Upstream) string {
	b := u.Breaker
	text := "one for the upstream"
	if b.Scope == config.ScopeEndpoint {
		text = "one for each endpoint"
	}
	switch b.Mode {
	case fusebox.Off:
		return text + ", off: it judges and rejects nothing"
	case fusebox.Shadow:
		text += ", which judges and rejects nothing (shadow)"
	default:
	}
	over := fmt.Sprintf("in %v", b.Window)
	if b.WindowCalls > 0 {
		over = fmt.Sprintf("of the last %d", b.WindowCalls)
	}
	var rules []string
	if b.FailureRate > 0 {
		rules = append(rules, fmt.Sprintf("%s of at least %s %s are failures", percent(b.FailureRate), plural(b.MinCalls, "call"), over))
	}
	if b.SlowAfter > 0 {
		rules = append(rules, fmt.Sprintf("%s take %v or more", percent(b.SlowRate), b.SlowAfter))
	}
	if b.Consecutive > 0 {
		rules = append(rules, plural(b.Consecutive, "failure")+" in a row")
	}
	if rules == nil {
		return text + "; it has no rule, and never opens by itself"
	}
	text += "; it opens when " + strings.Join(rules, ", or ")
	period := fmt.Sprintf("%v, doubling to %v", b.OpenFor, b.OpenForMax)
	if b.OpenForMax <= b.OpenFor {
		period = fmt.Sprintf("%v each time", b.OpenFor)
	}
	return text + fmt.Sprintf("; it rejects for %s, then lets %s through: it closes after %s, and opens again after %s",
		period, plural(b.Probes, "probe"), plural(b.CloseAfter, "success"), plural(b.ReopenAfter, "failure"))
}

func timeoutText(t config.Timeouts) string {
	each, all := "no limit for one attempt", "no limit in all"
	if t.PerTry > 0 {
		each = fmt.Sprintf("%v for one attempt", t.PerTry)
	}
	if t.Total > 0 {
		all = fmt.Sprintf("%v in all", t.Total)
	}
	return each + ", " + all + ", until the head of the answer"
}

func callText(u *config.Upstream) string {
	if len(u.Endpoints) == 1 {
		return string(u.Endpoints[0])
	}
	text := fmt.Sprintf("%d endpoints in turn", len(u.Endpoints))
	if e := u.Ejection; e != nil {
		all := map[config.WhenAllOpen]string{
			config.Fail: "the request is refused", config.Spread: "all are used in turn", config.LeastBad: "the one that fails least is used",
		}[e.WhenAllOpen]
		text += fmt.Sprintf("; up to %d are left out while their breakers are open; if all are, %s", e.Most(len(u.Endpoints)), all)
	}
	return text
}

// bound is how much a request may take at worst.
type bound struct {
	attempts float64
	seconds  float64 // +Inf: there is no limit
}

// worst says what the worst case is, that of an upstream which is the fallback included.
func worst(c *config.Config, name string) string {
	var sum bound
	var others []string
	seen := map[string]bool{}
	for name != "" && !seen[name] {
		seen[name] = true
		u := c.Upstreams[name]
		one := worstOf(u)
		sum.attempts += one.attempts
		sum.seconds += one.seconds
		name = ""
		if u.Fallback != nil && u.Fallback.Upstream != "" {
			name = u.Fallback.Upstream
			others = append(others, name)
		}
	}
	text := fmt.Sprintf("%s and %s until the head of the answer", plural(int(min(sum.attempts, 1<<53)), "attempt"), seconds(sum.seconds))
	if others != nil {
		text += ", " + strings.Join(others, " and ") + " included"
	}
	return text
}

func worstOf(u *config.Upstream) bound {
	b := bound{attempts: 1, seconds: math.Inf(1)}
	if u.Retry != nil {
		b.attempts = float64(u.Retry.Attempts)
	}
	if u.Timeouts.PerTry > 0 {
		b.seconds = b.attempts * u.Timeouts.PerTry.Seconds()
		if u.Bulkhead != nil {
			b.seconds += max(u.Bulkhead.MaxWait, 0).Seconds()
		}
		b.seconds += waits(u.Retry)
	}
	if u.Timeouts.Total > 0 {
		b.seconds = min(b.seconds, u.Timeouts.Total.Seconds())
	}
	return b
}

// waits returns the seconds between all attempts: an answer may ask for the
// longest each time.
func waits(r *config.Retry) (sum float64) {
	if r == nil {
		return 0
	}
	const doublings = 64 // after which a wait grows no more
	wait := retry.Exponential(r.BaseDelay, r.MaxDelay)
	n := 1
	for ; n < r.Attempts && n <= doublings; n++ {
		sum += max(wait(n), r.MaxRetryAfter).Seconds()
	}
	return sum + float64(r.Attempts-n)*max(wait(n), r.MaxRetryAfter).Seconds()
}

func seconds(s float64) string {
	if math.IsInf(s, 1) {
		return "any time, as neither total nor per-try is set,"
	}
	if s > 1e6 {
		return fmt.Sprintf("%.0f s", s)
	}
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}
