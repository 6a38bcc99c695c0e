package replication

import (
	"cmp"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// A source that lets us read only has no log that proves that the target's checkpoints are of its sequences.
// Their log on the target says by what else the source is known (checkpoint.ReadOnly), and a run goes on from
// it if all of that holds still: the source's log is the one from before it refused, or there is none; its
// instance_start_time is the same, so it is no other database of that name; and it has the last change that
// was read of it, and the newest one that it had then, so it was not put back to an earlier state. The run begins
// at the last change, even if a checkpoint is further on: what a filter left out behind it proves nothing.

// lone is what a run knows of its source in place of a log.
type lone struct {
	// through, writing and committed are the last changes up to those positions of the committer; zero while none
	// is known.
	through, writing, committed checkpoint.Change
	// first is the first change that this run has passed.
	first checkpoint.Change
	// writingNewest and committedNewest are the newest changes that the source had at those checkpoints, as in
	// checkpoint.ReadOnly.
	writingNewest, committedNewest peer.Mark
	// counts is set while nothing but the target's log has the newest checkpoint, since the source refused to
	// store one, in this run or in the one before.
	counts   bool
	noCommit bool // the source refuses to be asked to make its writes durable
}

// refusesLog reports whether a server answered that it does not store a log, and will not the next time.
func refusesLog(f *peer.Failure) bool {
	return f.Kind == peer.Status && (f.Status == 401 || f.Status == 403 || f.Status == 405)
}

// readOnlySource returns by what the target's log knows the source, if that is a reason to go on from it; nil
// if only a checkpoint that both logs have is one. A server that is not clustered may number changes anew, and
// gives another instance_start_time at each of its starts, so there only one that is known tells.
func (o *opener) readOnlySource() *checkpoint.ReadOnly {
	s := &o.sides[peer.Source]
	of := o.sides[peer.Target].trusted().ReadOnly
	if of == nil || of.SessionID != s.log.SessionID || of.InstanceStart != s.start {
		return nil
	}
	if !s.clustered && !known(s.start) {
		return nil
	}
	return of
}

// findLast asks the source for the changes by which it is known, and goes on from the target's log, unless that relies
// on another job's list.
func (o *opener) findLast(of *checkpoint.ReadOnly) {
	goOn := func() {
		// Reached: a run goes on from the target's log alone
		o.readOnly = o.readOnly || o.declined[peer.Source] != nil // however it refuses: the change tells it from others
		o.commits.lone = lone{counts: true, committed: of.Last, committedNewest: of.Newest}
		log := o.sides[peer.Target].log
		start := log.Newest()
		if !o.counts(start.List) {
			// Reached: a run begins beside another one of a source that stores no logs
			o.compare()
			return
		}
		o.commits.lone.through, start.RecordedSeq = of.Last, of.Last.Seq
		o.copyFrom(start, log.History)
	}
	o.find(of.Last.Find(), has, func() {
		if of.Newest.ID == "" {
			goOn()
			return
		}
		o.find(of.Newest.Find(), mayHave, goOn)
	})
}

// has reports whether the source answered that it has a change.
func has(reply peer.Reply) (bool, *peer.Failure) {
	found, _ := reply.Result.(peer.RevFound)
	return found.Found, reply.Failure
}

// mayHave is has for the newest change of the source. It may be of a document that the replication leaves out since the
// source does not let it be read: a refusal says nothing about the change.
func mayHave(reply peer.Reply) (bool, *peer.Failure) {
	if f := reply.Failure; f != nil && refusesForGood(f) {
		return true, nil
	}
	return has(reply)
}

// refusesForGood reports whether a server does not answer a question, and will not the next time.
func refusesForGood(f *peer.Failure) bool {
	return f.Kind == peer.Status && !Transient(f) && f.Status != 429
}

// find calls then if the source has a change, as its answer is read. A node of a cluster may lack a change for
// a moment, so the source is asked twice before the target's log counts for nothing.
func (o *opener) find(op peer.FindRev, read func(peer.Reply) (bool, *peer.Failure), then func()) {
	asked := 0
	c := &call{op: op, held: true}
	c.then = func(reply peer.Reply) {
		found, f := read(reply)
		if f != nil {
			o.crash(trouble(op, f))
			return
		}
		if asked++; !found && asked == 1 {
			o.again(c, o.missingPause())
			return
		}
		o.finish(c)
		if !found {
			// Reached: a read-only source lacks what was read of it
			o.compare()
			return
		}
		then()
	}
	o.issue(c)
}

// sourceRefuses looks at the log of a source that did not take a new one: an earlier attempt whose answer was
// lost may have written it. A source that does not let us see its log either has locked us out.
func (k *committer) sourceRefuses(refusal *peer.Failure) {
	op := peer.GetLocal{Side: peer.Source, ID: k.ids.Bases[0]}
	k.insist(op, func(reply peer.Reply) {
		switch f := reply.Failure; {
		case f != nil && refusesLog(f):
			k.fail(failure(refusal, "Error updating the source checkpoint document: %s", refusal))
			return
		case f != nil:
			k.fail(trouble(op, f))
			return
		}
		doc := reply.Result.(peer.Local)
		log, err := checkpoint.Parse(doc.Body)
		switch {
		case doc.Found && err == nil && log.SessionID == k.log.SessionID:
			k.logWritten(peer.Source, doc.Rev)
			return
		case doc.Found && err == nil:
			k.sides[peer.Source].log, k.sides[peer.Source].logRev = log, doc.Rev
		}
		k.goOnAlone()
	})
}

// goOnAlone goes on without a log on the source. The one on the target is written again, with what the source
// is known by, unless it has that already.
func (k *committer) goOnAlone() {
	// Reached: a source stores no log
	told := k.lone.counts
	k.readOnly, k.lone.counts = true, true
	if told {
		k.logWritten(peer.Target, k.sides[peer.Target].logRev)
		return
	}
	k.step = writingTarget
	k.readNewest(func() { k.putOver(peer.Target) })
}

// readNewest reads the newest change of a read-only source, and calls then if the source is as it was at the checkpoint
// before. In that order: a source that is put back in between lacks either that change, or what it had before. A change
// for which the source cannot be asked is not named: it may be of a document that the source cannot read, or does not
// show, and the next runs would look for it in vain.
func (k *committer) readNewest(then func()) {
	k.insist(peer.ReadNewest{}, func(reply peer.Reply) {
		if f := reply.Failure; f != nil && !refusesForGood(f) {
			k.fail(trouble(peer.ReadNewest{}, f))
			return
		}
		switch newest := newestOf(reply); newest {
		case k.lone.writing.Mark, peer.Mark{}: // one of them is enough
			k.keepsLast(then)
		case k.lone.committedNewest: // keepsLast looks for it
			k.lone.writingNewest = newest
			k.keepsLast(then)
		default:
			op := newest.Find()
			k.insist(op, func(reply peer.Reply) {
				switch found, f := has(reply); {
				case f != nil && !ofBulk(f):
					k.fail(trouble(op, f))
					return
				case found:
					k.lone.writingNewest = newest
				}
				k.keepsLast(then)
			})
		}
	})
}

// newestOf is the newest change that a source has told, if it did.
func newestOf(reply peer.Reply) peer.Mark {
	newest, _ := reply.Result.(peer.NewestChange)
	if newest.Doc.ID == "" {
		return peer.Mark{}
	}
	return peer.MarkOf(newest.Doc.ID, newest.Doc.Revs[0], newest.Doc.Revs[1:])
}

// keepsLast calls then if a read-only source still has the last change of the checkpoint before, and the newest one of
// then; at the first checkpoint of a run, the first change of the run. Without them the source was made again, or put
// back to an earlier state; a log on the source would tell that.
func (k *committer) keepsLast(then func()) {
	last := cmp.Or(k.lone.committed, k.lone.first)
	k.keeps(last.Find(), has, func() { k.keeps(k.lone.committedNewest.Find(), mayHave, then) })
}

// keeps calls then if a read-only source still has a change, as its answer is read, or there is none to look for.
func (k *committer) keeps(op peer.FindRev, read func(peer.Reply) (bool, *peer.Failure), then func()) {
	if op.ID == "" {
		then()
		return
	}
	k.insist(op, func(reply peer.Reply) {
		switch found, f := read(reply); {
		case f != nil:
			k.fail(trouble(op, f))
		case !found:
			// Reached: a read-only source was put back under its run
			k.fail(failure(nil, "the source database lacks a revision of document %q, which it had", op.ID))
		default:
			then()
		}
	})
}

// readOnlySource is what the source is known by in the target's log; nil before the first change of it was
// copied.
func (k *committer) readOnlySource() *checkpoint.ReadOnly {
	if !k.lone.counts || k.lone.writing.ID == "" {
		return nil
	}
	s := &k.sides[peer.Source]
	return &checkpoint.ReadOnly{
		SessionID: s.log.SessionID, InstanceStart: s.start, Last: k.lone.writing, Newest: k.lone.writingNewest,
	}
}
