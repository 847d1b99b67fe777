//go:build !race

// What takes time is measured without the race detector, under which it means
// nothing.

package fusebox_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

// Dropping idle breakers takes a time that grows with their number: a tenth of a
// second for so many. One by one out of a slice it took five.
func TestDroppingIdleBreakersIsNotQuadratic(t *testing.T) {
	const n = 100_000
	clock := &fuseboxtest.Clock{}
	r := fusebox.Registry{MaxKeys: -1, Now: clock.Now}
	for i := range n {
		r.Get(strconv.Itoa(i))
	}
	clock.Advance(2 * time.Hour)
	begin := time.Now()
	if s := r.Stats(); s.Keys != 0 || s.Evicted != n {
		t.Fatalf("%+v, want all %d gone", s, n)
	}
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
}
