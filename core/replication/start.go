package replication

import (
	"cmp"
	"slices"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// opener takes a run from its beginning to where the copying starts. Of CouchDB's replication protocol these
// are "Generate Replication ID", "Verify Peers" and "Find Common Ancestry".
//
// The requests of a side leave together as far as they can, since a run may be far away from its databases: a
// log is asked for beside the description of its database. Such a log may have been read of a database that
// was deleted and made again before its description was, so it counts only if it says that it was written for
// the one described.
type opener struct {
	*Run

	opened   [2]bool // databases that were opened, by peer.Side
	search   [2]search
	located  [2]bool          // sides whose checkpoint is known, and that have an empty log if they need one
	declined [2]*peer.Failure // how sides refused to store an empty log; nil for those that did not
	reread   [2]bool          // sides whose checkpoint was looked for again, since another writer changed it
	unmade   string           // what the server said that did not make the target; empty if it did, or was not asked
	anew     bool             // the checkpoints rely on a list that is gone, and are discarded (see lacksList)
}

// search is the search for a side's checkpoint ("Retrieve Replication Logs").
type search struct {
	docs    []peer.Local // what there is under the ids, by index in IDs.Bases; as many as were asked for
	left    int          // answers that are awaited
	beside  bool         // they were asked for before the database was opened
	failure *Trouble     // why one of them could not be read; nil if all could
}

// identify finds out the replication's id. A part of it is the source text of the filter function.
func (o *opener) identify() {
	o.phase = identifying
	if o.plan.Filter != nil {
		o.ask(*o.plan.Filter, o.onFilter)
		return
	}
	o.claim()
}

func (o *opener) onFilter(reply peer.Reply) {
	if f := reply.Failure; f != nil {
		o.crash(o.filterTrouble(f))
		return
	}
	o.filter = reply.Result.(peer.Filter)
	o.claim()
}

// filterTrouble words why a filter function could not be read.
func (r *Run) filterTrouble(f *peer.Failure) Trouble {
	name := r.plan.Filter.DesignDoc + "/" + r.plan.Filter.Name
	return Trouble{
		Error: "filter_fetch_error", Reason: "could not read filter " + name + ": " + f.String(),
		Throttled: trouble(*r.plan.Filter, f).Throttled,
	}
}

// claim asks for the right to run under the id. Totals of another id, as before a change of the filter
// function, are not this replication's, nor are the checkpoints that the job had.
func (o *opener) claim() {
	o.ids = o.plan.IDs(o.filter.Code)
	id := o.ids.Bases[0] + o.ids.Extension
	if was := o.plan.ResumedID; was != "" && was != id {
		o.info.Counters = checkpoint.Counters{}
	}
	if !o.plan.resumes(o.ids) {
		o.info.ListSaved, o.plan.ListSaved = [2]int64{}, [2]int64{}
	}
	o.emit(Identify{ID: id, Base: o.ids.Bases[0]})
}

// open opens both databases. A target that the plan asks to create waits for the source: one whose source
// does not exist, or refuses us, must not leave an empty database behind.
func (o *opener) open() {
	o.phase = opening
	o.openDatabase(peer.Source)
	if !o.plan.CreateTarget {
		o.openDatabase(peer.Target)
	}
}

// onCreate leaves it to the opening of the target whether there is one, as CouchDB does: servers answer with
// many statuses that the database exists already, or that another user has to create it.
func (o *opener) onCreate(reply peer.Reply) {
	if f := reply.Failure; f != nil {
		if t := trouble(peer.Create{}, f); t.Error != "db_not_found" {
			o.crash(t)
			return
		}
		o.unmade = f.String()
	}
	o.openDatabase(peer.Target)
}

// openDatabase asks for a database's description, and for its checkpoint beside that. A job that has not
// copied anything yet has none under its present id as a rule, so it asks for those of older servers at once.
func (o *opener) openDatabase(side peer.Side) {
	op := peer.Open{Side: side}
	o.ask(op, func(reply peer.Reply) { o.onOpen(op, reply) })
	ids := 1
	if o.plan.Resumed == (checkpoint.Counters{}) {
		ids = len(o.ids.Bases)
	}
	o.readLogs(side, ids)
}

func (o *opener) onOpen(op peer.Open, reply peer.Reply) {
	if f := reply.Failure; f != nil {
		t := trouble(op, f)
		if t.Error == "db_not_found" && op.Side == peer.Target && o.unmade != "" {
			t.Reason += ", which could not be created: " + o.unmade
		}
		o.crash(t)
		return
	}
	db := reply.Result.(peer.Opened)
	s := &o.sides[op.Side]
	s.start, s.clustered, s.seq = db.InstanceStartTime, clustered(db.UpdateSeq), db.UpdateSeq
	o.opened[op.Side] = true
	if op.Side == peer.Source {
		o.feed.goal = db.UpdateSeq
		if o.plan.CreateTarget {
			o.ask(peer.Create{Params: o.plan.CreateParams}, o.onCreate)
		}
	} else if db.UpdateSeq.Ordinal() == "0" {
		o.work.skipDiff = ratio{value: unit, last: o.now} // a database that was never written to lacks all
	}
	o.findLog(op.Side)
}

// readLogs asks for a side's checkpoint under the first ids, but for those that it was asked for before.
func (o *opener) readLogs(on peer.Side, ids int) {
	s := &o.search[on]
	s.beside = !o.opened[on]
	for version := len(s.docs); version < ids; version++ {
		s.docs, s.left = append(s.docs, peer.Local{}), s.left+1
		op := peer.GetLocal{Side: on, ID: o.ids.Bases[version]}
		o.ask(op, func(reply peer.Reply) {
			s.left--
			if f := reply.Failure; f == nil {
				s.docs[version] = reply.Result.(peer.Local)
			} else if t := trouble(op, f); s.failure == nil {
				s.failure = &t
			}
			o.findLog(on)
		})
	}
}

// premature reports whether a call is not to be repeated yet: a log's, while its database is not open. The
// repeated requests for its description tell when the server is back.
func (o *opener) premature(c *call) bool {
	op, is := c.op.(peer.GetLocal)
	return is && !o.opened[op.Side]
}

// findLog takes the checkpoint of a side, once the database is open and has answered: that under the present
// id, or else under the id of the newest of the older versions. What was read beside the opening, and does
// not say that it is of this database, is read again. A run whose log cannot be read ends, but not before it
// knows whether something is wrong with the database, which says more.
func (o *opener) findLog(on peer.Side) {
	s := &o.search[on]
	version := slices.IndexFunc(s.docs, func(d peer.Local) bool { return d.Found })
	switch {
	case !o.opened[on]:
	case s.failure != nil:
		o.crash(*s.failure)
	case s.left > 0:
	case s.beside && version >= 0 && !o.sides[on].wrote(s.docs[version]):
		o.lookForLog(on)
	case version < 0 && len(s.docs) < len(o.ids.Bases):
		o.readLogs(on, len(o.ids.Bases))
	case version < 0:
		o.locate(on)
	case !o.takeLog(on, version, s.docs[version]):
	case version > 0:
		o.migrate(on, version)
	default:
		o.sides[on].logRev = s.docs[0].Rev
		o.locate(on)
	}
}

// lookForLog looks for a side's checkpoint anew.
func (o *opener) lookForLog(on peer.Side) {
	o.search[on] = search{}
	o.readLogs(on, 1)
}

// takeLog takes the checkpoint that was found under an id, and reports whether it can be read.
func (o *opener) takeLog(on peer.Side, version int, doc peer.Local) bool {
	log, err := checkpoint.Parse(doc.Body)
	if err != nil {
		reason := on.String() + " _local/" + o.ids.Bases[version] + ": " + err.Error()
		o.crash(Trouble{Error: "checkpoint_unreadable", Reason: reason})
		return false
	}
	if version > 0 {
		log.Mark = cmp.Or(o.sides[on].log.Mark, log.Mark)
	}
	o.sides[on].log = log
	return true
}

// migrate copies a checkpoint that was found under the id of an older version to the present id, so that it
// is found at the first attempt from now on. Where no instance_start_time tells that a database was deleted and
// made again, the copy could be the first log of the new one, which would take it. So the present id gets a log
// without checkpoints, the older one is read again, and the copy replaces the former: a database that has both
// is the one that the checkpoint is about. A run that is cut off in between leaves no checkpoint, and the next
// compares all.
func (o *opener) migrate(on peer.Side, version int) {
	switch {
	case !o.plan.UseCheckpoints || o.plan.Reset:
		o.locate(on)
	case o.sides[on].tellsApart():
		o.copyLog(on)
	default:
		o.writeEmpty(on, func() { o.readOlder(on, version) })
	}
}

// readOlder reads a checkpoint under the id of an older version once more, and copies it. If it is gone, the
// database is another one, and has none.
func (o *opener) readOlder(on peer.Side, version int) {
	op := peer.GetLocal{Side: on, ID: o.ids.Bases[version]}
	o.ask(op, func(reply peer.Reply) {
		if reply.Failure != nil {
			o.crash(trouble(op, reply.Failure))
			return
		}
		doc := reply.Result.(peer.Local)
		if !doc.Found {
			// Reached: a database is made again while its log is copied to another id
			o.locate(on)
		} else if o.takeLog(on, version, doc) {
			o.copyLog(on)
		}
	})
}

// copyLog writes the log of a side under the present id.
func (o *opener) copyLog(on peer.Side) { o.putCopy(on, o.sides[on].log) }

// putCopy writes a log under the present id. If a proxy takes no log of that length, putCopy leaves out
// checkpoints of what is written, as committer.shorten does. The run compares the whole logs, which it has read.
func (o *opener) putCopy(on peer.Side, log checkpoint.Log) {
	s := &o.sides[on]
	op := peer.PutLocal{Side: on, ID: o.ids.Bases[0], Rev: s.logRev, Body: log.Encode(o.plan.FlatLog)}
	o.ask(op, func(reply peer.Reply) {
		switch f, n := reply.Failure, len(log.History); {
		case f == nil:
			s.logRev = reply.Result.(peer.LocalWritten).Rev
			o.locate(on)
		case on == peer.Source && refusesLog(f):
			o.readOnly, o.commits.lone.counts = true, true
			o.locate(on)
		case isTooLong(f) && n > 2:
			log.History = checkpoint.Thinned(log.History, "")
			o.putCopy(on, log)
		default:
			o.crash(trouble(op, f))
		}
	})
}

// locate compares the logs once both are known ("Compare Replication Logs"), and starts the copying.
func (o *opener) locate(on peer.Side) {
	if o.forgets(on) || o.marks(on) {
		o.writeEmpty(on, func() { o.locate(on) })
		return
	}
	o.located[on] = true
	if o.located != [2]bool{true, true} {
		return
	}
	if !o.anew && o.lacksList() {
		// Reached: a checkpoint relies on a list that is gone
		o.anew, o.located = true, [2]bool{}
		o.locate(peer.Source)
		o.locate(peer.Target)
		return
	}
	if o.resets() {
		o.restart()
		return
	}
	if of := o.readOnlySource(); of != nil {
		o.findLast(of)
		return
	}
	o.compare()
}

// lacksList reports whether the target's checkpoints rely on a list of this job that it does not have any more: the job
// was made again, or its service put back to a backup, from when the list had changed less often. The run then discards
// them, copies all anew, and lists again what it cannot copy. If it only passed over them, as it does over those of
// other jobs, the next run could have a list by then that lacks what they rely on. The source's log does not count: the
// target's is written first, and a source that may only be read by now keeps an old one. Behind one that relies on no
// list, only those matter that Compare looks at: it begins before them if the source lacks that one. If a database is
// behind the list, something has left it since that no checkpoint relied on.
func (o *opener) lacksList() (lacks bool) {
	source, target := o.sides[peer.Source].trusted(), o.sides[peer.Target].trusted()
	look := func(list checkpoint.List) (counts bool) {
		counts = o.counts(list)
		lacks = lacks || list.Job == o.plan.List.Job && !counts
		return counts
	}
	look(target.Says(o.plan.List.Job))
	checkpoint.Compare(source, target, look)
	return lacks || o.isBehind()
}

// counts reports whether the run may go on from checkpoints that rely on a list: it has that, or they rely on none. A
// run without checkpoints has no part in them, so its list is never theirs.
func (o *opener) counts(list checkpoint.List) bool {
	has := list.Job == o.plan.List.Job && o.plan.hasList(o.ids) && !o.plan.List.Before(list) && o.plan.UseCheckpoints
	return list == (checkpoint.List{}) || has
}

// isBehind reports whether a database is behind the list, as it was put back to a backup: a target lacks what has left
// the list since, and a source may have revisions that had others in their place. The job's newest checkpoint in it
// tells a state of the list before one that the database was told earlier, by the job's record, or, of the target, by
// the source's log, which is written after it.
func (o *opener) isBehind() bool {
	of, told := o.plan.List, o.plan.ListSaved
	source, target := o.sides[peer.Source].trusted(), o.sides[peer.Target].trusted()
	if s := source.State(of.Job); s.Job == of.Job {
		told[peer.Target] = max(told[peer.Target], s.Changes)
	}
	for side, log := range [2]checkpoint.Log{peer.Source: source, peer.Target: target} {
		if log.State(of.Job).Before(checkpoint.List{Job: of.Job, Changes: told[side]}) {
			return true
		}
	}
	return false
}

// compare begins at the newest checkpoint that both logs have and that counts. If the source stores no logs, and still
// has what the target's log knows it by, that log keeps its checkpoints: a run of another job finds its own among them,
// and would else end, begin anew, and end this one in its turn.
func (o *opener) compare() {
	source, target := o.sides[peer.Source].trusted(), o.sides[peer.Target].trusted()
	start, history := checkpoint.Compare(source, target, o.counts)
	if o.commits.lone.committed.ID != "" {
		history = target.History
	}
	if start.RecordedSeq == peer.Zero && o.plan.SinceSeq != "" {
		start.RecordedSeq = o.plan.SinceSeq
	}
	o.copyFrom(start, history)
}

// copyFrom starts the copying behind a checkpoint.
func (o *opener) copyFrom(start checkpoint.Entry, history []checkpoint.Entry) {
	since := start.RecordedSeq
	o.info.Counters = o.info.Counters.Max(start.Counters)
	o.commits.begin(start, history)
	o.watch.lookLater()
	o.info.ThroughSeq, o.info.SourceSeq, o.info.CheckpointedSeq = since, since, since
	o.feed.begin(since)
	o.work.window.begin()
	o.refused.begin()
	o.phase = copying
	o.reports.begin()
}

// firstRev is the revision of a _local document that was written once.
const firstRev = "0-1"

// trusted returns the log of a database, or none if it was written for another database of that name: a
// request to write a log may be delayed until after the database was deleted and made again, and that one
// lacks what the log says it has. A clustered server's instance_start_time is when the database was created,
// so a difference tells. Other servers may report their own start in it. But these accept a log only if it
// names the revision that it replaces, which the new database does not have, so there only the first log of a
// database is in doubt.
func (s *side) trusted() checkpoint.Log {
	written := s.log.InstanceStart
	if known(written) && known(s.start) && written != s.start && (s.clustered || s.logRev == firstRev) {
		// Reached: a log is of a database that is gone
		return checkpoint.Log{}
	}
	return s.log
}

// wrote reports whether a log surely is of the database that was opened: it names that one, and the server
// gives no two databases one instance_start_time.
func (s *side) wrote(doc peer.Local) bool {
	log, err := checkpoint.Parse(doc.Body)
	return err == nil && s.tellsApart() && log.InstanceStart == s.start
}

// tellsApart reports whether no two databases of this name have one instance_start_time. PouchDB's server gives all of
// its databases the time of its own start.
func (s *side) tellsApart() bool { return s.clustered && known(s.start) }

// known reports whether an instance_start_time tells anything: old and mixed clusters send "0".
func known(start string) bool { return start != "" && start != "0" }
