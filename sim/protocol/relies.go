package protocol

import (
	"slices"

	"couchrelay/core/peer"
)

// lacksList reports whether the checkpoints that the run found cover revisions of a list of its job that it does not
// have any more: the newest one that it might begin at, or one that it would pass over; or what has left the list since
// the backup that the target was put back to, and was in none. It notes that, since the run then discards the
// checkpoints.
func (r opener) lacksList() bool {
	target := &r.start.sides[peer.Target]
	_, looked := r.common()
	for _, e := range target.trusted() {
		if l := target.log.lists[e.session]; l == (List{}) || l.Job == r.List.Job {
			looked = append(looked, e)
			break
		}
	}
	r.start.anew = r.start.anew || r.UnsaidOf == r.base && !target.foreign() && r.hasNewer()
	for _, e := range looked {
		own := target.log.lists[e.session].Job == r.List.Job
		r.start.anew = r.start.anew || own && !r.may(e.session)
	}
	return r.start.anew
}

// may reports whether the run may go on from a checkpoint of the target, or one that this covers: if it relies on a
// list, that must be of the run's job, and have all that it had then. What has left it since is lost to a target that
// was put back to a backup. A run without checkpoints has no part in a list.
func (r opener) may(session string) bool {
	l := r.start.sides[peer.Target].log.lists[session]
	own := l.Job == r.List.Job && l.Changes <= r.List.Changes && r.ListOf == r.base
	return l == (List{}) || own && r.UseCheckpoints && !r.wentBack()
}

// wentBack reports whether a database was put back to a backup: its newest checkpoint is of an older list than one that
// it had, or the source has a newer log, of which some checkpoint reaches as far as the target's newest.
func (r opener) wentBack() bool {
	source, target := &r.start.sides[peer.Source], &r.start.sides[peer.Target]
	for on, s := range [2]*side{source, target} {
		l := s.log.lists[s.log.session()]
		if l.Job == r.List.Job && l.Changes < r.ListSaved[on] && !s.foreign() {
			return true
		}
	}
	return r.hasNewer()
}

// hasNewer reports whether the source has a newer log than the target.
func (r opener) hasNewer() bool {
	source, target := &r.start.sides[peer.Source], &r.start.sides[peer.Target]
	newest := source.log.session()
	if newest == "" || source.foreign() || len(target.log.entries) == 0 || target.log.has(newest) {
		return false
	}
	further := func(e entry) bool { return !e.seq.Before(target.log.entries[0].seq) }
	return slices.ContainsFunc(source.log.entries, further) && r.lone() == nil
}

// discards reports whether the checkpoints are to be discarded.
func (r opener) discards() bool { return r.Reset || r.lacksList() && r.UseCheckpoints }
