package lab

import (
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/report"
)

// gobreakerVersion is the version that go.mod wants: a test holds the two
// together. (A program could ask itself, but the program of a test does not
// know.)
const gobreakerVersion = "v2.4.0"

// versions returns what the numbers were made with.
func versions(gobreaker bool) []report.Named {
	own := "devel"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			// A library taken from a folder has no version.
			if m.Path == "github.com/fusebox-go/fusebox" && m.Replace == nil && m.Version != "(devel)" {
				own = m.Version
			}
		}
	}
	all := []report.Named{{Name: "fusebox", Value: own}, {Name: "Go", Value: runtime.Version()}}
	if gobreaker {
		all = slices.Insert(all, 1, report.Named{Name: "gobreaker", Value: gobreakerVersion})
	}
	return all
}
