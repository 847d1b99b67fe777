package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// plainContender is this program as a plain httputil.ReverseProxy, with or
// without a pool of buffers.
func plainContender(buffers string) contender {
	c := contender{
		Name: "plain", Title: "httputil.ReverseProxy", program: plain,
		args: []string{plainMode, buffers, "{{.Listen}}", "http://{{.Upstream}}"},
	}
	if buffers == pooled {
		c.Title += " with a BufferPool"
	}
	return c
}

// flatUpstream answers at once, with 1 KiB.
func flatUpstream() (url string, stop func() error, err error) {
	l, err := listen()
	if err != nil {
		return "", nil, err
	}
	body := strings.Repeat("an answer.......", 64)
	url = "http://" + l.Addr().String()
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(mark, url)
		_, _ = io.WriteString(w, body) // the other side may be gone
	})}
	go func() { _ = server.Serve(l) }() // ends with Close
	return url, server.Close, nil
}

// cpuOptions says how long to measure.
type cpuOptions struct {
	rounds      int
	slice       time.Duration
	connections int
}

// cpuResult is the CPU time of a call.
type cpuResult struct {
	Connections int      `json:"connections"`
	Rows        []cpuRow `json:"rows"` // the plain proxy first, the whole chain last
}

// cpuRow is one proxy. Ratio is the median of the ratios to the first row within
// a round, where noise is shared: it need not be the quotient of two medians.
type cpuRow struct {
	Title  string    `json:"title"`
	Micros []float64 `json:"us"` // of each round
	Median float64   `json:"median_us"`
	Ratio  float64   `json:"ratio"`
}

func (r cpuResult) wholeChain() cpuRow { return r.Rows[len(r.Rows)-1] }

// measureCPU loads plain proxies and fusebox in turn, each a process of its own
// that lives through all rounds. Each round begins with another.
func measureCPU(ctx context.Context, p programs, o cpuOptions, progress func(string)) (r cpuResult, err error) {
	url, stop, err := flatUpstream()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	r.Connections = o.connections
	var proxies []*proxy
	for _, c := range []contender{
		plainContender(unpooled), plainContender(pooled),
		fuseboxContender("fusebox", "fusebox, defaults", "defaults.yaml"),
		fuseboxContender("fusebox-chain", "fusebox, whole-chain.yaml", "whole-chain.yaml"),
	} {
		started, err := p.start(ctx, c, [2]string{url, url})
		if err != nil {
			return r, fmt.Errorf("%s: %w", c.Title, err)
		}
		defer started.stop()
		if _, err = closedLoop(ctx, o.connections, o.slice, started.target); err != nil { // warm
			return r, err
		}
		proxies = append(proxies, started)
		r.Rows = append(r.Rows, cpuRow{Title: c.Title})
	}
	for round := range o.rounds {
		progress(fmt.Sprintf("CPU, round %d of %d", round+1, o.rounds))
		for turn := range proxies {
			i := (turn + round) % len(proxies)
			micros, err := cpuOfACall(ctx, proxies[i], o)
			if err != nil {
				return r, err
			}
			r.Rows[i].Micros = append(r.Rows[i].Micros, micros)
		}
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		var ratios []float64
		for round, micros := range row.Micros {
			ratios = append(ratios, micros/r.Rows[0].Micros[round])
		}
		row.Median, row.Ratio = median(row.Micros), median(ratios)
	}
	return r, nil
}

// cpuOfACall loads a proxy for a slice and returns the microseconds of its CPU
// time for a call.
func cpuOfACall(ctx context.Context, p *proxy, o cpuOptions) (float64, error) {
	before, err := p.usage()
	if err != nil {
		return 0, err
	}
	n, err := closedLoop(ctx, o.connections, o.slice, p.target)
	if err != nil {
		return 0, err
	}
	after, err := p.usage()
	if err != nil {
		return 0, err
	}
	return float64((after.CPU - before.CPU).Microseconds()) / float64(max(n, 1)), nil
}

// memoryConnections is how many connections load the proxy while its memory is
// measured.
const memoryConnections = 64

// memoryResult is the memory of fusebox under load, in MB (10^6 bytes), one
// sample a second.
type memoryResult struct {
	Calls   int       `json:"calls"`
	Samples []float64 `json:"rss_mb"`
	Peak    float64   `json:"peak_mb"`
	// Growth is what the line through the second half of the samples gains from
	// its one end to the other: the first half is for warming up.
	Growth float64 `json:"growth_mb"`
}

// flat reports whether the growth is within a twentieth of the peak.
func (m memoryResult) flat() bool { return m.Growth <= m.Peak/20 }

// measureMemory loads fusebox for a time and reads its memory every second.
func measureMemory(ctx context.Context, p programs, d time.Duration, progress func(string)) (r memoryResult, err error) {
	url, stop, err := flatUpstream()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	defaults, err := choose("fusebox")
	if err != nil {
		return r, err
	}
	loaded, err := p.start(ctx, defaults[0], [2]string{url, url})
	if err != nil {
		return r, err
	}
	defer loaded.stop()

	progress(fmt.Sprintf("memory, %v", d))
	done := make(chan error, 1)
	go func() {
		n, err := closedLoop(ctx, memoryConnections, d, loaded.target)
		r.Calls = n
		done <- err
	}()
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case err := <-done:
			r.Growth = growth(r.Samples[len(r.Samples)/2:])
			return r, err
		case <-ticks.C:
			now, err := loaded.usage()
			if err != nil {
				return r, errors.Join(err, <-done)
			}
			r.Samples = append(r.Samples, float64(now.RSS)/1e6)
			r.Peak = float64(now.Peak) / 1e6
		}
	}
}

// growth returns what the line of least squares through equidistant values gains
// from the first to the last.
func growth(values []float64) float64 {
	n := float64(len(values))
	var sumX, sumY, sumXY, sumXX float64
	for i, y := range values {
		x := float64(i)
		sumX, sumY, sumXY, sumXX = sumX+x, sumY+y, sumXY+x*y, sumXX+x*x
	}
	spread := n*sumXX - sumX*sumX
	if spread == 0 {
		return 0
	}
	return (n*sumXY - sumX*sumY) / spread * (n - 1)
}
