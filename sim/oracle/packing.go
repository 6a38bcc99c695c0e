package oracle

import (
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// packing judges what a run does when its target does not take compressed writes.
type packing struct{ *chronicle }

var packingSubject = subject{
	invariants: []Invariant{
		{"S94a", "A target that took a bulk write only as it was gets no other one compressed for 37 seconds."},
		{"S94b", "A run does not end because its target does not take a compressed write."},
	},
	begin: func(c *chronicle) {
		ps := &packing{c}
		c.on.runCalls.add(ps.called)
		c.on.runReplied.add(func(a reply) {
			if op, is := a.op.(peer.WriteDocs); is {
				a.packed.written(a, op)
			}
		})
		c.on.runSaidEnd.add(ps.ended)
	},
}

// packed is what a run has been told of its compressed writes. Only packing changes it.
type packed struct {
	failed map[uint64]int // how many documents those had that failed, by the read of these
	plain  instant.Time   // when one of them was taken as it was, by the node's steady clock; 0 for never
}

func (p *packed) written(a reply, op peer.WriteDocs) {
	read, n := op.Docs[0].Fetch, len(op.Docs)
	switch {
	case op.Gzip && a.Failure != nil && p.failed == nil:
		p.failed = map[uint64]int{read: n}
	case op.Gzip && a.Failure != nil:
		p.failed[read] = n
	case !op.Gzip && a.Failure == nil && p.failed[read] == n:
		p.plain = a.p.Steady()
	}
}

// called is S94a. A write that failed may be repeated before it is sent as it is.
func (ps *packing) called(c call) {
	op, is := c.op.(peer.WriteDocs)
	if !is || !op.Gzip || c.packed.plain == 0 || c.packed.failed[op.Docs[0].Fetch] == len(op.Docs) {
		return
	}
	if ago := c.p.Steady().Sub(c.packed.plain); ago < refusedLast {
		ps.Fail("S94a", "%s compresses %d documents; its target took others only as they were %s ago",
			c.run, len(op.Docs), ago)
	}
}

// broken are the failures of a connection that may be due to what was sent.
var broken = []peer.Kind{peer.Broken, peer.TimedOut, peer.Malformed}

// ended is S94b.
func (ps *packing) ended(e ending) {
	op, is := e.asked.(peer.WriteDocs)
	answer, _ := e.ev.(replication.Reply)
	f := answer.Failure
	if !is || !op.Gzip || f == nil || e.end.Cause != replication.Crashed {
		return
	}
	statuses := f.Status == 400 || f.Status == 408 || f.Status == 411 || f.Status == 415 || f.Status >= 500
	if f.Kind == peer.Status && statuses || slices.Contains(broken, f.Kind) {
		ps.Fail("S94b", "%s gives up for %q: %s", e.run, op, e.end.Trouble)
	}
}
