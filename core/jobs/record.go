package jobs

import (
	"bytes"
	"fmt"

	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// chunkSize bounds one value of job data, below kv.MaxValueSize.
const chunkSize = 90_000

// encodeHeader packs a job without its id and data.
func encodeHeader(j *Job) []byte {
	b := tuple.AppendInt(nil, int64(j.State))
	b = tuple.AppendBytes(b, j.Priority)
	b = tuple.AppendInt(b, int64(j.Due))
	b = tuple.AppendBool(b, j.Resubmit)
	b = tuple.AppendString(b, j.Lock.Worker)
	b = tuple.AppendUint(b, j.Lock.Batch)
	b = tuple.AppendInt(b, int64(j.Lost))
	stamped := j.Sequence != Sequence{}
	if stamped || j.Stop || j.Lot != "" || j.Label != "" { // no job of releases that knew none of them
		b = tuple.AppendBool(b, j.Stop)
		b = tuple.AppendString(b, j.Lot)
		b = tuple.AppendString(b, j.Label)
	}
	if stamped {
		b = tuple.AppendInt(b, j.Sequence.Incarnation)
		b = tuple.AppendInt(b, j.Sequence.Version)
	}
	return b
}

func decodeHeader(id string, b []byte) (*Job, error) {
	j := &Job{ID: id}
	var state, due, lost int64
	fields := []any{
		&state, &j.Priority, &due, &j.Resubmit, &j.Lock.Worker, &j.Lock.Batch, &lost,
		&j.Stop, &j.Lot, &j.Label,
		&j.Sequence.Incarnation, &j.Sequence.Version,
	}
	err := tuple.Subspace(nil).Scan(b, fields...)
	for _, n := range [...]int{10, 7} { // without a sequence, and without a lot
		if err != nil {
			j.Stop, j.Lot, j.Label = false, "", ""
			err = tuple.Subspace(nil).Scan(b, fields[:n]...)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: header of job %q: %w", ErrCorrupt, id, err)
	}
	j.State, j.Due, j.Lost = State(state), instant.Time(due), int(lost)
	return j, nil
}

// header reads a job without its data; nil when there is none.
func (q *Queue) header(r kv.Reader, id string) (*Job, error) {
	b, err := r.Get(q.Keys.Job.Pack(id))
	if err != nil || b == nil {
		return nil, err
	}
	return decodeHeader(id, b)
}

// Get reads a job with its data; nil when there is none.
func (q *Queue) Get(r kv.Reader, id string) (*Job, error) {
	header := q.Keys.Job.Sub(id)
	rows, err := r.GetRange(header.Range(), kv.RangeOptions{})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	j, err := decodeHeader(id, rows[0].Value)
	if err != nil {
		return nil, err
	}
	chunks := make([][]byte, len(rows)-1)
	for i, row := range rows[1:] {
		if key := tuple.AppendInt(header, int64(i)); !bytes.Equal(row.Key, key) {
			return nil, corruptf("data of job %q continues with key %x instead of %x", id, row.Key, key)
		}
		chunks[i] = row.Value
	}
	if len(chunks) == 1 {
		j.Data = chunks[0] // which is all of most
	} else {
		j.Data = bytes.Join(chunks, nil)
	}
	return j, nil
}

// setData replaces a job's data. It conflicts with other transactions that replace it, so that a commit
// that lands late cannot bring old data back.
func (q *Queue) setData(tx kv.Tx, id string, data []byte) {
	chunks := q.Keys.Job.Sub(id).Range()
	chunks.Begin = kv.KeyAfter(chunks.Begin) // not the header
	tx.AddReadConflict(chunks)
	tx.ClearRange(chunks)
	for n := int64(0); len(data) > 0; n++ {
		size := min(len(data), chunkSize)
		tx.Set(q.Keys.Job.Pack(id, n), data[:size])
		data = data[size:]
	}
}

// move replaces the header of a job, and with it the one index row that it stands in and the counter of its
// state; and its row in the order of changes. Nothing else writes headers, index rows, counters and the
// signal, so they always agree (see Audit). old is nil when the job is new, to is nil when it goes away. The
// caller has read old in this transaction, so that moves of one job conflict; counters and signal are atomic
// additions and conflict with nothing.
func (q *Queue) move(tx kv.Tx, old, to *Job) {
	invariant.Check(to == nil || to.coherent(), headerFits)
	invariant.Check(old == nil || to == nil || old.ID == to.ID, sameJob)
	var oldKey, oldValue, key []byte
	if old != nil {
		oldKey, oldValue = q.index(old)
		tx.Add(q.counter(old), -1)
	}
	if to == nil {
		tx.Clear(q.Keys.Job.Pack(old.ID))
	} else {
		var value []byte
		to.Sequence = old.sequence().next(tx, q.Incarnation)
		key, value = q.index(to)
		tx.Set(q.Keys.Job.Pack(to.ID), encodeHeader(to))
		tx.Add(q.counter(to), 1)
		if key != nil && !(bytes.Equal(key, oldKey) && bytes.Equal(value, oldValue)) {
			tx.Set(key, value)
		}
		if to.Ready() && (old == nil || !old.Ready()) {
			tx.Add(q.Keys.Signal.Pack(Bucket(to.ID)), 1)
		}
	}
	if oldKey != nil && !bytes.Equal(key, oldKey) {
		tx.Clear(oldKey)
	}
	q.Keys.changed(tx, old, to)
	if q.Moved != nil {
		q.Moved(tx, old, to)
	}
	tally(tx, old, to)
}

// Kinds of tallies of a queue; see kv.Tally. A job is at work until it is finished or goes away.
const (
	TallyAdded   = "jobs_added"   // jobs that are at work from now on: new ones, and finished ones that run again
	TallyRemoved = "jobs_removed" // jobs that are not at work any more
)

// tally counts a job that is at work from now on, or not any more.
func tally(tx kv.Tx, old, to *Job) {
	was, is := old != nil && old.State != Finished, to != nil && to.State != Finished
	switch {
	case !was && is:
		kv.Tally(tx, TallyAdded, 1)
	case was && !is:
		kv.Tally(tx, TallyRemoved, 1)
	}
}

// index returns the index row that a job stands in, nil for a finished one.
func (q *Queue) index(j *Job) (key, value []byte) {
	switch {
	case j.Ready():
		key = append(q.Keys.Ready.Begin(len(j.Priority)+len(j.ID)+2), j.Priority...)
		return tuple.AppendString(key, j.ID), []byte(j.ID)
	case j.State == Pending && j.Lot != "":
		return q.Keys.Parked.Pack(j.Lot, j.ID), []byte{}
	case j.State == Pending:
		return q.Keys.Waiting.Pack(int64(j.Due), j.ID), []byte{}
	case j.State == Running && j.Stop:
		return q.Keys.Owned.Pack(j.Lock.Worker, j.Lock.Batch, j.ID), []byte(stopMark)
	case j.State == Running:
		return q.Keys.Owned.Pack(j.Lock.Worker, j.Lock.Batch, j.ID), []byte{}
	}
	return nil, nil
}

// stopMark is the value of the owned row of a job whose run is to be stopped.
const stopMark = "S"

// Counts are the numbers of jobs by where they stand. None is negative.
type Counts struct {
	Ready, Waiting, Running, Finished, Parked int64
}

func (q *Queue) counter(j *Job) []byte {
	return q.Keys.Count.Pack(j.standing(), Bucket(j.ID)%counterShards)
}

// standings are the names of where jobs stand.
var standings = []string{"ready", "waiting", "running", "finished", "parked"}

// standing names where the job stands, for its counter.
func (j *Job) standing() string {
	switch {
	case j.Ready():
		return "ready"
	case j.State == Pending && j.Lot != "":
		return "parked"
	case j.State == Pending:
		return "waiting"
	}
	return j.State.String()
}

// Counts reads the counters. Give a snapshot reader: every job that changes its state writes one of them.
func (q *Queue) Counts(r kv.Reader) (c Counts, err error) {
	sums, err := q.Keys.counts(r)
	return Counts{
		Ready: sums["ready"], Waiting: sums["waiting"], Running: sums["running"], Finished: sums["finished"],
		Parked: sums["parked"],
	}, err
}

// counts sums the counters up. A store that is older than shards has one row more for each, without a shard.
func (k Keys) counts(r kv.Reader) (map[string]int64, error) {
	rows, err := r.GetRange(k.Count.Range(), kv.RangeOptions{})
	if err != nil {
		return nil, err
	}
	sums := map[string]int64{}
	for _, row := range rows {
		t, err := k.Count.Unpack(row.Key)
		if err != nil || len(t) == 0 {
			return nil, corruptf("counter %x", row.Key)
		}
		standing, _ := t[0].(string)
		sums[standing] += kv.Counter(row.Value)
	}
	return sums, nil
}
