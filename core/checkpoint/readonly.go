package checkpoint

import (
	"couchrelay/core/json"
	"couchrelay/core/peer"
)

// ReadOnly is what a source is known by that refuses to store its log: it is the same database, with its
// history unbroken up to the change Last, if it still has the same log, the same instance_start_time, and that
// change.
type ReadOnly struct {
	SessionID     string // of the log that the source has from before it refused, empty for none
	InstanceStart string // of the source
	Last          Change
}

// Change is a change of the source, up to which everything is on the target.
type Change struct {
	peer.Mark
	Seq peer.Seq
}

// Find asks whether the source still has the change. Where sequences are numbers, a database that was made again and
// filled from a copy may have it at another one.
func (c Change) Find() peer.FindRev {
	op := c.Mark.Find()
	if _, numbered := c.Seq.Number(); numbered {
		op.At = c.Seq
	}
	return op
}

// wireReadOnly is ReadOnly as JSON. Logs of earlier releases have no last_others.
type wireReadOnly struct {
	SessionID     string   `json:"session_id"`
	InstanceStart string   `json:"instance_start_time"`
	LastID        string   `json:"last_id"`
	LastRev       string   `json:"last_rev"`
	LastOthers    []string `json:"last_others,omitempty"`
	LastSeq       json.Raw `json:"last_seq"`
}

func (r *ReadOnly) wire() wireReadOnly {
	revs := r.Last.Find().Revs
	return wireReadOnly{r.SessionID, r.InstanceStart, r.Last.ID, revs[0], revs[1:], raw(r.Last.Seq)}
}

// readOnly reads the member source_read_only. What is no such member, or not whole, proves nothing and is
// left out.
func readOnly(member json.Raw) *ReadOnly {
	var w wireReadOnly
	if err := json.Decode(member, &w); err != nil || w.LastID == "" || w.LastRev == "" || len(w.LastSeq) == 0 {
		return nil
	}
	last := Change{peer.MarkOf(w.LastID, w.LastRev, w.LastOthers), seq(w.LastSeq)}
	return &ReadOnly{SessionID: w.SessionID, InstanceStart: w.InstanceStart, Last: last}
}
