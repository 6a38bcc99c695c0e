package engine

import "couchrelay/core/instant"

// event is something that will happen: a function is called, or a coroutine goes on.
type event struct {
	at    instant.Time
	order uint64
	owner *Process
	life  int  // of the owner when it was planned
	held  bool // waits for the end of a pause
	name  string
	f     func()
	c     *coroutine // when f is nil
	turn  int        // of c
}

// queue holds events. What is moved about in its heap is small and free of pointers, since moving events costs more
// than playing them.
type queue struct {
	heap   []place
	events []event
	free   []int32 // indices of events that are not in use
}

// place is where an event stands.
type place struct {
	at    instant.Time
	order uint64
	index int32 // of the event
}

func (p place) before(o place) bool { return p.at < o.at || p.at == o.at && p.order < o.order }

func (q *queue) empty() bool { return len(q.heap) == 0 }

// next is when the first event happens.
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

// rise moves the last of the first places to where it belongs.
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

// pop takes the first event.
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

// release has what waits for the end of a process's pause happen at a time, in its order.
func (q *queue) release(p *Process, at instant.Time) {
	for i := range q.heap {
		if e := &q.events[q.heap[i].index]; e.held && e.owner == p {
			e.at, e.held = at, false
			q.heap[i].at = at
		}
		q.rise(i)
	}
}
