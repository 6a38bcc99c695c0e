package replication

import (
	"fmt"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/json"
	"couchrelay/core/peer"
)

// idleFactor stretches the checkpoint interval while nothing but the feed's position has moved.
const idleFactor = 10

type commitStep uint8

const (
	resting commitStep = iota
	checkingFilter
	syncing // waiting for both databases to make their writes durable
	writingTarget
	writingSource
	looking // no checkpoint, but whether the databases are still the same
)

// committer writes checkpoints, one at a time.
type committer struct {
	step  commitStep
	trail *checkpoint.Trail
	start peer.Seq     // where the run began
	next  instant.Time // when the next checkpoint may be written
	look  instant.Time // when an idle run looks after its databases

	through   peer.Seq // end of the batches that are done without a gap
	committed peer.Seq // what both logs say
	rows      int64    // passed since the last checkpoint
	moved     bool     // through names another moment than committed
	// throughNumber, writingNumber and committedNumber are the numbers of the batches whose ends through, writing and
	// committed are; 0 stands for the start.
	throughNumber, writingNumber, committedNumber int64

	synced  [2]bool
	looks   int            // answers that a look waits for
	writing peer.Seq       // what the checkpoint under way covers
	covers  int64          // rows of it
	log     checkpoint.Log // what it says
}

func (k *committer) begin(start peer.Seq, history []checkpoint.Entry, now instant.Time, interval time.Duration) {
	k.start, k.through, k.committed = start, start, start
	k.next, k.look = now.Add(interval), nextLook(now, interval)
	k.trail = checkpoint.NewTrail(history)
}

// passed notes that everything up to the end of b is on the target.
func (k *committer) passed(b *batch) {
	invariant.Check(b.first == k.throughNumber+1, inOrder, int(b.first), int(k.throughNumber))
	invariant.Check(b.stage == done && b.pending == 0 && len(b.fetch) == 0 && len(b.copies) == 0, doneFirst,
		int(b.stage), b.pending, len(b.fetch), len(b.copies))
	k.through, k.throughNumber = b.last, b.number
	k.rows += int64(b.rows)
	k.moved = k.rows > 0 || !sameMoment(k.through, k.committed)
}

func (k *committer) busy() bool { return k.step != resting }

// wanted says whether there is something to checkpoint.
func (k *committer) wanted(r *Run) bool { return r.plan.UseCheckpoints && k.moved }

// due is when the next checkpoint is to be written: at once when the run is about to end, and seldom while
// only the feed's position moves.
func (k *committer) due(r *Run) instant.Time {
	switch {
	case k.busy() || !k.wanted(r):
		return instant.Never
	case r.stopping || r.feed.over && len(r.batches) == 0:
		return r.now
	case k.rows == 0:
		return k.next.Add((idleFactor - 1) * r.plan.CheckpointInterval)
	}
	return k.next
}

// commitWhenDue starts a checkpoint when its time has come.
func (r *Run) commitWhenDue() {
	k := &r.commits
	if r.now < k.due(r) {
		return
	}
	k.writing, k.covers, k.synced = k.through, k.rows, [2]bool{}
	k.writingNumber = k.throughNumber
	if r.plan.Filter != nil {
		k.step = checkingFilter
		r.start(&call{op: *r.plan.Filter, commits: true})
		return
	}
	r.sync()
}

// filterChecked goes on when the design document is still the one whose filter function the id was made of. What was
// read with another function must not be covered by this checkpoint, even if it has changed back.
func (r *Run) filterChecked(now peer.Filter) {
	switch {
	case now != r.filter:
		// Reached: a filter function changed under its run
		r.end(End{Cause: Changed})
	case r.commits.step == looking:
		r.lookAtDatabases()
	default:
		r.sync()
	}
}

func (r *Run) sync() {
	r.commits.step = syncing
	r.start(&call{op: peer.Commit{Side: peer.Source}, commits: true})
	r.start(&call{op: peer.Commit{Side: peer.Target}, commits: true})
}

func (r *Run) onCommitted(op peer.Commit, reply peer.Reply) {
	if f := reply.Failure; f != nil {
		r.commitFailed(failure(f, "Failure on %s commit: %s", op.Side, f))
		return
	}
	if r.isOther(op.Side, reply.Result.(peer.Committed).InstanceStartTime) {
		// Reached: a database was made again under a run
		r.commitFailed(replaced(op.Side))
		return
	}
	k := &r.commits
	k.synced[op.Side] = true
	if k.synced[peer.Source] && k.synced[peer.Target] {
		r.writeLogs()
	}
}

// known says whether an instance start time tells anything: old and mixed clusters send "0".
func known(start string) bool { return start != "" && start != "0" }

