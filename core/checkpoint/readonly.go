package checkpoint

import (
	"couchrelay/core/json"
	"couchrelay/core/peer"
)

// ReadOnly is what a source is known by that refuses to store its log: it is the same database, with its
// history unbroken up to the change Last, if it still has the same log, the same instance_start_time, that change, and
// Newest.
type ReadOnly struct {
	SessionID     string // of the log that the source has from before it refused, empty for none
	InstanceStart string // of the source
	Last          Change
	// Newest is the newest change that the source had when Last was recorded. A source that was put back to before
	// that, though not to before Last, may have documents in front of Last that stood behind it. Zero if it is
	// unknown, or the same change as Last.
	Newest peer.Mark
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

// wireReadOnly is ReadOnly as JSON. Logs of earlier releases have no last_others, or no newest_id.
type wireReadOnly struct {
	SessionID     string   `json:"session_id"`
	InstanceStart string   `json:"instance_start_time"`
	LastID        string   `json:"last_id"`
	LastRev       string   `json:"last_rev"`
	LastOthers    []string `json:"last_others,omitempty"`
	LastSeq       json.Raw `json:"last_seq"`
	NewestID      string   `json:"newest_id,omitempty"`
	NewestRev     string   `json:"newest_rev,omitempty"`
	NewestOthers  []string `json:"newest_others,omitempty"`
}

func (r *ReadOnly) wire() wireReadOnly {
	last, newest := r.Last.Find().Revs, r.Newest.Find().Revs
	return wireReadOnly{
		r.SessionID, r.InstanceStart, r.Last.ID, last[0], last[1:], raw(r.Last.Seq), r.Newest.ID, newest[0], newest[1:],
	}
}

// readOnly reads the member source_read_only. What is no such member, or not whole, proves nothing and is
// left out.
func readOnly(member json.Raw) *ReadOnly {
	var w wireReadOnly
	if err := json.Decode(member, &w); err != nil || w.LastID == "" || w.LastRev == "" || len(w.LastSeq) == 0 {
		return nil
	}
	last := Change{peer.MarkOf(w.LastID, w.LastRev, w.LastOthers), seq(w.LastSeq)}
	of := ReadOnly{SessionID: w.SessionID, InstanceStart: w.InstanceStart, Last: last}
	if w.NewestID != "" && w.NewestRev != "" {
		of.Newest = peer.MarkOf(w.NewestID, w.NewestRev, w.NewestOthers)
	}
	return &of
}
