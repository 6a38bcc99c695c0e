package protocol

import "couchrelay/core/peer"

// feed is how far the run has read the changes of its source.
type feed struct {
	since   peer.Seq // where the next read begins
	reading bool
	ended   bool // the last answer came to its end
	over    bool // a one-shot has read all that there was
	rows    int
	counted peer.Seq // after which changes were counted last

	// positions are the sequences at which a checkpoint may stand, in the order of the feed, from the number
	// first on. Of these done are concluded, and all before them.
	positions []*position
	first     int
	done      int
}

// position is a place in the feed: behind a row, or at the end of an answer.
type position struct {
	seq  peer.Seq
	left int  // revisions of its row that are not concluded
	row  bool // it is behind a row
}

func (f *feed) begin(since peer.Seq) {
	f.since = since
	f.positions = []*position{{seq: since}}
	f.done = 1
}

// concluded is how many positions from the beginning have nothing left before them.
func (f *feed) concluded() int {
	for f.done < f.first+len(f.positions) && f.positions[f.done-f.first].left == 0 {
		f.done++
	}
	return f.done
}

// span finds the positions of a sequence, of those from the number from on, before the number end.
func (f *feed) span(seq peer.Seq, from, end int) (at span, there bool) {
	for n := max(from, f.first); n < end; n++ {
		if f.positions[n-f.first].seq != seq {
			continue
		}
		if !there {
			at.first = n
		}
		at.last, there = n, true
	}
	return at, there
}

// all is how many positions there are.
func (f *feed) all() int { return f.first + len(f.positions) }

// forget drops positions that no checkpoint will take any more.
func (f *feed) forget(before int) {
	if n := min(before, f.done-1) - f.first; n > 0 {
		f.positions = append([]*position{}, f.positions[n:]...)
		f.first += n
	}
}

// reads judges a read of the feed: one at a time, each where the one before ended. A one-shot stops at the
// end; who waits for changes has read all that there were.
func (r copier) reads(op peer.ReadChanges) error {
	f := &r.feed
	switch {
	case f.reading:
		return breach(Copying, "it reads changes twice at a time")
	case f.over:
		return breach(Copying, "it reads changes, and has read them to their end")
	case op.Since != f.since:
		return breach(Copying, "it reads changes since %s, and has read them up to %s", op.Since, f.since)
	case op.Limit < 1:
		return breach(Copying, "it reads %d changes", op.Limit)
	case op.Wait && (!r.Continuous || !f.ended):
		return breach(Copying, "it waits for changes, and has not read those that there are")
	}
	if r.took(readsChanges); op.Wait {
		r.took(polls)
	}
	f.reading = true
	return nil
}

// read takes changes. A part of an answer counts as what it brought.
func (r copier) read(op peer.ReadChanges, reply peer.Reply) {
	f := &r.feed
	f.reading = false
	got, is := reply.Result.(peer.Changes)
	if !is || reply.Failure != nil && len(got.Rows) == 0 {
		return
	}
	if reply.Failure != nil {
		r.took(feedBreaks)
		r.wait.pauses(r.now, firstPause)
	}
	before := f.since
	if r.turn.batch == 0 {
		r.turn.batch = min(max(1, len(got.Rows)), r.WorkerBatchSize)
	}
	for _, row := range got.Rows {
		r.announce(row)
	}
	if got.LastSeq != "" && got.LastSeq != f.since {
		f.since = got.LastSeq
		f.positions = append(f.positions, &position{seq: got.LastSeq})
	}
	if source := &r.start.sides[peer.Source]; source.seq.Before(f.since) {
		source.seq = f.since
	}
	f.ended = got.End
	if f.over = got.End && !r.Continuous; f.over {
		r.took(feedEnds)
	}
	nothingNew := len(got.Rows) == 0 || sameNumber(before, f.since)
	if op.Wait && nothingNew && r.now.Sub(r.last.sent) < quietPoll {
		r.wait.pauses(r.now, idlePause)
	}
	r.wait.stuck = f.since == before && !got.End
}

// sameNumber reports whether the feed has not moved, as far as the numbers in front tell. Where they are the same, the
// rows may be those of the read before, or those of a database that was made again and has as many changes.
func sameNumber(a, b peer.Seq) bool { return a == b || a.Ordinal() != "" && a.Ordinal() == b.Ordinal() }

// announce notes a row of the feed: each of its revisions is to be concluded.
func (r copier) announce(row peer.Change) {
	p := &position{seq: row.Seq, left: len(row.Revs), row: true}
	r.feed.positions = append(r.feed.positions, p)
	r.feed.since = row.Seq
	r.feed.rows++
	for _, rev := range row.Revs {
		r.add(&want{name: name{row.ID, rev}, position: p, since: r.now})
	}
}

// counts judges a question for how many changes there are.
func (r copier) counts(op peer.CountPending) error {
	if op.Since != r.feed.since && op.Since != r.feed.counted && !r.feed.passed(op.Since) {
		return breach(Copying, "it counts changes since %s, where it never was", op.Since)
	}
	r.took(countsPending)
	r.feed.counted = op.Since
	return nil
}

// passed reports whether the feed was at a sequence.
func (f *feed) passed(seq peer.Seq) bool {
	for _, p := range f.positions {
		if p.seq == seq {
			return true
		}
	}
	return false
}
