package proxy

import (
	"fmt"
	"maps"
	"slices"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// Apply puts a configuration that has passed every check in the place of the present
// one. If it returns an error, which says what [New]'s does, nothing has changed.
// Requests go by the one or the other; those in flight by that with which they
// began, but for breakers and limits, which change at once.
//
// What has not changed goes on as it is: breakers with their windows and states,
// connections, budgets, places, answers kept. A breaker whose settings have changed
// is reconfigured. What is not named any more goes, with its series.
// [config.File.Listen] and other settings of the program are not the proxy's.
func (p *Proxy) Apply(c *config.Config) error {
	answers := map[string]*fixed{}
	for name, u := range c.Upstreams {
		if u.Fallback == nil {
			continue
		}
		a, err := newFixed(u.Fallback)
		if err != nil {
			return fmt.Errorf("upstreams.%s.fallback.file: %w", name, err)
		}
		answers[name] = a
	}
	p.applying <- struct{}{}
	defer func() { <-p.applying }()
	if p.closed {
		return nil
	}
	upstreams := map[string]*upstream{}
	var gone []func()
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		k := p.kept[name]
		if k == nil {
			k = &kept{proxy: p, name: name, servers: map[config.Endpoint]*server{}, guards: map[string]*guard{}}
			p.kept[name] = k
		}
		u, old := k.apply(c.Upstreams[name], answers[name])
		upstreams[name] = u
		gone = append(gone, old...)
	}
	for name, u := range upstreams {
		if f := c.Upstreams[name].Fallback; f != nil && f.Upstream != "" {
			u.fallback.other = upstreams[f.Upstream]
		}
	}
	rs := newRoutes(c.Routes, upstreams)
	p.routes.Store(&rs)
	for name, k := range p.kept {
		if upstreams[name] == nil {
			delete(p.kept, name)
			gone = append(gone, k.close)
		}
	}
	for _, end := range gone {
		end()
	}
	return nil
}

// Close lets go of what the proxy holds: idle connections, and what it has added to
// Admin and Metrics. It is for after the last request. It may be called twice.
func (p *Proxy) Close() {
	p.applying <- struct{}{}
	defer func() { <-p.applying }()
	p.closed = true
	for name, k := range p.kept {
		delete(p.kept, name)
		k.close()
	}
}
