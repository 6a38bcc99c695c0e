package model

import (
	"fmt"

	"couchrelay/core/kv/ryw"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
)

// lease is the lease of a worker. The zero value is none.
type lease struct {
	row  string // L and, if the worker announces one, its activity timeout; or X, once it is given up
	beat string // versionstamp of the last heartbeat, and what the worker tells
}

func (l lease) live() bool    { return l.row != "" && l.row[0] == 'L' }
func (l lease) expired() bool { return l.row == "X" }

// stamp is the versionstamp of the last heartbeat.
func (l lease) stamp() string { return l.beat[:min(10, len(l.beat))] }

// leaseChange is what a commit makes of a lease.
type leaseChange struct {
	worker      string
	was, found  lease
	callCleared bool
}

func (w *writing) lease(worker string) *leaseChange {
	if w.leases[worker] == nil {
		if w.leases == nil {
			w.leases = map[string]*leaseChange{}
		}
		w.leases[worker] = &leaseChange{worker: worker, was: w.m.leases[worker], found: w.m.leases[worker]}
	}
	return w.leases[worker]
}

func (w *writing) readLease(table string, rest []byte, mu ryw.Mutation) error {
	var worker string
	if err := tuple.Subspace(nil).Scan(rest, &worker); err != nil {
		return err
	}
	value := string(mu.Value)
	if mu.Kind == ryw.Clear {
		value = ""
	} else if mu.Kind != ryw.Set || value == "" {
		return fmt.Errorf("it is neither written nor cleared")
	}
	if l := w.lease(worker); table == "worker" {
		l.found.row = value
	} else {
		l.found.beat = value
	}
	return nil
}

// judgeLeases says what is wrong with the leases that a commit writes.
func (m *Model) judgeLeases(c *Commit, w *writing) error {
	for worker, l := range w.leases {
		if err := m.judgeLease(c, w, l); err != nil {
			return breach(Leasing, c, "the lease of %s: %v", worker, err)
		}
	}
	return nil
}

func (m *Model) judgeLease(c *Commit, w *writing, l *leaseChange) error {
	switch q := c.Request.(type) {
	case node.Join:
		return l.begins(c, q.Worker, !l.was.expired())
	case node.Beat:
		return l.begins(c, q.Worker, l.was.live() && l.found.row == l.was.row)
	case node.Expire:
		return m.ends(l, q.Worker, q.Beat, w, q.Limit, q.Without)
	case node.Retire:
		return m.ends(l, q.Worker, nil, w, q.Limit, q.Without)
	}
	return fmt.Errorf("it changes from %q to %q", l.was, l.found)
}

// begins is a lease that its worker makes or prolongs.
func (l *leaseChange) begins(c *Commit, worker string, may bool) error {
	switch {
	case l.worker != worker:
		return fmt.Errorf("it is of another worker")
	case !may || !l.found.live() || l.callCleared:
		return fmt.Errorf("it was %q and is %q, calls cleared: %v", l.was.row, l.found.row, l.callCleared)
	case l.found.stamp() != string(c.Stamp[:]):
		return fmt.Errorf("the heartbeat has the stamp %x, not that of the commit, %x", l.found.stamp(), c.Stamp)
	}
	return nil
}

// ends is a lease that is given up. The first commit of several that take the worker's jobs marks it, and the one that
// takes the last job removes it with all that belongs to it. A commit leaves jobs only when it has taken as many as it
// may, and those that it was told not to read.
func (m *Model) ends(
	l *leaseChange, worker string, beat *[10]byte, w *writing, limit int, without []string,
) error {
	left := m.held[worker] - len(w.changes)
	readable := left
	for _, id := range without {
		if m.jobs[id].lock.worker == worker {
			readable--
		}
	}
	gone := l.found == lease{}
	switch {
	case l.worker != worker:
		return fmt.Errorf("it is of another worker")
	case l.was.live() && beat != nil && l.was.stamp() != string(beat[:]):
		return fmt.Errorf("the silence since %x is over, the heartbeat is %x", *beat, l.was.stamp())
	case !gone && (!l.found.expired() || l.found.beat != l.was.beat):
		return fmt.Errorf("it was %q and is %q", l.was, l.found)
	case gone && left > 0:
		return fmt.Errorf("it is gone, and the worker has %d jobs", left)
	case !gone && (left == 0 || readable > 0 && len(w.changes) < limit):
		return fmt.Errorf("it is not gone, and the worker has %d jobs", left)
	case gone && m.numbers[string(m.queue.Pack("call", worker))] != 0:
		return fmt.Errorf("it is gone, and the calls of the worker are not")
	}
	return nil
}
