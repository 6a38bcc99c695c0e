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
	asked instant.Time // when it was told to give way; 0 before
	gave  bool         // it has said that it does

	stopped bool // the run was told to stop
	gaveUp  bool // the run has canceled its feed by itself, as one that is stalled does
}

// early is the end of the first half of the turn, from the first documents on: those that were begun until then are
// finished before the run gives way.
func (t *turn) early() instant.Time { return t.first.Add(t.asked.Sub(t.first) / 2) }

// moves notes since when the documents of a request are on their way.
func (r *Run) moves(f *flight) {
	if !carries(f.op) {
		return
	}
	r.turn.first = cmp.Or(r.turn.first, r.now)
	for _, w := range f.wants {
		w.began = cmp.Or(w.began, r.now)
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
	for _, f := range r.flights { // order does not matter: one is enough
		read := func(w *want) bool { return w.read != 0 && w.read <= t.early() }
		_, writes := f.op.(peer.WriteDocs)
		if carries(f.op) && f.sent <= t.early() || writes && slices.ContainsFunc(f.wants, read) {
			return breach(Yielding, "it gives way, and waits for %s, which began in the first half of its turn", f.op)
		}
	}
	return nil
}

// keepsSlot judges that a run which is to give way does not: a document has to be in flight that it began early.
func (r *Run) keepsSlot() error {
	t := &r.turn
	if t.asked == 0 || t.gave || r.stopped || r.gaveUp || r.phase == over {
		return nil
	}
	for _, f := range r.flights {
		// Of a revision that was told of twice it is not known which one the request is about.
		early := func(w *want) bool { return w.began <= t.early() || r.twice[w.id] }
		if carries(f.op) && (f.sent <= t.early() || slices.ContainsFunc(f.wants, early)) {
			return nil
		}
	}
	return breach(Yielding, "it is to give way since %s, and no document is in flight of the first half of its turn",
		t.asked)
}