// writeLogs writes the log to the target, then to the source. A database that was made again since it was asked last
// takes the log too, so it says for which one it was written (see trusted).
func (r *Run) writeLogs() {
	k := &r.commits
	session := r.newSession()
	k.log = checkpoint.Log{SessionID: session, SourceLastSeq: k.writing, History: k.trail.Add(checkpoint.Entry{
		SessionID: session, StartTime: r.plan.Created.RFC1123(), EndTime: r.now.RFC1123(),
		StartSeq: k.start, EndSeq: k.writing, RecordedSeq: k.writing, Counters: r.info.Counters,
	})}
	k.step = writingTarget
	r.putLog(peer.Target)
}

func (r *Run) putLog(on peer.Side) {
	log := r.commits.log
	if start := r.sides[on].start; known(start) {
		log.InstanceStart = start
	}
	r.start(&call{op: peer.PutLocal{Side: on, ID: r.ids.Bases[0], Rev: r.sides[on].logRev, Body: log.Encode(r.plan.FlatLog)}, commits: true})
}

func (r *Run) logWritten(op peer.PutLocal, reply peer.Reply) {
	if f := reply.Failure; f != nil {
		if f.Kind == peer.Status && f.Status == 409 {
			// An earlier attempt whose answer was lost may have written it.
			// Reached: a checkpoint meets a conflict
			r.start(&call{op: peer.GetLocal{Side: op.Side, ID: op.ID}, commits: true})
			return
		}
		r.commitFailed(failure(f, "Error updating the %s checkpoint document: %s", op.Side, f))
		return
	}
	r.logIsWritten(op.Side, reply.Result.(peer.LocalWritten).Rev)
}

// localAgain looks at a log after a conflict: ours, or somebody else's.
func (r *Run) localAgain(on peer.Side, doc peer.Local) {
	log, err := checkpoint.Parse(doc.Body)
	if !doc.Found || err != nil || log.SessionID != r.commits.log.SessionID {
		// Reached: somebody else writes the same checkpoint
		r.commitFailed(failure(nil, "Error updating the %s checkpoint document: conflict: another replication writes it", on))
		return
	}
	r.logIsWritten(on, doc.Rev)
}

// logIsWritten goes on to the other log, or ends the checkpoint.
func (r *Run) logIsWritten(on peer.Side, rev string) {
	k := &r.commits
	r.sides[on].log, r.sides[on].logRev = k.log, rev
	if on == peer.Target {
		k.step = writingSource
		r.putLog(peer.Source)
		return
	}
	k.step = resting
	invariant.Check(k.committedNumber <= k.writingNumber && k.writingNumber <= k.throughNumber, forward,
		int(k.committedNumber), int(k.writingNumber), int(k.throughNumber))
	k.committed = k.writing
	k.committedNumber = k.writingNumber
	k.rows -= k.covers
	invariant.Check(k.rows >= 0, rowsAgree, int(k.rows), int(k.covers))
	k.moved = k.rows > 0 || !sameMoment(k.through, k.committed)
	k.next, k.look = r.now.Add(r.plan.CheckpointInterval), nextLook(r.now, r.plan.CheckpointInterval)
	r.info.CheckpointedSeq = k.committed
	r.reports.next = r.now
}

// failure words why a checkpoint was not written.
func failure(f *peer.Failure, format string, args ...any) Trouble {
	return Trouble{
		Error: "checkpoint_commit_failure", Reason: fmt.Sprintf(format, args...),
		Throttled: f != nil && f.Kind == peer.Status && f.Status == 429,
	}
}

// commitFailed ends the run. One that was to stop anyway only loses time: the next one starts at the
// checkpoint before.
func (r *Run) commitFailed(t Trouble) {
	if r.stopping {
		// Reached: a checkpoint fails while the run stops
		r.end(End{Cause: Stopped})
		return
	}
	r.crash(t)
}

// result is the answer to a waiting POST /_replicate, as CouchDB gives it. A feed without rows may still have moved on, as
// one with a filter does, and have left a log.
func (r *Run) result() []byte {
	switch {
	case r.feed.rows == 0:
		return r.withLog(`"no_changes":true`)
	case !r.plan.UseCheckpoints:
		return []byte(`{"use_checkpoints":false}`)
	}
	return r.withLog("")
}

// withLog puts members in front of those of the source's log.
func (r *Run) withLog(members string) []byte {
	result := []byte("{" + members + "}")
	if log := r.sides[peer.Source].log; log.SessionID != "" {
		result = json.Join(result, log.Encode(r.plan.FlatLog))
	}
	return result
}
