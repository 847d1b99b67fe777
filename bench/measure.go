package bench

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// sample is what one contender did in one round.
type sample struct {
	ns     float64 // a call: elapsed time over calls, of all goroutines together
	allocs float64 // a call
}

// A subject is a contender set up for a row.
type subject struct {
	contender
	row        *Row
	breaker    breaker
	loops      []func(int) int // one a goroutine
	chunked    chunked
	sequential bool
}

func (r *Row) subject(c contender) (*subject, error) {
	s := &subject{contender: c, row: r}
	if c.chunks != nil {
		s.chunked = c.chunks()
		return s, nil
	}
	rules := r.rules
	if c.rules != nil {
		rules = c.rules(rules)
	}
	s.breaker = c.build(rules)
	if r.rejected && !s.floor() && !trip(s.breaker) {
		return nil, fmt.Errorf("bench: %s, %s: does not open", r.Name, c.name)
	}
	cores := r.cores
	if c.cores > 0 {
		cores = c.cores
	}
	s.sequential = cores == 1 && r.perCore == 0
	for range cores * max(1, r.perCore) {
		s.loops = append(s.loops, s.breaker.calls(r.load))
	}
	return s, nil
}

func (s *subject) floor() bool { _, ok := s.breaker.(floor); return ok }

// check reports an error if calls were rejected that ought not to be, or
// admitted. Some rejections may be missing: aegis has no open period, and
// admits calls when its window has emptied.
func (s *subject) check(calls, rejected int) error {
	switch {
	case s.floor():
	case s.row.rejected && rejected < calls-calls/100-50:
		return fmt.Errorf("bench: %s, %s: admitted %d of %d calls while open", s.row.Name, s.name, calls-rejected, calls)
	case !s.row.rejected && rejected > 0:
		return fmt.Errorf("bench: %s, %s: rejected %d of %d calls while closed", s.row.Name, s.name, rejected, calls)
	}
	return nil
}

// sample makes calls for about d.
func (s *subject) sample(d time.Duration) (sample, error) {
	runtime.GC() // what others left is not collected at this one's cost
	if s.chunked != nil {
		return sample{ns: s.chunked.sample(d)}, nil
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var elapsed time.Duration
	var calls, rejected int
	if s.sequential {
		elapsed, calls, rejected = runFor(s.loops[0], d, s.row.batch())
	} else {
		elapsed, calls, rejected = runTogether(s.loops, d)
	}
	settle(s.breaker)
	runtime.ReadMemStats(&after)
	return sample{
		ns:     float64(elapsed.Nanoseconds()) / float64(calls),
		allocs: float64(after.Mallocs-before.Mallocs) / float64(calls),
	}, s.check(calls, rejected)
}

// batch is how many calls are made between two looks at the clock.
func (r *Row) batch() int {
	if r.slow {
		return 1
	}
	return 1000
}

// runFor runs one loop on this goroutine for d.
func runFor(loop func(int) int, d time.Duration, batch int) (elapsed time.Duration, calls, rejected int) {
	start := time.Now()
	for elapsed < d {
		rejected += loop(batch)
		calls += batch
		elapsed = time.Since(start)
	}
	return elapsed, calls, rejected
}

// runTogether runs every loop on a goroutine of its own for d.
func runTogether(loops []func(int) int, d time.Duration) (elapsed time.Duration, calls, rejected int) {
	const batch = 100
	var (
		stop           atomic.Bool
		ready, done    sync.WaitGroup
		begin          = make(chan struct{})
		total, refused atomic.Int64
	)
	for _, loop := range loops {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-begin
			n, r := 0, 0
			for once := true; once || !stop.Load(); once = false {
				r += loop(batch)
				n += batch
			}
			total.Add(int64(n))
			refused.Add(int64(r))
		})
	}
	ready.Wait()
	start := time.Now()
	close(begin)
	time.Sleep(d)
	stop.Store(true)
	done.Wait()
	return time.Since(start), int(total.Load()), int(refused.Load())
}

