package bench

import (
	"runtime"
	"strconv"
	"unsafe"

	"github.com/afex/hystrix-go/hystrix"
	"github.com/alibaba/sentinel-golang/core/circuitbreaker"
	"github.com/fusebox-go/fusebox"
	"github.com/sony/gobreaker/v2"
)

// Memory is what idle breakers of one kind hold.
type Memory struct {
	Name       string  `json:"name"`
	Note       string  `json:"note,omitempty"`
	Breakers   int     `json:"breakers"`
	Bytes      float64 `json:"bytes"`      // of heap, each
	Goroutines float64 `json:"goroutines"` // each
	Limit      float64 `json:"limit,omitempty"`
	Met        bool    `json:"met,omitempty"`
}

const (
	memoryLimit = 768 // bytes, settings shared by pointer
	nameNew     = "fusebox New, zero Config"
)

// MeasureMemory makes idle breakers and says what they hold. Names are made
// beforehand and not counted.
func MeasureMemory() []Memory {
	const many = 100_000
	registry := &fusebox.Registry{MaxKeys: many}
	kinds := []struct {
		name, note string
		n          int
		build      func(name string) any
	}{
		{
			name: nameNew, n: many, note: "a copy of the settings each",
			build: func(name string) any { return fusebox.New(name, fusebox.Config{}) },
		},
		{
			name: "fusebox Registry.Get", n: many,
			note:  "settings shared; its table of keys counted",
			build: func(name string) any { return registry.Get(name) },
		},
		{
			name: "gobreaker, consecutive", n: many,
			build: func(name string) any {
				s := gobreakerSettings(usual)
				s.Name = name
				return gobreaker.NewCircuitBreaker[struct{}](s)
			},
		},
		{
			name: "gobreaker, rolling window", n: many,
			build: func(name string) any {
				s := gobreakerRolling(usual)
				s.Name = name
				return gobreaker.NewCircuitBreaker[struct{}](s)
			},
		},
		{name: "failsafe, time", n: many, build: func(string) any { return failsafeTime(usual) }},
		{name: "failsafe, count", n: many, build: func(string) any { return failsafeCount(usual) }},
		{
			name: "sentinel, error ratio", n: 1000, note: "a resource and its rule",
			build: func(string) any { return newSentinel(usual) },
		},
		{name: "aegis", n: 10_000, build: func(string) any { return newAegis(usual) }},
		{
			name: "hystrix", n: 100, note: "ten calls at a time, as by default; after one call",
			build: func(string) any {
				b := newHystrixOf(usual, hystrix.DefaultMaxConcurrent)
				b.calls(succeed)(1)
				return b
			},
		},
		{name: "rubyist, rate", n: 10_000, build: func(string) any { return newRubyist(usual) }},
		{name: "eapache", n: many, note: "no window", build: func(string) any { return newEapache(usual) }},
	}
	names := make([]string, many)
	for i := range names {
		names[i] = "host-" + strconv.Itoa(i)
	}
	measured := make([]Memory, 0, len(kinds)+1)
	for _, k := range kinds {
		kept := make([]any, k.n)
		before, goroutines := heap(), runtime.NumGoroutine()
		for i := range kept {
			kept[i] = k.build(names[i])
		}
		settle(hystrixCommand{})
		m := Memory{
			Name: k.name, Note: k.note, Breakers: k.n,
			Bytes:      float64(int64(heap()-before)) / float64(k.n),
			Goroutines: float64(runtime.NumGoroutine()-goroutines) / float64(k.n),
		}
		measured = append(measured, m)
		if k.name == nameNew {
			shared := m
			shared.Name, shared.Note = "the same, settings shared", "as by a Registry: the above less one Config"
			shared.Bytes -= float64(unsafe.Sizeof(fusebox.Config{}))
			shared.Limit = memoryLimit
			shared.Met = shared.Bytes <= memoryLimit && shared.Goroutines == 0
			measured = append(measured, shared)
		}
		runtime.KeepAlive(kept)
		if err := circuitbreaker.ClearRules(); err != nil {
			panic(err)
		}
	}
	return measured
}

// heap returns the bytes of heap in use after a collection.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one freed in sync.Pools
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
