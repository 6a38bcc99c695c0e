package replication

import (
	"fmt"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// putLocal stores a log. That of the target, or one that the target has too, covers nothing that has not arrived.
func (w *world) putLocal(op peer.PutLocal) peer.Reply {
	d := w.dbs[op.Side]
	doc, found := d.local[op.ID]
	if found && op.Rev != fmt.Sprint("0-", doc.rev) || !found && op.Rev != "" {
		return peer.Reply{Failure: &peer.Failure{Kind: peer.Status, Status: 409, Error: "conflict"}}
	}
	log, err := checkpoint.Parse(op.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if id := w.unlisted(numberOf(log.SourceLastSeq)); id != "" && !w.undead {
		w.t.Fatalf("checkpoint at %s on %s, but %s is refused and not listed", log.SourceLastSeq, op.Side, id)
	}
	target, err := checkpoint.Parse(w.dbs[peer.Target].local[op.ID].body)
	counts := op.Side == peer.Target || err == nil && target.SessionID == log.SessionID
	if id := w.uncovered(numberOf(log.SourceLastSeq)); counts && id != "" && !w.undead {
		w.t.Fatalf("checkpoint at %s on %s, but %s is not on the target", log.SourceLastSeq, op.Side, id)
	}
	w.wantTimes(log)
	d.local[op.ID] = localDoc{rev: doc.rev + 1, body: op.Body}
	return peer.Reply{Result: peer.LocalWritten{Rev: fmt.Sprint("0-", doc.rev+1)}}
}

// wantTimes demands that the newest entry of a log says when the job was created, when the entry was written,
// and how far it goes.
func (w *world) wantTimes(log checkpoint.Log) {
	if len(log.History) == 0 {
		return // as CouchDB's first releases wrote them
	}
	e := log.History[0]
	end, err := time.Parse(time.RFC1123, e.EndTime)
	if err != nil || !end.After(w.plan.Created.Std()) || end.After(w.now.Std()) {
		w.t.Fatalf("a checkpoint of a job of %v was written by %v, and says %q", w.plan.Created, w.now, e.EndTime)
	}
	if e.StartTime != w.plan.Created.RFC1123() {
		w.t.Fatalf("a checkpoint is of a job of %q, want %s", e.StartTime, w.plan.Created.RFC1123())
	}
	if e.EndSeq != log.SourceLastSeq || e.RecordedSeq != log.SourceLastSeq {
		w.t.Fatalf("a checkpoint of %s ends at %s, and recorded %s", log.SourceLastSeq, e.EndSeq, e.RecordedSeq)
	}
}
