package oracle

import (
	"maps"
	"slices"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// checkpoints are the invariants of logs.
type checkpoints struct {
	*chronicle
	lone    map[string]lone         // by name of the checkpoint
	writers map[string]instant.Time // by session of a checkpoint: when the run began that writes it
	written int                     // checkpoints so far, of which some are checked
}

var checkpointSubject = subject{
	invariants: []Invariant{
		{"S11", "A checkpoint covers nothing that the target has not stored."},
		{"S12", "Where the next run of a replication would begin, the target has everything before."},
		{"S21", "Checkpoints are written to both sides, cover what is done, and do not follow each other too soon."},
		{"S27", "A run begins where the checkpoints on both sides last agree, or where its replication says when they never did."},
	},
	begin: func(c *chronicle) {
		o := &checkpoints{c, map[string]lone{}, map[string]instant.Time{}, 0}
		c.on.logWritten.add(func(f world.LogWritten) { o.checkpoint(f.DB, f.ID, f.Body) })
		c.on.runCalls.add(o.called)
		c.on.runCancels.add(o.checkCancels)
		c.on.runReplied.add(func(a reply) { a.saved.save(a.op, a.Reply, c.w.Now()) })
		c.on.runTells.add(func(t telling) { o.checkSaved(t.run, t.info) })
		c.on.runSaidEnd.add(func(e ending) {
			o.checkCovered(e.run, e.end)
			o.checkStopped(e.run, e.end)
			o.checkSaved(e.run, e.end.Info)
		})
		c.on.runStepped.add(func(s runStep) { o.checkEnds(s.run) })
		c.on.atRest.add(func(struct{}) { o.checkLogs() })
	},
}

// called is told of every request of a run before it leaves.
func (o *checkpoints) called(c call) {
	r := c.run
	o.checkStart(r, c.op)
	switch op := c.op.(type) {
	case peer.PutLocal:
		o.askedToSave(r, op)
	case peer.Commit:
		if op.Side == peer.Source {
			o.checkDelay(r)
			r.saved.begins(r, true)
		}
	case peer.GetFilter:
		r.saved.begins(r, false)
	}
}

// agreed is where the logs of two databases last agree, and so the next run begins: the newest session that both
// have at one sequence. This is the definition, not the core's way to find it.
func (l logs) agreed(source, target *peers.DB, base string) peer.Seq {
	if e, is := l.common(source, target, base); is {
		return peer.Seq(e.seq)
	}
	return peer.Zero
}

// common is the checkpoint at which two logs last agree, if they do.
func (l logs) common(source, target *peers.DB, base string) (entry, bool) {
	known := l.trusted(target, base)
	for _, e := range l.trusted(source, base) {
		if slices.Contains(known, e) {
			return e, true
		}
	}
	return entry{}, false
}

// trusted is what a log has, unless it was written for another database of that name.
func (l logs) trusted(db *peers.DB, base string) []entry {
	log := l.read(db.Log(base))
	if first := db.LogRev(base) == "0-1"; log.made != "" && log.made != db.Start() && (first || db.Server.Clustered()) {
		return nil // elsewhere databases get another start when the server does, and refuse all but first logs of others
	}
	return log.entries
}

// logs are logs as they were read, by their text: each is looked at again and again.
type logs map[string]log

// log is what checkpoints a log has: its own and those before.
type log struct {
	entries []entry // nil with err
	made    string  // when the database was made that it was written for
	err     error
}

// entry is a checkpoint in a log.
type entry struct{ session, seq string }

// maxLogs is how many logs are remembered.
const maxLogs = 256

func (l logs) read(body []byte) log {
	read, known := l[string(body)]
	if !known {
		read = readLog(body)
		if len(l) == maxLogs {
			clear(l)
		}
		l[string(body)] = read
	}
	return read
}

// entries are nil for no log, and for one that cannot be read, of which S11 tells.
func (l logs) entries(body []byte) []entry {
	return l.read(body).entries
}

// head is the newest checkpoint of a log.
func (l logs) head(body []byte) (entry, error) {
	read := l.read(body)
	if read.err != nil {
		return entry{}, read.err
	}
	return read.entries[0], nil
}

func readLog(body []byte) log {
	var l struct {
		SessionID     string          `json:"session_id"`
		SourceLastSeq json.RawMessage `json:"source_last_seq"`
		InstanceStart string          `json:"instance_start_time"`
		History       []struct {
			SessionID   string          `json:"session_id"`
			RecordedSeq json.RawMessage `json:"recorded_seq"`
		} `json:"history"`
	}
	if err := json.Unmarshal(body, &l); err != nil {
		return log{err: err}
	}
	all := []entry{{l.SessionID, string(l.SourceLastSeq)}}
	for _, h := range l.History {
		all = append(all, entry{h.SessionID, string(h.RecordedSeq)})
	}
	return log{entries: all, made: l.InstanceStart}
}

// checkCovered is a part of S21: what a one-shot has done is covered by its checkpoint when it is over.
func (o *checkpoints) checkCovered(r *run, e replication.End) {
	if e.Cause != replication.Completed || !o.asBegun(r) || r.begin.source.Start() != r.begin.startS {
		return
	}
	if left := o.uncovered(r.JobID(), r.Replication(), r.Base(), r.begin.source.Number(r.begin.last)); left != "" {
		o.Fail("S21", "run %d of %s from %s to %s is done, and its checkpoints do not cover %s", r.ID(), r.p.Name, r.begin.source, r.begin.target, left)
	}
}

// maxLone is how often in a row a checkpoint may be written to one side only. Runs end between the two writes
// again and again while the other side does not answer.
const maxLone = 30

// lone counts the checkpoints of a replication that went to one database and not to the other.
type lone struct {
	db *peers.DB
	n  int
}

// checkBothSides is S21.
func (o *checkpoints) checkBothSides(db *peers.DB, id string) {
	if o.w.Config().Sample > 1 {
		return // some writes are not seen
	}
	last := o.lone[id]
	if last.db != db {
		last = lone{db: db}
	}
	last.n++
	o.lone[id] = last
	if last.n > maxLone {
		o.Fail("S21", "checkpoint %s was written to %s %d times in a row, and not to the other side", id, db, last.n)
	}
}

// filterSettles is how long a run may go on to checkpoint what it read with a filter function that is another
// one by now.
const filterSettles = 5 * time.Minute

// checkpoint is S11: what a checkpoint covers is on the target. It counts once both databases have it.
func (o *checkpoints) checkpoint(db *peers.DB, id string, body []byte) {
	defer o.noteSaved(db, body)
	if !o.sampled(&o.written) {
		return
	}
	head, err := o.logs.head(body)
	if err != nil {
		o.Fail("S11", "checkpoint on %s: %v", db, err)
		return
	}
	for _, r := range o.runs {
		if r.RepID() == "" || r.Base() != id {
			continue
		}
		rep := r.Replication()
		source, target := o.w.Database(rep.Source.URL), o.w.Database(rep.Target.URL)
		if source == nil || target == nil {
			return
		}
		o.checkBothSides(db, id)
		if max(source.Since, target.Since) >= min(r.Began(), o.writers[head.session]) {
			return // the run will notice and take it back, or else S12 does
		}
		o.checkTrail(r, db, id, body)
		other := source
		if db == source {
			other = target
		}
		if second, err := o.logs.head(other.Log(id)); err != nil || second.session != head.session {
			return
		}
		if rep.Filter.Kind == spec.FunctionFilter && o.w.Now().Sub(source.Edited) < filterSettles {
			return
		}
		if lost := o.missing(rep, source, target, source.Number(peer.Seq(head.seq))); lost != "" {
			o.Fail("S11", "checkpoint at %s on %s by run %d of %s, but %s is not on %s", head.seq, db, r.ID(), r.p.Name, lost, target)
		}
		return
	}
}

// checkStart is S27: a run reads from where the checkpoints on both sides last agree, unless these change while it
// looks for them.
func (o *checkpoints) checkStart(r *run, op peer.Op) {
	switch op := op.(type) {
	case peer.GetLocal:
		if !r.looks && op.ID == r.Base() {
			r.looks, r.outlook = true, o.outlook(r)
			r.fresh = o.isFresh(r)
		}
	case peer.ReadChanges:
		// A database that was made again since the run opened it is another one for it.
		if l := r.outlook; !r.reads && l.source != nil && l == o.outlook(r) && max(l.source.Since, l.target.Since) <= r.Began() && l.source.Number(op.Since) != l.source.Number(l.start) {
			o.Fail("S27", "run %d of %s from %s to %s begins at %s, and the checkpoints agree at %s", r.ID(), r.p.Name, l.source, l.target, op.Since, l.start)
		}
		if !r.reads {
			r.reads, r.saved.from, r.numbers.base = true, op.Since, r.Info().Counters
			o.checkGoesOn(r)
		}
	}
}

// checkGoesOn is a part of S16: the numbers of a run go on from those of the checkpoint at which it begins.
func (o *checkpoints) checkGoesOn(r *run) {
	l, base := r.outlook, r.Base()
	if l.source == nil || l != o.outlook(r) || max(l.source.Since, l.target.Since) > r.Began() {
		return
	}
	last, _ := o.logs.common(l.source, l.target, base)
	for _, raw := range historyOf(l.source.Log(base)) {
		var told struct {
			Session string `json:"session_id"`
			checkpoint.Counters
		}
		if err := json.Unmarshal(raw, &told); err != nil || told.Session != last.session {
			continue
		}
		if counts := r.numbers.base; fewer(counts, told.Counters) {
			o.Fail("S16", "run %d of %s begins with %+v, and its checkpoint has %+v", r.ID(), r.p.Name, counts, told.Counters)
		}
	}
}

// checkLogs is S12: whatever is in the logs of a replication's two databases, the point at which its next
// run would begin is covered by the target.
func (o *checkpoints) checkLogs() {
	for _, id := range slices.Sorted(maps.Keys(o.shadows)) {
		s := o.shadows[id]
		if s.header == nil || s.record.BaseID == "" {
			continue
		}
		rep, err := o.w.Store().Spec(o.w.Present(), id)
		if err != nil || rep == nil || rep.Filter.Kind == spec.FunctionFilter { // the function may be another one now
			continue
		}
		source, target := o.w.Database(rep.Source.URL), o.w.Database(rep.Target.URL)
		if source == nil || target == nil {
			continue
		}
		start := o.logs.agreed(source, target, s.record.BaseID)
		if lost := o.missing(rep, source, target, source.Number(start)); lost != "" {
			o.Fail("S12", "job %s would begin at %s, and %s is not on %s", id, start, lost, target)
		}
	}
}
