package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkAttached replicates documents with an attachment each, of 50 kB that do not compress, between servers that
// are beside the replicator or farther away. With COUCHDB_URL the servers are that CouchDB, and its own replicator does
// the same for comparison.
func BenchmarkAttached(b *testing.B) {
	const count, size = 1000, 50_000
	peers := newBenchPeers(b)
	peers.fill(b, "attached", count, func(n int) object {
		data := make([]byte, size)
		_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8)}).Read(data)
		return object{"_attachments": object{"a": object{"content_type": "application/x-bytes", "data": data}}}
	})
	for _, trip := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond} {
		b.Run(fmt.Sprint("trip=", trip), func(b *testing.B) {
			peers.compare(b, "attached", count, line{trip: trip}, line{trip: trip})
		})
	}
}
