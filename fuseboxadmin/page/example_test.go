package page_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxadmin"
	"github.com/fusebox-go/fusebox/fuseboxadmin/page"
)

func ExampleHandler() {
	admin := &fuseboxadmin.Handler{Token: "secret"}
	admin.Add(fusebox.New("payments", fusebox.Config{}))
	mux := http.NewServeMux()
	mux.Handle("/admin/", http.StripPrefix("/admin", page.Handler(admin)))

	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://localhost/admin/", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}

func ExampleReport() {
	admin := &fuseboxadmin.Handler{}
	admin.Add(fusebox.New("payments", fusebox.Config{}))
	var file bytes.Buffer // a file to attach to an incident
	err := page.Report(context.Background(), &file, page.FromHandler(admin))
	fmt.Println(err, strings.HasPrefix(file.String(), "<!doctype html>"))
	// Output: <nil> true
}

func ExampleFromHandler() {
	admin := &fuseboxadmin.Handler{}
	get := page.FromHandler(admin)
	_, err := get(context.Background(), "api/breakers/payments")
	fmt.Println(err)
	// Output: page: GET api/breakers/payments: the answer was 404: {"status":404,"error":"there is no breaker \"payments\"; api/breakers lists them"}
}

func ExampleGetter() {
	var get page.Getter = func(ctx context.Context, path string) ([]byte, error) { // from a server
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost:9901/"+path, http.NoBody)
		if err != nil {
			return nil, err
		}
		return []byte(`{"breakers":[]}`), r.Context().Err() // http.DefaultClient.Do(r), and so on
	}
	fmt.Println(page.Report(context.Background(), new(bytes.Buffer), get))
	// Output: <nil>
}
