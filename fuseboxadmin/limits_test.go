package fuseboxadmin_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

func TestAProxyOverAUnixSocketIsNotTrusted(t *testing.T) {
	socket := &net.UnixAddr{Net: "unix", Name: "/run/fusebox.sock"}
	for header, want := range map[string]bool{"": true, "Origin": false, "Sec-Fetch-Site": false, "Forwarded": false, "X-Forwarded-For": false, "Via": false} {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(socket)), http.MethodPost, "http://evil.example/api/breakers/x/reset", nil)
		if header != "" {
			r.Header.Set(header, "x")
		}
		if got := fuseboxadmin.OnUnixSocket(r); got != want {
			t.Errorf("with the header %q: %v, want %v", header, got, want)
		}
	}
}

func TestWhatAStrangerSendsIsCutInTheRecord(t *testing.T) {
	var records []fuseboxadmin.AuditRecord
	h := &fuseboxadmin.Handler{Audit: func(r fuseboxadmin.AuditRecord) { records = append(records, r) }}
	defer h.Close()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/api/breakers/"+strings.Repeat("%00", 300_000)+"/lift", nil)
	h.ServeHTTP(httptest.NewRecorder(), r)
	if len(records) != 1 || len(records[0].Name) > 100 || records[0].Status < 400 {
		t.Errorf("%d records, a name of %d bytes", len(records), len(records[0].Name))
	}
}

func TestAListIsRefusedWhereNameIsGivenTwice(t *testing.T) {
	h := &fuseboxadmin.Handler{}
	defer h.Close()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/breakers?name=a&name=b", nil))
	if w.Code != http.StatusBadRequest {
		t.Errorf("status %d", w.Code)
	}
}

// Readers that take nothing hold a few lists, not as many as they like.
func TestListsAreBounded(t *testing.T) {
	h := &fuseboxadmin.Handler{}
	defer h.Close()
	list := func(w http.ResponseWriter) {
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/api/breakers", nil))
	}
	const most = 8
	begun, take := make(chan bool, most), make(chan bool)
	var readers sync.WaitGroup
	for range most {
		readers.Go(func() { list(&stuck{httptest.NewRecorder(), begun, take}) })
	}
	for range most {
		<-begun
	}
	one := httptest.NewRecorder()
	if list(one); one.Code != http.StatusServiceUnavailable || one.Header().Get("Retry-After") != "1" {
		t.Errorf("status %d, %v", one.Code, one.Header())
	}
	close(take)
	readers.Wait()
	one = httptest.NewRecorder()
	if list(one); one.Code != http.StatusOK {
		t.Errorf("status %d when the others have gone", one.Code)
	}
}

// Who has the token gets a list and a history while others hold all there are.
func TestSlowReadersKeepNothingFromWhoHasTheToken(t *testing.T) {
	for path, most := range map[string]int{"/api/breakers": 8, "/api/history": 2} {
		t.Run(path, func(t *testing.T) {
			h := &fuseboxadmin.Handler{Token: token}
			defer h.Close()
			ask := func(w http.ResponseWriter, as string) {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
				r.Header.Set("Authorization", "Bearer "+as)
				h.ServeHTTP(w, r)
			}
			begun, take := make(chan bool, most+1), make(chan bool)
			var readers sync.WaitGroup
			hold := func(as string) {
				readers.Go(func() { ask(&stuck{httptest.NewRecorder(), begun, take}, as) })
				<-begun
			}
			for range most {
				hold("nobody")
			}
			want := func(as string, status int) {
				t.Helper()
				one := httptest.NewRecorder()
				if ask(one, as); one.Code != status {
					t.Errorf("%s: status %d, want %d", as, one.Code, status)
				}
			}
			want("nobody", http.StatusServiceUnavailable)
			want(token, http.StatusOK)
			want(token, http.StatusOK) // it was given back
			hold(token)
			want(token, http.StatusServiceUnavailable)
			close(take)
			readers.Wait()
			want("nobody", http.StatusOK)
		})
	}
}

// stuck is a ResponseWriter whose reader takes nothing for a while.
type stuck struct {
	*httptest.ResponseRecorder
	begun chan<- bool
	take  <-chan bool
}

func (s *stuck) Write(p []byte) (int, error) {
	s.begun <- true
	<-s.take
	return s.ResponseRecorder.Write(p)
}
