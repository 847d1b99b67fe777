package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

// maxFor is what the tags bound a scenario by, and every other time; maxCalls
// bounds the calls it would make: more would take longer than anybody waits, and
// memory.
const (
	maxFor   = 1000 * time.Hour
	maxCalls = 2_000_000

	maxRepetitions = 10_000
)

// Parse reads a scenario. name stands in errors. The error is [config.Errors]:
// all that is wrong, each with line and column.
func Parse(name string, data []byte) (*Scenario, error) {
	s := new(Scenario)
	check := func(doc *config.Document) { (&checker{Document: doc, s: s}).check() }
	if err := config.Decode(name, data, "title, for, dependencies and traffic", s, check); err != nil {
		return nil, err
	}
	return s, nil
}

// Load reads the scenario that ships under a name, or else a file. What has a
// separator of paths or an extension is a file, whatever ships.
func Load(name string) (*Scenario, error) {
	bare := filepath.Ext(name) == "" && !strings.ContainsAny(name, `/\`)
	if source, ok := Source(name); ok && bare {
		return Parse(name, source)
	}
	data, err := os.ReadFile(name)
	switch info, statErr := os.Stat(name); {
	case err == nil:
		return Parse(name, data)
	case statErr == nil && info.IsDir():
		return nil, fmt.Errorf("%s is a folder, not the file of a scenario", name)
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	case bare:
		return nil, fmt.Errorf("there is no file %s, and no scenario of that name; there are %s", name, strings.Join(Names(), ", "))
	}
	shipped := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	if _, ok := Source(shipped); ok {
		return nil, fmt.Errorf("%w; the scenario that ships is %s", err, shipped)
	}
	return nil, err
}
