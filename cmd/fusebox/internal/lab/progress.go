package lab

import (
	"fmt"
	"io"
	"time"
)

const (
	progressAfter = 2 * time.Second // nobody wonders before
	progressEvery = time.Second
)

// progress writes how far an experiment is, once it has taken a while.
type progress struct {
	w    io.Writer // nil: nobody wants to know
	name string
	next time.Time
}

func newProgress(w io.Writer, name string) *progress {
	return &progress{w, name, time.Now().Add(progressAfter)}
}

// at is not called in a bubble, where time is another.
func (p *progress) at(done, of int) {
	if p.w == nil || time.Now().Before(p.next) {
		return
	}
	p.next = time.Now().Add(progressEvery)
	fmt.Fprintf(p.w, "%s: %d of %d\n", p.name, done, of)
}
