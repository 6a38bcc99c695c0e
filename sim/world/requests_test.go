package world

import (
	"slices"
	"testing"

	"couchrelay/core/instant"
	"couchrelay/sim/decide"
)

// TestMoments: requests that come at once have times of their own, and each begins at its time.
func TestMoments(t *testing.T) {
	w := New(Default(), decide.New(1))
	w.Live()
	var at []instant.Time
	for range 3 {
		w.Engine.Go(nil, "api", func() {
			ctx := w.Engine.NewContext(nil, RequestLimit)
			m := moment(ctx, w.users)
			if now := w.Engine.Now(); now != m {
				t.Errorf("the request of %d begins at %d", m, now)
			}
			at = append(at, m)
		})
	}
	w.Engine.Run(instant.Never, func() bool { return len(at) == 3 })
	if len(at) != 3 || !slices.IsSorted(at) || len(slices.Compact(at)) != 3 {
		t.Errorf("requests at %v", at)
	}
}
