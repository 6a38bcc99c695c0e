package replication

import (
	"cmp"
	"fmt"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/json"
	"couchrelay/core/peer"
	"couchrelay/core/prng"
)

// idleFactor stretches the checkpoint interval while nothing but the feed's position has moved.
const idleFactor = 10

type commitStep uint8

const (
	resting        commitStep = iota // no checkpoint is being written
	checkingFilter                   // is the filter function still the one that the run began with?
	syncing                          // both databases make durable what was written to them
	writingTarget
	writingSource
)

// committer writes checkpoints, one at a time: "Ensure In Commit" and "Record Replication Checkpoint" in
// CouchDB's replication protocol.
//
// The order of a checkpoint's steps is what makes it safe. It is decided what the checkpoint covers
// (writing). The filter function is read, since rows that another one let through are not what this
// replication is about. Both databases make their writes durable: the target what the checkpoint says it has,
// the source the changes that led to it. Both answers name the database, which must be the one that the run
// began with. Only then the log is written, to the target and then to the source. A run that is killed in
// between leaves logs that differ in their newest checkpoint and have the one before in common.
type committer struct {
	*Run

	step  commitStep
	trail *checkpoint.Trail
	rng   prng.Source  // makes session ids
	start peer.Seq     // where the run began
	next  instant.Time // when the next checkpoint may be written

	// In the order of the feed, start <= committed <= through, and neither moves back.
	through   peer.Seq // end of the last batch that was passed through: all changes up to it are on the target
	committed peer.Seq // what both logs say
	rows      int64    // rows up to through that are not up to committed, never negative
	moved     bool     // there is something to checkpoint: rows, or a position of another moment than committed
	// throughNumber, writingNumber and committedNumber are the numbers of the batches whose ends through,
	// writing and committed are; 0 stands for the start.
	throughNumber, writingNumber, committedNumber int64
	others                                        int  // logs of other runs that this one wrote over
	lone                                          lone // what stands in for the log of a source that stores none
	// relies is the list that the last checkpoint of this run relies on, or the one at which it began.
	relies checkpoint.List
	draft
}

// draft is the checkpoint that is being written; without meaning while resting.
type draft struct {
	writing peer.Seq       // what it covers: through when it began
	covers  int64          // rows when it began
	synced  [2]bool        // databases that have made their writes durable, by peer.Side
	log     checkpoint.Log // what is written to both databases
}

func (k *committer) begin(at checkpoint.Entry, history []checkpoint.Entry) {
	start := at.RecordedSeq
	k.start, k.through, k.committed = start, start, start
	k.next = k.now.Add(k.plan.CheckpointInterval)
	k.trail = checkpoint.NewTrail(history)
	k.relies = at.List
}

// passed notes that everything up to the end of b is on the target.
func (k *committer) passed(b *batch) {
	invariant.Check(b.first == k.throughNumber+1, inOrder, int(b.first), int(k.throughNumber))
	invariant.Check(b.stage == done && b.pending == 0 && len(b.fetch) == 0 && len(b.copies) == 0 && b.unstored == 0,
		doneFirst, int(b.stage), b.pending, len(b.fetch), len(b.copies), b.unstored)
	k.through, k.throughNumber = b.last, b.number
	k.lone.first = cmp.Or(k.lone.first, b.row)
	k.lone.through = cmp.Or(b.row, k.lone.through)
	k.rows += int64(b.rows)
	k.moved = true // a batch without rows is made for another moment only
}

// busy reports whether a checkpoint is being written.
func (k *committer) busy() bool { return k.step != resting }

// wanted reports whether there is something to checkpoint, or the last checkpoint of this run, or the one that it began
// with, is wrong about the list, or older: of a database that is put back nothing else tells that it lacks what has
// left the list.
func (k *committer) wanted() bool {
	relies := k.relies != (checkpoint.List{})
	log := k.sides[peer.Target].log
	wrong := (relies != k.refused.unfinished || log.Lacks(k.refused.state())) && log.SessionID != ""
	return k.plan.UseCheckpoints && (k.moved || wrong)
}

