package host

import "couchrelay/core/instant"

// wakes is a heap of runs by deadline, and by number where that is the same, so that nothing depends on
// the order in which they came. A run stands in it exactly once and knows where.
type wakes []*run

// next is the earliest deadline.
func (w wakes) next() instant.Time {
	if len(w) == 0 {
		return instant.Never
	}
	return w[0].due
}

func (w wakes) Len() int { return len(w) }

func (w wakes) Less(i, j int) bool {
	if w[i].due != w[j].due {
		return w[i].due < w[j].due
	}
	return w[i].start.Run < w[j].start.Run
}

func (w wakes) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}

// Push is heap.Interface's.
func (w *wakes) Push(x any) {
	r := x.(*run)
	r.index = len(*w)
	*w = append(*w, r)
}

// Pop is heap.Interface's.
func (w *wakes) Pop() any {
	last := len(*w) - 1
	r := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	return r
}
