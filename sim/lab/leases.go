package lab

import (
	"encoding/binary"
	"slices"
	"strings"

	"couchrelay/core/jobs"
	"couchrelay/core/node"
)

// modelWorker is a lease.
type modelWorker struct {
	name    string
	info    node.Info
	beats   uint64
	expired bool
	calls   int64
	owned   []int32 // in the order of batches and, within one, of ids
}

// leases are those of a model, in the order of the workers' names.
type leases []*modelWorker

func (l leases) find(name string) *modelWorker {
	i, known := l.placeOf(name)
	if !known {
		return nil
	}
	return l[i]
}

// placeOf is the place of a worker among all, and whether there is one of that name.
func (l leases) placeOf(worker string) (int, bool) {
	return slices.BinarySearchFunc(l, worker, func(w *modelWorker, name string) int {
		return strings.Compare(w.name, name)
	})
}

// live returns a lease that may be used.
func (l leases) live(name string) (*modelWorker, error) {
	w := l.find(name)
	if w == nil || w.expired {
		return nil, jobs.ErrLeaseLost
	}
	return w, nil
}

// join registers a worker, also one that asks again since the answer came too late for it.
func (l *leases) join(q node.Join) (node.Result, error) {
	i, known := l.placeOf(q.Worker)
	if known {
		_, err := l.beat(node.Beat(q))
		return node.Ok{}, err
	}
	*l = slices.Insert(*l, i, &modelWorker{name: q.Worker, info: q.Info, beats: 1})
	return node.Ok{}, nil
}

func (l leases) beat(q node.Beat) (node.Result, error) {
	w, err := l.live(q.Worker)
	if err != nil {
		return nil, err
	}
	w.info = q.Info
	w.beats++
	return node.Beaten{Calls: w.calls}, nil
}

func (w *modelWorker) stamp() (beat [10]byte) {
	binary.BigEndian.PutUint64(beat[:], w.beats)
	return beat
}

func (l leases) list() node.Leases {
	all := node.Leases{List: make([]node.Member, len(l))}
	for i, w := range l {
		all.List[i] = node.Member{Worker: w.name, Beat: w.stamp(), Expired: w.expired, Info: w.info}
	}
	return all
}
