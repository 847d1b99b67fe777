package scenario

import (
	"embed"
	"path"
	"strings"
)

//go:embed shipped/*.yaml
var shipped embed.FS

// Names returns the names of the scenarios that ship, in order.
func Names() (names []string) {
	entries, err := shipped.ReadDir("shipped")
	if err != nil {
		panic(err) // it is in the program
	}
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	return names
}

// Source returns the file of a scenario that ships.
func Source(name string) (data []byte, ok bool) {
	data, err := shipped.ReadFile(path.Join("shipped", name+".yaml"))
	return data, err == nil
}
