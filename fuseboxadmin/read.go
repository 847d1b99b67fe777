package fuseboxadmin

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
)

func (h *Handler) serveList(w http.ResponseWriter, r *http.Request, _ string) error {
	query, err := parameters(r, "name", "only", "state")
	if err != nil {
		return err
	}
	if n := len(query["name"]); n > 1 {
		return invalid("name", query["name"][1], "must be given once")
	}
	if n := len(query["only"]); n > maxOnly {
		return invalid("only", strconv.Itoa(n)+" names", "must be at most "+strconv.Itoa(maxOnly)+" of them")
	}
	leave, err := h.sit(w, r, &h.listing, maxLists, "lists")
	if err != nil {
		return err
	}
	defer leave()
	var states []fusebox.State
	for _, text := range query["state"] {
		var s fusebox.State
		if s.UnmarshalText([]byte(text)) != nil {
			return invalid("state", text, "must be closed, half-open or open")
		}
		states = append(states, s)
	}
	h.Sample()
	list := h.list(func(name string) bool {
		return strings.Contains(name, query.Get("name")) && (query["only"] == nil || slices.Contains(query["only"], name))
	})
	if states != nil {
		list.Breakers = slices.DeleteFunc(list.Breakers, func(b Breaker) bool { return !slices.Contains(states, b.State) })
	}
	return answer(w, list)
}

// seats are places for answers that are long, and so take time.
type seats struct {
	taken atomic.Int32
	kept  atomic.Int32 // by who has the token, where no other was free
}

// sit takes one of so many seats; where all are taken, one that is kept for who
// has the token.
func (h *Handler) sit(w http.ResponseWriter, r *http.Request, s *seats, most int32, what string) (leave func(), _ *APIError) {
	if s.taken.Add(1) <= most {
		return func() { s.taken.Add(-1) }, nil
	}
	s.taken.Add(-1)
	if h.authorize(r) == nil {
		if s.kept.Add(1) <= 1 {
			return func() { s.kept.Add(-1) }, nil
		}
		s.kept.Add(-1)
	}
	w.Header().Set("Retry-After", "1")
	return nil, refusal(http.StatusServiceUnavailable, "%d %s are being sent already", most, what)
}

// maxOnly is how many names can be asked for; more do not fit into an address.
const maxOnly = 200

// list lists the breakers whose names are wanted.
func (h *Handler) list(wanted func(name string) bool) List {
	list := List{Now: time.Now(), LastEventID: h.feed.listing(), Breakers: []Breaker{}}
	fallbacks := h.fallbacks()
	hidden := func(name string, _ *fusebox.Breaker) { list.Hidden = append(list.Hidden, name) }
	for name, b := range h.shown(hidden) {
		if wanted(name) {
			config := b.Config()
			one := newBreaker(name, b.Snapshot(), &config, fallbacks)
			one.Totals.Transitions = nil
			list.Breakers = append(list.Breakers, one)
		}
	}
	slices.Sort(list.Hidden)
	list.Hidden = slices.Compact(list.Hidden)
	slices.SortFunc(list.Breakers, bySeverity)
	return list
}

func bySeverity(a, b Breaker) int {
	harmless := func(b Breaker) int {
		if b.State == fusebox.Closed && !b.Override || b.State != fusebox.Closed && b.Mode == fusebox.Shadow {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(b.State, a.State), // they are numbered so
		cmp.Compare(harmless(a), harmless(b)),
		cmp.Compare(a.Name, b.Name),
	)
}

func (h *Handler) serveDetail(w http.ResponseWriter, r *http.Request, name string) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	b, err := h.named(name)
	if err != nil {
		return err
	}
	return answer(w, newDetail(name, b.Inspect(), h.fallbacks()))
}

// fallbacks returns what is known of breakers' fallbacks.
func (h *Handler) fallbacks() map[string]uint64 {
	if h.FallbacksOf == nil {
		return nil
	}
	return h.FallbacksOf()
}

// named returns the breaker that is shown under a name.
func (h *Handler) named(name string) (*fusebox.Breaker, *APIError) {
	if b, _ := h.find(name); b != nil {
		return b, nil
	}
	return nil, refusal(http.StatusNotFound, "there is no breaker %q; api/breakers lists them", name)
}

// parameters returns those of the query, which must be known: a filter that is
// misspelt would filter nothing.
func parameters(r *http.Request, known ...string) (url.Values, *APIError) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refusal(http.StatusBadRequest, "the query cannot be read: %v", err)
	}
	for name := range query {
		if !slices.Contains(known, name) {
			rule := "is no parameter here"
			if len(known) > 0 {
				rule += ", but " + strings.Join(known, " and ")
			}
			return nil, invalid(name, query.Get(name), rule)
		}
	}
	return query, nil
}
