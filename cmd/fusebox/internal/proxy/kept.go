package proxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/bulkhead"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lastgood"
	"github.com/fusebox-go/fusebox/fuseboxhttp"
	"github.com/fusebox-go/fusebox/retry"
)

// kept is what of an upstream survives reloads.
type kept struct {
	proxy *Proxy
	name  string

	servers   map[config.Endpoint]*server
	guards    map[string]*guard // by the breaker's name
	turn      atomic.Uint64
	retry     retries
	bulkhead  places
	lastGood  *lastgood.Cache // nil: none
	fallbacks fallbackCounts
	unlist    func() // takes the fallback's series away; nil: there are none
}

// apply returns the upstream under a configuration, and what is to be done once no
// request begins with the old one any more.
func (k *kept) apply(c *config.Upstream, answer *fixed) (u *upstream, gone []func()) {
	u = &upstream{name: k.name, turn: &k.turn}
	for status := range u.failing {
		u.failing[status] = c.Failure.Outcome(status) == fusebox.Failure
	}
	gone = k.applyEndpoints(u, c)
	policy := k.retry.apply(k, c.Retry)
	u.bulkhead = k.bulkhead.apply(k, c.Bulkhead, c.Timeouts.Total)
	switch {
	case c.Retry != nil:
		u.record = max(int64(c.Retry.MaxBody), 0)
	case slices.ContainsFunc(c.Endpoints, mayHTTP2):
		u.record = recordAnyway
	}
	k.applyFallback(u, c.Fallback, answer)

	u.perTry = max(c.Timeouts.PerTry, 0)
	switch total := max(c.Timeouts.Total, 0); {
	case policy != nil || u.bulkhead != nil && c.Bulkhead.MaxWait > 0:
		u.total = total
	case u.perTry == 0:
		u.perTry = total // there is one try, and nothing else to wait for
	}
	u.late, u.lateTry = &lateError{u.total}, &lateError{u.perTry}
	u.transport = &fuseboxhttp.Transport{
		Base: connections{}, Admit: u.admit, Classify: u.classify, Check: check, JudgeBody: true, Retry: policy,
	}
	return u, gone
}

// applyEndpoints sets what is about endpoints and breakers.
func (k *kept) applyEndpoints(u *upstream, c *config.Upstream) (gone []func()) {
	named := map[string]bool{}
	guardOf := func(name string) *guard {
		named[name] = true
		if k.guards[name] == nil {
			k.guards[name] = k.proxy.newGuard(name, c.Breaker)
		}
		k.guards[name].apply(c.Breaker)
		return k.guards[name]
	}
	if c.Breaker.Scope == config.ScopeUpstream {
		u.guard = guardOf(k.name)
	}
	used := map[config.Endpoint]bool{}
	alike := map[string]int{}
	for _, at := range c.Endpoints {
		used[at] = true
		if k.servers[at] == nil {
			k.servers[at] = newServer(at, k.proxy.options.RootCAs)
		}
		alike[k.servers[at].name]++
		u.endpoints = append(u.endpoints, &endpoint{server: k.servers[at]})
	}
	for i, e := range u.endpoints {
		if c.Breaker.Scope != config.ScopeEndpoint {
			break
		}
		name := e.name
		if alike[name] > 1 { // they differ in the scheme; whatever their order, none gets the breaker of another
			name = string(c.Endpoints[i])
		}
		e.guard = guardOf(k.name + "/" + name)
	}
	u.mostOut = len(u.endpoints)
	if c.Ejection != nil {
		u.mostOut, u.whenAllOpen = c.Ejection.Most(len(u.endpoints)), c.Ejection.WhenAllOpen
	}
	for name, g := range k.guards {
		if !named[name] {
			delete(k.guards, name)
			gone = append(gone, g.close)
		}
	}
	for at, s := range k.servers {
		if !used[at] {
			delete(k.servers, at)
			gone = append(gone, s.leave)
		}
	}
	return gone
}

// applyFallback sets what answers in the upstream's place, but for another upstream.
func (k *kept) applyFallback(u *upstream, c *config.Fallback, answer *fixed) {
	if c == nil || c.LastGood == nil {
		k.lastGood = nil
	} else if k.lastGood == nil {
		k.lastGood = lastgood.New(int64(c.LastGood.MaxSize))
	} else {
		k.lastGood.Resize(int64(c.LastGood.MaxSize))
	}
	if c == nil {
		if k.unlist != nil {
			k.unlist()
			k.unlist = nil
		}
		return
	}
	if m := k.proxy.options.Metrics; m != nil && k.unlist == nil {
		n := &k.fallbacks
		k.unlist = m.AddFallback(k.name, func() (answered, stale, failed uint64) {
			return n.answered.Load(), n.stale.Load(), n.failed.Load()
		})
	}
	u.fallback = &fallback{lastGood: k.lastGood, fixed: answer, counts: &k.fallbacks}
	if c.LastGood != nil {
		u.fallback.maxAge = c.LastGood.MaxAge
	}
	if c.Upstream != "" {
		u.record = max(u.record, recordAnyway)
	}
}

// close is for an upstream that is gone.
func (k *kept) close() {
	for _, g := range k.guards {
		g.close()
	}
	for _, s := range k.servers {
		s.leave()
	}
	k.retry.apply(k, nil)
	k.bulkhead.apply(k, nil, 0)
	if k.unlist != nil {
		k.unlist()
	}
}

