package checkpoint

import (
	"slices"

	"couchrelay/core/peer"
)

// Compare finds where a replication resumes: the sequence of the newest checkpoint that both logs have, and
// the history from that checkpoint on. Without a common checkpoint it returns the beginning and no history.
//
// The walk is CouchDB's ("Compare Replication Logs" in its replication protocol): both histories newest
// first, in lockstep, until an entry of one occurs in the other. CouchDB takes an equal session id as proof
// that the two entries are one checkpoint. Here the recorded sequence must be equal too. CouchDB keeps one
// session id for a whole run, so a database restored from a backup, or a crash between the two writes of one
// checkpoint, leaves logs with one session at two sequences; resuming at the later one would lose the changes
// between them.
func Compare(source, target Log) (start peer.Seq, history []Entry) {
	s, t := source.entries(), target.entries()
	for len(s) > 0 && len(t) > 0 {
		if contains(t, s[0]) {
			return s[0].RecordedSeq, keep(source, s)
		}
		if contains(s[1:], t[0]) {
			return t[0].RecordedSeq, keep(target, t)
		}
		s, t = s[1:], t[1:]
	}
	return peer.Zero, nil
}

// entries returns the history with the top-level fields in front, as an entry of their own, if they differ
// from its first one: CouchDB compares these fields before the histories.
func (l Log) entries() []Entry {
	if l.SessionID == "" {
		return nil
	}
	if len(l.History) > 0 && l.History[0].SessionID == l.SessionID && l.History[0].RecordedSeq == l.SourceLastSeq {
		return l.History
	}
	return append([]Entry{{SessionID: l.SessionID, RecordedSeq: l.SourceLastSeq}}, l.History...)
}

// keep returns the history from the common entry on; rest is the tail of l.entries() that begins with it. If
// that is the entry which entries made of the top-level fields, keep leaves it out.
func keep(l Log, rest []Entry) []Entry {
	return rest[max(0, len(rest)-len(l.History)):]
}

// Has reports whether a checkpoint with this session id is in the log.
func (l Log) Has(session string) bool {
	return slices.ContainsFunc(l.entries(), func(e Entry) bool { return e.SessionID == session })
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
