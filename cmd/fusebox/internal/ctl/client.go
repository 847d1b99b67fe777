package ctl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

const (
	maxAnswer  = 64 << 20 // bytes: a list of 10 000 breakers has about 15 MB
	maxRefusal = 64 << 10

	eventsPath = "api/events"
)

// refusedError is an answer that is not a success.
type refusedError struct {
	status int
	body   []byte // cut
	text   string
}

func (e *refusedError) Error() string { return e.text }

// call makes a request, and decodes the answer into a value.
func (s *session) call(ctx context.Context, t *target, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no answer within %v", s.timeout))
	defer cancel()
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	err := s.exchange(ctx, t, method, path, body, into)
	refused := new(refusedError)
	if err == nil || t.err != nil || errors.As(err, &refused) {
		return err
	}
	why := err
	if ctx.Err() != nil {
		why = context.Cause(ctx)
	}
	if method != http.MethodGet && sent.Load() {
		return fmt.Errorf("%w; it may have been done all the same", why)
	}
	return why
}

func (s *session) exchange(ctx context.Context, t *target, method, path string, body, into any) error {
	resp, err := s.send(ctx, t, method, path, body, nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if kind := mediaType(resp); kind != "application/json" {
		return fmt.Errorf("the answer is %q, not application/json: is this where the admin API is served?", kind)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("the answer breaks off: %w", reason(err))
	case len(text) > maxAnswer:
		return fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the answer cannot be understood: %w", err)
	}
	return nil
}

// tokenFor reports whether a request may need the token: a write does, and an
// event stream has a place with it where others have taken theirs.
func tokenFor(method, path string) bool { return method != http.MethodGet || path == eventsPath }

// send makes a request and returns an answer that is a success.
func (s *session) send(ctx context.Context, t *target, method, path string, body any, header http.Header) (*http.Response, error) {
	if t.err != nil {
		return nil, t.err
	}
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, t.base+"/"+path, content)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "fusebox-ctl")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if tokenFor(method, path) && s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	for name := range header {
		r.Header.Set(name, header.Get(name))
	}
	resp, err := t.client.Do(r)
	if err != nil {
		return nil, reason(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	return nil, refusal(t, resp)
}

// refusal says what an answer refuses.
func refusal(t *target, resp *http.Response) error {
	e := &refusedError{status: resp.StatusCode}
	said := fmt.Sprintf("the answer is %d %s", e.status, http.StatusText(e.status))
	if to := resp.Header.Get("Location"); e.status/100 == 3 && to != "" {
		e.text = fmt.Sprintf("%s, to %q: redirects are not followed", said, to)
		return e
	}
	e.body, _ = io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	var api fuseboxadmin.APIError
	if mediaType(resp) == "application/json" && json.Unmarshal(e.body, &api) == nil {
		e.text = api.Message
	}
	e.text = cmp.Or(e.text, said)
	switch e.status {
	case http.StatusMisdirectedRequest:
		if u, err := url.Parse(t.base); err == nil && t.via == "" {
			e.text += fmt.Sprintf("; dns+%s://%s asks every address of the name", u.Scheme, u.Host)
		}
	case http.StatusUnauthorized:
		e.text += "; the token comes from --token-file or FUSEBOX_TOKEN"
	}
	return e
}

func mediaType(resp *http.Response) string {
	given := resp.Header.Get("Content-Type")
	kind, _, err := mime.ParseMediaType(given)
	if err != nil {
		return given
	}
	return kind
}

// reason is an error without what the reader knows: the method and URL.
func reason(err error) error {
	if u := new(url.Error); errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the connection was closed without an answer")
	}
	return err
}

// result is what came of asking one target, about one breaker if there is a
// name. It is part of the output as JSON.
type result[T any] struct {
	Target string `json:"target"`
	Via    string `json:"via,omitempty"`
	Name   string `json:"name,omitempty"`
	Status int    `json:"status,omitempty"`
	Error  string `json:"error,omitempty"`
	Data   *T     `json:"data,omitempty"`
}

// fetch asks one target for one thing.
func fetch[T any](ctx context.Context, s *session, t *target, name, method, path string, body any) result[T] {
	data := new(T)
	err := s.call(ctx, t, method, path, body, data)
	return newResult(t, name, data, err)
}

func newResult[T any](t *target, name string, data *T, err error) result[T] {
	r := result[T]{Target: t.name, Via: t.via, Name: name}
	if err == nil {
		r.Data = data
		return r
	}
	if r.Error = err.Error(); r.Error == "" {
		r.Error = "it failed"
	}
	if refused := new(refusedError); errors.As(err, &refused) {
		r.Status = refused.status
	}
	return r
}

// where is the target as it is shown.
func (r *result[T]) where() string {
	if r.Via == "" {
		return safe(r.Target)
	}
	return safe(r.Target) + " (" + safe(r.Via) + ")"
}

// failures is nil if all was done, else an error with a line for each failure.
func failures[T any](results []result[T]) error {
	var lines []string
	for _, r := range results {
		if r.Error == "" {
			continue
		}
		line := r.where() + ": "
		if r.Name != "" {
			line += safeName(r.Name) + ": "
		}
		lines = append(lines, line+safe(r.Error))
	}
	switch len(lines) {
	case 0:
		return nil
	case len(results):
		return &exitError{exitFailed, errors.New(strings.Join(lines, "\n"))}
	}
	return &exitError{exitSome, errors.New(strings.Join(lines, "\n"))}
}

// report prints the results: as JSON, or what text makes of them. It returns
// the error with which the command ends.
func report[T any](s *session, results []result[T], text func(io.Writer)) error {
	if s.json {
		if err := writeJSON(s.out, struct {
			Results []result[T] `json:"results"`
		}{results}, "  "); err != nil {
			return err
		}
		return failures(results)
	}
	var b bytes.Buffer
	text(&b)
	if _, err := s.out.Write(b.Bytes()); err != nil {
		return err
	}
	return failures(results)
}
