package serve

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// Source is where a command takes the configuration from: a file, the
// environment, and flags. Flags beat the environment, which beats the file.
type Source struct {
	file      string
	upstreams []string
	set       []string
	single    []single
	flags     *pflag.FlagSet
}

// single is a setting with a flag of its own.
type single struct {
	name, path string
	value      *string
}

// fileVariable names the file where there is no flag.
const fileVariable = "FUSEBOX_CONFIG"

// AddFlags adds the flags of a configuration.
func (s *Source) AddFlags(f *pflag.FlagSet) {
	s.flags = f
	f.StringVarP(&s.file, "config", "c", "", "the configuration `file` (or "+fileVariable+")")
	f.StringArrayVar(&s.upstreams, "upstream", nil, "guard `URL`; NAME=URL names the upstream, else it is called default; given again, a further endpoint")
	for _, one := range []struct{ name, path, value, usage string }{
		{"listen", "listen", "address", "where the proxy listens: host:port or unix:/path"},
		{"admin", "admin.listen", "address", "where the admin API listens, or off"},
		{"log-level", "logging.level", "level", "debug, info, warn or error"},
		{"log-format", "logging.format", "format", "text or json"},
		{"access-log", "logging.access", "target", "stdout, stderr, a path, or off"},
	} {
		s.single = append(s.single, single{one.name, one.path, f.String(one.name, "", "`"+one.value+"`: "+one.usage)})
	}
	f.StringArrayVar(&s.set, "set", nil, "any setting of the file, as `PATH=VALUE`: upstreams.default.breaker.open-for=2s")
}

// File returns the path of the configuration file; empty: there is none.
func (s *Source) File() string {
	if s.flags.Changed("config") {
		return s.file
	}
	return os.Getenv(fileVariable)
}

// Flags returns what was given on the command line.
func (s *Source) Flags() ([]config.Flag, error) {
	var all []config.Flag
	byName := map[string]int{} // index in all
	for _, given := range s.upstreams {
		name, url, named := strings.Cut(given, "=")
		if !named || strings.ContainsAny(name, ":/") { // it belongs to the URL
			name, url = "default", given
		} else if name == "" || strings.Contains(name, ".") {
			return nil, usagef("--upstream %q must be URL or NAME=URL, the name with small letters, digits and hyphens between them", given)
		}
		path := "upstreams." + name + ".endpoints"
		if i, ok := byName[path]; ok {
			all[i].Value += "," + url
			continue
		}
		byName[path] = len(all)
		all = append(all, config.Flag{Name: "--upstream", Path: path, Value: url})
	}
	for _, one := range s.single {
		if s.flags.Changed(one.name) {
			all = append(all, config.Flag{Name: "--" + one.name, Path: one.path, Value: *one.value})
		}
	}
	for _, given := range s.set {
		path, value, ok := strings.Cut(given, "=")
		if !ok {
			return nil, usagef("--set %q must be PATH=VALUE", given)
		}
		all = append(all, config.Flag{Name: "--set", Path: path, Value: value})
	}
	return all, nil
}

// Empty reports whether nothing says what to guard, not even in part.
func (s *Source) Empty() bool {
	return s.File() == "" && len(s.upstreams) == 0 && len(s.set) == 0 &&
		!slices.ContainsFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "FUSEBOX_UPSTREAMS_") })
}

// given reports whether a flag or the environment sets what has a flag of its own.
func (s *Source) given(path string) bool {
	_, inEnv := os.LookupEnv("FUSEBOX_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_")))
	return inEnv || slices.ContainsFunc(s.single, func(one single) bool { return one.path == path && s.flags.Changed(one.name) })
}

// Load reads the configuration. Its errors end the program with code 2.
func (s *Source) Load() (*config.Config, error) {
	flags, err := s.Flags()
	if err != nil {
		return nil, err
	}
	c, err := config.Load(s.File(), os.Environ(), flags)
	if err != nil {
		return nil, &usageError{err}
	}
	return c, nil
}