// guard is a breaker, its settings, and its last record.
type guard struct {
	*fusebox.Breaker
	meter    *fusebox.Breaker // counts what an endpoint does with what it gets although its breaker refuses
	settings config.Breaker
	last     atomic.Pointer[fusebox.Transition]
	remove   []func()
}

func (p *Proxy) newGuard(name string, b config.Breaker) *guard {
	g := &guard{settings: b, meter: fusebox.New(name, meterConfig(b))}
	c := b.Config()
	c.Observers = []fusebox.Observer{
		{Transition: func(t fusebox.Transition) { g.last.Store(&t) }},
		fusebox.LogObserver(p.options.Logger),
	}
	g.Breaker = fusebox.New(name, c)
	if a := p.options.Admin; a != nil {
		g.remove = append(g.remove, a.Add(g.Breaker))
	}
	if m := p.options.Metrics; m != nil {
		g.remove = append(g.remove, m.Add(g.Breaker))
	}
	return g
}

// meterConfig returns the settings of a breaker that counts, and rejects nothing.
func meterConfig(b config.Breaker) fusebox.Config {
	return fusebox.Config{Window: b.Window, Buckets: b.Buckets, FailureRate: -1, Consecutive: -1}
}

// apply gives the breaker other settings, if they are others. They have been checked.
func (g *guard) apply(b config.Breaker) {
	if g.settings == b {
		return
	}
	g.settings = b
	_ = g.Reconfigure(b.Config())
	_ = g.meter.Reconfigure(meterConfig(b))
}

func (g *guard) close() {
	for _, remove := range g.remove {
		remove()
	}
}

// retries is an upstream's retry policy. A policy whose settings change is made anew;
// its budget is not, unless that changes. Totals go on.
type retries struct {
	settings config.Retry
	unlist   func()

	mu     sync.Mutex
	policy *retry.Policy // nil: none
	before retry.Stats   // of those before policy
}

func (r *retries) apply(k *kept, c *config.Retry) *retry.Policy {
	if c == nil {
		if r.unlist != nil {
			r.unlist()
			r.unlist = nil
		}
		r.replace(nil)
		return nil
	}
	old := r.policy
	if old != nil && r.settings == *c {
		return old
	}
	settings := c.Config()
	if old != nil && r.settings.Budget() == c.Budget() {
		settings.Budget = old.Config().Budget
	} else {
		settings.Budget = retry.NewBudget(c.Budget())
	}
	r.settings = *c
	r.replace(retry.New(settings))
	if m := k.proxy.options.Metrics; m != nil && r.unlist == nil {
		r.unlist = m.AddRetry(k.name, r.stats)
	}
	return r.policy
}

func (r *retries) replace(p *retry.Policy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.policy != nil {
		s := r.policy.Stats()
		r.before.Retries += s.Retries
		r.before.Exhausted += s.Exhausted
	}
	r.policy = p
}

func (r *retries) stats() (retries, exhausted uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	retries, exhausted = r.before.Retries, r.before.Exhausted
	if r.policy != nil {
		s := r.policy.Stats()
		retries, exhausted = retries+s.Retries, exhausted+s.Exhausted
	}
	return retries, exhausted
}

// places is an upstream's bulkhead. Another limit is set; where the waiting changes,
// it is made anew, and until the requests in flight are over there may be more of
// them than the limit. Totals go on.
type places struct {
	settings config.Bulkhead
	unlist   func()

	mu     sync.Mutex
	policy *bulkhead.Policy // nil: none
	before uint64           // refused by those before policy
}

// apply sets the bulkhead, in which nobody waits longer than total, if that is positive.
func (p *places) apply(k *kept, c *config.Bulkhead, total time.Duration) *bulkhead.Policy {
	if c == nil {
		if p.unlist != nil {
			p.unlist()
			p.unlist = nil
		}
		p.replace(nil)
		return nil
	}
	old, now := p.settings, *c
	if total > 0 && now.MaxWait > total {
		now.MaxWait = total
	}
	p.settings = now
	settings := now.Config(k.name)
	if now.MaxWaiting == now.Limit {
		settings.MaxWaiting = 0 // it follows the limit
	}
	waits := func(c config.Bulkhead) bool { return c.MaxWait > 0 }
	follows := func(c config.Bulkhead) bool { return c.MaxWaiting == c.Limit }
	same := waits(old) == waits(now) &&
		(!waits(old) || old.MaxWait == now.MaxWait && (old.MaxWaiting == now.MaxWaiting || follows(old) && follows(now)))
	if p.policy != nil && same {
		_ = p.policy.SetLimit(c.Limit) // has been checked
		return p.policy
	}
	p.replace(bulkhead.New(settings))
	if m := k.proxy.options.Metrics; m != nil && p.unlist == nil {
		p.unlist = m.AddBulkhead(k.name, p.stats)
	}
	return p.policy
}

func (p *places) replace(policy *bulkhead.Policy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.policy != nil {
		p.before += p.policy.Stats().Rejected
	}
	p.policy = policy
}

func (p *places) stats() (inFlight int, rejected uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.policy == nil {
		return 0, p.before
	}
	s := p.policy.Stats()
	return s.InFlight, p.before + s.Rejected
}
