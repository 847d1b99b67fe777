package ctl

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox/fuseboxadmin"
)

// names are what a command was told to look at. In one, * stands for any text,
// a slash too; but a breaker that is called so goes first.
type names []string

// match reports whether a name was asked for.
func (n names) match(name string) bool {
	return len(n) == 0 || slices.ContainsFunc(n, func(asked string) bool { return asked == name || matches(asked, name) })
}

// matches reports whether a name fits a pattern.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return pattern == name
	}
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(name, part)
		if !found {
			return false
		}
		name = after
	}
	return true
}

// among returns the breakers that were asked for by one argument.
func among(asked string, list []fuseboxadmin.Breaker) (found []string) {
	for _, b := range list {
		if b.Name == asked {
			return []string{asked}
		}
		if matches(asked, b.Name) {
			found = append(found, b.Name)
		}
	}
	return found
}

// expand returns the names that were asked for, as a target knows them: it is
// asked if one is a pattern. Each is there once.
func (n names) expand(ctx context.Context, s *session, t *target) (found []string, _ error) {
	var list *fuseboxadmin.List
	for _, asked := range n {
		these := []string{asked}
		if strings.Contains(asked, "*") {
			if list == nil {
				list = new(fuseboxadmin.List)
				if err := s.call(ctx, t, http.MethodGet, "api/breakers", nil, list); err != nil {
					return nil, err
				}
			}
			if these = among(asked, list.Breakers); these == nil {
				these = []string{asked} // there is none: the target will say so
			}
		}
		for _, name := range these {
			if !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	return found, nil
}

// perName asks every target for every name.
func perName[T any](ctx context.Context, s *session, n names, ask func(t *target, name string) result[T]) []result[T] {
	return each(s, func(t *target) (results []result[T]) {
		found, err := n.expand(ctx, s, t)
		if err != nil {
			for _, name := range n {
				results = append(results, newResult[T](t, name, nil, err))
			}
		}
		for _, name := range found {
			results = append(results, ask(t, name))
		}
		return results
	})
}

// each asks all targets at a time, and returns the results in their order.
func each[T any](s *session, ask func(*target) []result[T]) []result[T] {
	parts := make([][]result[T], len(s.targets))
	var wg sync.WaitGroup
	for i, t := range s.targets {
		wg.Go(func() { parts[i] = ask(t) })
	}
	wg.Wait()
	return slices.Concat(parts...)
}

// someNames are the arguments of a command that wants at least one name.
func someNames(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return misused("the NAME of a breaker is missing; ls lists them")
	}
	return nil
}

func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misused("%s takes no argument, but there is %q", c.Name(), args[0])
	}
	return nil
}

// complete offers the names of the breakers of all targets that answer soon.
// Names that a terminal would act upon are not offered.
func complete(o *options) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		const soon = 2 * time.Second
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		quick := *o
		quick.timeout = min(max(o.timeout, 0), soon)
		s, err := quick.session(ctx, c.OutOrStdout(), c.ErrOrStderr())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer s.close()
		var found []string
		for _, r := range each(s, func(t *target) []result[fuseboxadmin.List] {
			path := "api/breakers?name=" + url.QueryEscape(begun)
			return []result[fuseboxadmin.List]{fetch[fuseboxadmin.List](ctx, s, t, "", http.MethodGet, path, nil)}
		}) {
			if r.Data == nil {
				continue
			}
			for _, b := range r.Data.Breakers {
				if strings.HasPrefix(b.Name, begun) && safeName(b.Name) == b.Name && !slices.Contains(args, b.Name) {
					found = append(found, b.Name)
				}
			}
		}
		slices.Sort(found)
		return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
	}
}