// due returns when the next checkpoint is to be written. At once if the run is about to end, if the last one relies on
// a list without need, or if it does not tell what has left the list, and the pass is over: a run that finds one of the
// latter two, and this run killed, begins anew. Seldom while only the feed's position moves, as it does behind a filter
// that lets nothing through.
func (k *committer) due() instant.Time {
	switch {
	case k.busy() || k.watch.looking || !k.wanted():
		return instant.Never
	case k.stopping || k.refused.ending() && k.refused.settled():
		return k.now
	case k.relies != (checkpoint.List{}) && !k.refused.unfinished:
		return k.now
	case k.sides[peer.Target].log.Lacks(k.refused.left):
		if k.refused.passing {
			return k.next
		}
		return k.now
	case k.rows == 0:
		return k.next.Add((idleFactor - 1) * k.plan.CheckpointInterval)
	}
	return k.next
}

// commitWhenDue starts a checkpoint when its time has come.
func (k *committer) commitWhenDue() {
	if k.now < k.due() {
		return
	}
	k.writing, k.covers, k.synced = k.through, k.rows, [2]bool{}
	k.writingNumber, k.lone.writing, k.lone.writingNewest = k.throughNumber, k.lone.through, peer.Mark{}
	k.step = checkingFilter
	k.checkFilter(k.sync)
}

// checkFilter calls then if the replication has no filter function, or still has the one that its id was made
// of. The revision of the design document must be the same, too: with an equal text, the function may have
// changed and changed back, and what was read in between was read with another one.
func (k *committer) checkFilter(then func()) {
	if k.plan.Filter == nil {
		then()
		return
	}
	k.insist(*k.plan.Filter, func(reply peer.Reply) {
		if reply.Failure != nil {
			k.fail(k.filterTrouble(reply.Failure))
			return
		}
		if reply.Result.(peer.Filter) != k.filter {
			// Reached: a filter function changed under its run
			k.end(End{Cause: Changed})
			return
		}
		then()
	})
}

func (k *committer) sync() {
	k.step = syncing
	k.makeDurable(peer.Source)
	k.makeDurable(peer.Target)
}

func (k *committer) makeDurable(side peer.Side) {
	if side == peer.Source && k.lone.noCommit {
		k.madeDurable(side, k.sides[side].start)
		return
	}
	k.insist(peer.Commit{Side: side}, func(reply peer.Reply) {
		switch f := reply.Failure; {
		case f == nil:
			k.madeDurable(side, reply.Result.(peer.Committed).InstanceStartTime)
		case side == peer.Source && refusesLog(f):
			k.readOnly, k.lone.counts, k.lone.noCommit = true, true, true
			k.madeDurable(side, k.sides[side].start)
		default:
			k.fail(failure(f, "Failure on %s commit: %s", side, f))
		}
	})
}

// madeDurable notes that a database, which has this instance_start_time now, has made its writes durable.
func (k *committer) madeDurable(side peer.Side, start string) {
	if k.sides[side].isOther(start) {
		// Reached: a database was made again under a run
		k.fail(replaced(side))
		return
	}
	synced := func() { k.isSynced(side) }
	if side == peer.Source && k.lone.counts {
		// A source that is known by the target's log alone may take one by now, but the target's is written first.
		durable := synced
		synced = func() { k.readNewest(durable) }
	}
	switch s := &k.sides[side]; {
	case side == peer.Source && k.readOnly:
		synced()
	case s.logRev != "":
		// A cluster takes a log whatever it replaces, also in the place of an older one, after a backup was put back.
		// Other servers compare revisions, but these only count the writes, and a database that was made again may
		// have had as many.
		op := peer.GetLocal{Side: side, ID: k.ids.Bases[0]}
		k.insist(op, func(reply peer.Reply) { k.watch.sawLog(op, reply, synced) })
	case !s.tellsApart():
		// Reached: a database that refused the empty log is to take a checkpoint
		f := k.opener.declined[side]
		k.fail(failure(f, "the %s database refused a log, so nothing tells whether it was made again: %s", side, f))
	default:
		synced()
	}
}

func (k *committer) isSynced(side peer.Side) {
	k.synced[side] = true
	if k.synced[peer.Source] && k.synced[peer.Target] {
		k.writeLogs()
	}
}

