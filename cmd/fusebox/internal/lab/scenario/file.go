package scenario

import (
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// Scenario is a file. Instants are times since its start, and 0 where they are
// left out.
type Scenario struct {
	// Title says in one line what happens, About what there is to learn.
	Title string `yaml:"title" rule:"required"`
	About string `yaml:"about"`
	// For is how long it lasts.
	For time.Duration `yaml:"for" rule:"required"`
	// Slots are the places of a server for the calls that it makes: all traffic
	// takes one. Without it there is no bound.
	Slots        *config.Bulkhead `yaml:"slots"`
	Dependencies []Dependency     `yaml:"dependencies" rule:"required"`
	Breakers     []Breaker        `yaml:"breakers"`
	Traffic      []Traffic        `yaml:"traffic" rule:"required"`
	// ClockSteps move the wall clock.
	ClockSteps []ClockStep `yaml:"clock-steps"`
	// Overrides are what an operator does to breakers.
	Overrides []Override `yaml:"overrides"`
	Expect    []Expect   `yaml:"expect"`
}

// Dependency is what calls are made to.
type Dependency struct {
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
	Latency time.Duration `yaml:"latency" rule:"off"`
	// Distribution is how latencies lie: constant, uniform (from half to one and
	// a half times Latency), exponential or log-normal. Default constant.
	Distribution string `yaml:"distribution" enum:"constant,uniform,exponential,log-normal"`
	// P99 is the latency that one call in a hundred exceeds. Only with log-normal,
	// which needs it.
	P99 time.Duration `yaml:"p99"`
	// FailsAfter is how long a call takes that fails. Default off: as any other.
	FailsAfter time.Duration `yaml:"fails-after" rule:"off"`
	// Hang is how long a call hangs; then it fails. Default off: it does not.
	Hang time.Duration `yaml:"hang" rule:"off"`
}

// Change is something that happens to a dependency.
type Change struct {
	At time.Duration `yaml:"at"`
	// For is how long it lasts. Default: to the end.
	For time.Duration `yaml:"for"`
	// Over is how long Failures, Latency and P99 take to change, in a straight
	// line. Default: no time.
	Over time.Duration `yaml:"over"`
	// Every repeats the change, from At to At. Longer than For, which it needs.
	Every time.Duration `yaml:"every"`
	// To is what the dependency is like then.
	To Behaviour `yaml:"to" rule:"required"`
}

// Breaker is a breaker that traffic can name.
type Breaker struct {
	Name string `yaml:"name" rule:"required"`
	// Clock is what it reads: monotonic, as breakers do, or wall, which clock
	// steps reach. Default monotonic.
	Clock string `yaml:"clock" default:"monotonic" enum:"monotonic,wall"`
	// Settings are those of the program's file. With the scope endpoint each
	// dependency has one, by the name NAME/DEPENDENCY.
	Settings config.Breaker `yaml:"settings"`
}

// config returns the settings for fusebox.New.
func (b Breaker) config() fusebox.Config { return b.Settings.Config() }

// Traffic is calls of one kind. A call passes, outermost first, the fallback,
// Slots, the bulkhead, the retry, the breaker and the timeout.
type Traffic struct {
	Name string `yaml:"name" rule:"required"`
	// To are the dependencies, used in turn.
	To []string `yaml:"to" rule:"required"`

	// Rate is how many calls a second there are, however they fare (an open
	// loop); Workers is how many workers call one after another (a closed one).
	// One of the two.
	Rate    config.Rate `yaml:"rate"`
	Workers int         `yaml:"workers" min:"1" max:"10000"`
	// Arrivals is poisson, by chance, or steady. Only with Rate. Default poisson.
	Arrivals string `yaml:"arrivals" enum:"poisson,steady"`
	// Pause is how long a worker waits after a call; at first, a part of it by
	// chance. Default off.
	Pause time.Duration `yaml:"pause" rule:"off"`
	// After is when it begins, For how long it lasts. Default: to the end.
	After time.Duration `yaml:"after"`
	For   time.Duration `yaml:"for"`
	// Processes is how many processes share it, in turn, each with policies and
	// breakers of its own, by the name NAME#1 and so on. Default 1.
	Processes int `yaml:"processes" default:"1" min:"1" max:"1000"`

	// Deadline is how long a caller waits for the call with all its attempts.
	// Default: for ever.
	Deadline time.Duration    `yaml:"deadline"`
	Fallback bool             `yaml:"fallback"`
	Bulkhead *config.Bulkhead `yaml:"bulkhead"`
	Retry    *Retry           `yaml:"retry"`
	// Breaker is the name of one.
	Breaker string `yaml:"breaker"`
	// SkipOpen uses the next dependency in turn whose breaker is not open, as
	// long as there is one. Only with a Breaker.
	SkipOpen bool `yaml:"skip-open"`
	// Timeout is how long an attempt may take.
	Timeout time.Duration `yaml:"timeout"`
}

// Retry is a retry policy.
type Retry struct {
	// Settings are those of the program's file.
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

// ClockStep moves the wall clock at an instant, by so much.
type ClockStep struct {
	At   time.Duration `yaml:"at" rule:"required"`
	By   time.Duration `yaml:"by"`
	Back time.Duration `yaml:"back"`
}

// Override is something an operator does to a breaker, in all processes.
type Override struct {
	At      time.Duration `yaml:"at"`
	Breaker string        `yaml:"breaker" rule:"required"`
	Do      string        `yaml:"do" rule:"required" enum:"enforce,shadow,off,force-open,force-closed,lift,reset"`
	// For is how long a mode holds. Default: until it is lifted.
	For time.Duration `yaml:"for"`
}

// Expect is what is expected of one breaker, traffic or dependency. Every
// condition that is given must hold, between After and Until (default: the end).
type Expect struct {
	Breaker    string        `yaml:"breaker"`
	Traffic    string        `yaml:"traffic"`
	Dependency string        `yaml:"dependency"`
	After      time.Duration `yaml:"after"`
	Until      time.Duration `yaml:"until"`

	// Of a breaker; where the name stands for several, of each of them.
	OpensWithin  time.Duration `yaml:"opens-within"`  // counted from After; 0 if it is open already
	ClosesWithin time.Duration `yaml:"closes-within"` // likewise
	State        string        `yaml:"state" enum:"closed,half-open,open"`
	At           time.Duration `yaml:"at"` // for State; without it, all the time
	TripsAtLeast *int          `yaml:"trips-at-least" min:"0"`
	TripsAtMost  *int          `yaml:"trips-at-most" min:"0"`

	// Of traffic: shares of the calls that begin between After and Until, and a
	// quantile of how long those take that are served.
	ServedAtLeast   *config.Share `yaml:"served-at-least"`
	ServedAtMost    *config.Share `yaml:"served-at-most"`
	FailedAtLeast   *config.Share `yaml:"failed-at-least"`
	FailedAtMost    *config.Share `yaml:"failed-at-most"`
	RejectedAtLeast *config.Share `yaml:"rejected-at-least"`
	RejectedAtMost  *config.Share `yaml:"rejected-at-most"`
	P99AtLeast      time.Duration `yaml:"p99-at-least"`
	P99AtMost       time.Duration `yaml:"p99-at-most"`

	// Of a dependency: attempts that begin between After and Until.
	CallsAtLeast    *int `yaml:"calls-at-least" min:"0"`
	CallsAtMost     *int `yaml:"calls-at-most" min:"0"`
	FailuresAtMost  *int `yaml:"failures-at-most" min:"0"`
	FailuresAtLeast *int `yaml:"failures-at-least" min:"0"`
	// InFlight is of the whole time: how many attempts there are at once.
	InFlightAtLeast *int `yaml:"in-flight-at-least" min:"0"`
	InFlightAtMost  *int `yaml:"in-flight-at-most" min:"0"`
}
