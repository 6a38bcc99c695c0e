package peers

import "couchrelay/core/peer"

// Tally is what a target did with revisions that were sent to it.
type Tally struct {
	Took, Refused int64    // one that was refused and sent again counts again
	LeftOut       int64    // of those refused, the ones in bulk: such are not sent again
	Bytes         int64    // of all of them
	Newest        Revision // that was refused last
	Failed        int64    // sent in bulk and not written, though not refused either
	Again         int64    // of those taken, the ones that were copied by themselves before: of a copy that is repeated they count once
	had           map[Revision]bool
}

// refuse counts a revision that was refused.
func (t *Tally) refuse(id, rev string) { t.Refused, t.Newest = t.Refused+1, Revision{id, rev} }

// written counts what came of a bulk write of n revisions.
func (t *Tally) written(n int, verdicts []peer.Refusal) {
	t.Took += int64(n - len(verdicts))
	for _, v := range verdicts {
		if !leavesOut(v) {
			t.Failed++
			continue
		}
		t.LeftOut++
		t.refuse(v.ID, v.Rev)
	}
}

// copied counts what came of a document that was copied by itself.
func (t *Tally) copied(id string, c peer.Copied) {
	t.Bytes += c.Bytes
	for _, r := range c.Revs {
		switch {
		case r.Refused != nil:
			t.refuse(r.Refused.ID, r.Rev)
		case !r.Missing:
			t.Took++
			if t.had == nil {
				t.had = map[Revision]bool{}
			}
			if rev := (Revision{id, r.Rev}); t.had[rev] {
				t.Again++
			} else {
				t.had[rev] = true
			}
		}
	}
}
