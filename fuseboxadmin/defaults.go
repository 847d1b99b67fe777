package fuseboxadmin

import (
	"reflect"

	"github.com/fusebox-go/fusebox"
)

// defaults names the settings whose value is the default.
func defaults(c *fusebox.Config) []string {
	zero := fusebox.New("", fusebox.Config{}).Config()
	// Some defaults follow other settings. With one bucket any window is long enough,
	// and no default needs more than some calls, for which memory is taken.
	related := fusebox.New("", fusebox.Config{
		Window: c.Window, Buckets: 1, WindowCalls: min(c.WindowCalls, 1000), OpenFor: c.OpenFor, Probes: c.Probes,
	}).Config()
	zero.MinCalls, zero.OpenForMax, zero.CloseAfter, zero.StableAfter = related.MinCalls, related.OpenForMax, related.CloseAfter, related.StableAfter

	names := []string{}
	is, would := reflect.ValueOf(newSettings(c)), reflect.ValueOf(newSettings(&zero))
	for i := range is.NumField() {
		name := is.Type().Field(i).Tag.Get("json")
		switch name {
		case "trip_when", "classify":
			continue // of functions nothing is shown that could be one
		}
		if reflect.DeepEqual(is.Field(i).Interface(), would.Field(i).Interface()) {
			names = append(names, name)
		}
	}
	return names
}
