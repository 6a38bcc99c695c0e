package lab

import (
	"cmp"
	"slices"

	"couchrelay/core/schedule"
)

// entry is a job in an ordered index.
type entry struct {
	place schedule.Place
	job   int32
}

// index is a heap with four children to a node that knows where each job is. It serves as ready queue, in the
// order of places and then of creation, and as index of waiting jobs, whose place is the time at which they
// are due, and then of ids; so the rows of the real queue are ordered.
type index struct {
	heap []entry
	at   []int32 // where a job is in heap, -1 for nowhere; shared by all indexes of a model, since a job is in one
	rank []int32 // of each job among all; orders those of one place
}

func (x *index) before(a, b *entry) bool {
	if a.place != b.place {
		return a.place.Epoch < b.place.Epoch || a.place.Epoch == b.place.Epoch && a.place.Key < b.place.Key
	}
	return x.rank[a.job] < x.rank[b.job]
}

func (x *index) put(i int, e entry) {
	x.heap[i] = e
	x.at[e.job] = int32(i)
}

func (x *index) add(e entry) {
	x.heap = append(x.heap, e)
	x.rise(len(x.heap)-1, e)
}

func (x *index) rise(i int, e entry) {
	for i > 0 {
		parent := (i - 1) / 4
		if !x.before(&e, &x.heap[parent]) {
			break
		}
		x.put(i, x.heap[parent])
		i = parent
	}
	x.put(i, e)
}

func (x *index) sink(i int, e entry) {
	for {
		least := -1
		for c := 4*i + 1; c <= 4*i+4 && c < len(x.heap); c++ {
			if least < 0 || x.before(&x.heap[c], &x.heap[least]) {
				least = c
			}
		}
		if least < 0 || !x.before(&x.heap[least], &e) {
			break
		}
		x.put(i, x.heap[least])
		i = least
	}
	x.put(i, e)
}

// drop removes a job, which must be in the index.
func (x *index) drop(job int32) {
	i, last := int(x.at[job]), x.heap[len(x.heap)-1]
	x.heap = x.heap[:len(x.heap)-1]
	x.at[job] = -1
	switch {
	case i == len(x.heap):
	case i > 0 && x.before(&last, &x.heap[(i-1)/4]):
		x.rise(i, last)
	default:
		x.sink(i, last)
	}
}

// first returns the first n entries in order. The candidates are a heap of places in the heap, by their
// entries.
func (x *index) first(n int) []entry {
	n = min(n, len(x.heap))
	list, cands := make([]entry, 0, n), append(make([]int32, 0, 4*n+1), 0)
	compare := func(i, j int32) int {
		a, b := &x.heap[i], &x.heap[j]
		return cmp.Or(a.place.Compare(b.place), cmp.Compare(x.rank[a.job], x.rank[b.job]))
	}
	for len(list) < n {
		best := cands[0]
		cands = cands[1:]
		list = append(list, x.heap[best])
		for c := 4*best + 1; c <= 4*best+4 && int(c) < len(x.heap); c++ {
			at, _ := slices.BinarySearchFunc(cands, c, compare)
			cands = slices.Insert(cands, at, c)
		}
	}
	return list
}
