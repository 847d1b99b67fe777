package fuseboxtest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox/fuseboxtest"
)

func TestClock(t *testing.T) {
	var clock fuseboxtest.Clock
	start := time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
	shows := func(want time.Time) {
		t.Helper()
		if got := clock.Now(); !got.Equal(want) {
			t.Errorf("clock shows %v, want %v", got, want)
		}
	}
	shows(start)
	clock.Advance(time.Minute)
	shows(start.Add(time.Minute))
	clock.Advance(-2 * time.Minute)
	shows(start.Add(-time.Minute))
	clock.Set(start.Add(-time.Hour))
	shows(start.Add(-time.Hour))
	clock.Set(time.Time{})
	shows(start)
}

func TestClockIsSafeForConcurrentUse(t *testing.T) {
	var clock fuseboxtest.Clock
	start := clock.Now()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				clock.Advance(time.Second)
				clock.Now()
			}
		})
	}
	wg.Wait()
	if got := clock.Now().Sub(start); got != 800*time.Second {
		t.Errorf("clock moved by %v, want 800s", got)
	}
}
