package model

import (
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/node"
)

// judgeTaking says what is wrong with whose jobs a commit changes, and which. The model still is as before it.
func (m *Model) judgeTaking(c *Commit, w *writing) error {
	if err := m.taking(c, w); err != nil {
		return breach(Taking, c, "%v", err)
	}
	return nil
}

func (m *Model) taking(c *Commit, w *writing) error {
	if held, is := c.Request.(node.HeldRequest); is {
		return m.holds(c, w, held.HeldJob())
	}
	switch q := c.Request.(type) {
	case node.Accept:
		return m.accepts(c, w, q)
	case node.Expire:
		return m.takesFrom(w, q.Worker, q.Beat, q.Limit)
	case node.Retire:
		return m.takesFrom(w, q.Worker, nil, q.Limit)
	case node.Promote:
		return m.promotes(c, w, q)
	}
	return nil
}

// holds judges a request of the worker that runs a job under a lock. One that ends the run does so.
func (m *Model) holds(c *Commit, w *writing, h node.Held) error {
	was := m.jobs[h.JobID]
	if was.state != running || was.lock != (lock{h.Lock.Worker, h.Lock.Batch}) {
		return fmt.Errorf("job %s is %v", h.JobID, was)
	}
	ch, changed := w.of[h.JobID]
	if _, ends := c.Request.(node.EndsTurn); ends && (!changed || ch.path == nil) {
		return fmt.Errorf("job %s is as it was", h.JobID)
	}
	return nil
}

// accepts judges what an accept takes: ready jobs for a worker with a live lease, no more than it asks for, from
// among the first ones, under a lock that no run had. It may park more, of those that it looks at.
func (m *Model) accepts(c *Commit, w *writing, q node.Accept) error {
	own, look := lock{q.Worker, q.Demand.Batch}, max(q.Demand.Max, q.Demand.Look)
	window, taken := max(look, q.Demand.Window), 0
	switch {
	case !m.leases[q.Worker].live():
		return fmt.Errorf("the lease of the worker is %q", m.leases[q.Worker].row)
	case len(w.changes) > look:
		return fmt.Errorf("it takes or parks %d jobs, and may look at %d", len(w.changes), look)
	}
	last := ""
	for _, ch := range w.changes {
		if ch.found.state == running {
			taken++
		}
		switch {
		case ch.was.state == running && ch.was.lock == own: // it is repeated
		case ch.found.state == running && (ch.found.lock != own || m.ran[own]):
			return fmt.Errorf("job %s is %v; runs had that lock before: %v", ch.id, ch.found, m.ran[ch.found.lock])
		default:
			last = max(last, string(m.placeOf(ch.id, ch.was)))
		}
	}
	if taken > q.Demand.Max {
		return fmt.Errorf("it takes %d jobs, and asked for %d", taken, q.Demand.Max)
	}
	if before := m.before(last, q, c.Read); before >= window {
		return fmt.Errorf("it takes a job behind %d others, and may look at %d", before, window)
	}
	return nil
}

// before is how many ready jobs stood before a place, and behind where an accept began, when it read. Those that left
// the queue since are not known any more, and those that it was told not to read do not count.
func (m *Model) before(place string, q node.Accept, read int64) (n int) {
	if place == "" {
		return 0
	}
	first := string(m.ready) + q.Demand.Behind
	for c := m.queued.Seek([]byte(first)); c.Valid() && string(c.Key()) < place; c.Next() {
		id := *c.Value()
		if string(c.Key()) > first && m.since[id] <= read && !m.passed(id) && !slices.Contains(q.Without, id) {
			n++
		}
	}
	return n
}

// passed reports whether accepts may pass over a job, since its database was deleted.
func (m *Model) passed(id string) bool {
	database, _, _ := strings.Cut(id, "|")
	return m.dropped[database+"|"]
}

// takesFrom judges whose jobs are given back.
func (m *Model) takesFrom(w *writing, worker string, beat *[10]byte, limit int) error {
	l := m.leases[worker]
	if len(w.changes) == 0 {
		return nil
	}
	if l.live() && beat != nil && l.stamp() != string(beat[:]) || l.row == "" {
		return fmt.Errorf("the worker was heard of at %x", l.stamp())
	}
	for _, ch := range w.changes {
		if ch.was.lock.worker != worker {
			return fmt.Errorf("job %s was %v", ch.id, ch.was)
		}
	}
	if len(w.changes) > limit {
		return fmt.Errorf("it takes %d jobs", len(w.changes))
	}
	return nil
}

// tooFar is how long no job waits, even by a clock that is hours ahead: what waits longer may be made ready.
const tooFar = 24 * 3600 * 1_000_000 // microseconds

// promotes judges which waits end, and which jobs come back: those that are due, the earliest first.
func (m *Model) promotes(c *Commit, w *writing, q node.Promote) error {
	latest := int64(0) // of the waits that end because they are over
	moved := 0
	for _, ch := range w.changes {
		if t := ch.path[0]; t == retells || t == updates { // it learns that others wait for its replication
			continue
		}
		moved++
		lot, due := ch.was.lot, ch.was.due
		switch wait := due - int64(c.Wall); {
		case lot != "" && !strings.HasPrefix(lot, "held/") && !strings.HasPrefix(lot, lotBehind):
			return fmt.Errorf("job %s was in lot %s", ch.id, lot)
		case lot == "" && wait > 0 && wait <= tooFar:
			return fmt.Errorf("job %s is due in %d µs", ch.id, wait)
		case lot == "" && wait <= 0:
			latest = max(latest, due)
		}
	}
	if moved > q.Limit {
		return fmt.Errorf("it moves %d jobs", moved)
	}
	if moved < q.Limit && moved > 0 {
		latest = int64(c.Wall)
	}
	for id, j := range m.jobs {
		known := m.since[id] <= c.Read && w.of[id] == nil && !slices.Contains(q.Without, id)
		if j.standing() == "waiting" && j.due < latest && known {
			return fmt.Errorf("job %s waits on, and is due since %d", id, j.due)
		}
	}
	return nil
}
