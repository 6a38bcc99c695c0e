package model

import (
	"fmt"
	"maps"

	"couchrelay/core/node"
)

// judgeJobs finds the transitions that explain what a commit makes of jobs, and compares records and rows.
func (m *Model) judgeJobs(c *Commit, w *writing) error {
	for _, ch := range w.changes {
		if ch.found != ch.was || ch.data != nil { // else it may have been made and removed at once
			if ch.path = c.explain(ch); ch.path == nil {
				return breach(Life, c, "job %s was %v and is %v; its data changed: %v",
					ch.id, ch.was, ch.found, ch.was.data != ch.found.data)
			}
			for _, t := range ch.path {
				m.Counts[t]++
			}
			if err := c.judgeRecord(ch); err != nil {
				return breach(Records, c, "job %s was %v and is %v: %v", ch.id, ch.was, ch.found, err)
			}
		}
		if err := m.judgeRows(ch); err != nil {
			return breach(Rows, c, "job %s was %v and is %v: %v", ch.id, ch.was, ch.found, err)
		}
	}
	return nil
}

// explain finds the transitions by which a request makes a job what it is.
func (c *Commit) explain(ch *change) path {
	for _, p := range paths(c.Request, ch.id) {
		if c.leads(p, ch) {
			return p
		}
	}
	return nil
}

// leads reports whether the transitions of a path make of the job what it was found to be.
func (c *Commit) leads(p path, ch *change) bool {
	j := ch.was
	for _, t := range p {
		r := &rules[t]
		if !r.from(j) || t == adds && ch.spec == nil { // what is not made anew keeps its replication
			return false
		}
		next := r.to(j, ch.found)
		if r.header && next.header() == j.header() {
			return false
		}
		if r.header && next.state != absent {
			next.sequence = sequence{max(j.sequence.incarnation, ch.found.sequence.incarnation), c.Read}
		}
		j = next
	}
	return j == ch.found
}

// stays reports whether a job is where it was, in the queue, in lists and in the index, as that of a run which tells
// its progress.
func (ch *change) stays() bool {
	return ch.was.listed() == ch.found.listed() && ch.wasIndexed == ch.indexed
}

// judgeRows compares the rows of a job with those that the model has it have.
func (m *Model) judgeRows(ch *change) error {
	ch.stood = m.stands[ch.id]
	if ch.now = ch.stood; !ch.stays() {
		ch.now = m.standOf(ch.id, ch.found, ch.indexed)
	} else if len(ch.rows) == 0 {
		return nil
	}
	is := maps.Clone(ch.stood.rows)
	if is == nil {
		is = rows{}
	}
	for key, value := range ch.rows {
		if delete(is, key); value != nil {
			is[key] = *value
		}
	}
	for key, value := range ch.now.rows {
		if got, there := is[key]; !there || got != value {
			return fmt.Errorf("row %x has %q, there: %v, and should have %q", key, got, there, value)
		}
	}
	for key := range is {
		if _, wanted := ch.now.rows[key]; !wanted {
			return fmt.Errorf("row %x is left over", key)
		}
	}
	return nil
}

// sums are the counters that must move.
type sums struct {
	counted map[string]int64 // by where jobs stand
	totals  map[string]int64 // by key
	readied int64            // jobs that became ready
	called  map[string]bool  // workers whose jobs are taken, or are to stop
}

// sums adds up what jobs move.
func (m *Model) sums(w *writing) sums {
	s := sums{counted: map[string]int64{}, totals: map[string]int64{}, called: map[string]bool{}}
	for _, ch := range w.changes {
		if ch.stays() {
			continue
		}
		s.counted[ch.was.standing()]--
		s.counted[ch.found.standing()]++
		for key, n := range ch.stood.totals {
			s.totals[key] -= n
		}
		for key, n := range ch.now.totals {
			s.totals[key] += n
		}
		if ch.found.ready() && (!ch.was.ready() || len(ch.path) > 1) { // or it was made anew
			s.readied++
		}
		for _, t := range ch.path {
			if rules[t].calls && ch.was.state == running {
				s.called[ch.was.lock.worker] = true
			}
		}
	}
	delete(s.counted, "") // jobs that there are not
	return s
}

// judgeSums compares how counters moved. One commit of users, or a sweep, may make a job ready and remove it, and
// users call workers for more than one reason.
func (m *Model) judgeSums(c *Commit, w *writing) error {
	if len(w.changes)+len(w.counted)+len(w.totals)+len(w.calls) == 0 && w.signals == 0 {
		return nil
	}
	want := m.sums(w)
	_, sweeps := c.Request.(node.Sweep)
	for standing, n := range union(want.counted, w.counted) {
		if got := w.counted[standing]; got != n {
			return breach(Rows, c, "the number of %s jobs moves by %d, and should move by %d", standing, got, n)
		}
	}
	for key, n := range union(want.totals, w.totals) {
		if got := w.totals[key]; got != n {
			return breach(Rows, c, "total %x moves by %d, and should move by %d", key, got, n)
		}
	}
	if w.signals < want.readied || w.signals > want.readied && c.Request != nil && !sweeps {
		return breach(Rows, c, "%d signals are raised, and %d jobs became ready", w.signals, want.readied)
	}
	for worker := range want.called {
		if w.calls[worker] < 1 {
			return breach(Rows, c, "worker %s is not called", worker)
		}
	}
	for worker, n := range w.calls {
		if n < 1 || c.Request != nil && !want.called[worker] {
			return breach(Rows, c, "worker %s is called %d times", worker, n)
		}
	}
	return nil
}

// union are the numbers that are wanted, with 0 for what else has moved.
func union(want, moved map[string]int64) map[string]int64 {
	for key := range moved {
		want[key] += 0
	}
	return want
}
