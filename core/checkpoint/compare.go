package checkpoint

import "couchrelay/core/peer"

// Compare finds where a replication goes on: the sequence up to which both logs say that everything
// was copied, and the history that leads there. Without a common checkpoint it is the beginning.
//
// The walk is CouchDB's: both histories newest first, in lockstep, until an entry of one occurs in the
// other. CouchDB takes the session id alone as proof. Here the recorded sequence must be equal too:
// CouchDB keeps one session id for a whole run, so that a database restored from a backup, or a crash
// between the two writes of one checkpoint, leaves logs of one session at two sequences, and trusting
// the later one loses what lies between.
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

// entries is the history behind a head made of the top-level fields, which old peers trust first.
func (l Log) entries() []Entry {
	if l.SessionID == "" {
		return nil
	}
	if len(l.History) > 0 && l.History[0].SessionID == l.SessionID && l.History[0].RecordedSeq == l.SourceLastSeq {
		return l.History
	}
	return append([]Entry{{SessionID: l.SessionID, RecordedSeq: l.SourceLastSeq}}, l.History...)
}

// keep is the history from the common entry on, without a head that entries made up.
func keep(l Log, rest []Entry) []Entry {
	return rest[max(0, len(rest)-len(l.History)):]
}

func contains(entries []Entry, e Entry) bool {
	for _, o := range entries {
		if o.SessionID == e.SessionID && o.RecordedSeq == e.RecordedSeq {
			return true
		}
	}
	return false
}
