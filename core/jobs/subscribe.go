package jobs

import "couchrelay/core/kv"

// Interest is the part of a job that a subscriber waits for: its state (and what else its header has) or, with
// Data, also what its type stores.
type Interest struct {
	Data bool
	// Until reports whether the subscriber has what it waits for; the job is nil when there is none.
	Until func(*Job) (bool, error)
}

// In waits until the job is in one of the states, or is gone.
func In(states ...State) Interest {
	return Interest{Until: func(j *Job) (bool, error) {
		is := j == nil
		for _, s := range states {
			is = is || j.State == s
		}
		return is, nil
	}}
}

// Subscribe reads a job, nil when there is none. Unless that is what the subscriber waits for, it also returns a
// watch, which fires once the job is no longer as it was read: the subscriber then subscribes anew (subscribe
// and wait of CouchDB's couch_jobs). Reading and watching are one transaction, and what counts is the job as it
// is and not how often it changed, so no change between the two is missed and none has to be remembered.
//
// With Data the watch covers each value of the data, and the one that a longer one would add.
func (q *Queue) Subscribe(tx kv.Tx, id string, i Interest) (*Job, kv.Watch, error) {
	j, err := q.Get(tx, id)
	if err != nil {
		return nil, nil, err
	}
	if enough, err := i.Until(j); enough || err != nil {
		return j, nil, err
	}
	keys := [][]byte{q.Keys.Job.Pack(id)}
	if i.Data && j != nil {
		for n := 0; n <= (len(j.Data)+chunkSize-1)/chunkSize; n++ {
			keys = append(keys, q.Keys.Job.Pack(id, int64(n)))
		}
	}
	return j, tx.Watch(keys...), nil
}
