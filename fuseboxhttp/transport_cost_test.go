//go:build !race

// The race detector allocates on its own: this is for the run without it.

package fuseboxhttp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox/fuseboxhttp"
)

func TestATransportWithoutSettingsAllocatesNothing(t *testing.T) {
	req := requestTo("GET", "http://api.example.com:80/users/7", nil)
	for code, most := range map[int]float64{200: 0, 404: 0, 503: 1} {
		resp := answer(code, nil)
		tr := &fuseboxhttp.Transport{Base: memory(func(*http.Request) (*http.Response, error) { return resp, nil })}
		tr.Key = func(r *http.Request) string { return fuseboxhttp.Host(r) }
		got := testing.AllocsPerRun(15, func() { tr.RoundTrip(req) }) // before it trips
		if got > most {
			t.Errorf("%d: %v allocations, want at most %v", code, got, most)
		}
	}
}

func TestARejectionAllocatesNothing(t *testing.T) {
	req := requestTo("GET", "http://example.com/", nil)
	resp := answer(503, nil)
	tr := &fuseboxhttp.Transport{Base: memory(func(*http.Request) (*http.Response, error) { return resp, nil })}
	for range 20 {
		tr.RoundTrip(req)
	}
	if got := testing.AllocsPerRun(100, func() { tr.RoundTrip(req) }); got > 0 {
		t.Errorf("%v allocations", got)
	}
}

func TestReadingABodyThatIsJudgedAllocatesNothing(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Minute} {
		endless := &counted{Reader: readerFunc(func(p []byte) (int, error) { return len(p), nil })}
		tr := &fuseboxhttp.Transport{JudgeBody: true, Timeout: timeout, Base: memory(func(*http.Request) (*http.Response, error) {
			return answer(200, endless), nil
		})}
		resp, err := tr.RoundTrip(requestTo("GET", "http://example.com/", nil))
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 64)
		if got := testing.AllocsPerRun(100, func() { resp.Body.Read(p) }); got > 0 {
			t.Errorf("%v allocations", got)
		}
		resp.Body.Close()
	}
}

func BenchmarkTransport(b *testing.B) {
	resp := answer(200, nil)
	base := memory(func(*http.Request) (*http.Response, error) { return resp, nil })
	for _, c := range []struct {
		name string
		rt   http.RoundTripper
	}{
		{"base", base},
		{"zero", &fuseboxhttp.Transport{Base: base}},
		{"timeout", &fuseboxhttp.Transport{Base: base, Timeout: time.Minute}},
		{"body", &fuseboxhttp.Transport{Base: base, JudgeBody: true}},
		{"retry", &fuseboxhttp.Transport{Base: base, Retry: quick()}},
	} {
		b.Run(c.name, func(b *testing.B) {
			req := requestTo("GET", "http://api.example.com/users/7", nil)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.rt.RoundTrip(req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
