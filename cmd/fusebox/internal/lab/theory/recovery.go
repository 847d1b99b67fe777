// Package theory has the formulas that the laboratory holds its simulations
// against. None of them knows a breaker's code.
//
// Some processors multiply and add in one step, which rounds once instead of
// twice, and Go lets them. The conversions to float64 around products are there to
// forbid it: the same seed is to give the same last digit everywhere.
package theory

import "math"

// Recovery is a breaker on its way back to closed, with calls that come at
// every tick and take no time. Half-open is a race between Close successes and
// Reopen failures; a failure that decides it opens the breaker for the next
// open period, and the first call at or after its end is the next probe.
type Recovery struct {
	// Periods are the open periods in ticks, one after another; the last one
	// is that of all further ones too.
	Periods []float64
	// Jitter scales each period by a factor between 1-Jitter and 1+Jitter, all
	// equally likely.
	Jitter float64
	Close  int // successes that close
	Reopen int // failures that reopen
	// Success is the chance that a call at a tick succeeds.
	Success func(tick int) float64
	// Ticks is how many are looked at: from 0 up to it, that one included.
	Ticks int
	// Opened is whether the breaker opens at tick 0, for the first period. If
	// not, it is half-open, and probes there, and the first period comes after
	// the first reopening.
	Opened bool
}

// Outcome is the distribution of what becomes of a Recovery.
type Outcome struct {
	// Closed is the chance of closing at each tick.
	Closed []float64
	// Never is the chance not to close within the ticks.
	Never float64
	// Reopenings within the ticks, and Failures of probes: mean and variance.
	Reopenings, Failures Moments
}

// Moments are the mean and the variance of a number.
type Moments struct{ Mean, Variance float64 }

// mass is a chance, with the first two moments of two counts, each times the
// chance.
type mass struct{ p, r1, r2, f1, f2 float64 }

func (m mass) times(q float64) mass {
	return mass{m.p * q, m.r1 * q, m.r2 * q, m.f1 * q, m.f2 * q}
}

func (m *mass) add(o mass) {
	m.p += o.p
	m.r1 += o.r1
	m.r2 += o.r2
	m.f1 += o.f1
	m.f2 += o.f2
}

// failed counts one more failure, reopened one more reopening.
func (m mass) failed() mass {
	m.f2 += float64(2*m.f1) + m.p
	m.f1 += m.p
	return m
}

func (m mass) reopened() mass {
	m.r2 += float64(2*m.r1) + m.p
	m.r1 += m.p
	return m
}

// Exact computes the distribution by following every possibility forward in
// time: the chance to begin a half-open period at each tick, for each open
// period that led there.
func (r Recovery) Exact() Outcome {
	out := Outcome{Closed: make([]float64, r.Ticks+1)}
	var end mass // of all that ended, closed or at the last tick
	stage, period := newBegins(0, 0, r.Ticks), 0
	if r.Opened {
		stage, period = r.after(stage, 0), 1
		r.open(stage, 0, 0, mass{p: 1}, &end)
	} else {
		stage.at(0, mass{p: 1})
	}
	for ; period < len(r.Periods); period++ {
		next := r.after(stage, period)
		r.follow(stage, next, period, &out, &end)
		stage = next
	}
	r.follow(stage, stage, len(r.Periods)-1, &out, &end)
	out.Never = 1
	for _, p := range out.Closed {
		out.Never -= p
	}
	out.Reopenings = Moments{end.r1, end.r2 - float64(end.r1*end.r1)}
	out.Failures = Moments{end.f1, end.f2 - float64(end.f1*end.f1)}
	return out
}

// after returns the place for the half-open periods that follow, after the given
// open period, on those of a stage. The last open period is followed by itself.
func (r Recovery) after(stage *begins, period int) *begins {
	t := r.Periods[period]
	from := stage.from + int(math.Ceil(t*(1-r.Jitter)))
	until := r.Ticks
	if period < len(r.Periods)-1 {
		until = min(until, stage.until+r.Close+r.Reopen+int(math.Ceil(t*(1+r.Jitter))))
	}
	return newBegins(from, until, r.Ticks)
}

// follow plays every half-open period that begins in a stage; those that
// reopen do so for the given period, into the stage next, which may be the same.
func (r Recovery) follow(stage, next *begins, period int, out *Outcome, end *mass) {
	var scratch [2][]mass
	for i := range scratch {
		scratch[i] = make([]mass, r.Reopen)
	}
	for t := stage.from; t <= stage.until; t++ {
		m := stage.pass(t)
		if m.p <= 0 {
			continue
		}
		r.race(t, m, scratch, func(tick int, m mass) {
			out.Closed[tick] += m.p
			end.add(m)
		}, func(tick int, m mass) {
			r.open(next, tick, period, m, end)
		}, end)
	}
}

