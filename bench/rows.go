package bench

import (
	"fmt"
	"runtime"
	"time"
)

// A contender is one way to use one library.
type contender struct {
	name string
	note string // what it does not do, or does otherwise
	// counts says that it counts successes and judges failures by them.
	counts bool
	build  func(rules) breaker
	// rules changes those of the row, if not nil.
	rules func(rules) rules
	// cores replaces the row's, if not 0.
	cores int
	// chunks, if not nil, measures instead of build and the row's load.
	chunks func() chunked
}

// goal says what the ratio of two contenders of a row is to be.
type goal struct {
	of string
	// over is the name of the other, or everyPeer.
	over string
	max  float64 // at most this
	min  float64 // or, if not 0, at least this
	// allocs says that the goal is not about time but about allocations a call:
	// their number or, with over, their ratio.
	allocs bool
	// adds says that the goal is about the difference and not the ratio.
	adds bool
}

// everyPeer stands for each contender that counts successes and is not ours.
const everyPeer = "every peer that counts successes"

// Row is one table: contenders that make the same calls.
type Row struct {
	Name  string // for -row and for benchmarks
	Title string
	Note  string

	rules      rules
	load       load
	rejected   bool // the breakers are open, and stay so
	slow       bool // a call takes milliseconds: loops of one
	cores      int
	perCore    int // goroutines a core
	contenders []contender
	goals      []goal
}

const (
	nameFloor     = "floor"
	nameGobreaker = "gobreaker Execute"
	nameRecord    = "fusebox Allow+Record"
	nameDo        = "fusebox Do"
	nameOneCore   = "fusebox Allow+Record, one core"
	nameCall      = "fusebox Call, closure that captures"
)

var (
	ctFloor = contender{name: nameFloor, build: newFloor, note: "no breaker"}

	ctRecord = contender{name: nameRecord, build: newFuseboxRecord}
	ctFinish = contender{name: "fusebox Allow+Finish, deferred Record", build: newFuseboxFinish}
	ctDo     = contender{name: nameDo, build: newFuseboxDo}
	ctDoCtx  = contender{name: "fusebox Do, cancellable context", build: newFuseboxDoCancellable}
	ctCalls  = contender{
		name: "fusebox Allow+Record, window of 100 calls", build: newFuseboxRecord,
		rules: func(r rules) rules { return r.withCalls(failsafeCalls) },
		note:  "takes the lock for every outcome",
	}

	ctGobreaker = contender{
		name: nameGobreaker, build: newGobreaker,
		note: "consecutive failures; no window, no slow rule, rejections not counted",
	}
	ctGobreakerRolling = contender{
		name: "gobreaker Execute, rolling window", build: newGobreakerRolling, counts: true,
		note: "no slow rule, rejections not counted",
	}
	ctGobreakerTwoStep = contender{
		name: "gobreaker Allow+done", build: newGobreakerTwoStep,
		note: "as Execute",
	}
	ctFailsafeTime = contender{
		name: "failsafe permits, time", build: newFailsafeTimePermit, counts: true,
		note: "no slow rule, no context, rejections not counted",
	}
	ctFailsafeCount = contender{
		name: "failsafe permits, count", build: newFailsafeCountPermit, counts: true,
		note: "window of 100 calls, no clock read while closed; no slow rule, no context, rejections not counted",
	}
	ctFailsafeTimeRun = contender{
		name: "failsafe Run, time", build: newFailsafeTimeRun, counts: true,
		note: "no slow rule, rejections not counted",
	}
	ctFailsafeCountRun = contender{
		name: "failsafe Run, count", build: newFailsafeCountRun, counts: true,
		note: "window of 100 calls; no slow rule, rejections not counted",
	}
	ctSentinelSlots = contender{
		name: "sentinel slots, error ratio", build: newSentinelSlots, counts: true,
		note: "millisecond clock; rejections not counted by these slots",
	}
	ctSentinelEntry = contender{
		name: "sentinel Entry, error ratio", build: newSentinelEntry, counts: true,
		note: "chain of the breaker's slots alone",
	}
	ctSentinelSlow = contender{
		name: "sentinel slots, slow ratio", build: newSentinelSlots, counts: true,
		note: "millisecond clock; no failure rule beside it",
	}
	ctSentinelSlowEntry = contender{
		name: "sentinel Entry, slow ratio", build: newSentinelEntry, counts: true,
		note: "chain of the breaker's slots alone; no failure rule beside it",
	}
	ctAegis = contender{
		name: "aegis", build: newAegis, counts: true,
		note: "drops by chance, no open period, no slow rule",
	}
	ctHystrix = contender{
		name: "hystrix Do", build: newHystrix, counts: true,
		note: "goroutines and a timer for each call; drops counts under load; part of the work runs on other cores",
	}
	ctRubyist = contender{
		name: "rubyist Call, rate", build: newRubyist, counts: true,
		note: "no slow rule, rejections not counted",
	}
	ctEapache = contender{
		name: "eapache Run", build: newEapache,
		note: "counts no successes, has no window: a success is one load",
	}
)

