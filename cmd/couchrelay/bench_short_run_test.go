package main

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkShortRun replicates few documents over long lines, and reports how many round trip times a run takes: to a
// new target, with nothing to do, and with some changes. With COUCHDB_URL the servers are that CouchDB, and its own
// replicator does the same for comparison.
func BenchmarkShortRun(b *testing.B) {
	const trip = 250 * time.Millisecond
	peers := newBenchPeers(b)
	for _, trips := range [][2]time.Duration{{trip, trip}, {0, trip}, {trip, 0}} {
		from, to := far(b, peers.source, line{trip: trips[0]}), far(b, peers.target, line{trip: trips[1]})
		b.Run(fmt.Sprintf("source=%s,target=%s", trips[0], trips[1]), func(b *testing.B) {
			took := map[string]time.Duration{}
			for n := 0; b.Loop(); n++ {
				db := fmt.Sprintf("short-%d-%d-%d", trips[0], trips[1], n)
				peers.shortRuns(b, db, func(story, copied string, written int64) {
					ask := object{"source": from + db, "target": to + copied}
					took[story] += timed(func() { replicateOnce(b, ask, 0, written) })
				})
				if peers.couch {
					db += "-couchdb"
					peers.shortRuns(b, db, func(story, copied string, _ int64) {
						ask := object{"source": from + db, "target": to + copied}
						couch := func() { must(b, request("POST", peers.source+"_replicate", ask, nil)) }
						took["couchdb-"+story] += timed(couch)
					})
				}
			}
			for story, sum := range took {
				b.ReportMetric(sum.Seconds()/trip.Seconds()/float64(b.N), story+"-trips")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// shortRuns has a database replicated to a new one, once more, and after some changes.
func (p benchPeers) shortRuns(b *testing.B, db string, replicate func(story, copied string, written int64)) {
	const count, changes = 100, 10
	p.fill(b, db, count, func(int) object { return object{"text": "short"} })
	copied := db + "-copy"
	must(b, request("PUT", p.target+copied, nil, nil))
	replicate("new", copied, count)
	replicate("idle", copied, 0)
	var more []object
	for n := range changes {
		more = append(more, object{"_id": fmt.Sprintf("more-%d", n), "_rev": fmt.Sprintf("1-%032x", n)})
	}
	must(b, writeAll(p.source+db, more, false))
	replicate("changed", copied, changes)
	must(b, request("DELETE", p.target+copied, nil, nil))
}
