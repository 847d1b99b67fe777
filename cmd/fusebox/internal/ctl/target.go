package ctl

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// spec is a target as it was asked for.
type spec struct {
	text   string // as it is shown
	url    *url.URL
	socket string // path of a unix socket; the URL is then of no address
	dns    bool   // the name of the URL stands for all its addresses
}

// target is one place to ask.
type target struct {
	name   string // as it is shown
	via    string // the dns+ target that it is an address of
	base   string // the URL before /api
	client *http.Client
	err    error // why there is nothing to ask: every call fails with it
}

// parseTarget reads a target. Its error goes on after "is …, ".
func parseTarget(text string) (spec, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if rest, slashes := strings.CutPrefix(path, "//"); slashes {
			if path = rest; !strings.HasPrefix(path, "/") {
				return spec{}, errors.New("must be unix:/path or unix:///path")
			}
		}
		if path == "" {
			return spec{}, errors.New("must have the path of a socket")
		}
		return spec{text: "unix:" + path, socket: path, url: &url.URL{Scheme: "http", Host: "localhost"}}, nil
	}
	rest, dns := strings.CutPrefix(text, "dns+")
	if !dns && !strings.Contains(text, "://") {
		return parseAddress(text)
	}
	u, err := url.Parse(rest)
	switch {
	case err != nil:
		return spec{}, fmt.Errorf("must be a URL: %w", errors.Unwrap(err))
	case u.Scheme != "http" && u.Scheme != "https":
		return spec{}, errors.New("must be http://host:port, https://host:port, host:port, unix:/path or dns+http://name:port")
	case u.Hostname() == "":
		return spec{}, errors.New("must have a host")
	case u.User != nil:
		return spec{}, errors.New("must not have a user or a password: use --token-file or FUSEBOX_TOKEN")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return spec{}, errors.New("must end with the path")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return spec{}, errors.New("must have a port from 1 to 65535")
		}
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	s := spec{text: u.String(), url: u, dns: dns}
	if dns {
		s.text = "dns+" + s.text
	}
	return s, nil
}

// parseAddress reads a target that is host:port, or only one of the two.
func parseAddress(text string) (spec, error) {
	where, path, _ := strings.Cut(text, "/")
	host, port, err := net.SplitHostPort(where)
	if err != nil {
		if host, port = where, defaultPort; host == "" || strings.Contains(strings.Trim(host, "[]"), ":") && !strings.HasPrefix(host, "[") {
			return spec{}, errors.New("must be host:port, with an IPv6 address in brackets, or a URL")
		}
		host = strings.Trim(host, "[]")
	}
	host = cmp.Or(host, "127.0.0.1")
	return parseTarget("http://" + net.JoinHostPort(host, port) + "/" + path)
}

// resolve makes targets, in the order in which they were asked for, each once.
// A name that cannot be resolved is a target that fails.
func resolve(ctx context.Context, specs []spec, timeout time.Duration) (targets []*target) {
	found := make([][]*target, len(specs))
	var wg sync.WaitGroup
	for i, s := range specs {
		if !s.dns {
			found[i] = []*target{newTarget(s.text, "", s.url, s.socket, "")}
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			found[i] = lookup(ctx, s)
		})
	}
	wg.Wait()
	for _, t := range slices.Concat(found...) {
		if !slices.ContainsFunc(targets, func(known *target) bool { return known.name == t.name }) {
			targets = append(targets, t)
		}
	}
	return targets
}

// lookup returns a target for every address of a name.
func lookup(ctx context.Context, s spec) (targets []*target) {
	name := s.url.Hostname()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return []*target{{name: s.text, err: reason(err)}}
	}
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	for _, a := range slices.Compact(addresses) {
		u := *s.url
		u.Host = a.String()
		if port := s.url.Port(); port != "" {
			u.Host = net.JoinHostPort(u.Host, port)
		} else if a.Is6() {
			u.Host = "[" + u.Host + "]"
		}
		targets = append(targets, newTarget(u.String(), s.text, &u, "", name))
	}
	return targets
}

// newTarget makes a target. serverName is what the certificate must be for, if
// that is not the host of the URL.
func newTarget(name, via string, u *url.URL, socket, serverName string) *target {
	transport := &http.Transport{
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: 64 << 10,
		IdleConnTimeout:        30 * time.Second,
		TLSClientConfig:        &tls.Config{ServerName: serverName, MinVersion: tls.VersionTLS12},
	}
	if socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	return &target{
		name: name, via: via, base: u.String(),
		client: &http.Client{
			Transport: transport,
			// Elsewhere is not where the operator meant, and the token is for the target alone.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (t *target) close() {
	if t.client != nil {
		t.client.CloseIdleConnections()
	}
}
