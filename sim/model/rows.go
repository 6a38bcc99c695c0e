package model

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/kv/ryw"
	"couchrelay/core/kv/tuple"
)

// rows are values by key.
type rows map[string]string

// stopMark is the value of the row of a running job in the list of its worker, while it is asked to stop.
const stopMark = "S"

// stand is how the store knows of a job besides its own rows.
type stand struct {
	rows   rows             // by which it is found
	totals map[string]int64 // in which it counts, with by how much, by key
}

// standOf is the stand of a job: its place in the queue, its newest change, and its places in lists, if it is indexed.
func (m *Model) standOf(id string, j job, indexed bool) stand {
	if j.state == absent {
		return stand{}
	}
	all := rows{string(m.queue.Pack("changed", j.sequence.incarnation, j.sequence.version, id)): ""}
	switch j.standing() {
	case "ready":
		all[string(m.placeOf(id, j))] = id
	case "waiting":
		all[string(m.queue.Pack("waiting", j.due, id))] = ""
	case "parked":
		all[string(m.queue.Pack("parked", j.lot, id))] = ""
	case "running":
		mark := ""
		if j.stop {
			mark = stopMark
		}
		all[string(m.queue.Pack("owned", j.lock.worker, j.lock.batch, id))] = mark
	}
	s := stand{all, map[string]int64{}}
	m.list(s, id, j, indexed)
	return s
}

// placeOf is the key by which a ready job stands in the queue.
func (m *Model) placeOf(id string, j job) []byte {
	return tuple.AppendString(append(bytes.Clone(m.ready), j.priority...), id)
}

// change is what a commit makes of one job.
type change struct {
	id         string
	was, found job
	stood, now stand              // before the commit and after it
	rows       map[string]*string // of its stand that are written: their new values, nil for those that are gone
	data, spec values             // nil for what was not written
	path       path               // by which it became what it is; nil if it is what it was
	// wasIndexed and indexed report whether the job has its rows of the index, before the commit and after it.
	wasIndexed, indexed bool
}

// values are parts of a long value, by number.
type values map[int64][]byte

// join puts the parts together.
func (v values) join() (string, error) {
	var all strings.Builder
	for i, n := range slices.Sorted(maps.Keys(v)) {
		if n != int64(i) {
			return "", fmt.Errorf("part %d is missing", i)
		}
		all.Write(v[n])
	}
	return all.String(), nil
}

// writing is a commit as far as its rows are of jobs, accounts and workers.
type writing struct {
	m       *Model // as it was before the commit, but for numbers and deleted databases
	changes []*change
	of      map[string]*change // the same, by job
	indexed progress           // after the commit
	counted map[string]int64   // by how much the counters of jobs move, by where these stand
	totals  map[string]int64   // by how much other totals move, by key
	signals int64
	calls   map[string]int64 // by worker
	leases  map[string]*leaseChange
	claims  map[string]string // that are written: the new owners, by replication id; empty for none
	free    map[string]bool   // rows of lifted holds, and of lots whose replication is free: whether they are written

	documents []*documentChange
	written   map[string]*documentChange // the same, by id
}

// read decodes what a commit writes. An error is about a row that is as none should be.
func (m *Model) read(c *Commit) (*writing, error) {
	w := &writing{m: m, counted: map[string]int64{}, totals: map[string]int64{}, indexed: m.indexed}
	for _, mu := range c.Mutations {
		space, read := m.root, w.readRow
		if m.queue.Contains(mu.Key) {
			space, read = m.queue, w.readQueued
		} else if !m.root.Contains(mu.Key) {
			continue
		}
		if table, rest, named := tableOf(mu.Key[len(space):]); named {
			if err := read(table, rest, mu); err != nil {
				return nil, fmt.Errorf("row %x of %q: %w", mu.Key, table, err)
			}
		}
	}
	w.index()
	for _, ch := range w.changes {
		if err := ch.join(); err != nil {
			return nil, fmt.Errorf("job %q: %w", ch.id, err)
		}
	}
	w.joinDocuments()
	return w, nil
}

// tableOf reads the first element of a key, which is text without zeros.
func tableOf(key []byte) (table string, rest []byte, ok bool) {
	const text = 2
	end := bytes.IndexByte(key, 0)
	if end < 1 || key[0] != text {
		return "", nil, false
	}
	return string(key[1:end]), key[end+1:], true
}

// readQueued reads a row of the queue.
func (w *writing) readQueued(table string, rest []byte, mu ryw.Mutation) error {
	switch table {
	case "job":
		return w.readJob(rest, mu)
	case "ready", "waiting", "parked", "owned", "changed":
		return w.readIndex(rest, mu)
	case "count", "signal", "call":
		return w.readNumber(table, rest, mu)
	case "worker", "beat":
		return w.readLease(table, rest, mu)
	case "gone", "incarnation":
		return nil
	}
	return fmt.Errorf("there is no such table")
}

// readRow reads another row of the store.
func (w *writing) readRow(table string, rest []byte, mu ryw.Mutation) error {
	switch table {
	case "spec":
		return w.readSpec(rest, mu)
	case "docs":
		return w.readDocs(rest, mu)
	case "claim":
		return w.readClaim(rest, mu)
	case "lifted":
		return w.readLifted(rest, mu)
	case "index", "expire":
		return w.readIndex(rest, mu)
	case "tally", "count", "weights":
		if mu.Kind == ryw.ClearRange { // the totals of a database that is gone
			w.clear(mu)
			return nil
		}
		moved, err := w.m.move(mu)
		w.totals[string(mu.Key)] += moved
		return err
	case "reindex":
		w.indexed.read(mu)
	case "dropped":
		var prefix string
		if err := tuple.Subspace(nil).Scan(rest, &prefix); err != nil {
			return err
		}
		w.m.dropped[prefix] = true
	}
	return nil
}

