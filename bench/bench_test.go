package bench

import (
	"sync"
	"testing"
	"time"
)

// BenchmarkCalls has a benchmark for every contender of every row:
//
//	go test -run '^$' -bench 'Calls/success/' -count 10 ./... | tee new.txt
//
// Contenders run one after the other here, minutes apart; for ratios take
// cmd/ratios. Time is of all goroutines together, as in the tables.
func BenchmarkCalls(b *testing.B) {
	for _, row := range Rows() {
		b.Run(row.Name, func(b *testing.B) {
			for _, c := range row.contenders {
				b.Run(c.name, func(b *testing.B) { row.benchmark(b, c) })
			}
		})
	}
}

func (r *Row) benchmark(b *testing.B, c contender) {
	s, err := r.subject(c)
	if err != nil {
		b.Fatal(err)
	}
	if s.chunked != nil {
		ns := s.chunked.sample(time.Duration(b.N)) // reports its own time
		b.ReportMetric(ns, "ns/op")
		return
	}
	b.ReportAllocs()
	b.ResetTimer()
	rejected := 0
	if s.sequential {
		rejected = s.loops[0](b.N)
	} else {
		var (
			group sync.WaitGroup
			mu    sync.Mutex
			share = b.N / len(s.loops)
		)
		for i, loop := range s.loops {
			n := share
			if i < b.N%len(s.loops) {
				n++
			}
			group.Go(func() {
				r := loop(n)
				mu.Lock()
				defer mu.Unlock()
				rejected += r
			})
		}
		group.Wait()
	}
	b.StopTimer()
	settle(s.breaker)
	if r.rejected && b.N < 1000 {
		return // aegis admits a few at first
	}
	if err := s.check(b.N, rejected); err != nil {
		b.Fatal(err)
	}
}
