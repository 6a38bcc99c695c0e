package oracle

import (
	"couchrelay/core/peer"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
)

// beginning is the state that a run finds when it begins. Only the chronicle changes it.
type beginning struct {
	source, target *peers.DB // nil while they do not exist; a target that the run makes takes its place
	last           peer.Seq  // of the source
	startS, startT string    // instance_start_time: another one once a database lost something
	// restoredS and restoredT are how often the databases had been put back from a backup.
	restoredS, restoredT int
	opened               bool // the source was opened; kept by makingSubject
}

func (k *known) beginning(r *run) beginning {
	rep := r.Replication()
	b := beginning{source: k.w.Database(rep.Source.URL), target: k.w.Database(rep.Target.URL)}
	if b.source != nil {
		b.last, b.startS, b.restoredS = b.source.Last(), b.source.Start(), b.source.Restored()
	}
	if b.target != nil {
		b.startT, b.restoredT = b.target.Start(), b.target.Restored()
	}
	return b
}

// opened notes the target that a run made, which can lose something from now on.
func (k *known) opened(r *run, op peer.Op, reply peer.Reply) {
	found, is := reply.Result.(peer.Opened)
	if !is || r.begin.target != nil || op.(peer.Open).Side != peer.Target {
		return
	}
	r.begin.target, r.begin.startT = k.w.Database(r.Replication().Target.URL), found.InstanceStartTime
	if r.begin.target != nil {
		r.begin.restoredT = r.begin.target.Restored()
	}
}

// asBegun reports whether a run can be judged by the state in which it began: its databases are the same, and
// so are the changes that they offer. A filter function may have been another one for a while.
func (k *known) asBegun(r *run) bool {
	rep, b := r.Replication(), &r.begin
	source, target := k.w.Database(rep.Source.URL), k.w.Database(rep.Target.URL)
	if rep.Filter.Kind == spec.FunctionFilter || source == nil || target == nil {
		return false
	}
	sameSource := source == b.source && source.Restored() == b.restoredS
	sameTarget := target == b.target && target.Start() == b.startT && target.Restored() == b.restoredT
	return sameSource && (b.target == nil || sameTarget)
}

// goesOn reports whether the source is the one that the run began with, and counts its changes as it did.
func (k *known) goesOn(r *run) bool {
	source := k.w.Database(r.Replication().Source.URL)
	return source != nil && source == r.begin.source && source.Restored() == r.begin.restoredS &&
		!r.WentBack()
}

// beginsAt is the number of the change behind which a replication without a checkpoint begins: its since_seq.
func beginsAt(rep *spec.Replication, source *peers.DB) int64 {
	return source.Number(peer.Seq(rep.SinceSeq))
}

// missing names a revision among the changes up to a number that the target lacks and never refused; empty
// when there is none.
func (k *known) missing(rep *spec.Replication, source, target *peers.DB, through int64) string {
	for _, offer := range source.OffersAfter(beginsAt(rep, source), rep.Filter, rep.WinningRevsOnly) {
		if offer.Number > through || target.Deny[offer.ID] != nil {
			continue
		}
		for _, rev := range offer.Revs {
			if !target.Has(offer.ID, rev) && !k.denied[target.String()+" "+offer.ID+" "+rev] {
				return offer.ID + " " + rev
			}
		}
	}
	return ""
}

// uncovered names a document that a job would copy again though it has arrived: one among the changes up to a
// number that the job's checkpoints do not cover; empty when there is none. Jobs that differ in a few options
// write the same logs, and so can rely on none. A source that stores no logs is not known again by a change that was
// purged, and one that has a log under an older id is known by that.
func (k *known) uncovered(jobID string, rep *spec.Replication, base string, through int64) string {
	source, target := k.checkpointed(rep)
	if source == nil || !rep.UseCheckpoints {
		return ""
	}
	if last := k.logs.read(target.Log(base)).lone; last != nil {
		kept := last.Session != "" && source.Log(base) == nil
		if kept || nameless(source) || last.purged(source) {
			return ""
		}
	}
	for id, s := range k.shadows { // in any order: one is enough
		if id != jobID && s.header != nil && s.record.BaseID == base {
			return ""
		}
	}
	of := k.readerOf(jobID, rep, base)
	since := max(source.Number(k.logs.agreed(source, target, base, of)), beginsAt(rep, source))
	for _, offer := range source.OffersAfter(since, rep.Filter, rep.WinningRevsOnly) {
		if offer.Number <= through {
			return offer.ID
		}
	}
	return ""
}
