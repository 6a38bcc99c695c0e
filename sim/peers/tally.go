package peers

import (
	"couchrelay/core/docs"
	"couchrelay/core/peer"
)

// Tally counts what a target did with the revisions that were sent to it, each time that they were sent.
type Tally struct {
	Took, Refused int64             // written, and refused
	LeftOut       int64             // refused in a bulk write, after which a revision is not sent again
	Bytes         int64             // the size of all that were sent
	Newest        Revision          // the last one that was refused
	Failed        int64             // sent in bulk and not written, though not refused either
	Again         int64             // taken by a copy of one document, though such a copy had brought them before
	had           map[Revision]bool // taken by a copy of one document
	unheard       map[Revision]sent // those that were sent in bulk, and of which no answer came
	givenUp       map[Revision]sent // those of them that count as Failed
}

// sent is a revision in a bulk write.
type sent struct {
	read uint64 // the bulk read that brought it
	size int
}

// sent notes a revision that was sent in bulk, and how the request ended. One that is copied alone after no answer came
// counts as not written: the run has given it up. If the write is repeated after all, another batch had copied it.
func (t *Tally) sent(read uint64, d *docs.Document, f *peer.Failure) {
	if t.unheard == nil {
		t.unheard, t.givenUp = map[Revision]sent{}, map[Revision]sent{}
	}
	rev, now := Revision{d.ID, d.Rev.String()}, sent{read, size(d)}
	if t.givenUp[rev] == now {
		t.Failed--
		t.Bytes -= int64(now.size)
		delete(t.givenUp, rev)
	}
	switch {
	case f == nil || f.Status == 400 || f.Status == 412 || f.Status == 413:
		delete(t.unheard, rev)
	case f.Status != 429:
		t.unheard[rev] = now
	}
}

// refuse counts a revision that was refused.
func (t *Tally) refuse(id, rev string) { t.Refused, t.Newest = t.Refused+1, Revision{id, rev} }

// written counts the results of a bulk write of n revisions.
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

// copied counts the results of a copy of one document. It may bring a later revision than the one asked for.
func (t *Tally) copied(op peer.CopyDoc, c peer.Copied) {
	t.Bytes += c.Bytes
	id := op.ID
	for _, r := range c.Revs {
		rev := Revision{id, r.Rev}
		if len(op.Revs) == 1 {
			rev.Rev = op.Revs[0]
		}
		if t.unheard[rev].size > 0 && !r.Missing {
			t.Failed++
			t.Bytes += int64(t.unheard[rev].size)
			t.givenUp[rev] = t.unheard[rev]
			delete(t.unheard, rev)
		}
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
