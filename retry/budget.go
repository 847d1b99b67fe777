package retry

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox/internal/invalid"
)

// BudgetConfig says how many retries there may be. The zero value is usable.
type BudgetConfig struct {
	// Share is how many retries each call is worth: with 0.2 there may be one
	// retry for five calls. Default 0.2; negative: none.
	Share float64

	// MinPerSecond is how many retries a second there may be besides, so that
	// a service with little traffic can retry at all; all of a Window's at
	// once, if need be. At least one a Window. Default 1; negative: none.
	MinPerSecond float64

	// Window is the span over which calls and retries are counted. Default 10 s.
	Window time.Duration
}

// Validate returns nil or one error that joins an error for every invalid field, with
// the method of those of [Config.Validate].
func (c BudgetConfig) Validate() error {
	var errs []error
	reject := func(field string, value any, rule string) {
		errs = append(errs, invalid.Field("retry: BudgetConfig", field, value, rule))
	}
	finite := func(field string, value float64) {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			reject(field, value, "must be a finite number; negative is none")
		}
	}
	finite("Share", c.Share)
	finite("MinPerSecond", c.MinPerSecond)
	if c.Share > 1 {
		reject("Share", c.Share, "must be a fraction up to 1; negative is none")
	}
	if w := cmp.Or(c.Window, defaultWindow); c.MinPerSecond > 0 && w > 0 && c.MinPerSecond*w.Seconds() < 1 {
		reject("MinPerSecond", c.MinPerSecond, fmt.Sprintf("must be at least one in Window (%v); negative is none", w))
	}
	if c.Window < 0 || c.Window > 0 && c.Window < buckets {
		reject("Window", c.Window, fmt.Sprintf("must be at least %d ns; 0 stands for 10s", buckets))
	}
	return errors.Join(errs...)
}

const (
	buckets       = 10 // slices of the window
	defaultWindow = 10 * time.Second
)

// Budget bounds the retries of many calls together: retries in a sliding
// window, those that still wait among them, are at most a share of the calls
// in it, plus a floor. When a dependency is down, everything fails and would be
// retried; the budget is what keeps three attempts a call from tripling the
// traffic. It refills as calls are made and retries leave the window.
//
// The idea is that of the retry budget in Google's "Site Reliability
// Engineering", chapter 22. It is safe for concurrent use and needs no
// closing. A nil Budget grants every retry. Make one with [NewBudget], inside
// the testing/synctest bubble in which it is used, if any.
type Budget struct {
	share, floor float64 // retries per call, retries per window
	width        time.Duration
	base         time.Time

	mu      sync.Mutex
	ring    [buckets]bucket
	now     int64  // number of the present bucket since base
	sum     bucket // of ring
	waiting int    // retries granted and not yet made
}

type bucket struct{ calls, retries int }

// NewBudget returns a budget to share between policies. It panics with the
// error of c.Validate if c is invalid.
func NewBudget(c BudgetConfig) *Budget {
	if err := c.Validate(); err != nil {
		panic(err)
	}
	or := func(v, d float64) float64 {
		if v == 0 {
			return d
		}
		return max(v, 0)
	}
	c.Window = cmp.Or(c.Window, defaultWindow)
	return &Budget{
		share: or(c.Share, 0.2),
		floor: or(c.MinPerSecond, 1) * c.Window.Seconds(),
		width: c.Window / buckets,
		base:  time.Now(),
	}
}

// Deposit counts a call, which is worth a share of a retry.
func (b *Budget) Deposit() {
	if b == nil {
		return
	}
	now := time.Since(b.base)
	b.mu.Lock()
	b.advance(now)
	b.present().calls++
	b.sum.calls++
	b.mu.Unlock()
}

// Withdraw takes a retry that is made at once, and reports whether there was one.
func (b *Budget) Withdraw() bool {
	if !b.reserve() {
		return false
	}
	b.spend()
	return true
}

// BudgetStats is what a budget holds at one instant.
type BudgetStats struct {
	Calls   int     // in the window
	Retries int     // in the window
	Waiting int     // granted, and not yet made
	Left    float64 // retries that would be granted now
}

// Stats returns what the budget holds now.
func (b *Budget) Stats() BudgetStats {
	if b == nil {
		return BudgetStats{Left: math.Inf(1)}
	}
	now := time.Since(b.base)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	return BudgetStats{b.sum.calls, b.sum.retries, b.waiting, max(b.left(), 0)}
}

// reserve takes a retry that will be made later: spend or refund must follow.
func (b *Budget) reserve() bool {
	const rounding = 1e-9 // 0.1 is a little less than a tenth
	if b == nil {
		return true
	}
	now := time.Since(b.base)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	if b.left() < 1-rounding {
		return false
	}
	b.waiting++
	return true
}

// spend turns a reserved retry into one that is made now.
func (b *Budget) spend() {
	if b == nil {
		return
	}
	now := time.Since(b.base)
	b.mu.Lock()
	b.advance(now)
	b.waiting--
	b.present().retries++
	b.sum.retries++
	b.mu.Unlock()
}

// refund gives back a reserved retry that will not be made.
func (b *Budget) refund() {
	if b == nil {
		return
	}
	b.mu.Lock()
	b.waiting--
	b.mu.Unlock()
}

func (b *Budget) left() float64 {
	return b.share*float64(b.sum.calls) + b.floor - float64(b.sum.retries) - float64(b.waiting)
}

func (b *Budget) present() *bucket { return &b.ring[b.now%buckets] }

// advance moves the window so that the bucket of now is the present one. b.mu is held.
func (b *Budget) advance(now time.Duration) {
	n := int64(now / b.width)
	if n <= b.now {
		return
	}
	for range min(n-b.now, buckets) {
		b.now++
		old := b.present()
		b.sum.calls -= old.calls
		b.sum.retries -= old.retries
		*old = bucket{}
	}
	b.now = n
}
