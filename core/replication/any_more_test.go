package replication

import (
	"fmt"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// oddities are what makes a run of a world differ from others.
type oddities struct {
	// odd lets a request that works bring less than it could; it may be nil.
	odd func() bool
	// elsewhere reports whether another job lists what this one need not copy; it may be nil.
	elsewhere func(id, rev string) bool
	exact     bool // the source does not send what it does not have any more
	// selected is what the replication selects of the source's rows; it may be nil for all.
	selected func([]peer.Change) []peer.Change
	// spared reports whether a revision of the source need not come; it may be nil.
	spared func(id, rev string) bool
	claims func() // the run has claimed its id; it may be nil
	undead bool   // the run goes on without its lease: the store refuses what it reports
}

// happensToo is an event that is not in all orders: use_checkpoints is edited, answers are lost from now on or not any
// more, or a run goes on that has lost its lease.
func (o *order) happensToo() {
	o.why = "what any_more_test.go has"
	switch o.IntN(3) {
	case 0:
		o.plan.UseCheckpoints = !o.plan.UseCheckpoints
		o.say("use_checkpoints is %t", o.plan.UseCheckpoints)
	case 1:
		o.fault = nil
		if o.IntN(2) == 0 {
			o.fault = func(Call) fault { return []fault{works, fails, loses}[max(0, o.IntN(16)-13)] }
		}
		o.say("answers are lost: %t", o.fault != nil)
	case 2:
		if o.former != nil {
			o.staggers()
		}
	}
}

// saves has the job's record know what a run tells, unless that has lost its lease.
func (w *world) saves(info Info) {
	if !w.undead {
		w.saved = info.ListSaved
		w.plan.Reset = w.plan.Reset && !info.Reset
	}
}

func (w *world) isSpared(id, rev string) bool {
	return w.spared != nil && w.spared(id, rev) || w.elsewhere != nil && w.elsewhere(id, rev)
}

// claimed answers a run that may go on under its id.
func (w *world) claimed() {
	if w.claims != nil {
		w.claims()
	}
	w.step(Identified{})
}

func (w *world) isGone(id, rev string) bool { return w.exact && !w.dbs[peer.Source].has(id, rev) }

// selects is what the feed has of rows.
func (w *world) selects(rows []peer.Change) []peer.Change {
	if w.selected == nil {
		return rows
	}
	return w.selected(rows)
}

// ends has the record know how a run ends, and the list what it has failed for.
func (w *world) ends(e *End) {
	w.saves(e.Info)
	w.checkCompleted()
	if e.Refused != nil && !w.undead {
		w.stores(Refused{Findings: []Finding{*e.Refused}})
	}
}

// staggers has a killed run go on for a while. The store does not listen to it.
func (o *order) staggers() {
	now, former := *o.world, *o.former
	former.dbs, former.now, former.fault = now.dbs, now.now, nil
	former.deaf, former.undead, former.calls = true, true, nil
	*o.world = former
	for n := o.IntN(40); n > 0 && o.end == nil; n-- {
		if len(o.flying) == 0 && o.run.Deadline() == instant.Never {
			break
		}
		o.proceed(o.IntN)
	}
	o.say("a run that has lost its lease does %q", o.calls)
	former = *o.world
	if o.former = &former; former.end != nil {
		o.former = nil
	}
	now.now, now.steps = former.now, 0
	*o.world = now
}

// couchRuns has CouchDB's replicator copy all behind the newest checkpoint that both databases have, while the target
// takes all. Its own tells of no list.
func (o *order) couchRuns() {
	source, target := o.logOn(peer.Source), o.logOn(peer.Target)
	if len(o.bad) > 0 || source.SessionID == "" || target.SessionID == "" {
		return
	}
	e := checkpoint.Entry{SessionID: fmt.Sprint("couch", len(o.told)), StartSeq: peer.Zero}
	var history []checkpoint.Entry
	for i, common := range source.Entries() {
		if target.Has(common.SessionID) {
			e.StartSeq, history = common.RecordedSeq, source.Entries()[i:]
			break
		}
	}
	for _, row := range o.dbs[peer.Source].changes(numberOf(e.StartSeq)) {
		for _, rev := range row.Revs {
			o.dbs[peer.Target].write(row.ID, o.dbs[peer.Source].path(row.ID, rev)...)
		}
	}
	e.RecordedSeq = seqOf(o.dbs[peer.Source].seq)
	log := checkpoint.Log{SessionID: e.SessionID, SourceLastSeq: e.RecordedSeq}
	log.History = append([]checkpoint.Entry{e}, history...)
	for side, d := range o.dbs {
		d.local["four"] = localDoc{o.dbs[side].local["four"].rev + 1, log.Encode(false)}
	}
	o.covers = e.RecordedSeq
	o.say("CouchDB's replicator runs from %s", e.StartSeq)
}

// refusesLog has a source store no logs, or a proxy take none with many checkpoints.
func (o *order) refusesLog(c Call) *peer.Failure {
	put, is := c.Op.(peer.PutLocal)
	if !is {
		return nil
	}
	log, err := checkpoint.Parse(put.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	refusal := status(403)
	switch {
	case put.Side == peer.Source && o.readOnly:
	case o.cut > 0 && len(log.History) > o.cut:
		refusal = status(413)
	default:
		return nil
	}
	return &refusal
}

// listsElsewhere reports whether another job has left out a revision, and lists it: this one goes on behind that.
func (o *order) listsElsewhere(id, rev string) bool {
	for job, l := range o.jobs {
		if o.skips && job != o.plan.List.Job && l.list[peerRev{id, rev}] != nil {
			return true
		}
	}
	return false
}
