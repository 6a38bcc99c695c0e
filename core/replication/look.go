package replication

import (
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// lookFactor is how many checkpoint intervals an idle run lets pass between two looks, leastLook the least time:
// the interval may be as short as a millisecond.
const (
	lookFactor = 10
	leastLook  = time.Minute
)

// nextLook is when to look after what was looked at now.
func nextLook(now instant.Time, interval time.Duration) instant.Time {
	return now.Add(max(lookFactor*interval, leastLook))
}

// lookDue is when an idle run makes sure again that both databases are still those that it knows. One that
// was deleted and made again, or put back from a backup, may lack what was sent long ago, and nothing in
// the feed would tell. The same holds for the filter function: another one may let through what has passed.
// A run that keeps no checkpoints looks when it is busy too.
func (k *committer) lookDue(r *Run) instant.Time {
	if !r.plan.Continuous || r.stopping || k.busy() || k.wanted(r) || r.plan.UseCheckpoints && len(r.batches) > 0 {
		return instant.Never // a checkpoint looks too
	}
	return k.look
}

// lookWhenDue starts a look when its time has come: at the filter function, then at the databases.
func (r *Run) lookWhenDue() {
	k := &r.commits
	if r.now < k.lookDue(r) {
		return
	}
	k.step = looking
	if r.plan.Filter != nil {
		r.start(&call{op: *r.plan.Filter, commits: true})
		return
	}
	r.lookAtDatabases()
}

// lookAtDatabases reads the databases' descriptions, since what no commit made durable may be lost in a restart and the
// log itself may have arrived in another database, and the logs, which tell what was put back.
func (r *Run) lookAtDatabases() {
	for _, side := range []peer.Side{peer.Source, peer.Target} {
		logs := r.plan.UseCheckpoints && r.sides[side].logRev != ""
		if logs {
			r.lookBy(peer.GetLocal{Side: side, ID: r.ids.Bases[0]})
		}
		if !logs || known(r.sides[side].start) {
			r.lookBy(peer.Open{Side: side})
		}
	}
}

func (r *Run) lookBy(op peer.Op) {
	r.commits.looks++
	r.start(&call{op: op, commits: true})
}

// sawLog compares a log with the one that the run wrote or found. Revisions would not do: they begin anew in
// a database that was made again.
func (r *Run) sawLog(on peer.Side, doc peer.Local) {
	log, err := checkpoint.Parse(doc.Body)
	if !doc.Found || err != nil || log.SessionID != r.sides[on].log.SessionID {
		// Reached: an idle run finds another database
		r.commitFailed(failure(nil, "the checkpoint document on the %s database has changed", on))
		return
	}
	r.looked()
}

// sawDatabase compares a database's description with the one at the beginning.
func (r *Run) sawDatabase(on peer.Side, op peer.Op, reply peer.Reply) {
	if reply.Failure != nil {
		r.commitFailed(trouble(op, reply.Failure))
		return
	}
	if r.isOther(on, reply.Result.(peer.Opened).InstanceStartTime) {
		r.commitFailed(replaced(on))
		return
	}
	r.looked()
}

func (r *Run) looked() {
	k := &r.commits
	if k.looks--; k.looks == 0 {
		k.step, k.look = resting, nextLook(r.now, r.plan.CheckpointInterval)
	}
}

// isOther says whether a database is another one than at the beginning.
func (r *Run) isOther(on peer.Side, start string) bool {
	s := &r.sides[on]
	return start != s.start && known(start) && known(s.start)
}

func replaced(on peer.Side) Trouble {
	return failure(nil, "instance_start_time on %s database has changed since last checkpoint.", on)
}
