package limit_test

import (
	"testing"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
	"github.com/fusebox-go/fusebox/limit"
)

func TestConform(t *testing.T) {
	t.Run("limit", func(t *testing.T) {
		fuseboxtest.Conform(t, func() fusebox.Policy { return limit.New(limit.Config{}) })
	})
	t.Run("throttle", func(t *testing.T) {
		fuseboxtest.Conform(t, func() fusebox.Policy { return limit.NewThrottle(limit.ThrottleConfig{}) })
	})
}
