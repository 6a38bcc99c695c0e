package protocol

import (
	"slices"

	"couchrelay/core/peer"
)

// copies judges a copy of one document by itself.
func (r copier) copies(f *flight, op peer.CopyDoc) error {
	r.took(copiesAlone)
	if len(op.Revs) == 0 {
		return breach(Copying, "it copies no revision of %q", op.ID)
	}
	var ancestors []string
	for i, rev := range op.Revs {
		w := r.next(name{op.ID, rev}, func(w *want) bool {
			return r.readable(w) || w.stage == kept && w.failed
		})
		switch {
		case w == nil || slices.Contains(op.Revs[:i], rev):
			return breach(Copying, "it copies %s of %q, which is not what comes next: %s",
				rev, op.ID, r.stands(op.ID, rev))
		case w.doubted && !w.admitted && !r.twice[op.ID]:
			return breach(Copying, "it copies %s of %q once more, and has not asked whether the target lets it in",
				rev, op.ID)
		}
		r.takes(f, w)
		ancestors = append(ancestors, w.pool.ancestors...)
	}
	if !within(op.Since, ancestors) && !r.twice[op.ID] {
		return breach(Copying, "it takes %v for ancestors of %v of %q, and the target has %v",
			op.Since, op.Revs, op.ID, ancestors)
	}
	return nil
}

// outcome is what an answer to a copy tells of its revisions.
type outcome struct {
	came     map[string]peer.CopiedRev
	refused  []*refusal // for good
	obstacle bool       // the target did not take a revision, and that is not the last word
	doubt    bool       // it may have been for our credentials
	whole    bool
	full     bool // the list may have no place for revisions of the document
}

// leavesOut reports whether the run leaves out a document that the target refused so, rather than try it again.
func (o *outcome) leavesOut(v *peer.Refusal) bool { return leavesOut(v) && !(o.full && mayPass(v)) }

// copied takes what came of a copy. The source may send a newer revision in the place of one that was asked
// for, so only a whole answer without an obstacle tells that nothing is left.
func (r copier) copied(f *flight, op peer.CopyDoc, reply peer.Reply) {
	got, is := reply.Result.(peer.Copied)
	o := outcome{came: map[string]peer.CopiedRev{}, whole: reply.Failure == nil && is, full: !r.hasRoom(op.ID)}
	s, doubtful := suspicionOf(f.wants), []string(nil)
	for _, rev := range got.Revs {
		o.came[rev.Rev] = rev
		switch {
		case rev.Missing || rev.Refused == nil:
		case !o.leavesOut(rev.Refused):
			o.obstacle, o.doubt = true, false // the last one decides how the copy goes on
			// The run may list it, too: how much of the list has gone meanwhile only the run knows.
			r.twice[op.ID] = r.twice[op.ID] || leavesOut(rev.Refused)
		case credentials(rev.Refused) && s.about(rev.Rev):
			doubtful = append(doubtful, rev.Rev)
			o.obstacle, o.doubt = true, reply.Failure == nil || Passes(reply.Failure)
		default:
			o.refused = append(o.refused, r.list.refuse(name{op.ID, rev.Rev}))
		}
	}
	if o.doubt {
		for _, rev := range doubtful {
			s.refused[rev] = false
		}
	}
	r.last.missed = 0
	for _, w := range f.wants {
		r.outcomeOf(w, &o)
		if f := reply.Failure; f != nil && f.Side == peer.Source && f.Kind == peer.Status && f.Status == 404 {
			w.missed++
			r.findsLater()
		}
		r.last.missed = max(r.last.missed, w.missed)
	}
	r.pausesAfterCopy(op, &o)
}

// suspicion is about a copy whose target refuses revisions, perhaps for our credentials. All wants of the copy have
// the same.
type suspicion struct {
	asked   map[string]bool // revisions, by the first attempt
	refused map[string]bool // revisions, and whether the target has let us in since: then the next refusal is for good
	letsIn  bool            // the target has let us in after a refusal
}

