package protocol

import (
	"cmp"
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// turn is the time of a run in its slot.
type turn struct {
	first instant.Time // when it asked for the first documents; 0 before
	moved instant.Time // since when it knows what becomes of the first changes; 0 before
	asked instant.Time // when it was told to give way; 0 before
	gotOn instant.Time // of the last answer by which it cannot be stalled
	gave  bool         // it has said that it does

	batch int          // positions of the first changes, which the run works on together; 0 before they are read
	tries instant.Time // until then a request that failed is repeated, of a server that did not ask to come later

	stopped bool // the run was told to stop
	gaveUp  bool // the run has canceled its feed by itself, as one that is stalled does
}

// early is until when documents were begun that are finished before the run gives way: the end of the first half of
// the turn, from the first documents on, or when the first changes were compared, if that was later than the turn.
func (t *turn) early() instant.Time {
	if t.moved > t.asked {
		return t.moved
	}
	return t.first.Add(t.asked.Sub(t.first) / 2)
}

// moves notes since when the documents of a request are on their way. One that was told of twice may come for the
// list.
func (r *Run) moves(f *flight) {
	if !carries(f.op) {
		return
	}
	r.turn.first = cmp.Or(r.turn.first, r.now)
	for _, w := range f.wants {
		w.began = cmp.Or(w.began, r.now)
		if w.position != nil && !r.twice[w.id] {
			r.turn.moved = cmp.Or(r.turn.moved, r.now)
		}
	}
}

// getsOn notes whether an answer has told what becomes of the first changes, or that there are none, and whether the
// run has got anywhere by it.
func (r *Run) getsOn(op peer.Op, reply peer.Reply) {
	f, t := &r.feed, &r.turn
	put, saves := op.(peer.PutLocal)
	saves = saves && put.Side == peer.Source // the second log; with the first alone there is no checkpoint yet
	if r.phase != copying || reply.Failure == nil && (saves || getsOnBy(op)) {
		t.gotOn = r.now
	}
	if t.moved == 0 && (t.batch > 0 && f.concluded() > t.batch || f.ended && f.concluded() == f.all()) {
		t.moved = r.now
	}
}

// carries reports whether an operation carries documents.
func carries(op peer.Op) bool {
	switch op.(type) {
	case peer.FetchDocs, peer.WriteDocs, peer.CopyDoc:
		return true
	}
	return false
}

// givesWay judges that a run gives way. A write has the time of the read that brought its bodies.
func (r *Run) givesWay() error {
	r.took(givesWay)
	t := &r.turn
	if t.asked == 0 || t.gave {
		return breach(Yielding, "it gives way, and was not told to since")
	}
	t.gave = true
	// Documents of the list may take the place of the first changes.
	listed := len(r.list.revs) > 0 || r.list.page != nil
	for _, f := range r.flights { // order does not matter: one is enough
		read := func(w *want) bool { return w.read != 0 && w.read <= t.early() }
		_, writes := f.op.(peer.WriteDocs)
		_, reads := f.op.(peer.ReadChanges)
		switch {
		case t.moved == 0 && !listed && !(reads && t.batch > 0):
			return breach(Yielding, "it gives way on the way to its first documents, and waits for %s", f.op)
		case carries(f.op) && f.sent <= t.early() || writes && slices.ContainsFunc(f.wants, read):
			return breach(Yielding, "it gives way, and waits for %s, which began in the first half of its turn", f.op)
		}
	}
	if op, f := r.last.op, r.last.reply.Failure; f != nil && r.last.sent <= t.early() && r.repeats(op, f) {
		return breach(Yielding, "it gives way, and %s, which began in the first half of its turn, failed once", op)
	}
	return nil
}

// repeats reports whether a request for documents that failed is surely repeated: it is the first one of its kind
// that does, may pass, and the server did not ask to come later.
func (r *Run) repeats(op peer.Op, f *peer.Failure) bool {
	passes := f.Kind == peer.TimedOut || f.Kind == peer.Broken
	return carries(op) && passes && f.RetryAfter == 0 && r.wait.kind(op).n == 1 && r.Source.Retries > 0
}

// keepsSlot judges that a run which is to give way does not. It has to be on the way to its first documents, or a
// document has to be in flight that it began early, or to be tried once more.
func (r *Run) keepsSlot() error {
	t := &r.turn
	if t.asked == 0 || t.gave || r.stopped || r.gaveUp || r.phase == over || r.mayBeStalled() {
		return nil
	}
	// Of a revision that was told of twice it is not known which one a request is about.
	early := func(w *want) bool { return w.began != 0 && w.began <= t.early() || r.twice[w.id] }
	tries, asks := r.now <= t.tries.Add(slack), false
	for _, f := range r.flights {
		if carries(f.op) && (f.sent <= t.early() || slices.ContainsFunc(f.wants, early)) {
			return nil
		}
		switch f.op.(type) {
		case peer.Open, peer.DiffRevs: // whether the target lets us in, or lacks the document, before a copy goes on
			asks = true
		}
	}
	// Of two copies of such a revision the one that is left may be asking so, and the first changes be of no other.
	if t.moved == 0 && (len(r.flights) > 0 || tries) || (tries || asks) && len(r.twice) > 0 {
		return nil
	}
	for _, of := range r.wants { // order does not matter: one is enough
		if (tries || asks) && slices.ContainsFunc(of.list, early) {
			return nil
		}
	}
	return breach(Yielding, "it is to give way since %s, and no document is in flight of the first half of its turn",
		t.asked)
}

// mayBeStalled reports whether the run may have taken itself for stalled, and be about to end, without giving up any
// request by which that could be seen. How long it may take for its last checkpoint is no part of the protocol.
func (r *Run) mayBeStalled() bool {
	if r.StallTimeout == 0 || r.phase != copying || r.now.Sub(r.turn.gotOn) < r.StallTimeout {
		return false
	}
	for _, f := range r.flights { // order does not matter: one is enough
		if getsOnBy(f.op) {
			return false
		}
	}
	return true
}
