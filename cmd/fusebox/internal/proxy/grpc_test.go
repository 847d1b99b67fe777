package proxy_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fusebox-go/fusebox"
)

// call makes a call of gRPC, whose server answers as the path says.
func (f *fixture) call(ctx context.Context, client *http.Client, path string) answer {
	f.tb.Helper()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, f.url+path, strings.NewReader("\x00\x00\x00\x00\x00"))
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	resp, err := client.Do(req)
	if err != nil {
		f.tb.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp, string(b), err}
}

// grpcServer answers with the status at the end of the path: /trailer/14, /head/14.
func grpcServer(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	where, status, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	w.Header().Set("Content-Type", "application/grpc+proto")
	switch where {
	case "head":
		w.Header().Set("Grpc-Status", status)
	case "trailer":
		w.Header().Set("Trailer", "Grpc-Status")
		io.WriteString(w, "\x00\x00\x00\x00\x00")
		w.Header().Set("Grpc-Status", status)
	case "web":
		w.Header().Set("Content-Type", "application/grpc-web")
		io.WriteString(w, "x")
	}
}

func TestGRPCIsJudgedByItsStatus(t *testing.T) {
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q]}}", h2cServer(t, grpcServer)))
	client := h2c(t)
	failing := map[string]bool{"1": true, "2": true, "4": true, "8": true, "13": true, "14": true, "15": true, "17": true, "-1": true, "x": true, "": true}
	want := f.breaker("x").Totals
	n := 0
	for _, status := range []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "-1", "x", ""} {
		for _, where := range []string{"trailer", "head"} {
			if where == "head" && status == "" {
				continue
			}
			got := f.call(t.Context(), client, "/"+where+"/"+status)
			if got.StatusCode != 200 || got.Trailer.Get("Grpc-Status")+got.Header.Get("Grpc-Status") != status {
				t.Errorf("%s %q: answer %d, %v, %v", where, status, got.StatusCode, got.Header, got.Trailer)
			}
			outcome := "success"
			if failing[status] {
				outcome = "failure"
				want.Failures++
			} else {
				want.Successes++
			}
			n++
			if l := f.lines(n)[n-1]; l.Outcome != outcome {
				t.Errorf("%s %q is logged as %s, want %s", where, status, l.Outcome, outcome)
			}
			if s := f.breaker("x").Totals; s.Successes != want.Successes || s.Failures != want.Failures {
				t.Fatalf("%s %q: %d successes, %d failures, want %d, %d", where, status, s.Successes, s.Failures, want.Successes, want.Failures)
			}
			f.call(t.Context(), client, "/web/"+status) // no run of failures
			n++
			want.Successes++
		}
	}
}

// To a client of gRPC a status of 503 is Unavailable.
func TestAGRPCServerThatIsUnavailableOpensTheBreaker(t *testing.T) {
	f := start(t, configuration(t, `
		upstreams:
		  x: {endpoints: [%q], breaker: {consecutive: 3, open-for: 1h, open-for-max: 1h}}
	`, h2cServer(t, grpcServer)))
	client := h2c(t)
	for _, path := range []string{"/trailer/14", "/head/14", "/trailer/4"} {
		f.call(t.Context(), client, path)
	}
	got := f.call(t.Context(), client, "/trailer/0")
	got.want(t, 503, "x is not available\n")
	if s := f.breaker("x"); s.State != fusebox.Open || s.Last.LastError != "gRPC: status 4 (DeadlineExceeded)" {
		t.Errorf("%v, last error %q", s.State, s.Last.LastError)
	}
}

func TestAFallbackStandsInForGRPCThatFailsAtItsHead(t *testing.T) {
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q], fallback: {status: 503}}}", h2cServer(t, grpcServer)))
	client := h2c(t)
	f.call(t.Context(), client, "/head/14").want(t, 503, "")
	f.call(t.Context(), client, "/head/5").want(t, 200, "")
	if got := f.call(t.Context(), client, "/trailer/14"); got.StatusCode != 200 || got.Trailer.Get("Grpc-Status") != "14" {
		t.Errorf("%d %v", got.StatusCode, got.Trailer)
	}
}

func TestAClientThatCancelsACallOfGRPCIsIgnored(t *testing.T) {
	f := start(t, configuration(t, "upstreams: {x: {endpoints: [%q]}}", h2cServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		w.Header().Set("Grpc-Status", "1")
	})))
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, f.url, strings.NewReader("x"))
	resp, err := h2c(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	resp.Body.Close()
	if l := f.lines(1)[0]; l.Outcome != "ignored" {
		t.Errorf("logged %+v", l)
	}
	if s := f.breaker("x").Totals; s.Ignored != 1 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
}
