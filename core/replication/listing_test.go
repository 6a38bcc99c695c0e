package replication

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// listing is what the target of a world refuses, and the list of that in the store.
type listing struct {
	// refuses names documents that the target never takes.
	refuses map[string]bool
	// list is the list of refused documents in the store: durable, as runs come and go.
	list  map[peerRev]*entry
	asks  []Effect // Refused and ReadRefused that wait for their answers
	asked bool     // an operator wants all tried at once
	// demand is the last order of an operator to try all.
	demand instant.Time
	deaf   bool // the store answers nothing
	// changes is how often the list has changed.
	changes int64
	begins  bool     // no change has come since the job was made, or became another replication
	left    int64    // changes when something left it last, or, before, when it began
	saved   [2]int64 // what the last run told; see Info.ListSaved
	// others counts rows of the list that no run is shown.
	others int64
}

// entry is a row of the list.
type entry struct {
	Finding
	attempts int
	last     instant.Time
}

// answerAsk has the store answer the run.
func (w *world) answerAsk() {
	e := w.asks[0]
	w.asks = w.asks[1:]
	switch e := e.(type) {
	case Refused:
		w.stores(e)
		w.step(Stored{})
	case ReadRefused:
		page := RefusedPage{Demand: w.demand}
		for _, at := range slices.SortedFunc(maps.Keys(w.list), compareRevs) {
			if compareRevs(at, peerRev{e.ID, e.Rev}) <= 0 {
				continue
			}
			if page.More = len(page.Docs) == e.Limit; page.More {
				break
			}
			row := w.list[at]
			age := w.now.Sub(row.last)
			listed := Listed{ID: at.id, Rev: at.rev, Attempts: row.attempts, Age: age}
			listed.Asked = w.asked || row.Demand != w.demand
			listed.Failed, listed.Refused = row.Failed, row.Refused
			page.Docs = append(page.Docs, listed)
		}
		w.step(page)
	}
}

// stores changes the list, as the run has told.
func (w *world) stores(e Refused) {
	w.changes++
	if w.begins {
		w.left = w.changes
	}
	w.begins = false
	for _, f := range e.Findings {
		w.keep(f)
	}
}

func compareRevs(a, b peerRev) int {
	return cmp.Or(strings.Compare(a.id, b.id), strings.Compare(a.rev, b.rev))
}

// checkPage demands that a run tells what it knows of the list before it asks for the first page of that. A one-shot
// would take what has left the list just now for what stays, and end with a checkpoint that relies on it.
func (w *world) checkPage(effects []Effect) {
	tells := slices.IndexFunc(effects, func(e Effect) bool { _, is := e.(Refused); return is })
	reads := slices.IndexFunc(effects, func(e Effect) bool { q, is := e.(ReadRefused); return is && q.ID == "" })
	if reads >= 0 && reads < tells {
		w.t.Errorf("a page is read before the store has been told %v", effects[tells])
	}
}

// checkListed demands that the run takes the list for no shorter than it is once the store has all that the run tells
// it: with room for more the run would list more than it may.
func (w *world) checkListed() {
	f := &w.run.refused
	if w.undead || w.run.phase != copying || w.run.stopping || w.end != nil {
		return
	}
	list := map[peerRev]bool{}
	for at := range w.list {
		list[at] = true
	}
	for _, told := range slices.Concat(f.storing, f.queue) {
		if at := (peerRev{told.ID, told.Rev}); told.Over {
			delete(list, at)
		} else {
			list[at] = true
		}
	}
	if n := w.others + int64(len(list)); f.listed < n {
		w.t.Fatalf("the list has %d revisions, and the run takes it for %d", n, f.listed)
	}
}

// keep changes the list.
func (w *world) keep(f Finding) {
	at := peerRev{f.ID, f.Rev}
	if f.Over {
		if w.refuses[f.ID] && w.dbs[peer.Source].latest(f.ID, f.Rev) == f.Rev && !w.dbs[peer.Target].has(f.ID, f.Rev) {
			w.t.Fatalf("%v leaves the list, and the target refuses it", at)
		}
		delete(w.list, at)
		w.left = w.changes
		return
	}
	row := w.list[at]
	if row == nil {
		row = &entry{}
		w.list[at] = row
	}
	*row = entry{f, row.attempts + 1, w.now}
}

// lists reports whether a revision is in the list, or one that has replaced it.
func (w *world) lists(id, rev string) bool {
	for at := range w.list {
		if at.id == id && slices.Contains(w.dbs[peer.Source].path(id, at.rev), rev) {
			return true
		}
	}
	return false
}

// unlisted is a document changed up to seq that the target refuses, and that has a leaf which is not listed.
func (w *world) unlisted(seq int64) string {
	for id, at := range w.dbs[peer.Source].at {
		for _, rev := range w.dbs[peer.Source].leafs[id] {
			if at <= seq && at > w.since && (w.refuses[id] || id == w.tooLarge) &&
				!w.dbs[peer.Target].has(id, rev) && w.list[peerRev{id, rev}] == nil && !w.isSpared(id, rev) {
				return id + " " + rev
			}
		}
	}
	return ""
}
