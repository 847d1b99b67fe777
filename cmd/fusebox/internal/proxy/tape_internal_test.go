package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A body is settled while the last try is still in the middle of what is recorded.
func TestATapeForgetsWhatHasBeenPlayedForTheLastTime(t *testing.T) {
	tape := newTape(strings.NewReader("recorded, and the rest"), 100, nil)
	read := func(r io.Reader, n int) string {
		t.Helper()
		b := make([]byte, n)
		n, _ = io.ReadFull(r, b)
		return string(b[:n])
	}
	first, _ := tape.play()
	read(first, 8)
	last, _ := tape.play()
	got := read(last, 4)
	tape.settle()
	if tape.recorded == nil {
		t.Error("what is still to be played is forgotten")
	}
	if _, err := tape.play(); !errors.Is(err, errTooLong) {
		t.Errorf("there is another try: %v", err)
	}
	if got += read(last, 8); got != "recorded, an" || tape.recorded != nil {
		t.Errorf("played %q, and %q is kept", got, tape.recorded)
	}
	if n, err := first.Read(make([]byte, 1)); n != 0 || !errors.Is(err, errTooLong) {
		t.Errorf("the first try reads on: %d, %v", n, err)
	}
	if got += read(last, 100); got != "recorded, and the rest" || !tape.over() || tape.recorded != nil {
		t.Errorf("played %q, and %q is kept", got, tape.recorded)
	}
}

// One that nobody plays to its end is forgotten when it is closed.
func TestATapeThatIsClosedIsForgotten(t *testing.T) {
	tape := newTape(strings.NewReader("recorded"), 100, nil)
	first, _ := tape.play()
	_, _ = first.Read(make([]byte, 8))
	last, _ := tape.play()
	tape.settle()
	if tape.recorded == nil {
		t.Error("what is still to be played is forgotten")
	}
	_ = last.Close()
	if _, err := last.Read(make([]byte, 1)); tape.recorded != nil || !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("%q is kept, %v", tape.recorded, err)
	}
}

// The body of a try that is not made gives its place back, until something is read of it.
func TestATapeThatIsNotPlayedGivesItsPlaceBack(t *testing.T) {
	tape := newTape(strings.NewReader("recorded, and the rest"), 100, nil)
	b := make([]byte, 8)
	first, _ := tape.play()
	_, _ = first.Read(b)
	unused, _ := tape.play()
	_ = unused.Close()
	tape.settle()
	if got, err := io.ReadAll(first); string(got) != ", and the rest" || err != nil || tape.recorded != nil {
		t.Errorf("read %q, %v, and %q is kept", got, err, tape.recorded)
	}

	tape = newTape(strings.NewReader("recorded, and the rest"), 100, nil)
	first, _ = tape.play()
	_, _ = first.Read(b)
	used, _ := tape.play()
	_, _ = used.Read(b)
	_ = used.Close()
	tape.settle()
	if n, err := first.Read(b); n != 0 || !errors.Is(err, errTooLong) {
		t.Errorf("a body is read by two: %d, %v", n, err)
	}
}
