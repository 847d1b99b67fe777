package bulkhead_test

import (
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/bulkhead"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

func TestConform(t *testing.T) {
	for name, c := range map[string]bulkhead.Config{"one place": {Limit: 1}, "waiting": {Limit: 1, MaxWait: time.Minute}} {
		t.Run(name, func(t *testing.T) {
			fuseboxtest.Conform(t, func() fusebox.Policy { return bulkhead.New(c) })
		})
	}
}
