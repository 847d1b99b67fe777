package scenario

import (
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// Scenario is a file: what a world is made of, what happens in it, and what is
// expected of it. Instants are times since its start; one left out is the start.
type Scenario struct {
	// Title says in one line what happens.
	Title string `yaml:"title" rule:"required"`
	// About says what there is to learn.
	About string `yaml:"about"`
	// For is how long it lasts. What would last longer is cut off.
	For time.Duration `yaml:"for" rule:"required" max:"1000h"`
	// Slots are the places of a server for the calls that it makes: all traffic
	// takes one. Without it there is no bound.
	Slots *config.Bulkhead `yaml:"slots"`
	// Dependencies are what is called. Each is called by some traffic.
	Dependencies []Dependency `yaml:"dependencies" rule:"required"`
	// Breakers are those that traffic names. Each is named by some.
	Breakers []Breaker `yaml:"breakers"`
	// Traffic is who calls, how often, and through which policies.
	Traffic []Traffic `yaml:"traffic" rule:"required"`
	// ClockSteps move the wall clock.
	ClockSteps []ClockStep `yaml:"clock-steps"`
	// Overrides are what an operator does to breakers.
	Overrides []Override `yaml:"overrides"`
	// Expect is what must come true; if it does not, lab run ends with 1.
	Expect []Expect `yaml:"expect"`
}

// Dependency is what calls are made to.
type Dependency struct {
	// Name is the one by which traffic and expectations know it.
	Name string `yaml:"name" rule:"required"`
	// Capacity is how many calls it serves at a time; the others wait in order.
	// What it has accepted it works off, whether or not anybody still waits for
	// the answer. Default: no bound.
	Capacity int `yaml:"capacity" min:"1" max:"100000"`
	// Queue is how many calls may wait; one more fails at once. Only with
	// Capacity. Default: no bound.
	Queue int `yaml:"queue" min:"1" max:"1000000"`
	// Behaviour is how it is before the first change.
	Behaviour Behaviour `yaml:"behaviour"`
	// Changes are made to it in the order of the file; a later one goes on top of
	// an earlier one.
	Changes []Change `yaml:"changes"`
}

// Behaviour is how a dependency answers a call, by the time at which it begins
// to serve it. Of a change, what is left out stays as it is.
type Behaviour struct {
	// Failures is the share of calls that fail. Default 0%.
	Failures *config.Share `yaml:"failures"`
	// Latency is how long a call takes: its mean, or with log-normal its median.
	// Default off: no time at all.
	Latency time.Duration `yaml:"latency" rule:"off" max:"1000h"`
	// Distribution is how latencies lie: constant, uniform (from half to one and
	// a half times Latency), exponential or log-normal. Default constant.
	Distribution string `yaml:"distribution" enum:"constant,uniform,exponential,log-normal"`
	// P99 is the latency that one call in a hundred exceeds. Only with log-normal,
	// which needs it.
	P99 time.Duration `yaml:"p99" max:"1000h"`
	// FailsAfter is how long a call takes that fails. Default off: as any other.
	FailsAfter time.Duration `yaml:"fails-after" rule:"off" max:"1000h"`
	// Hang is how long every call hangs; then it fails. Default off: none does.
	Hang time.Duration `yaml:"hang" rule:"off" max:"1000h"`
}

// Change is something that happens to a dependency.
type Change struct {
	// At is when.
	At time.Duration `yaml:"at" rule:"zero" max:"1000h"`
	// For is how long it lasts. Default: to the end.
	For time.Duration `yaml:"for" max:"1000h"`
	// Over is how long Failures, Latency and P99 take to change, in a straight
	// line. Default: no time.
	Over time.Duration `yaml:"over" max:"1000h"`
	// Every repeats the change, from At to At. Longer than For, which it needs.
	Every time.Duration `yaml:"every" max:"1000h"`
	// To is what the dependency is like then.
	To Behaviour `yaml:"to" rule:"required"`
}

// Breaker is a breaker that traffic can name.
type Breaker struct {
	// Name is the one by which traffic, overrides and expectations know it.
	Name string `yaml:"name" rule:"required"`
	// Clock is what it reads: monotonic, as breakers do, or wall, which clock
	// steps reach. Default monotonic.
	Clock string `yaml:"clock" default:"monotonic" enum:"monotonic,wall"`
	// Settings are those of a breaker in the file of fusebox serve. With the scope
	// endpoint each dependency has a breaker, by the name NAME/DEPENDENCY.
	Settings config.Breaker `yaml:"settings"`
}

// config returns the settings for fusebox.New.
func (b Breaker) config() fusebox.Config { return b.Settings.Config() }

// Traffic is calls of one kind. A call passes, outermost first, the fallback,
// Slots, the bulkhead, the retry, the breaker and the timeout.
type Traffic struct {
	// Name is the one by which expectations know it.
	Name string `yaml:"name" rule:"required"`
	// To are the dependencies, used in turn.
	To []string `yaml:"to" rule:"required"`

	// Rate is how many calls a second there are, however they fare (an open
	// loop). Either Rate or Workers.
	Rate config.Rate `yaml:"rate"`
	// Workers is how many workers call one after another (a closed loop).
	Workers int `yaml:"workers" min:"1" max:"10000"`
	// Arrivals is poisson, by chance, or steady: of calls at a rate, or with
	// workers of pauses, whose mean then is Pause. Default poisson with Rate, steady
	// with Workers.
	Arrivals string `yaml:"arrivals" enum:"poisson,steady"`
	// Pause is how long a worker waits after a call, and by chance before its first
	// one. Only with Workers. Default off.
	Pause time.Duration `yaml:"pause" rule:"off" max:"1000h"`
	// After is when it begins.
	After time.Duration `yaml:"after" rule:"zero" max:"1000h"`
	// For is how long it lasts. Default: to the end.
	For time.Duration `yaml:"for" max:"1000h"`
	// Processes is how many processes share it, in turn, each with policies and
	// breakers of its own, by the name NAME#1 and so on. Default 1.
	Processes int `yaml:"processes" default:"1" min:"1" max:"1000"`

	// Deadline is how long a caller waits for the call with all its attempts.
	// Default: for ever.
	Deadline time.Duration `yaml:"deadline" max:"1000h"`
	// Fallback answers a call that fails or is rejected. Default false.
	Fallback bool `yaml:"fallback"`
	// Bulkhead bounds the calls in flight. Without it there is no bound.
	Bulkhead *config.Bulkhead `yaml:"bulkhead"`
	// Retry makes calls again that failed. Without it none is.
	Retry *Retry `yaml:"retry"`
	// Breaker is the name of one. Without it there is none.
	Breaker string `yaml:"breaker"`
	// SkipOpen uses the next dependency in turn whose breaker is not open, as
	// long as there is one. Only with a Breaker of the scope endpoint, and several
	// dependencies.
	SkipOpen bool `yaml:"skip-open"`
	// Timeout is how long an attempt may take. Default: for ever.
	Timeout time.Duration `yaml:"timeout" max:"1000h"`
}

// Retry is a retry policy.
type Retry struct {
	// Settings are those of a retry in the file of fusebox serve, but for max-body:
	// there are no bodies here.
	Settings config.Retry `yaml:"settings"`
	// NoBudget retries without a budget.
	NoBudget bool `yaml:"no-budget"`
	// Inside puts it inside the breaker: one outcome for all attempts.
	Inside bool `yaml:"inside"`
	// Rejections is what becomes of one by the breaker: stop ends the call, wait
	// waits once until the breaker probes if there is a deadline, again takes it
	// for a failure like any other, as a retry does that knows no breakers.
	// Default stop.
	Rejections string `yaml:"rejections" default:"stop" enum:"stop,wait,again"`
}

// ClockStep moves the wall clock, ahead or back.
type ClockStep struct {
	// At is when.
	At time.Duration `yaml:"at" rule:"required,zero" max:"1000h"`
	// By is how far ahead. Either By or Back.
	By time.Duration `yaml:"by" max:"1000h"`
	// Back is how far back.
	Back time.Duration `yaml:"back" max:"1000h"`
}

// Override is something an operator does to a breaker, in all processes.
type Override struct {
	// At is when.
	At time.Duration `yaml:"at" rule:"zero" max:"1000h"`
	// Breaker is the name of one that traffic uses.
	Breaker string `yaml:"breaker" rule:"required"`
	// Do is the mode that the breaker is put in, or lift, which ends it, or reset,
	// which closes the breaker.
	Do string `yaml:"do" rule:"required" enum:"enforce,shadow,off,force-open,force-closed,lift,reset"`
	// For is how long a mode holds. Default: until it is lifted.
	For time.Duration `yaml:"for" max:"1000h"`
}

// Expect is what is expected of one breaker, traffic or dependency. Every
// condition that is given must hold, between After and Until. What has not ended
// at the scenario's end is not counted, but where it is in flight.
type Expect struct {
	// Breaker is the name of one that traffic uses: NAME, of all that it stands
	// for; NAME#2, of a process; NAME/DEPENDENCY, of an endpoint. One of Breaker,
	// Traffic and Dependency.
	Breaker string `yaml:"breaker"`
	// Traffic is the name of some.
	Traffic string `yaml:"traffic"`
	// Dependency is the name of one.
	Dependency string `yaml:"dependency"`
	// After is when the span begins that is looked at.
	After time.Duration `yaml:"after" rule:"zero" max:"1000h"`
	// Until is when it ends. Default: at the end.
	Until time.Duration `yaml:"until" max:"1000h"`

	// OpensWithin is how long after After a breaker is open at the latest.
	OpensWithin time.Duration `yaml:"opens-within" max:"1000h"`
	// ClosesWithin is how long after After a breaker is closed at the latest.
	ClosesWithin time.Duration `yaml:"closes-within" max:"1000h"`
	// State is the state of a breaker: at At, or all the time between After and
	// Until.
	State string `yaml:"state" enum:"closed,half-open,open"`
	// At is the instant for State. Not beside After and Until.
	At *time.Duration `yaml:"at" rule:"zero" max:"1000h"`
	// TripsAtLeast is how often a breaker trips at least.
	TripsAtLeast *int `yaml:"trips-at-least" min:"0"`
	// TripsAtMost is how often a breaker trips at most.
	TripsAtMost *int `yaml:"trips-at-most" min:"0"`

	// ServedAtLeast is the least share of the calls of traffic that begin between
	// After and Until and are answered, by a fallback too.
	ServedAtLeast *config.Share `yaml:"served-at-least"`
	// ServedAtMost is the largest such share.
	ServedAtMost *config.Share `yaml:"served-at-most"`
	// FailedAtLeast is the least share of them that reach a dependency and fail.
	FailedAtLeast *config.Share `yaml:"failed-at-least"`
	// FailedAtMost is the largest such share.
	FailedAtMost *config.Share `yaml:"failed-at-most"`
	// RejectedAtLeast is the least share of them that reach no dependency, and get
	// no answer.
	RejectedAtLeast *config.Share `yaml:"rejected-at-least"`
	// RejectedAtMost is the largest such share.
	RejectedAtMost *config.Share `yaml:"rejected-at-most"`
	// P99AtLeast is what the 99th percentile of how long they take that a
	// dependency serves is at least.
	P99AtLeast time.Duration `yaml:"p99-at-least" max:"1000h"`
	// P99AtMost is what it is at most.
	P99AtMost time.Duration `yaml:"p99-at-most" max:"1000h"`

	// CallsAtLeast is how many attempts that begin between After and Until reach a
	// dependency at least.
	CallsAtLeast *int `yaml:"calls-at-least" min:"0"`
	// CallsAtMost is how many do at most.
	CallsAtMost *int `yaml:"calls-at-most" min:"0"`
	// FailuresAtLeast is how many of them fail, or are given up, at least.
	FailuresAtLeast *int `yaml:"failures-at-least" min:"0"`
	// FailuresAtMost is how many do at most.
	FailuresAtMost *int `yaml:"failures-at-most" min:"0"`
	// InFlightAtLeast is how many attempts a dependency has at a time at least,
	// once in the whole time. Not beside After and Until.
	InFlightAtLeast *int `yaml:"in-flight-at-least" min:"0"`
	// InFlightAtMost is how many it ever has at most. Not beside After and Until.
	InFlightAtMost *int `yaml:"in-flight-at-most" min:"0"`
}
