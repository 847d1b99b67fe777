package fuseboxhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/fusebox-go/fusebox/fuseboxhttp"
)

func TestCheckFindsFaultWhenTheAnswerIsOver(t *testing.T) {
	wrong := errors.New("wrong")
	trailer := func(resp *http.Response) error {
		if resp.Trailer.Get("Status") != "" {
			return wrong
		}
		return nil
	}
	for name, c := range map[string]struct {
		judgeBody, atHead, leaves bool
		failures, ignored         uint64
	}{
		"at the end of the body":              {judgeBody: true, failures: 1},
		"which nobody waits for":              {},
		"at the head":                         {atHead: true, failures: 1},
		"at the head, before the body":        {atHead: true, judgeBody: true, failures: 1},
		"at the end, and the caller has left": {judgeBody: true, leaves: true, ignored: 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			tr := &fuseboxhttp.Transport{JudgeBody: c.judgeBody, Base: memory(func(*http.Request) (*http.Response, error) {
				resp := answer(200, nil)
				resp.Trailer = http.Header{}
				if c.atHead {
					resp.Trailer.Set("Status", "1")
				}
				done := false
				resp.ContentLength = -1
				resp.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
					if !done {
						done = true
						return copy(p, "x"), nil
					}
					resp.Trailer.Set("Status", "1")
					if c.leaves {
						cancel()
					}
					return 0, io.EOF
				}))
				return resp, nil
			}), Check: func(resp *http.Response) error {
				asked++
				return trailer(resp)
			}}
			resp, err := tr.RoundTrip(requestTo("GET", "http://x/", nil).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(resp.Body); string(b) != "x" || err != nil {
				t.Errorf("%q, %v", b, err)
			}
			resp.Body.Close()
			b, _ := tr.Breakers().Lookup("x")
			if n := b.Snapshot().Totals; n.Failures != c.failures || n.Ignored != c.ignored || asked > 1 || n.Failures+n.Ignored+n.Successes != 1 {
				t.Errorf("%+v, asked %d times", n, asked)
			}
		})
	}
}

func TestWhatCheckSaysAtTheHeadIsTriedAgain(t *testing.T) {
	wrong := errors.New("wrong")
	for status, attempts := range map[int]int{200: 2, 404: 2} {
		n := 0
		tr := &fuseboxhttp.Transport{Retry: quick(), JudgeBody: true, Base: memory(func(*http.Request) (*http.Response, error) {
			n++
			return answer(status, nil), nil
		}), Check: func(*http.Response) error {
			if n == 1 {
				return wrong
			}
			return nil
		}}
		resp, err := tr.RoundTrip(requestTo("GET", "http://x/", nil))
		if err != nil || resp.StatusCode != status || n != attempts {
			t.Errorf("%v, %v after %d attempts, want %d", resp, err, n, attempts)
		}
	}
}
