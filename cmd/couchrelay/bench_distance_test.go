package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// BenchmarkDistance replicates documents of 1 kB to and from servers that are far away, and reports the rate as a ratio
// to that between near ones in the same run. With COUCHDB_URL the servers are that CouchDB, and its own replicator does
// the same for comparison.
func BenchmarkDistance(b *testing.B) {
	peers, count := newBenchPeers(b), 100_000
	if peers.couch {
		count = 40_000
	}
	peers.fill(b, "distance", count, func(int) object { return object{"text": strings.Repeat("x", 960)} })
	base := 0.0
	for _, trips := range [][2]time.Duration{
		{0, 0}, {0, 80 * time.Millisecond}, {80 * time.Millisecond, 0}, {0, 250 * time.Millisecond},
		{250 * time.Millisecond, 250 * time.Millisecond},
	} {
		b.Run(fmt.Sprintf("source=%s,target=%s", trips[0], trips[1]), func(b *testing.B) {
			rate := peers.compare(b, "distance", count, line{trip: trips[0]}, line{trip: trips[1]})
			if trips[0]+trips[1] == 0 {
				base = rate
			}
			b.ReportMetric(rate/base, "ratio")
		})
	}
}
