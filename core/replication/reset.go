package replication

import (
	"cmp"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// discard replaces a side's checkpoint by a log without any, before anything is copied: a reset that is cut off
// has lost checkpoints, or will be repeated, and no later run goes on from those that were to be forgotten. It
// does so for replications without checkpoints too, which begin at those that others left.
func (o *opener) discard(on peer.Side) {
	s := &o.sides[on]
	op := peer.PutLocal{Side: on, ID: o.ids.Bases[0], Rev: s.logRev, Body: checkpoint.Log{}.Encode(false)}
	o.ask(op, func(reply peer.Reply) {
		switch f := reply.Failure; {
		case f == nil:
			s.log, s.logRev = checkpoint.Log{}, reply.Result.(peer.LocalWritten).Rev
			o.locate(on)
		case on == peer.Source && refusesLog(f):
			// Reached: a source keeps its log over a reset
			o.kept = true // and the target has no checkpoint in common with it any more
			o.locate(on)
		case f.Kind == peer.Status && f.Status == 409 && !o.reread[on]:
			// A request of an earlier run arrived late, or this one did and its answer was lost.
			// Reached: a log changes while it is discarded
			o.reread[on] = true
			s.log, s.logRev = checkpoint.Log{}, ""
			o.lookForLog(on)
		default:
			o.crash(trouble(op, f))
		}
	})
}

// restart copies from the beginning, once the checkpoints are discarded, and says so at once: until that is
// stored, every run discards them again.
func (o *opener) restart() {
	o.info.Reset = true
	o.copyFrom(cmp.Or(o.plan.SinceSeq, peer.Zero), nil)
	o.reports.next = o.now
}
