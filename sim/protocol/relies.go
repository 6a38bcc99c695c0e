package protocol

import (
	"strings"

	"couchrelay/core/peer"
)

// lacksList reports whether the checkpoints that the run found cover revisions of a list of its job that it does not
// have any more: the newest one that it might begin at, or one that it would pass over; or whether a database is behind
// the list. It notes that, since the run then discards the checkpoints.
func (r opener) lacksList() bool {
	target := &r.start.sides[peer.Target]
	_, looked := r.common()
	for _, e := range target.trusted() {
		if l := target.log.lists[e.session]; l == (List{}) || l.Job == r.List.Job {
			looked = append(looked, e)
			break
		}
	}
	r.start.anew = r.start.anew || r.isBehind()
	for _, e := range looked {
		own := target.log.lists[e.session].Job == r.List.Job
		r.start.anew = r.start.anew || own && !r.may(e.session)
	}
	return r.start.anew
}

// may reports whether the run may go on from a checkpoint of the target, or one that this covers: if it relies on a
// list, that must be of the run's job, and have all that it had then. A run without checkpoints has no part in a list.
func (r opener) may(session string) bool {
	l := r.start.sides[peer.Target].log.lists[session]
	own := l.Job == r.List.Job && l.Changes <= r.List.Changes && r.ListOf == r.base
	return l == (List{}) || own && r.UseCheckpoints
}

// isBehind reports whether a database was put back to a backup: the job's newest checkpoint in it is of an older list
// than one that it had. The target had each one that the source has.
func (r opener) isBehind() bool {
	had := r.ListSaved
	if r.ListSavedOf != "" && !strings.HasPrefix(r.ListSavedOf, r.base) {
		had = [2]int64{}
	}
	for on := range r.start.sides {
		s := &r.start.sides[on]
		l := s.log.state(r.List.Job)
		if l.Job != r.List.Job || s.foreign() {
			continue
		}
		if l.Changes < had[on] {
			return true
		}
		had[peer.Target] = max(had[peer.Target], l.Changes)
	}
	return false
}

// discards reports whether the checkpoints are to be discarded.
func (r opener) discards() bool { return r.Reset || r.lacksList() && r.UseCheckpoints }
