package replication

import (
	"cmp"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// forgets reports whether a side's checkpoint is to be discarded. A source that keeps it has none in common with the
// target any more.
func (o *opener) forgets(on peer.Side) bool {
	discards := o.plan.Reset || o.anew && o.plan.UseCheckpoints
	return discards && !o.sides[on].log.Empty() && !(on == peer.Source && o.declined[on] != nil)
}

// resets reports whether the run copies all anew, whatever checkpoints there were.
func (o *opener) resets() bool { return o.plan.Reset || o.anew }

// marks reports whether a side is to have a log before it has a checkpoint: where no instance_start_time tells that a
// database was deleted and made again, the log does. The new database has no log, or one with another mark, and the run
// looks at it before each checkpoint (see checkpoint.Log.Mark). A target that refuses the log has a run fail for its
// checkpoint: it may take that by then, and be another one. A source that does counts as one that may only be read.
func (o *opener) marks(on peer.Side) bool {
	s := &o.sides[on]
	return o.plan.UseCheckpoints && s.log.Empty() && s.logRev == "" && !s.tellsApart() && o.declined[on] == nil
}

// writeEmpty writes a log without any checkpoint to a side, before anything is copied. A reset that is cut off then has
// lost checkpoints, or will be repeated, and no later run goes on from those that were to be forgotten: it does so for
// replications without checkpoints too, which begin at those that others left. Once the log is stored, writeEmpty calls
// then; a side that refuses the log is located at once.
func (o *opener) writeEmpty(on peer.Side, then func()) {
	s := &o.sides[on]
	empty := checkpoint.Log{Mark: o.commits.newSession()}
	op := peer.PutLocal{Side: on, ID: o.ids.Bases[0], Rev: s.logRev, Body: empty.Encode(false)}
	o.ask(op, func(reply peer.Reply) {
		switch f := reply.Failure; {
		case f == nil:
			s.log, s.logRev = empty, reply.Result.(peer.LocalWritten).Rev
			then()
		case f.Kind == peer.Status && f.Status == 409 && !o.reread[on]:
			// A request of an earlier run arrived late, or this one did and its answer was lost.
			// Reached: a log changes while it is discarded
			o.reread[on] = true
			s.log, s.logRev = checkpoint.Log{}, ""
			o.lookForLog(on)
		case !o.forgets(on) && f.Kind == peer.Status && !Transient(f) && !asksForLess(f),
			on == peer.Source && refusesLog(f):
			// Reached: a database refuses an empty log
			if on == peer.Source && refusesLog(f) && s.logRev == "" { // a checkpoint would replace nothing either
				o.readOnly, o.commits.lone.counts = true, true
			}
			o.declined[on] = f
			o.locate(on)
		default:
			o.crash(trouble(op, f))
		}
	})
}

// restart copies from the beginning, once the checkpoints are discarded. If the source has refused to have its log
// emptied, what that log says counts as saved from now on: else each later run would take the source for put back.
func (o *opener) restart() {
	if o.declined[peer.Source] != nil {
		o.info.ListSaved[peer.Source] = o.sides[peer.Source].log.State(o.plan.List.Job).Changes
	}
	o.copyFrom(checkpoint.Entry{RecordedSeq: cmp.Or(o.plan.SinceSeq, peer.Zero)}, nil)
}

// noteReset says that a reset is carried out, once the run has a checkpoint of its own, or nothing to write one of.
// Until that is stored, every run discards the checkpoints again: a run from before the reset, which still stops
// elsewhere, may have written its last one over the empty logs.
func (k *committer) noteReset() {
	written := k.tally.Checkpoints > 0 || !k.plan.UseCheckpoints
	undone := k.stopping || !k.feed.caught || k.work.open() || k.wanted() // a stop gives up what is open
	if !k.plan.Reset || k.info.Reset || !written && undone {
		return
	}
	k.info.Reset, k.reports.next = true, k.now
}
