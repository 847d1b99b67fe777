package serve

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// Build is what this program was built from.
type Build struct {
	Version  string `json:"version"`            // of the module; "(devel)" where it was not built from a release
	Revision string `json:"revision,omitempty"` // of the repository; empty where it is not known
	Go       string `json:"go"`                 // version of the toolchain
}

// ThisBuild returns what the running program was built from.
func ThisBuild() Build {
	b := Build{Version: "(devel)", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = cmp.Or(info.Main.Version, b.Version)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}
