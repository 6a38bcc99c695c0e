package jobs

import (
	"bytes"
	"fmt"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Audit checks the whole queue against itself: every job stands in exactly the index of its state and
// schedule, every index row belongs to such a job, every running job's worker has a lease, and the
// counters equal what they count. It reads everything, so it is for tests and repair tools.
func (q *Queue) Audit(r kv.Reader) error {
	a := auditor{q: q, r: r, expected: map[string]string{}, stops: map[string]bool{}, counts: map[string]int64{}}
	return a.run()
}

// JobOf is the job whose header, or a part of whose data, has a key. ok is false for other keys.
func (q *Queue) JobOf(key []byte) (id string, ok bool) {
	if !q.Keys.Job.Contains(key) {
		return "", false
	}
	t, err := q.Keys.Job.Unpack(key)
	if err != nil || len(t) == 0 {
		return "", false
	}
	id, ok = t[0].(string)
	return id, ok
}

type auditor struct {
	q        *Queue
	r        kv.Reader
	expected map[string]string // index key to job id
	stops    map[string]bool   // index key to Job.Stop
	counts   map[string]int64  // jobs by where they stand
}

func (a *auditor) run() error {
	if err := a.readJobs(); err != nil {
		return err
	}
	keys := a.q.Keys
	for _, index := range []tuple.Subspace{keys.Ready, keys.Waiting, keys.Parked, keys.Owned, keys.Changed} {
		rows, err := a.r.GetRange(index.Range(), kv.RangeOptions{})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if _, ok := a.expected[string(row.Key)]; !ok {
				return corruptf("index row %x has no job", row.Key)
			}
			if keys.Owned.Contains(row.Key) && a.stops[string(row.Key)] != (string(row.Value) == stopMark) {
				return corruptf("owned row %x is marked %q", row.Key, row.Value)
			}
			delete(a.expected, string(row.Key))
		}
	}
	if len(a.expected) > 0 {
		return corruptf("%d jobs stand in no index: %v", len(a.expected), a.expected)
	}
	sums, err := a.q.Keys.counts(a.r)
	if err != nil {
		return err
	}
	for _, standing := range standings {
		if got, want := sums[standing], a.counts[standing]; got != want {
			return corruptf("counter of %s jobs is %d, not %d", standing, got, want)
		}
	}
	return nil
}

func (a *auditor) readJobs() error {
	list, err := a.q.List(a.r, Page{Limit: 1 << 30})
	if err != nil {
		return err
	}
	workers := map[string]bool{}
	leases, err := a.q.Leases(a.r)
	if err != nil {
		return err
	}
	for _, l := range leases {
		workers[l.Worker] = true
	}
	for _, j := range list {
		if err := checkJob(j, workers); err != nil {
			return err
		}
		if key, _ := a.q.index(j); key != nil {
			a.expected[string(key)], a.stops[string(key)] = j.ID, j.Stop
		}
		if key := a.q.Keys.changeOf(j); key != nil {
			a.expected[string(key)] = j.ID
		}
		a.counts[j.standing()]++
	}
	return nil
}

func checkJob(j *Job, workers map[string]bool) error {
	running := j.State == Running
	switch {
	case j.State < Pending || j.State > Finished:
		return corruptf("job %q has state %d", j.ID, j.State)
	case running != (j.Lock != Lock{}):
		return corruptf("job %q is %s with lock %v", j.ID, j.State, j.Lock)
	case running && !workers[j.Lock.Worker]:
		return corruptf("job %q runs on worker %q, which has no lease", j.ID, j.Lock.Worker)
	case (j.Resubmit || j.Stop) && !running:
		return corruptf("job %q is %s, and resubmitted or to be stopped", j.ID, j.State)
	}
	return nil
}

// String prints a job for traces and failures, without its data.
func (j *Job) String() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s", j.ID, j.State)
	if j.Due != 0 {
		fmt.Fprintf(&b, " due %s", j.Due)
	}
	if j.State == Running {
		fmt.Fprintf(&b, " lock %s/%d", j.Lock.Worker, j.Lock.Batch)
	}
	if j.Lot != "" {
		fmt.Fprintf(&b, " parked in %s", j.Lot)
	}
	if j.Resubmit {
		b.WriteString(" resubmitted")
	}
	if j.Stop {
		b.WriteString(" to be stopped")
	}
	if j.Lost > 0 {
		fmt.Fprintf(&b, " lost %d", j.Lost)
	}
	return b.String()
}