// writeLogs makes the log, under a new session id, and writes it to the target and then to the source. A
// database that was made again since its commit takes the log too. So each copy says for which database it
// was written, and a run that finds it elsewhere does not trust it (see trusted).
func (k *committer) writeLogs() {
	session, list := k.newSession(), checkpoint.List{}
	if k.refused.unfinished {
		list = k.refused.version
	}
	agreed := k.trail.Agreed(k.sides[peer.Source].log, k.sides[peer.Target].log)
	k.log = checkpoint.Log{SessionID: session, SourceLastSeq: k.writing, History: k.trail.Add(checkpoint.Entry{
		SessionID: session, StartTime: k.plan.Created.RFC1123(), EndTime: k.now.RFC1123(),
		StartSeq: k.start, EndSeq: k.writing, RecordedSeq: k.writing, List: list, State: k.refused.state(),
		Counters: k.info.Counters,
	}, agreed)}
	k.step = writingTarget
	k.putLog(peer.Target)
}

// newSession makes the id of one checkpoint: 32 hexadecimal digits, as CouchDB's. No two checkpoints of any
// runs may have the same one, since checkpoint.Compare takes it for a proof; Plan.Seed sees to that.
func (k *committer) newSession() string {
	return fmt.Sprintf("%016x%016x", k.rng.Uint64(), k.rng.Uint64())
}

func (k *committer) putLog(on peer.Side) {
	log := k.log
	log.Mark = k.sides[on].log.Mark
	if on == peer.Target {
		log.ReadOnly = k.readOnlySource()
	}
	if start := k.sides[on].start; known(start) {
		log.InstanceStart = start
	}
	op := peer.PutLocal{Side: on, ID: k.ids.Bases[0], Rev: k.sides[on].logRev, Body: log.Encode(k.plan.FlatLog)}
	k.insist(op, func(reply peer.Reply) { k.onLogWritten(op, reply) })
}

func (k *committer) onLogWritten(op peer.PutLocal, reply peer.Reply) {
	if f := reply.Failure; f != nil {
		if f.Kind == peer.Status && f.Status == 409 {
			// The log has another revision than it should: an earlier attempt whose answer was lost may have
			// written it.
			// Reached: a checkpoint meets a conflict
			k.readLogAgain(peer.GetLocal{Side: op.Side, ID: op.ID})
			return
		}
		if op.Side == peer.Source && refusesLog(f) {
			k.sourceRefuses(f)
			return
		}
		if isTooLong(f) && k.shorten() {
			k.putLog(op.Side)
			return
		}
		k.fail(failure(f, "Error updating the %s checkpoint document: %s", op.Side, f))
		return
	}
	k.logWritten(op.Side, reply.Result.(peer.LocalWritten).Rev)
}

// shorten leaves checkpoints out of the log that is being written, and of later ones, and reports whether it could:
// sequences of a database with hundreds of shards take 10 kB each, and a log may have 150. The one at which
// the two logs agree stays.
func (k *committer) shorten() bool {
	if len(k.log.History) <= 2 {
		return false
	}
	k.log.History = k.trail.Thin(k.log.History)
	return true
}

// readLogAgain finds out, after a conflict, whether this run wrote the log or another writer did: two
// programs that replicate under one id would overwrite each other's checkpoints for ever.
func (k *committer) readLogAgain(op peer.GetLocal) {
	k.insist(op, func(reply peer.Reply) {
		if reply.Failure != nil {
			k.fail(trouble(op, reply.Failure))
			return
		}
		doc := reply.Result.(peer.Local)
		log, err := checkpoint.Parse(doc.Body)
		switch {
		case !doc.Found:
			// Reached: a database is made again before its first checkpoint
			k.fail(failure(nil, "the checkpoint document on the %s database is gone", op.Side))
			return
		case err == nil && log.SessionID == k.log.SessionID:
		case err == nil && log.Has(k.log.SessionID) && k.others < maxOthers:
			// Reached: another run has gone on from this checkpoint already
			k.others++ // the next checkpoint, if there is one, finds that, and comes before it
		case err == nil && k.wentOn(op.Side, log) && k.others < maxOthers:
			// Reached: the run before has written its last checkpoint
			k.others++
			k.trail = checkpoint.NewTrail(log.History)
			agreed := k.trail.Agreed(k.sides[peer.Source].log, k.sides[peer.Target].log)
			k.log.History = k.trail.Add(k.log.History[0], agreed)
			k.sides[op.Side].logRev = doc.Rev
			k.putOver(op.Side)
			return
		default:
			// Reached: another replication writes the same checkpoint
			k.fail(failure(nil,
				"Error updating the %s checkpoint document: conflict: another replication writes it", op.Side))
			return
		}
		k.logWritten(op.Side, doc.Rev)
	})
}

