package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// BenchmarkDistance replicates documents of 1 kB and of 11.5 kB to and from servers that are far away, and reports the
// rate as a ratio to that between near ones in the same run. With COUCHDB_URL the servers are that CouchDB, and its own
// replicator does the same for comparison.
func BenchmarkDistance(b *testing.B) {
	peers := newBenchPeers(b)
	for _, docs := range []struct{ size, many, few, memory int }{
		{960, 100_000, 40_000, 16}, {11_500, 30_000, 10_000, 16}, {11_500, 30_000, 10_000, 64},
	} {
		count, db := docs.many, fmt.Sprintf("distance-%d-%d", docs.size, docs.memory)
		peers.memory = docs.memory << 20
		if peers.couch {
			count = docs.few
		}
		peers.fill(b, db, count, func(int) object { return object{"text": strings.Repeat("x", docs.size)} })
		base := 0.0
		for _, trips := range [][2]time.Duration{
			{0, 0}, {0, 80 * time.Millisecond}, {80 * time.Millisecond, 0},
			{80 * time.Millisecond, 80 * time.Millisecond},
			{0, 250 * time.Millisecond}, {250 * time.Millisecond, 250 * time.Millisecond},
		} {
			name := fmt.Sprintf("bytes=%d,MiB=%d,source=%s,target=%s", docs.size, docs.memory, trips[0], trips[1])
			b.Run(name, func(b *testing.B) {
				rate := peers.compare(b, db, count, line{trip: trips[0]}, line{trip: trips[1]})
				if trips[0]+trips[1] == 0 {
					base = rate
				}
				b.ReportMetric(rate/base, "ratio")
			})
		}
	}
}
