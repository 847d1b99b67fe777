package fusebox

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"
)

// Where very many breakers are open, a new key asks a few of them, and goes on
// from there the next time.
func TestANewKeyAsksFewOfManyOpenBreakers(t *testing.T) {
	const keys = 1000
	r := &Registry{MaxKeys: keys, Config: func(string) Config { return Config{Consecutive: 1, OpenFor: time.Hour} }}
	trip := func(key string) {
		_ = r.Get(key).Do(context.Background(), func(context.Context) error { return errors.New("down") })
	}
	for i := range keys {
		trip(strconv.Itoa(i))
	}
	far := r.places[keys/2]
	far.breaker.mu.Lock() // whoever asks this one waits
	done := make(chan struct{})
	go func() {
		defer close(done)
		trip("new")
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("a new key asks half of a thousand open breakers")
	}
	far.breaker.mu.Unlock()
	<-done

	far.breaker.Reset(Note{})
	for i := 0; r.Stats().Evicted == 0; i++ {
		if i == 2*keys {
			t.Fatal("the one that may go never went")
		}
		trip("more " + strconv.Itoa(i))
	}
	if _, ok := r.Lookup(far.key); ok || r.Stats().Exceeded == 0 {
		t.Errorf("%+v: another one went", r.Stats())
	}
}
