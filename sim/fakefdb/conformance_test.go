package fakefdb_test

import (
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/sim/conformance"
	"couchrelay/sim/fakefdb"
)

func TestConformance(t *testing.T) {
	conformance.Run(t, func(testing.TB) conformance.Store {
		now := instant.Seconds(1_000_000)
		clock := fakefdb.WithClock(func() instant.Time { now++; return now })
		return conformance.Store{
			DB:      fakefdb.New(clock),
			Prefix:  []byte("test/"),
			Advance: func(d time.Duration) { now = now.Add(d) },
			Exact:   true,
		}
	})
}
