package fusebox_test

import (
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// The records of a whole life chain.

func TestRecordsChain(t *testing.T) {
	l := newCellLab(t)
	l.trip()
	p := l.probe()
	p.Record(fusebox.Failure)
	p = l.probe()
	p.Record(fusebox.Success)
	l.succeed(2)
	l.Override(fusebox.ForceOpen, l.note(time.Minute))
	l.advance(time.Hour)
	l.Reset(fusebox.Note{})
	l.change(func(*fusebox.Config) {})
	state, generation := fusebox.Closed, uint64(0)
	records := l.delivered()
	for i, r := range records {
		if r.From != state || r.Generation < generation || r.From != r.To && r.Generation != generation+1 {
			t.Errorf("record %d does not follow the one before it: %v", i, r)
		}
		state, generation = r.To, r.Generation
	}
	if len(records) != 9 {
		t.Errorf("%d records, want 9", len(records))
	}
	var counted uint64
	for _, c := range l.Snapshot().Totals.Transitions {
		counted += c.Count
	}
	if counted != uint64(len(records)) {
		t.Errorf("totals count %d transitions, want %d", counted, len(records))
	}
}