// race plays one half-open period that begins at a tick.
func (r Recovery) race(tick int, m mass, scratch [2][]mass, closed, reopened func(int, mass), end *mass) {
	// alive[j] is the chance of j failures so far; with the tick that says how
	// many successes there are.
	alive, after := scratch[0], scratch[1]
	clear(alive)
	alive[0] = m
	for n, going := 0, true; going; n++ {
		if tick+n > r.Ticks {
			for _, a := range alive {
				end.add(a)
			}
			return
		}
		q := r.Success(tick + n)
		clear(after)
		going = false
		for j, a := range alive {
			if a.p == 0 {
				continue
			}
			if up := a.times(q); n-j+1 >= r.Close {
				closed(tick+n, up)
			} else {
				after[j].add(up)
				going = going || up.p > 0
			}
			if down := a.times(1 - q).failed(); j+1 >= r.Reopen {
				reopened(tick+n, down.reopened())
			} else {
				after[j+1].add(down)
				going = going || down.p > 0
			}
		}
		alive, after = after, alive
	}
}

// open spreads what opens at a tick over the ticks at which it probes.
func (r Recovery) open(to *begins, tick, period int, m mass, end *mass) {
	if m.p == 0 {
		return
	}
	t := r.Periods[period]
	low, high := float64(t*(1-r.Jitter)), float64(t*(1+r.Jitter))
	if r.Jitter == 0 {
		to.within(tick+int(math.Ceil(low)), m, end)
		return
	}
	// A period of x ticks probes at the tick ceil(x). Between the first and the
	// last possible tick, where less than a whole tick may lead, all are equally
	// likely.
	first, last := int(math.Ceil(low)), int(math.Ceil(high))
	if first == last {
		to.within(tick+first, m, end)
		return
	}
	each := 1 / (high - low)
	to.within(tick+first, m.times((float64(first)-low)*each), end)
	to.within(tick+last, m.times((high-float64(last-1))*each), end)
	from, until := tick+first+1, tick+last-1
	if beyond := until - max(from, r.Ticks+1) + 1; beyond > 0 {
		end.add(m.times(float64(beyond) * each))
		until -= beyond
	}
	if from <= until {
		to.span(from, until, m.times(each))
	}
}

// begins has, for each tick from one to another, the mass of half-open periods
// that begin there. Spans are kept as what changes at their ends, so they cost
// the same whatever their length; pass goes through the ticks in order and adds
// up.
type begins struct {
	from, until    int
	ticks          int // what is beyond is not looked at
	single, change []mass
	sum            mass
}

func newBegins(from, until, ticks int) *begins {
	from, until = min(from, ticks), min(until, ticks)
	n := until - from + 1
	return &begins{from: from, until: until, ticks: ticks, single: make([]mass, n), change: make([]mass, n+1)}
}

func (b *begins) at(tick int, m mass) { b.single[tick-b.from].add(m) }

// within adds a mass at a tick, or to end if that is beyond the last one.
func (b *begins) within(tick int, m mass, end *mass) {
	if tick > b.ticks {
		end.add(m)
		return
	}
	b.at(tick, m)
}

func (b *begins) span(from, until int, m mass) {
	b.change[from-b.from].add(m)
	b.change[until+1-b.from].add(m.times(-1))
}

// pass returns the mass of a tick; it is called once for each, in order.
func (b *begins) pass(tick int) mass {
	b.sum.add(b.change[tick-b.from])
	m := b.single[tick-b.from]
	if b.sum.p > 1e-15 { // what is left of sums that cancel out is not a chance
		m.add(b.sum)
	}
	return m
}

// CDF returns the chance to have closed up to a tick, that one included.
func (o Outcome) CDF(tick int) (p float64) {
	for _, c := range o.Closed[:min(tick+1, len(o.Closed))] {
		p += c
	}
	return p
}

// Quantile returns the first tick up to which the chance to have closed is at
// least p; false if there is none.
func (o Outcome) Quantile(p float64) (tick int, ok bool) {
	sum := 0.0
	for t, c := range o.Closed {
		if sum += c; sum >= p-1e-12 {
			return t, true
		}
	}
	return 0, false
}

// Time returns mean and variance of the tick at which the breaker closes; what
// never does counts with the last tick.
func (o Outcome) Time() (m Moments) {
	second := 0.0
	add := func(tick int, p float64) {
		m.Mean += float64(p * float64(tick))
		second += float64(p * float64(tick) * float64(tick))
	}
	for tick, p := range o.Closed {
		add(tick, p)
	}
	add(len(o.Closed)-1, o.Never)
	m.Variance = second - float64(m.Mean*m.Mean)
	return m
}
