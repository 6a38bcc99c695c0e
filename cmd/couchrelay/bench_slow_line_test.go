package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// BenchmarkSlowLine replicates documents of 1 kB, of words, to servers at the end of lines with a bandwidth, and
// reports the rate as a ratio to that without compression in the same run. With COUCHDB_URL the servers are that
// CouchDB, and its own replicator does the same for comparison.
func BenchmarkSlowLine(b *testing.B) {
	const count = 60_000
	peers := newBenchPeers(b)
	peers.fill(b, "slow-line", count, words)
	for _, to := range []line{
		{trip: 20 * time.Millisecond, rate: 4 << 20},
		{trip: 20 * time.Millisecond, rate: 64 << 20}, near,
	} {
		base := 0.0
		for _, mode := range []string{"off", "on", "auto"} {
			b.Run(fmt.Sprintf("target=%dMBps,compression=%s", to.rate>>20, mode), func(b *testing.B) {
				peers := peers
				peers.compression = mode
				rate := peers.compare(b, "slow-line", count, near, to)
				if mode == "off" {
					base = rate
				}
				b.ReportMetric(rate/base, "ratio")
			})
		}
	}
}

// words are the fields of a document that compresses as those of users do, to about a third.
func words(n int) object {
	const letters = "eeeeeettttaaaaooooiiinnnsshhrrddlcumwfgypbvk"
	random := rand.New(rand.NewPCG(uint64(n), 1))
	vocabulary := make([]string, 40)
	for i := range vocabulary {
		for range 3 + random.IntN(8) {
			vocabulary[i] += string(letters[random.IntN(len(letters))])
		}
	}
	var text []string
	for range 120 {
		text = append(text, vocabulary[random.IntN(len(vocabulary))])
	}
	return object{"type": "article", "author": vocabulary[0], "text": strings.Join(text, " ")}
}
