package bench

import (
	"fmt"
	"sync/atomic"

	"github.com/alibaba/sentinel-golang/api"
	"github.com/alibaba/sentinel-golang/core/base"
	"github.com/alibaba/sentinel-golang/core/circuitbreaker"
	"github.com/alibaba/sentinel-golang/logging"
)

// sentinel keeps its breakers in a table of the whole process, by resource.
// Its clock has a resolution of a millisecond; the cached clock it offers
// (a goroutine that wakes every millisecond) is left off, as by default.
type sentinel struct {
	resource string
	chain    *base.SlotChain // of the circuit breaker's slots alone
}

var sentinelResources atomic.Uint64

// silent is a logger that writes nothing. Without api.Init sentinel logs to
// standard output and writes no file.
type silent struct{}

func (silent) Debug(string, ...any)        {}
func (silent) DebugEnabled() bool          { return false }
func (silent) Info(string, ...any)         {}
func (silent) InfoEnabled() bool           { return false }
func (silent) Warn(string, ...any)         {}
func (silent) WarnEnabled() bool           { return false }
func (silent) Error(error, string, ...any) {}
func (silent) ErrorEnabled() bool          { return false }

func newSentinel(r rules) sentinel {
	if _, quiet := logging.GetGlobalLogger().(silent); !quiet {
		if err := logging.ResetGlobalLogger(silent{}); err != nil {
			panic(err)
		}
	}
	s := sentinel{
		resource: fmt.Sprintf("bench-%d", sentinelResources.Add(1)),
		chain:    base.NewSlotChain(),
	}
	s.chain.AddRuleCheckSlot(circuitbreaker.DefaultSlot)
	s.chain.AddStatSlot(circuitbreaker.DefaultMetricStatSlot)
	rule := &circuitbreaker.Rule{
		Resource:                     s.resource,
		Strategy:                     circuitbreaker.ErrorRatio,
		Threshold:                    r.rate,
		MinRequestAmount:             uint64(r.minCalls),
		StatIntervalMs:               uint32(r.window.Milliseconds()),
		StatSlidingWindowBucketCount: uint32(r.buckets),
		RetryTimeoutMs:               uint32(r.open.Milliseconds()),
		ProbeNum:                     probes,
	}
	if r.slow > 0 {
		rule.Strategy = circuitbreaker.SlowRequestRatio
		rule.Threshold = slowRate
		rule.MaxAllowedRtMs = uint64(r.slow.Milliseconds())
	}
	if loaded, err := circuitbreaker.LoadRulesOfResource(s.resource, []*circuitbreaker.Rule{rule}); err != nil || !loaded {
		panic(fmt.Sprint("bench: sentinel rule not loaded: ", err))
	}
	return s
}

// sentinelSlots drives the circuit breaker's two slots itself, with a context
// from the chain's pool: what the breaker costs without the rest of sentinel.
type sentinelSlots struct{ sentinel }

func newSentinelSlots(r rules) breaker { return sentinelSlots{newSentinel(r)} }

func (s sentinelSlots) calls(l load) func(int) int {
	errs := l.errors()
	resource := base.NewResourceWrapper(s.resource, base.ResTypeCommon, base.Outbound)
	return func(n int) (rejected int) {
		for i := range n {
			ctx := s.chain.GetPooledContext()
			ctx.Resource = resource
			if circuitbreaker.DefaultSlot.Check(ctx).IsBlocked() {
				rejected++
			} else {
				ctx.SetError(errs[i&1])
				circuitbreaker.DefaultMetricStatSlot.OnCompleted(ctx)
			}
			s.chain.RefurbishContext(ctx)
		}
		return rejected
	}
}

// sentinelEntry uses Entry and Exit with a chain of the breaker's slots alone.
type sentinelEntry struct{ sentinel }

func newSentinelEntry(r rules) breaker { return sentinelEntry{newSentinel(r)} }

func (s sentinelEntry) calls(l load) func(int) int {
	errs := l.errors()
	chain := api.WithSlotChain(s.chain)
	return func(n int) (rejected int) {
		for i := range n {
			entry, blocked := api.Entry(s.resource, chain)
			if blocked != nil {
				rejected++
				continue
			}
			if err := errs[i&1]; err != nil {
				entry.SetError(err)
			}
			entry.Exit()
		}
		return rejected
	}
}
