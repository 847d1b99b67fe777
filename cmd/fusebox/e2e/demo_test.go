package e2e

import (
	"strings"
	"syscall"
	"testing"
)

// The demonstration goes eight times as fast as for a reader.
func TestTheDemonstrationShowsTheBreaker(t *testing.T) {
	t.Parallel()
	p := start(t, nil, binary.program, "serve", "--demo-pace", "8")
	p.sees("this is a demonstration")
	p.sees("fusebox serve --upstream http://localhost:9000 --listen :8080")
	admin := p.sees(`admin  (http://127\.0\.0\.1:\d+/)`)[1]
	if status, _ := answerOf(t, "GET", admin+"readyz"); status != 200 {
		t.Errorf("the printed address answers %d", status)
	}
	from := 0
	for _, step := range []string{
		"the dependency answers 503",
		"breaker demo opened: .*failures",
		"breaker demo probes",
		"breaker demo closed",
		"the dependency answers slowly",
		"breaker demo opened: slow rate",
		"breaker demo closed",
	} {
		p.seesAfter(from, step)
		text, _ := p.text()
		from += strings.Index(text[from:], p.seesAfter(from, step)[0]) + 1
	}
	p.sees(`[1-9]\d* were rejected by the breaker`)
	p.signal(syscall.SIGINT)
	if code := p.code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestTheDemonstrationTakesFreePortsWhereItsOwnAreInUse(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:8080", "127.0.0.1:9901"} {
		_, _ = occupy(t, address) // if somebody else has it, that will do
	}
	p := start(t, nil, binary.program, "serve")
	p.sees(`127\.0\.0\.1:8080 is in use: 127\.0\.0\.1:\d+ stands in for it`)
	p.sees(`127\.0\.0\.1:9901 is in use: 127\.0\.0\.1:\d+ stands in for it`)
	p.sees(`admin  http://127\.0\.0\.1:\d+/`)

	given := start(t, nil, binary.program, "serve", "--listen", "127.0.0.1:8080")
	if code := given.code(); code != 1 {
		t.Errorf("exit code %d: an address that was asked for is in use", code)
	}
}
