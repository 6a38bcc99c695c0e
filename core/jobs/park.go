package jobs

import "couchrelay/core/kv"

// Stop asks the worker of a running job to stop its run in order and to requeue the job: it marks the job in
// the worker's list and raises the worker's call counter. It reports whether the job runs; others are left as
// they are.
func (q *Queue) Stop(tx kv.Tx, id string) (running bool, err error) {
	old, err := q.header(tx, id)
	if err != nil || old == nil || old.State != Running {
		return false, err
	}
	if old.Stop {
		return true, nil
	}
	to := *old
	to.Stop = true
	q.move(tx, old, &to)
	q.Keys.call(tx, old.Lock.Worker)
	return true, nil
}

// CallWorkerOf has the worker of a running job look at the list of its jobs.
func (k Keys) CallWorkerOf(tx kv.Tx, id string) error {
	b, err := tx.Get(k.Job.Pack(id))
	if err != nil || b == nil {
		return err
	}
	j, err := decodeHeader(id, b)
	if err == nil && j.State == Running {
		k.call(tx, j.Lock.Worker)
	}
	return err
}

// call has a worker compare its runs with the list of its jobs.
func (k Keys) call(tx kv.Tx, worker string) { tx.Add(k.Call.Pack(worker), 1) }

// CallAll has all workers compare their runs with the lists of their jobs. It conflicts with workers that
// join or leave, so that no counter is left of one that is gone.
func (k Keys) CallAll(tx kv.Tx) error {
	rows, err := tx.GetRange(k.Worker.Range(), kv.RangeOptions{})
	if err != nil {
		return err
	}
	for _, row := range rows {
		var worker string
		if err := k.Worker.Scan(row.Key, &worker); err != nil {
			return corrupt(err)
		}
		k.call(tx, worker)
	}
	return nil
}

// InLot lists the first jobs of a lot, up to limit, in the order of their ids.
func (k Keys) InLot(r kv.Reader, lot string, limit int) (ids []string, err error) {
	in := k.Parked.Sub(lot)
	rows, err := r.GetRange(in.Range(), kv.RangeOptions{Limit: limit})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		var id string
		if err := in.Scan(row.Key, &id); err != nil {
			return nil, corrupt(err)
		}
		ids = append(ids, id)
	}
	return ids, nil
}
