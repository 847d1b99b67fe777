package proxy

import (
	"cmp"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// routes are those of a configuration, in the order in which they are tried.
type routes []route

type route struct {
	host     string // "": any; with suffix, what follows the first label, with the dot
	suffix   bool
	prefix   string // without a slash at its end
	upstream *upstream
}

// newRoutes sorts the routes: the most specific host first, then the longest prefix.
func newRoutes(from []config.Route, upstreams map[string]*upstream) routes {
	all := make(routes, 0, len(from))
	for _, r := range from {
		host, wild := strings.CutPrefix(r.Host, "*")
		all = append(all, route{host, wild, strings.TrimRight(r.Prefix, "/"), upstreams[r.Upstream]})
	}
	slices.SortStableFunc(all, func(a, b route) int {
		return cmp.Or(
			cmp.Compare(b.rank(), a.rank()),
			cmp.Compare(len(b.host), len(a.host)),
			cmp.Compare(len(b.prefix), len(a.prefix)),
		)
	})
	return all
}

// rank orders kinds of host: the exact one, names below one, any.
func (r route) rank() int {
	switch {
	case r.host == "":
		return 0
	case r.suffix:
		return 1
	default:
		return 2
	}
}

// find returns the upstream of a request; nil: no route.
func (rs routes) find(r *http.Request) *upstream {
	where := r.URL.Path
	if strings.Contains(where, "/.") || strings.Contains(where, "//") {
		where = path.Clean("/" + where)
	}
	host, parsed := "", false
	for i := range rs {
		rt := &rs[i]
		if rt.host != "" && !parsed {
			host, parsed = hostname(r.Host), true
		}
		if rt.matchesHost(host) && within(where, rt.prefix) {
			return rt.upstream
		}
	}
	return nil
}

func (r *route) matchesHost(host string) bool {
	switch {
	case r.host == "":
		return true
	case r.suffix:
		return len(host) > len(r.host) && strings.HasSuffix(host, r.host)
	default:
		return host == r.host
	}
}

// within reports whether a path begins with a prefix, in whole segments.
func within(where, prefix string) bool {
	rest, ok := strings.CutPrefix(where, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// hostname returns the name in a Host header: without port and last dot, in small letters.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// climbs reports whether a path leads above its root.
func climbs(where string) bool {
	if !strings.Contains(where, "..") {
		return false
	}
	depth := 0
	for segment := range strings.SplitSeq(where, "/") {
		switch segment {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}
