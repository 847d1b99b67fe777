package theory

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// fused is a multiplication and an addition in one step, on arm64.
var fused = regexp.MustCompile(`.*\((\S+)\)\s+(FN?M(ADD|SUB)[DS])\s.*`)

func TestNoProductIsFusedWithASum(t *testing.T) {
	// What is read here is what go test takes as changed: elsewhere than on arm64
	// the conversions leave the program as it is.
	sources, err := filepath.Glob("*.go")
	if err != nil || len(sources) == 0 {
		t.Fatalf("%d files, %v", len(sources), err)
	}
	for _, name := range sources {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-S", ".")
	build.Env = append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
	listing, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, listing)
	}
	if len(listing) < 10_000 {
		t.Fatalf("this is no listing: %s", listing)
	}
	for _, m := range fused.FindAllSubmatch(listing, -1) {
		t.Errorf("%s: %s: write float64(x*y) + z", m[1], m[2])
	}
}
