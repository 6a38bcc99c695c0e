package engine

import "couchrelay/core/instant"

// event is something that will happen: a call of f or, when f is nil, a wake-up of c.
type event struct {
	at    instant.Time
	order uint64
	owner *Process
	life  int  // the owner's life when the event was planned
	held  bool // postponed to the end of its owner's pause
	name  string
	f     func()
	c     *coroutine
	turn  int // the turn of c that the event wakes
}

// queue is a binary heap of events. The heap itself has only small places without pointers, since moving
// whole events would cost more than playing them.
type queue struct {
	heap   []place
	events []event
	free   []int32 // indices of events that are not in use
}

// place orders an event in the heap.
type place struct {
	at    instant.Time
	order uint64
	index int32 // of the event
}

func (p place) before(o place) bool { return p.at < o.at || p.at == o.at && p.order < o.order }

func (q *queue) empty() bool { return len(q.heap) == 0 }

// next returns the time of the first event. The queue must not be empty.
func (q *queue) next() instant.Time { return q.heap[0].at }

func (q *queue) push(e event) {
	p := place{at: e.at, order: e.order}
	if last := len(q.free) - 1; last >= 0 {
		p.index = q.free[last]
		q.free = q.free[:last]
		q.events[p.index] = e
	} else {
		p.index = int32(len(q.events))
		q.events = append(q.events, e)
	}
	q.heap = append(q.heap, p)
	q.rise(len(q.heap) - 1)
}

// rise moves place i up to where it belongs.
func (q *queue) rise(i int) {
	h, p := q.heap, q.heap[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !p.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = p
}

// pop removes and returns the first event. The queue must not be empty.
func (q *queue) pop() event {
	h := q.heap
	first := h[0].index
	last := len(h) - 1
	p := h[last]
	h = h[:last]
	q.heap = h
	i := 0
	for child := 1; child < last; child = 2*i + 1 {
		if child+1 < last && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(p) {
			break
		}
		h[i] = h[child]
		i = child
	}
	if last > 0 {
		h[i] = p
	}
	e := q.events[first]
	q.events[first] = event{}
	q.free = append(q.free, first)
	return e
}

// release moves all postponed events of a process to a time, in their order.
func (q *queue) release(p *Process, at instant.Time) {
	for i := range q.heap {
		if e := &q.events[q.heap[i].index]; e.held && e.owner == p {
			e.at, e.held = at, false
			q.heap[i].at = at
		}
		q.rise(i)
	}
}
