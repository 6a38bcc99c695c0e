package checkpoint

import (
	"slices"

	"couchrelay/core/peer"
)

// Compare finds where a replication resumes: the newest checkpoint that both logs have, and that counts, as counts says
// of the list that it relies on. Without such a one it returns the beginning. Another counts, too, if the target has a
// later one that relies on no list and covers as much; start then relies on none. One with a list is not enough: there
// newer revisions may have replaced others, which a source that was put back has again. The history begins at the
// newest that both have, whatever it relies on: the job with that list is to find it again.
//
// The walk is CouchDB's ("Compare Replication Logs" in its replication protocol): both histories newest
// first, in lockstep, until an entry of one occurs in the other. CouchDB takes an equal session id as proof
// that the two entries are one checkpoint. Here the recorded sequence must be equal too. CouchDB keeps one
// session id for a whole run, so a database restored from a backup, or a crash between the two writes of one
// checkpoint, leaves logs with one session at two sequences; resuming at the later one would lose the changes
// between them.
func Compare(source, target Log, counts func(List) bool) (start Entry, history []Entry) {
	s, t := source.Entries(), target.Entries()
	for len(s) > 0 && len(t) > 0 {
		var of Log
		var rest []Entry
		switch {
		case contains(t, s[0]):
			of, rest, s = source, s, s[1:]
		case contains(s[1:], t[0]):
			of, rest, t = target, t, t[1:]
		default:
			s, t = s[1:], t[1:]
			continue
		}
		if history == nil {
			history = keep(of, rest)
		}
		start = rest[0]
		if by, is := covered(start, target.Entries(), counts); is {
			start.List = by
			return start, history
		}
	}
	return Entry{RecordedSeq: peer.Zero}, history
}

// covered reports whether a checkpoint of the target counts that is e itself, or a later one that stands for e. It
// returns the list that this one relies on.
func covered(e Entry, target []Entry, counts func(List) bool) (list List, is bool) {
	for _, o := range target {
		same := o.SessionID == e.SessionID && o.RecordedSeq == e.RecordedSeq
		if counts(o.List) && (same || o.List == (List{}) && covers(o, e)) {
			return o.List, true
		}
		if same {
			break
		}
	}
	return List{}, false
}

// covers reports whether a checkpoint covers what an older one of its log does: its run has begun at the older one, or
// is the same, or both are at one place. Numbers do not tell: a cluster's differ from copy to copy, and of other
// servers a run may have read in front of the older one what was edited behind that, or purged, and is there again if
// the source is put back.
func covers(newer, older Entry) bool {
	if newer.RecordedSeq == older.RecordedSeq {
		return true
	}
	sameRun := newer.StartTime == older.StartTime && newer.StartSeq == older.StartSeq
	goesOn := newer.StartSeq == older.RecordedSeq
	return (sameRun || goesOn) && !newer.RecordedSeq.Before(older.RecordedSeq)
}

// Entries returns the history with the top-level fields in front, as an entry of their own, if they differ
// from its first one: CouchDB compares these fields before the histories.
func (l Log) Entries() []Entry {
	if l.SessionID == "" {
		return nil
	}
	if len(l.History) > 0 && l.History[0].SessionID == l.SessionID && l.History[0].RecordedSeq == l.SourceLastSeq {
		return l.History
	}
	return append([]Entry{{SessionID: l.SessionID, RecordedSeq: l.SourceLastSeq}}, l.History...)
}

// keep returns the history from the common entry on; rest is the tail of l.Entries() that begins with it. If
// that is the entry which Entries made of the top-level fields, keep leaves it out.
func keep(l Log, rest []Entry) []Entry {
	return rest[max(0, len(rest)-len(l.History)):]
}

// Says returns what the log says last of a job's list. Checkpoints that rely on lists of other jobs say nothing of it;
// of all others the newest counts. The list is zero if that one relies on none, or if there is none.
func (l Log) Says(job string) List {
	for _, e := range l.Entries() {
		if e.List.Job == job || e.List == (List{}) {
			return e.List
		}
	}
	return List{}
}

// State returns the state of a job's list at its newest checkpoint that tells one; zero if there is none.
func (l Log) State(job string) List {
	for _, e := range l.History {
		if e.State.Job == job {
			return e.State
		}
	}
	return List{}
}

// Lacks reports whether the log does not tell yet that a list has changed as often. It lacks no zero list.
func (l Log) Lacks(list List) bool { return l.State(list.Job).Changes < list.Changes }

// Has reports whether a checkpoint with this session id is in the log.
func (l Log) Has(session string) bool {
	return slices.ContainsFunc(l.Entries(), func(e Entry) bool { return e.SessionID == session })
}

// contains reports whether a history has checkpoint e.
func contains(entries []Entry, e Entry) bool {
	for _, o := range entries {
		if o.SessionID == e.SessionID && o.RecordedSeq == e.RecordedSeq {
			return true
		}
	}
	return false
}
