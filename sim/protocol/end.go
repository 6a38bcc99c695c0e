package protocol

import (
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// End judges the end of a run: what it says has to follow from what it was told.
func (r *Run) End(now instant.Time, e replication.End) error {
	r.now = now
	defer func() { r.phase = over }()
	if r.phase == over {
		return breach(Ending, "it ends twice")
	}
	switch e.Cause {
	case replication.Completed:
		r.took(completes)
		return r.completes()
	case replication.Stopped:
		r.took(endsStopped)
		if !r.stopped {
			return breach(Ending, "it says that it was stopped, and was not")
		}
	case replication.Changed:
		r.took(endsChanged)
		if !r.save.changed {
			return breach(Ending, "it says that its filter function changed, and it did not")
		}
	case replication.Failed:
		r.took(fails)
		if r.OnRefusal != spec.FailRefused || len(r.list.refusals) == 0 && !r.unsure() {
			return breach(Ending, "it fails for a refusal, and is to %q after %d", r.OnRefusal, len(r.list.refusals))
		}
	default:
		r.took(crashes)
		return r.crashes(e.Trouble)
	}
	return nil
}

// unsure reports whether the last answer may have refused a document for good that was told of twice: which of its
// copies the run had doubts about, and asked its target, is not known.
func (r *Run) unsure() bool {
	op, is := r.last.op.(peer.CopyDoc)
	got, _ := r.last.reply.Result.(peer.Copied)
	return is && r.twice[op.ID] && slices.ContainsFunc(got.Revs, func(rev peer.CopiedRev) bool {
		return rev.Refused != nil && credentials(rev.Refused)
	})
}

// completes is the rule for a run that ends as completed.
func (r *Run) completes() error {
	f := &r.feed
	switch {
	case r.Continuous || r.phase != copying || !f.over:
		return breach(Ending, "it says that it has done all, and has not read the feed to its end")
	case f.concluded() < f.all():
		return breach(Ending, "it says that it has done all, and has not concluded %s", r.unfinished())
	case r.list.questions > 0 || r.dropped > 0:
		return breach(Ending, "it says that it has done all, and waits for %d answers about refused documents",
			r.list.questions+r.dropped)
	case r.OnRefusal == spec.FailRefused && len(r.list.refusals) > 0:
		return breach(Ending, "it says that it has done all, and was to fail for a refusal")
	}
	if !r.UseCheckpoints {
		return nil
	}
	last := r.save.saved.last - f.first
	saved := f.positions[last]
	for _, p := range f.positions[last+1:] {
		if p.row || !sameMoment(p.seq, saved.seq) {
			return breach(Ending, "it says that it has done all, through %s, and its last checkpoint is at %s",
				p.seq, saved.seq)
		}
	}
	return nil
}

// sameMoment reports whether sequences name one moment, though a server may word it in several ways.
func sameMoment(a, b peer.Seq) bool { return a == b || a.Ordinal() != "" && a.Ordinal() == b.Ordinal() }

// unfinished names a revision that is not concluded.
func (r *Run) unfinished() string {
	for n, of := range r.wants { // order does not matter: one is enough
		for _, w := range of.list {
			if w.position != nil && !w.satisfied {
				return n.rev + " of " + n.id + ": " + r.stands(n.id, n.rev)
			}
		}
	}
	return "a row"
}

// crashes is the rule for a run that ends as crashed: the last answer has to justify it.
func (r *Run) crashes(t replication.Trouble) error {
	op, f := r.last.op, r.last.reply.Failure
	switch {
	case r.start.sides[peer.Source].failed || r.start.sides[peer.Target].failed:
		return nil // a log could not be read, which waits for the answer about its database
	case t.Error == "stalled":
		return nil // how long a run waits before it is stalled is no part of the protocol
	case t.Error == "invariant_broken":
		return breach(Ending, "it ends for a mistake of its own: %s", t.Reason)
	case op == nil:
		return breach(Ending, "it gives up by itself: %s", t)
	case f != nil && !final(f) && !r.wait.exhausted(r, op, f) && !r.refuses():
		return breach(Ending, "it gives up after too few failures of %s: %s", op, t)
	case f == nil && !r.hopeless():
		return breach(Ending, "it gives up after an answer that lets it go on: %s, for %s", t, op)
	}
	return nil
}

// hopeless reports whether an answer that is no failure is one after which the run cannot go on.
func (r *Run) hopeless() bool {
	switch got := r.last.reply.Result.(type) {
	case peer.Opened:
		on := r.last.op.(peer.Open).Side
		return r.isOther(on, got.InstanceStartTime) || r.start.sides[on].fewer
	case peer.Committed:
		return r.save.other || r.nameless(r.last.op.(peer.Commit).Side)
	case peer.Local:
		return r.save.foreign || r.save.behind || r.save.others > 0 || r.readLog(got.Body).fails
	case peer.RevFound:
		op, _ := r.last.op.(peer.FindRev)
		first := r.save.last == nil && r.save.tells(op) // the newest change may be the first that the run has read
		return r.save.lost || first && !got.Found
	case peer.Changes:
		return r.wait.stuck
	case peer.Copied:
		return r.refuses() || r.last.missed > 0 // another part of the run may have missed it before
	}
	return false
}

// refuses reports whether the last answer refused a revision that cannot be left out. So it may have done before the
// rest of the document failed.
func (r *Run) refuses() bool {
	got, is := r.last.reply.Result.(peer.Copied)
	if !is {
		return false
	}
	o := outcome{full: !r.hasRoom(r.last.op.(peer.CopyDoc).ID)}
	return slices.ContainsFunc(got.Revs, func(rev peer.CopiedRev) bool {
		return rev.Refused != nil && !o.leavesOut(rev.Refused)
	})
}
