package engine

import "couchrelay/core/instant"

// event is something that will happen.
type event struct {
	at    instant.Time
	order uint64
	owner *Process
	life  int  // of the owner when it was planned
	held  bool // waits for the end of a pause
	name  string
	f     func()
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.order < o.order }

// queue is a binary heap. It is typed, since boxing events costs more than playing them.
type queue []event

func (q *queue) push(e event) {
	h := append(*q, e)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent]) {
			break
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
	*q = h
}

// release has what waits for the end of a process's pause happen at a time, in its order.
func (q *queue) release(p *Process, at instant.Time) {
	h := *q
	*q = h[:0]
	for _, e := range h { // pushed to the front, which is read already
		if e.held && e.owner == p {
			e.at, e.held = at, false
		}
		q.push(e)
	}
}

func (q *queue) pop() event {
	h := *q
	top := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h[last] = event{}
	h = h[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h[child].before(&h[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*q = h
	return top
}
