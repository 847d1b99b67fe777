package fuseboxadmin_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

// FuzzOverride sends bodies. Each is either refused, as an error that is JSON,
// and nothing has changed; or taken, and then encoding/json reads the same out
// of it.
func FuzzOverride(f *testing.F) {
	for _, body := range []string{
		`{"mode":"force-open","reason":"bad deploy","by":"kim","ttl":"15m"}`, `{"mode":"off"}`, ` { "mode" : "shadow" } `, ``, `{}`, `[]`, `null`,
		`{"mode":"off","mode":"shadow"}`, `{"Mode":"off"}`, `{"mode":null}`, `{"mode":"off","ttl":"1ns"}`, `{"mode":"off","ttl":"2562047h47m16.854775807s"}`,
		`{"mode":"off","ttl":"-1s"}`, `{"mode":"off"}x`, `{"mode":"off",}`, `{"m\u006fde":"\u006fff"}`, `{"mode":"off","by":"\ud800"}`, "{\"mode\":\"off\",\"by\":\"\xff\"}",
	} {
		f.Add("override", body)
	}
	f.Add("lift", `{"by":"kim"}`)
	f.Add("reset", `{"mode":"off"}`)
	f.Fuzz(func(t *testing.T, op, body string) {
		h := &fuseboxadmin.Handler{Trusted: func(*http.Request) bool { return true }, Logger: slog.New(slog.DiscardHandler)}
		b := fusebox.New("x", fusebox.Config{})
		h.Add(b)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/breakers/x/reset", strings.NewReader(body))
		r.URL.Path = "/api/breakers/x/" + op
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var answer fuseboxadmin.APIError
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		if w.Code != http.StatusOK {
			if w.Code < 400 || w.Code >= 500 || answer.Status != w.Code || answer.Message == "" || len(b.History()) != 0 {
				t.Fatalf("%d %s, and %d records", w.Code, w.Body, len(b.History()))
			}
			return
		}
		if len(b.History()) == 0 {
			t.Fatal("it was done, and left no record")
		}
		if body == "" && op != "override" {
			return
		}
		var want struct{ Mode, Reason, By, TTL string }
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatalf("%q was taken: %v", body, err)
		}
		s := b.Snapshot()
		if last := s.Last; last.Note.Reason != want.Reason && last.Cause != fusebox.CauseOverrideEnded || last.Note.By != want.By {
			t.Fatalf("%q became %+v", body, last)
		}
		if ttl, _ := time.ParseDuration(want.TTL); op == "override" && ttl == 0 && s.Mode.String() != want.Mode {
			t.Fatalf("%q became mode %v", body, s.Mode)
		}
	})
}