func suspicionOf(wants []*want) *suspicion {
	s := &suspicion{asked: map[string]bool{}, refused: map[string]bool{}}
	for _, w := range wants {
		if s.asked[w.rev] = true; w.doubts != nil {
			s = w.doubts
			break
		}
	}
	for _, w := range wants {
		w.doubts = s
	}
	return s
}

// about reports whether a refusal of a revision may be for our credentials. One that was not asked for may be another
// one at each attempt, and is doubted once.
func (s *suspicion) about(rev string) bool { return !s.refused[rev] && (s.asked[rev] || !s.letsIn) }

func (s *suspicion) letIn() {
	if s == nil || len(s.refused) == 0 {
		return
	}
	s.letsIn = true
	for rev := range s.refused { // order does not matter: all are the same
		s.refused[rev] = true
	}
}

// outcomeOf takes what an answer tells of one revision.
func (r copier) outcomeOf(w *want, o *outcome) {
	rev, came := o.came[w.rev]
	w.stage = lacking
	switch {
	case came && rev.Missing:
		r.took(sourceLacks)
		w.missed++
	case came && rev.Refused == nil:
		r.took(copied)
		r.conclude(w)
	case came && !o.leavesOut(rev.Refused):
		r.took(obstacle)
	case came && credentials(rev.Refused) && o.obstacle && w.doubts.about(w.rev):
		r.took(doubts)
	case came:
		r.took(refusedAlone)
		r.refuse(name{w.id, rev.Rev}, w)
	case o.whole && !o.obstacle && len(o.refused) > 0:
		r.took(refusedNewer)
		w.stage, w.waits = refused, o.refused
		r.settle(w)
	case o.whole && !o.obstacle:
		r.took(superseded)
		r.conclude(w)
	}
	if w.stage == lacking && o.doubt {
		w.doubted, w.admitted = true, false
	}
}

// findsLater notes that the source is asked once more for what it lacks.
func (r *Run) findsLater() {
	r.wait.pauses(r.now, missingPause)
	r.turn.tries = max(r.turn.tries, r.now.Add(missingPause))
}

// pausesAfterCopy notes for what a copy may wait.
func (r copier) pausesAfterCopy(op peer.CopyDoc, o *outcome) {
	if len(o.came) > 0 {
		r.wait.forgive(op) // it goes on with the rest, or after it has asked whether the target lets it in
	}
	for _, rev := range o.came { // in any order: the longest pause counts
		if rev.Missing {
			r.findsLater()
		}
		if rev.Refused != nil && !o.leavesOut(rev.Refused) {
			r.wait.fails(r.Run, op, nil)
		}
	}
}

// admitted notes that the target let the run in.
func (r copier) admitted() {
	r.took(letsIn)
	for _, of := range r.wants { // order does not matter: each is changed by itself
		for _, w := range of.list {
			w.admitted = w.admitted || w.doubted
			w.doubts.letIn()
		}
	}
}

// credentials reports whether a refusal may be about who we are, or about all that we send.
func credentials(v *peer.Refusal) bool {
	return v.Status == 400 || v.Status == 401 || v.Status == 403 || v.Status == 500 && v.Error == "unknown_error"
}

// mayPass reports whether an answer to a document may be one to all, and end some time: a run that has no place to list
// the document may give up for it.
func mayPass(v *peer.Refusal) bool {
	return v.Status == 400 || v.Status == 500 && v.Error == "unknown_error"
}

// leavesOut reports whether a target refused a document for good: what it says is about this document alone.
func leavesOut(v *peer.Refusal) bool {
	switch v.Status {
	case 401:
		return v.Error == "unauthorized"
	case 403:
		return v.Error == "forbidden"
	case 413, 414, 415:
		return true
	case 400:
		return v.Error != ""
	}
	return v.Thrown()
}