// chunked measures by itself.
type chunked interface {
	// sample returns the nanoseconds a call, measured for about d.
	sample(d time.Duration) float64
}

// filled is a breaker whose window is filled anew before it is measured for as
// many calls as it holds, so that what it holds stays about the same.
type filled struct {
	fuseboxAt
	rules rules
	load  load
	n     int
	times []time.Duration
}

func newFilled(r rules, l load, n int) chunked {
	if r.calls > 0 {
		r.calls = n
	}
	return &filled{fuseboxAt: newFuseboxAt(r), rules: r, load: l, n: n}
}

func (f *filled) sample(d time.Duration) float64 {
	const chunk = 1000
	call := f.calls(f.load)
	f.times = f.times[:0]
	for elapsed := time.Duration(0); elapsed < d/16; {
		f.fill(f.rules, f.load, f.n)
		for range min(f.n, 100_000) / chunk {
			start := time.Now()
			call(chunk)
			took := time.Since(start)
			f.times = append(f.times, took)
			elapsed += took
		}
	}
	slices.Sort(f.times)
	return float64(f.times[len(f.times)/2].Nanoseconds()) / chunk
}

// Result is one row, measured.
type Result struct {
	Name  string   `json:"name"`
	Title string   `json:"title"`
	Note  string   `json:"note,omitempty"`
	Lines []Line   `json:"lines"`
	Goals []Judged `json:"goals,omitempty"`
}

// Line is one contender of a row. Ratios are medians of the ratios within a
// round; 0 where the row has no such contender.
type Line struct {
	Name          string    `json:"name"`
	Note          string    `json:"note,omitempty"`
	Nanoseconds   float64   `json:"ns"`
	Allocs        float64   `json:"allocs"`
	OverFloor     float64   `json:"over_floor,omitempty"`
	OverGobreaker float64   `json:"over_gobreaker,omitempty"`
	Rounds        []float64 `json:"rounds_ns"`

	chunked bool
}

// Judged is a goal and what was measured. Low and High are the quartiles of
// the rounds.
type Judged struct {
	Goal  string  `json:"goal"`
	Of    string  `json:"of"`
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Met   bool    `json:"met"`
	// Short is the goal without its subject: "≤ 1.15 × floor".
	Short string `json:"short"`
}

// Measure measures all rows, rounds times in turn, every contender for about
// slice in each round. progress is called before each round.
func Measure(rows []Row, rounds int, slice time.Duration, progress func(round int)) ([]Result, error) {
	subjects := make([][]*subject, len(rows))
	samples := make([][][]sample, len(rows)) // row, contender, round
	for i := range rows {
		samples[i] = make([][]sample, len(rows[i].contenders))
		for _, c := range rows[i].contenders {
			s, err := rows[i].subject(c)
			if err != nil {
				return nil, err
			}
			if _, err := s.sample(slice / 10); err != nil { // warms up
				return nil, err
			}
			subjects[i] = append(subjects[i], s)
		}
	}
	for round := range rounds {
		progress(round)
		for i, row := range subjects {
			for _, j := range order(len(row), round) {
				got, err := row[j].sample(slice)
				if err != nil {
					return nil, err
				}
				samples[i][j] = append(samples[i][j], got)
			}
		}
	}
	results := make([]Result, len(rows))
	for i := range rows {
		results[i] = rows[i].result(samples[i])
	}
	return results, nil
}

// order returns the order of a round: rotated by one each time, and turned
// round every other time, so that nobody always follows the same one.
func order(n, round int) []int {
	o := make([]int, n)
	for i := range o {
		o[i] = (i + round) % n
	}
	if round%2 == 1 {
		slices.Reverse(o)
	}
	return o
}

