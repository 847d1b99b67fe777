package fusebox

import (
	"fmt"
	"slices"
	"strconv"
)

// names are the texts of an enumeration that begins with 0.
type names[T ~uint8] struct {
	kind string
	list []string
}

func (n *names[T]) text(v T) string {
	if int(v) < len(n.list) {
		return n.list[v]
	}
	return n.kind + "(" + strconv.Itoa(int(v)) + ")"
}

func (n *names[T]) marshal(v T) ([]byte, error) {
	if int(v) < len(n.list) {
		return []byte(n.list[v]), nil
	}
	return nil, fmt.Errorf("fusebox: no such %s: %d", n.kind, v)
}

func (n *names[T]) unmarshal(v *T, text []byte) error {
	i := slices.Index(n.list, string(text))
	if i < 0 {
		return fmt.Errorf("fusebox: no such %s: %q, want one of %q", n.kind, text, n.list)
	}
	*v = T(i)
	return nil
}
