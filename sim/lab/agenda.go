package lab

import "couchrelay/core/instant"

// due is something that will happen.
type due struct {
	at    instant.Time
	order uint64 // of two at one moment the one that was planned first comes first
	what  deed
	node  int32  // -1 when it concerns none
	life  int32  // of the node; once the node has died, nothing planned for that life happens
	which uint64 // number of a run, of a request in flight or of an await, or a place in a list of the workload
}

// deed is what will happen.
type deed uint8

const (
	submit deed = iota
	remove
	setShares
	fail      // a node dies
	boot      // a node starts
	wake      // a node wanted to be woken
	commit    // a request of a node is performed and answered
	notify    // a node is told that what it awaits may have happened
	lostWatch // the same, since a watch may be lost
	runEnds   // a run ends by itself, or has stopped
	runHeals  // a run tells its first progress after it has become healthy
	becomesReady
)

// agenda holds what will happen, in a binary heap.
type agenda struct {
	heap  []due
	order uint64
}

func (d *due) before(o *due) bool { return d.at < o.at || d.at == o.at && d.order < o.order }

func (a *agenda) plan(d due) {
	a.order++
	d.order = a.order
	a.heap = append(a.heap, d)
	h := a.heap
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !d.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = d
}

// next removes the first one. There must be one.
func (a *agenda) next() due {
	h := a.heap
	first, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	a.heap = h
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	if len(h) > 0 {
		h[i] = last
	}
	return first
}