func (r *Row) result(samples [][]sample) Result {
	result := Result{Name: r.Name, Title: r.Title, Note: r.Note}
	at := func(name string) []sample {
		for i, c := range r.contenders {
			if c.name == name {
				return samples[i]
			}
		}
		return nil
	}
	for i, c := range r.contenders {
		line := Line{
			Name: c.name, Note: c.note, chunked: c.chunks != nil,
			OverFloor:     quantile(ratios(samples[i], at(nameFloor)), 0.5),
			OverGobreaker: quantile(ratios(samples[i], at(nameGobreaker)), 0.5),
		}
		var allocs []float64
		for _, s := range samples[i] {
			line.Rounds = append(line.Rounds, s.ns)
			allocs = append(allocs, s.allocs)
		}
		line.Nanoseconds = quantile(line.Rounds, 0.5)
		line.Allocs = quantile(allocs, 0.5)
		result.Lines = append(result.Lines, line)
	}
	for _, g := range r.goals {
		result.Goals = append(result.Goals, r.judge(g, at))
	}
	return result
}

func (r *Row) judge(g goal, at func(string) []sample) Judged {
	j := Judged{Of: g.of}
	switch {
	case g.adds && g.allocs:
		j.quantiles(eachRound(at(g.of), at(g.over), func(a, b sample) float64 { return a.allocs - b.allocs }))
		j.Short = fmt.Sprintf("at most %g allocations more than %s", g.max, g.over)
		j.Met = j.Value < g.max+0.01
	case g.adds:
		j.quantiles(eachRound(at(g.of), at(g.over), func(a, b sample) float64 { return a.ns - b.ns }))
		j.Short = fmt.Sprintf("at most %g ns more than %s", g.max, g.over)
		j.Met = j.Value <= g.max
	case g.allocs && g.over != "":
		j.quantiles(eachRound(at(g.of), at(g.over), func(a, b sample) float64 { return a.allocs / b.allocs }))
		j.Short = fmt.Sprintf("≤ %g × the allocations of %s", g.max, g.over)
		j.Met = j.Value <= g.max
	case g.allocs:
		var allocs []float64
		for _, s := range at(g.of) {
			allocs = append(allocs, s.allocs)
		}
		j.quantiles(allocs)
		j.Short = fmt.Sprintf("≤ %g allocations", g.max)
		j.Met = j.Value < g.max+0.01 // the runtime itself allocates now and then
	case g.over == everyPeer:
		nearest := ""
		for _, c := range r.contenders {
			if !c.counts {
				continue
			}
			if rs := ratios(at(g.of), at(c.name)); quantile(rs, 0.5) > j.Value {
				j.quantiles(rs)
				nearest = c.name
			}
		}
		j.Short = fmt.Sprintf("ahead of %s (nearest: %s)", everyPeer, nearest)
		j.Met = j.Value < g.max
	case g.min > 0:
		j.quantiles(ratios(at(g.of), at(g.over)))
		j.Of = g.over
		j.Short = fmt.Sprintf("≥ %g × the throughput of one core", g.min)
		j.Met = j.Value >= g.min
	default:
		j.quantiles(ratios(at(g.of), at(g.over)))
		j.Short = fmt.Sprintf("≤ %g × %s", g.max, g.over)
		j.Met = j.Value <= g.max
	}
	j.Goal = j.Of + " " + j.Short
	return j
}

func (j *Judged) quantiles(values []float64) {
	j.Low, j.Value, j.High = quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75)
}

// ratios returns the time of a over that of b, round by round; nil if there is no b.
func ratios(a, b []sample) []float64 {
	return eachRound(a, b, func(a, b sample) float64 { return a.ns / b.ns })
}

func eachRound(a, b []sample, compare func(a, b sample) float64) []float64 {
	if len(b) == 0 {
		return nil
	}
	r := make([]float64, len(a))
	for i := range a {
		r[i] = compare(a[i], b[i])
	}
	return r
}

// quantile returns the q-quantile of values, interpolated; 0 of none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i == len(sorted)-1 {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
