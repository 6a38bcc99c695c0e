package replication

import (
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// An idle run looks after its databases every lookFactor checkpoint intervals, but not more often than every
// leastLook: the interval may be as short as a millisecond.
const (
	lookFactor = 10
	leastLook  = time.Minute
)

// watcher makes sure that both databases of an idle run are still the ones that it knows. A database that was
// deleted and made again, or restored from a backup, may lack documents that were sent long ago, and nothing
// in the feed would tell. The same holds for the filter function: another one may let through changes that
// have passed. A look that finds a difference ends the run, and the next one starts from a checkpoint that
// both databases still have. Checkpoints look too, so a busy run needs no other looks. CouchDB has none, and
// notices with the next change.
type watcher struct {
	*Run

	next    instant.Time // when an idle run looks next
	looking bool         // a look has begun and has calls
	answers int          // that the look at the databases waits for; 0 while the filter function is being read
}

// lookLater puts the next look off, after a look or a checkpoint.
func (w *watcher) lookLater() {
	w.next = w.now.Add(max(lookFactor*w.plan.CheckpointInterval, leastLook))
}

// due returns when the next look begins. It returns Never while there are batches, or a checkpoint is wanted or being
// written, since that checkpoint looks too. A run without checkpoints looks while it is busy.
func (w *watcher) due() instant.Time {
	if !w.plan.Continuous || w.stopping || w.looking || w.commits.busy() || w.commits.wanted() ||
		w.plan.UseCheckpoints && len(w.work.batches) > 0 {
		return instant.Never
	}
	return w.next
}

// lookWhenDue starts a look when its time has come: at the filter function, then at the databases.
func (w *watcher) lookWhenDue() {
	if w.now < w.due() {
		return
	}
	w.looking = true
	w.commits.checkFilter(w.lookAtDatabases)
}

// lookAtDatabases reads the databases' descriptions and logs. A log alone would not do where the description
// tells: it may have been written to a database that was made again in between, and what was not made durable
// may be lost when a server restarts. The description alone would not tell of a backup. A read-only source may have got
// a log since from another run, which the target's log has to name.
func (w *watcher) lookAtDatabases() {
	for _, side := range []peer.Side{peer.Source, peer.Target} {
		has := w.plan.UseCheckpoints && w.sides[side].logRev != ""
		if has || side == peer.Source && w.commits.lone.counts {
			op := peer.GetLocal{Side: side, ID: w.ids.Bases[0]}
			w.lookBy(op, func(reply peer.Reply) { w.sawLog(op, reply, w.looked) })
		}
		if !has || known(w.sides[side].start) {
			op := peer.Open{Side: side}
			w.lookBy(op, func(reply peer.Reply) { w.sawDatabase(op, reply) })
		}
	}
	if w.commits.lone.counts && w.commits.lone.committed.ID != "" {
		w.answers++
		w.commits.keepsLast(w.looked)
	}
}

func (w *watcher) lookBy(op peer.Op, then func(peer.Reply)) {
	w.answers++
	w.insist(op, then)
}

// sawLog compares a log with the one that the run wrote or found, and calls then if the database surely is the same. It
// compares session ids, and marks while there is no checkpoint: none is ever used twice. Revisions would not do: they
// begin anew in a database that was made again.
func (w *watcher) sawLog(op peer.GetLocal, reply peer.Reply, then func()) {
	if reply.Failure != nil {
		w.commits.fail(trouble(op, reply.Failure))
		return
	}
	doc := reply.Result.(peer.Local)
	log, err := checkpoint.Parse(doc.Body)
	s := &w.sides[op.Side]
	if !doc.Found && s.logRev == "" {
		then()
		return
	}
	same := log.SessionID == s.log.SessionID && (log.SessionID != "" || log.Mark == s.log.Mark)
	if doc.Found && err == nil && !same && w.commits.wentOn(op.Side, log) {
		// Reached: the run before has written a checkpoint since this one began
		s.log = log
		w.commits.trail = checkpoint.NewTrail(log.History)
		// The next run would begin where that one was, or take the database for put back. And the target's log says
		// which one the source has, or counts for nothing without one of ours there.
		saved := checkpoint.List{Job: w.plan.List.Job, Changes: w.info.ListSaved[op.Side]}
		w.commits.moved = w.commits.moved || log.SourceLastSeq.Before(w.commits.committed) ||
			log.State(saved.Job).Before(saved) || op.Side == peer.Source && w.commits.lone.counts
		same = true
	}
	if !doc.Found || err != nil || !same {
		// Reached: an idle run finds another database
		w.commits.fail(failure(nil, "the checkpoint document on the %s database has changed", op.Side))
		return
	}
	s.logRev = doc.Rev // a write that was repeated may have landed twice
	then()
}

// sawDatabase compares a database's description with the one before. Without checkpoints nothing but the number of its
// changes may tell that a database was made again (see tellsApart). In a cluster that may go back, as another copy
// answers.
func (w *watcher) sawDatabase(op peer.Open, reply peer.Reply) {
	if reply.Failure != nil {
		w.commits.fail(trouble(op, reply.Failure))
		return
	}
	db, s := reply.Result.(peer.Opened), &w.sides[op.Side]
	switch {
	case s.isOther(db.InstanceStartTime):
		w.commits.fail(replaced(op.Side))
		return
	case !s.clustered && db.UpdateSeq.Before(s.seq):
		// Reached: an idle run finds a database with fewer changes
		w.commits.fail(failure(nil, "the %s database has fewer changes than before", op.Side))
		return
	}
	s.seq = db.UpdateSeq
	w.looked()
}

// looked notes that one more answer was as it should be.
func (w *watcher) looked() {
	if w.answers--; w.answers == 0 {
		w.looking = false
		w.lookLater()
	}
}

// tells notes a sequence of the database. A database that was made again may have more changes by the next look than at
// the one before, and fewer than its feed has told.
func (s *side) tells(seq peer.Seq) {
	if s.seq.Before(seq) {
		s.seq = seq
	}
}

// isOther reports whether a database is another one than at the beginning of the run, by its
// instance_start_time now.
func (s *side) isOther(start string) bool {
	return start != s.start && known(start) && known(s.start)
}

// replaced words that a database is another one than at the beginning of the run.
func replaced(on peer.Side) Trouble {
	return failure(nil, "instance_start_time on %s database has changed since last checkpoint.", on)
}
