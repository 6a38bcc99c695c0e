package oracle

import (
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// writes is a bulk write of n documents that a read brought.
func writes(read uint64, n int, gzip bool) (op peer.WriteDocs) {
	for i := range n {
		op.Docs = append(op.Docs, peer.Kept{Fetch: read, Index: i})
	}
	op.Gzip = gzip
	return op
}

func TestPacking(t *testing.T) {
	// refused has a target take a write only as it is, and another one is compressed after a pause.
	refused := func(f *peer.Failure, pause time.Duration, next peer.WriteDocs) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			r.fails(run, writes(1, 3, true), f)
			r.does(run, writes(1, 3, false), peer.Written{})
			r.pass(pause)
			r.call(run, next)
		}
	}
	ends := func(op peer.WriteDocs, f *peer.Failure) func(*rig) {
		return func(r *rig) {
			r.crashes(r.run(nil), op, peer.Reply{Failure: f}, replication.Trouble{})
		}
	}
	check(t, &packingSubject, []case_{
		{"compressed again at once", refused(status(415), 0, writes(2, 2, true)), "S94a"},
		{"compressed again after 36 seconds", refused(kind(peer.Broken), 36*time.Second, writes(2, 2, true)), "S94a"},
		{"compressed again after 37 seconds", refused(status(415), 37*time.Second, writes(2, 2, true)), ""},
		{"not compressed", refused(status(415), 0, writes(2, 2, false)), ""},
		{"one that failed too, repeated", func(r *rig) {
			run := r.run(nil)
			r.fails(run, writes(1, 3, true), status(503))
			r.fails(run, writes(2, 2, true), status(503))
			r.does(run, writes(1, 3, false), peer.Written{})
			r.call(run, writes(2, 2, true))
		}, ""},
		{"failed, and failed as it is", func(r *rig) {
			run := r.run(nil)
			r.fails(run, writes(1, 3, true), status(400))
			r.fails(run, writes(1, 3, false), status(400))
			r.call(run, writes(2, 2, true))
		}, ""},
		{"another run compresses", func(r *rig) {
			refused(status(415), 0, writes(2, 2, false))(r)
			r.call(r.run(nil), writes(3, 2, true))
		}, ""},
		{"ends for 415", ends(writes(1, 3, true), status(415)), "S94b"},
		{"ends for 411", ends(writes(1, 3, true), status(411)), "S94b"},
		{"ends for a broken connection", ends(writes(1, 3, true), kind(peer.Broken)), "S94b"},
		{"ends for a host that cannot be reached", ends(writes(1, 3, true), kind(peer.Unreachable)), ""},
		{"ends for 403", ends(writes(1, 3, true), status(403)), ""},
		{"ends for 503 to a plain one", ends(writes(1, 3, false), status(503)), ""},
	})
	check(t, &limitSubject, []case_{
		{"compressed with compression off", func(r *rig) {
			r.call(r.run(map[string]any{"target": off}), writes(1, 3, true))
		}, "S30v"},
		{"not compressed with compression off", func(r *rig) {
			r.call(r.run(map[string]any{"target": off}), writes(1, 3, false))
		}, ""},
		{"compressed", func(r *rig) { r.call(r.run(nil), writes(1, 3, true)) }, ""},
	})
}

var off = map[string]any{"url": "http://s2/b1/", "compression": "off"}