// change is what the commit makes of a job, so far.
func (w *writing) change(id string) *change {
	if w.of[id] == nil {
		if w.of == nil {
			w.of = map[string]*change{}
		}
		ch := &change{id: id, was: w.m.jobs[id], rows: map[string]*string{}}
		ch.found = ch.was
		w.of[id], w.changes = ch, append(w.changes, ch)
	}
	return w.of[id]
}

// readIndex reads a row that ends with the id of a job.
func (w *writing) readIndex(rest []byte, mu ryw.Mutation) error {
	elements, err := tuple.Unpack(rest)
	if err != nil || len(elements) == 0 {
		return fmt.Errorf("it cannot be read: %v", err)
	}
	id, is := elements[len(elements)-1].(string)
	if !is {
		return fmt.Errorf("it names no job")
	}
	switch mu.Kind {
	case ryw.Set:
		value := string(mu.Value)
		w.change(id).rows[string(mu.Key)] = &value
	case ryw.Clear:
		w.change(id).rows[string(mu.Key)] = nil
	default:
		return fmt.Errorf("it is neither written nor cleared")
	}
	return nil
}

// readJob reads the header of a job or a part of its data. All of its data may be cleared as a range, which begins
// right behind the header.
func (w *writing) readJob(rest []byte, mu ryw.Mutation) error {
	if mu.Kind == ryw.ClearRange {
		rest = bytes.TrimSuffix(rest, []byte{0})
	}
	id, n, err := jobOf(rest)
	if err != nil {
		return err
	}
	ch := w.change(id)
	switch {
	case mu.Kind == ryw.ClearRange || n >= 0:
		return ch.data.read(&ch.data, w.m.queue.Sub("job", id), n, mu)
	case mu.Kind == ryw.Clear:
		ch.found = job{data: ch.found.data, record: ch.found.record, spec: ch.found.spec}
	case mu.Kind == ryw.Set:
		return ch.found.decode(mu.Value)
	default:
		return fmt.Errorf("it is neither written nor cleared")
	}
	return nil
}

// readSpec reads a part of the replication of a job.
func (w *writing) readSpec(rest []byte, mu ryw.Mutation) error {
	id, n, err := jobOf(rest)
	if err != nil {
		return err
	}
	ch := w.change(id)
	return ch.spec.read(&ch.spec, w.m.root.Sub("spec", id), n, mu)
}

// jobOf reads the id of a job and, unless it is missing, the number of a value; else that is negative.
func jobOf(rest []byte) (id string, n int64, err error) {
	if tuple.Subspace(nil).Scan(rest, &id) == nil {
		return id, -1, nil
	}
	err = tuple.Subspace(nil).Scan(rest, &id, &n)
	return id, n, err
}

// read reads a part of a long value of a job, or that all of its parts are cleared.
func (values) read(v *values, of tuple.Subspace, n int64, mu ryw.Mutation) error {
	switch {
	case mu.Kind == ryw.ClearRange && bytes.Equal(mu.Value, of.Range().End):
		*v = values{}
	case mu.Kind == ryw.Set && *v != nil:
		(*v)[n] = mu.Value
	default:
		return fmt.Errorf("not all of the value is replaced")
	}
	return nil
}

// join puts the values together that were written.
func (ch *change) join() (err error) {
	if ch.spec != nil {
		if ch.found.spec, err = ch.spec.join(); err != nil {
			return err
		}
	}
	if ch.data == nil {
		return nil
	}
	if ch.found.data, err = ch.data.join(); err != nil {
		return err
	}
	if ch.found.record = (record{}); ch.found.data == "" {
		return nil
	}
	return ch.found.record.decode(ch.found.data)
}

// move is by how much a number moves.
func (m *Model) move(mu ryw.Mutation) (int64, error) {
	key := string(mu.Key)
	was, is := m.numbers[key], int64(0)
	switch {
	case mu.Kind == ryw.Clear:
	case len(mu.Value) != 8:
		return 0, fmt.Errorf("it is no number")
	case mu.Kind == ryw.Add:
		is = was + int64(binary.LittleEndian.Uint64(mu.Value))
	case mu.Kind == ryw.Set:
		is = int64(binary.LittleEndian.Uint64(mu.Value))
	default:
		return 0, fmt.Errorf("it is neither moved nor cleared")
	}
	if m.numbers[key] = is; is == 0 {
		delete(m.numbers, key)
	}
	return is - was, nil
}

// clear has all numbers of a range go back to 0.
func (w *writing) clear(mu ryw.Mutation) {
	for key, n := range w.m.numbers {
		if string(mu.Key) <= key && key < string(mu.Value) {
			w.totals[key] -= n
			delete(w.m.numbers, key)
		}
	}
}

// readNumber reads a counter of the queue.
func (w *writing) readNumber(table string, rest []byte, mu ryw.Mutation) error {
	elements, err := tuple.Unpack(rest)
	if err != nil || len(elements) == 0 {
		return fmt.Errorf("it counts nothing: %v", err)
	}
	moved, err := w.m.move(mu)
	switch name := fmt.Sprint(elements[0]); {
	case table == "signal":
		w.signals += moved
	case table == "call" && mu.Kind == ryw.Clear:
		w.lease(name).callCleared = true
	case table == "call":
		if w.calls == nil {
			w.calls = map[string]int64{}
		}
		w.calls[name] += moved
	default:
		w.counted[name] += moved
	}
	return err
}