// peers are those without a slow rule.
var peers = []contender{
	ctGobreaker, ctGobreakerRolling, ctFailsafeTime, ctFailsafeCount,
	ctSentinelSlots, ctAegis, ctHystrix, ctRubyist, ctEapache,
}

func onOneCore(name string, c contender) contender {
	c.cores, c.name = 1, name
	return c
}

func all(groups ...[]contender) (joined []contender) {
	for _, g := range groups {
		joined = append(joined, g...)
	}
	return joined
}

// Rows returns the tables, in the order of the goals they are held to. On a
// machine of one core those for two are left out.
func Rows() []Row {
	rows := []Row{
		{
			Name:  "success-slow-rule",
			Title: "Closed, every call succeeds, with a slow rule (two clock reads)",
			Note:  "Of the peers only sentinel has a slow rule; gobreaker stands for the others.",
			rules: usual.withSlow(), cores: 1,
			contenders: []contender{ctFloor, ctRecord, ctFinish, ctDo, ctGobreaker, ctSentinelSlow, ctSentinelSlowEntry},
			goals: []goal{
				{of: nameRecord, over: nameFloor, max: 1.15},
				{of: nameDo, over: nameFloor, max: 1.25},
				{of: nameRecord, over: nameGobreaker, max: 0.45},
				{of: nameDo, over: nameGobreaker, max: 0.45},
				{of: nameDo, allocs: true},
			},
		},
		{
			Name:  "success",
			Title: "Closed, every call succeeds, no slow rule (one clock read)",
			Note:  "eapache counts no successes and has no window: its closed path is one load, which no breaker with a window can beat.",
			rules: usual, cores: 1,
			contenders: all([]contender{ctFloor, ctRecord, ctFinish, ctDo, ctDoCtx, ctCalls}, peers,
				[]contender{ctGobreakerTwoStep, ctFailsafeTimeRun, ctFailsafeCountRun, ctSentinelEntry}),
			goals: []goal{
				{of: nameRecord, over: nameFloor, max: 1.25},
				{of: nameDo, over: nameFloor, max: 1.4},
				{of: ctDoCtx.name, over: nameFloor, max: 1.5},
				{of: nameRecord, over: nameGobreaker, max: 0.30},
				{of: nameDo, over: nameGobreaker, max: 0.30},
				{of: nameRecord, over: everyPeer, max: 1},
				{of: nameDo, over: everyPeer, max: 1},
				{of: nameDo, allocs: true},
				{of: ctFinish.name, allocs: true},
			},
		},
		{
			Name:  "success-slow-rule-2",
			Title: "The same with a slow rule, on two cores",
			rules: usual.withSlow(), cores: 2,
			contenders: []contender{
				ctFloor, onOneCore("floor, one core", ctFloor),
				ctRecord, onOneCore(nameOneCore, ctRecord), ctDo, ctGobreaker, ctSentinelSlow,
			},
			goals: []goal{
				{of: nameRecord, over: nameGobreaker, max: 0.20},
				{of: nameDo, over: nameGobreaker, max: 0.20},
				{of: nameOneCore, over: nameRecord, min: 1.8},
			},
		},
		{
			Name:  "success-2",
			Title: "The same without a slow rule, on two cores",
			rules: usual, cores: 2,
			contenders: all([]contender{
				ctFloor, onOneCore("floor, one core", ctFloor),
				ctRecord, onOneCore(nameOneCore, ctRecord), ctDo, ctCalls,
			}, peers),
			goals: []goal{
				{of: nameRecord, over: nameGobreaker, max: 0.13},
				{of: nameDo, over: nameGobreaker, max: 0.13},
				{of: nameOneCore, over: nameRecord, min: 1.8},
			},
		},
		{
			Name:  "goroutines-64",
			Title: "The same, 64 goroutines a core",
			rules: usual, cores: 2, perCore: 64,
			contenders: all([]contender{
				ctFloor, ctRecord, ctDo,
				{name: "fusebox Allow+Record, slow rule", build: newFuseboxRecord, rules: rules.withSlow},
			}, peers),
			goals: []goal{
				{of: nameRecord, over: nameGobreaker, max: 0.10},
				{of: nameDo, over: nameGobreaker, max: 0.10},
			},
		},
		{
			Name:  "rejected",
			Title: "Rejected while open",
			Note:  "Every rejection by fusebox is counted. aegis admits a few calls, and those must fail, or it would recover.",
			rules: usual.staysOpen(), load: fail, rejected: true, cores: 1,
			contenders: all([]contender{ctFloor, ctRecord, ctDo}, peers,
				[]contender{ctFailsafeTimeRun, ctSentinelEntry}),
			goals: []goal{
				{of: nameRecord, over: nameGobreaker, max: 0.6},
				{of: nameDo, over: nameGobreaker, max: 0.6},
				{of: nameRecord, allocs: true},
				{of: nameDo, allocs: true},
			},
		},
		{
			Name:  "rejected-2",
			Title: "Rejected while open, on two cores",
			rules: usual.staysOpen(), load: fail, rejected: true, cores: 2,
			contenders: all([]contender{ctFloor, ctRecord, ctDo}, peers),
			goals: []goal{
				{of: nameRecord, over: nameGobreaker, max: 0.75},
				{of: nameDo, over: nameGobreaker, max: 0.75},
			},
		},
		windowRow("window-time", "What the time window holds, every call succeeds", succeed, usual,
			"Allow+Record under a clock that stands still, the outcomes spread over all buckets."),
		windowRow("window-time-half", "What the time window holds, every other call fails", half, usual.standsHalf(),
			"The failure rate trips at 0.9, so that failures have to be judged."),
		windowRow("window-calls", "What a window of calls holds, every call succeeds", succeed,
			rules{
				window: usual.window, buckets: usual.buckets, calls: 1, rate: usual.rate,
				minCalls: usual.minCalls, consecutive: usual.consecutive, open: usual.open,
			},
			"A window of so many calls, full: a byte each. A success takes the lock."),
		{
			Name:  "buckets",
			Title: "Number of buckets, every call succeeds",
			Note:  "10 or 3600 buckets of a second.",
			rules: usual, cores: 1,
			contenders: []contender{
				buckets(10, ctRecord), buckets(3600, ctRecord),
				buckets(10, ctGobreakerRolling), buckets(3600, ctGobreakerRolling),
				buckets(10, ctAegis), buckets(3600, ctAegis),
			},
			goals: []goal{{of: buckets(3600, ctRecord).name, over: buckets(10, ctRecord).name, max: 1.05}},
		},
		{
			Name:  "buckets-half",
			Title: "Number of buckets, every other call fails",
			Note:  "10 or 3600 buckets of a second. The failure rate trips at 0.9.",
			rules: usual.standsHalf(), load: half, cores: 1,
			contenders: []contender{
				buckets(10, ctRecord), buckets(3600, ctRecord),
				buckets(10, ctGobreakerRolling), buckets(3600, ctGobreakerRolling),
			},
			goals: []goal{{of: buckets(3600, ctRecord).name, over: buckets(10, ctRecord).name, max: 1.05}},
		},
		{
			Name:  "failure",
			Title: "Closed, every call fails",
			Note:  "The minimum of calls and the failures in a row that trip are out of reach.",
			rules: usual.standsFailures(), load: fail, cores: 1,
			contenders: all([]contender{ctFloor, ctRecord, ctDo}, peers),
			goals: []goal{
				{of: nameRecord, over: nameGobreaker, max: 0.6},
				{of: nameDo, over: nameGobreaker, max: 0.6},
			},
		},
		{
			Name:  "failure-half",
			Title: "Closed, every other call fails",
			Note:  "The failure rate trips at 0.9.",
			rules: usual.standsHalf(), load: half, cores: 1,
			contenders: all([]contender{ctFloor, ctRecord, ctDo}, peers),
		},
		{
			Name:  "failure-2",
			Title: "Closed, every call fails, on two cores",
			rules: usual.standsFailures(), load: fail, cores: 2,
			contenders: []contender{
				ctFloor, ctRecord, ctDo, ctGobreaker, ctGobreakerRolling, ctFailsafeTime, ctRubyist,
			},
		},
		{
			Name:  "call",
			Title: "A result by a closure that captures a variable",
			rules: usual, cores: 1,
			contenders: []contender{
				ctFloor,
				{name: nameCall, build: newFuseboxCall},
				{name: nameGobreaker, build: newGobreakerValue},
			},
			goals: []goal{{of: nameCall, allocs: true, max: 1}},
		},
	}
	rows = append(rows, policyRows()...)
	rows = append(rows, adapterRows()...)
	if runtime.NumCPU() > 1 && runtime.GOMAXPROCS(0) > 1 {
		return rows
	}
	var fit []Row
	for _, r := range rows {
		if r.cores == 1 {
			fit = append(fit, r)
		}
	}
	return fit
}

func buckets(n int, c contender) contender {
	c.name = fmt.Sprintf("%s, %d buckets", c.name, n)
	c.rules = func(r rules) rules { return r.with(time.Duration(n)*time.Second, n) }
	return c
}

// windowRow compares windows that hold 1,000, 100,000 and 1,000,000 outcomes.
func windowRow(name, title string, l load, r rules, note string) Row {
	row := Row{Name: name, Title: title, Note: note, rules: r, load: l, cores: 1}
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		row.contenders = append(row.contenders, contender{
			name:   fmt.Sprintf("fusebox, %d outcomes", n),
			chunks: func() chunked { return newFilled(r, l, n) },
		})
	}
	small := row.contenders[0].name
	for _, c := range row.contenders[1:] {
		row.goals = append(row.goals, goal{of: c.name, over: small, max: 1.05})
	}
	return row
}
