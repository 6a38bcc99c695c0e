package replication

import (
	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// identify finds out the replication's id, for which the text of a filter function is needed.
func (r *Run) identify() {
	r.phase = identifying
	if r.plan.Filter != nil {
		r.start(&call{op: *r.plan.Filter})
		return
	}
	r.claim()
}

func (r *Run) onFilter(c *call, reply peer.Reply) {
	if f := reply.Failure; f != nil {
		name := r.plan.Filter.DesignDoc + "/" + r.plan.Filter.Name
		t := Trouble{Error: "filter_fetch_error", Reason: "could not read filter " + name + ": " + f.String(), Throttled: trouble(c.op, f).Throttled}
		if c.commits {
			r.commitFailed(t)
			return
		}
		r.crash(t)
		return
	}
	filter := reply.Result.(peer.Filter)
	if c.commits {
		r.filterChecked(filter)
		return
	}
	r.filter = filter
	r.claim()
}

func (r *Run) claim() {
	r.ids = r.plan.IDs(r.filter.Code)
	id := r.ids.Bases[0] + r.ids.Extension
	if was := r.plan.ResumedID; was != "" && was != id {
		r.info.Counters = checkpoint.Counters{}
	}
	r.emit(Identify{ID: id, Base: r.ids.Bases[0]})
}

// open makes the target when asked to, then reads both databases' descriptions.
func (r *Run) open() {
	r.phase = opening
	r.start(&call{op: peer.Open{Side: peer.Source}})
	if r.plan.CreateTarget {
		r.start(&call{op: peer.Create{Params: r.plan.CreateParams}})
		return
	}
	r.start(&call{op: peer.Open{Side: peer.Target}})
}

// onCreate leaves it to the opening of the target whether there is one, as CouchDB does: servers refuse with many
// statuses to make what they have, or what somebody else has to make.
func (r *Run) onCreate(reply peer.Reply) {
	if f := reply.Failure; f != nil {
		if t := trouble(peer.Create{}, f); t.Error != "db_not_found" {
			r.crash(t)
			return
		}
	}
	r.start(&call{op: peer.Open{Side: peer.Target}})
}

func (r *Run) onOpen(op peer.Open, reply peer.Reply) {
	if reply.Failure != nil {
		r.crash(trouble(op, reply.Failure))
		return
	}
	db := reply.Result.(peer.Opened)
	s := &r.sides[op.Side]
	s.opened, s.start, s.clustered = true, db.InstanceStartTime, clustered(db.UpdateSeq)
	if op.Side == peer.Source {
		r.feed.goal = db.UpdateSeq
	}
	if r.sides[peer.Source].opened && r.sides[peer.Target].opened {
		r.phase = locating
		r.lookForLog(peer.Source)
		r.lookForLog(peer.Target)
	}
}

// lookForLog reads the checkpoint of one side under the id version that is next to try.
func (r *Run) lookForLog(on peer.Side) {
	r.start(&call{op: peer.GetLocal{Side: on, ID: r.ids.Bases[r.sides[on].version]}})
}

func (r *Run) onLocal(c *call, op peer.GetLocal, reply peer.Reply) {
	if reply.Failure != nil {
		r.commitFailed(trouble(op, reply.Failure))
		return
	}
	doc := reply.Result.(peer.Local)
	switch {
	case c.commits && r.commits.step == looking:
		r.sawLog(op.Side, doc)
		return
	case c.commits:
		r.localAgain(op.Side, doc)
		return
	}
	s := &r.sides[op.Side]
	if !doc.Found {
		if s.version++; s.version < len(r.ids.Bases) {
			r.lookForLog(op.Side)
			return
		}
		r.located(op.Side)
		return
	}
	log, err := checkpoint.Parse(doc.Body)
	if err != nil {
		r.crash(Trouble{Error: "checkpoint_unreadable", Reason: op.Side.String() + " _local/" + op.ID + ": " + err.Error()})
		return
	}
	s.log = log
	if s.version == 0 {
		s.logRev = doc.Rev
		r.located(op.Side)
		return
	}
	r.migrate(op.Side)
}

// migrate writes a checkpoint that was found under an older id under the present one, so that it is
// found at once from now on.
func (r *Run) migrate(on peer.Side) {
	if !r.plan.UseCheckpoints {
		r.located(on)
		return
	}
	r.start(&call{op: peer.PutLocal{Side: on, ID: r.ids.Bases[0], Body: r.sides[on].log.Encode(r.plan.FlatLog)}})
}

func (r *Run) onLocalWritten(c *call, op peer.PutLocal, reply peer.Reply) {
	if c.commits {
		r.logWritten(op, reply)
		return
	}
	if reply.Failure != nil {
		r.crash(trouble(op, reply.Failure))
		return
	}
	r.sides[op.Side].logRev = reply.Result.(peer.LocalWritten).Rev
	r.located(op.Side)
}

// located compares the logs once both are known, and starts copying.
func (r *Run) located(on peer.Side) {
	r.sides[on].located = true
	source, target := &r.sides[peer.Source], &r.sides[peer.Target]
	if !source.located || !target.located {
		return
	}
	since, history := checkpoint.Compare(source.trusted(), target.trusted())
	if len(history) > 0 {
		r.info.Counters = r.info.Counters.Max(history[0].Counters)
	}
	if since == peer.Zero && r.plan.SinceSeq != "" {
		since = r.plan.SinceSeq
	}
	r.commits.begin(since, history, r.now, r.plan.CheckpointInterval)
	r.info.ThroughSeq, r.info.SourceSeq, r.info.CheckpointedSeq = since, since, since
	r.feed.begin(since)
	r.phase = copying
	r.reports.begin(r.now, r.plan.ProgressInterval)
}

// firstRev is the revision of a _local document that was written once.
const firstRev = "0-1"

// trusted is the log of a database, unless it was written for another one that had the name: a log may arrive after
// a database was made again. Clusters tell when that was. Elsewhere instance_start_time may be that of the server, but there
// every log but the first names the revision of the one before, and is refused where that is not.
func (s *side) trusted() checkpoint.Log {
	written := s.log.InstanceStart
	if known(written) && known(s.start) && written != s.start && (s.clustered || s.logRev == firstRev) {
		// Reached: a log is of a database that is gone
		return checkpoint.Log{}
	}
	return s.log
}