// putOver writes the log over the one of a checkpoint that the database got since its commit. Before that the database
// must turn out to be the one that it was: one that was made again may have got the other log late, and a second one,
// which names the revision of the first, would be trusted (see trusted).
func (k *committer) putOver(on peer.Side) {
	op := peer.Open{Side: on}
	k.insist(op, func(reply peer.Reply) {
		switch {
		case reply.Failure != nil:
			k.fail(trouble(op, reply.Failure))
		case k.sides[on].isOther(reply.Result.(peer.Opened).InstanceStartTime):
			k.fail(replaced(on))
		default:
			k.putLog(on)
		}
	})
}

// maxOthers is how many logs of other runs a run writes over: the last ones of a run of the same job that was
// still stopping when this one began. One that goes on writing would be met again and again.
const maxOthers = 3

// wentOn reports whether a log came of the one that the run found or wrote on that side, so that the database is the
// same and has lost nothing since. In a reset no other log comes of an empty one: it may be that of a backup.
func (k *committer) wentOn(on peer.Side, log checkpoint.Log) bool {
	was := &k.sides[on].log
	if was.SessionID != "" {
		return log.Has(was.SessionID)
	}
	return log.Mark == was.Mark && !k.opener.resets()
}

// logWritten goes on to the other log, or ends the checkpoint.
func (k *committer) logWritten(on peer.Side, rev string) {
	s := &k.sides[on]
	mark := s.log.Mark
	s.log, s.logRev = k.log, rev
	s.log.Mark = mark
	switch {
	case on == peer.Source:
		k.lone.counts = false
	case !k.readOnly:
		k.step = writingSource
		k.putLog(peer.Source)
		return
	}
	k.step, k.relies = resting, k.log.Newest().List
	k.info.saves(k.log.Newest().State.Changes, k.readOnly)
	invariant.Check(k.committedNumber <= k.writingNumber && k.writingNumber <= k.throughNumber, forward,
		int(k.committedNumber), int(k.writingNumber), int(k.throughNumber))
	k.committed = k.writing
	k.committedNumber, k.lone.committed, k.lone.committedNewest = k.writingNumber, k.lone.writing, k.lone.writingNewest
	k.rows -= k.covers
	invariant.Check(k.rows >= 0, rowsAgree, int(k.rows), int(k.covers))
	k.moved = k.rows > 0 || !sameMoment(k.through, k.committed)
	k.next = k.now.Add(k.plan.CheckpointInterval)
	k.watch.lookLater()
	k.info.CheckpointedSeq = k.committed
	k.tally.Checkpoints++
	k.reports.next = k.now
}

// failure words why a checkpoint was not written.
func failure(f *peer.Failure, format string, args ...any) Trouble {
	return Trouble{
		Error: "checkpoint_commit_failure", Reason: fmt.Sprintf(format, args...),
		Throttled: f != nil && f.Kind == peer.Status && f.Status == 429,
	}
}

// fail ends the run because a checkpoint or a look failed. A run that is stopping anyway only loses time: the
// next one starts at the checkpoint before.
func (k *committer) fail(t Trouble) {
	if k.busy() {
		k.tally.CheckpointFailures++
	}
	if k.stopping {
		// Reached: a checkpoint fails while the run stops
		k.end(k.stalls.stopped())
		return
	}
	k.crash(t)
}

// result is the answer to a waiting POST /_replicate, as CouchDB gives it. A feed without rows may still have
// moved on, as one with a filter does, and have left a log.
func (k *committer) result() []byte {
	switch {
	case k.feed.rows == 0:
		return k.withLog(`"no_changes":true`)
	case !k.plan.UseCheckpoints:
		return []byte(`{"use_checkpoints":false}`)
	}
	return k.withLog("")
}

// withLog puts members in front of those of the source's log.
func (k *committer) withLog(members string) []byte {
	result := []byte("{" + members + "}")
	side := peer.Source
	if k.readOnly {
		side = peer.Target
	}
	if log := k.sides[side].log; log.SessionID != "" {
		result = json.Join(result, log.Encode(k.plan.FlatLog))
	}
	return result
}
