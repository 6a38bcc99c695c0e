package jobs

import (
	"bytes"
	"errors"
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Add makes a job pending, as RFC 007 has it: a new or finished one gets the schedule and the data; so
// does a pending one, without a write when nothing differs; a running one keeps its data and is
// queued again by the schedule when it finishes. To replace what a running job does, Remove it first.
func (q *Queue) Add(tx kv.Tx, id string, s Schedule, data []byte) error {
	old, err := q.Get(tx, id)
	if err != nil {
		return err
	}
	if old != nil && old.State == Running {
		return q.reschedule(tx, old, s)
	}
	if old == nil || !bytes.Equal(old.Data, data) {
		q.setData(tx, id, data)
	}
	if old != nil && old.State == Pending && old.Schedule.equal(s) {
		return nil
	}
	to := &Job{ID: id, State: Pending, Schedule: s}
	if old != nil && old.State == Pending {
		to.Lost = old.Lost // a job that is moved is the one that workers vanished with
	}
	q.move(tx, old, to)
	return nil
}

// AddFinished stores a job that has nothing to do, in the place of whatever had its id.
func (q *Queue) AddFinished(tx kv.Tx, id string, data []byte) error {
	if _, err := q.Remove(tx, id); err != nil {
		return err
	}
	q.setData(tx, id, data)
	q.move(tx, nil, &Job{ID: id, State: Finished})
	return nil
}

// Rewrite replaces the data of a job that is over. The caller has read the job.
func Rewrite(tx kv.Tx, q *Queue, id string, data []byte) { q.setData(tx, id, data) }

// Resubmit queues an existing job by s: a pending one is moved, a running one is queued again when it
// finishes, a finished one becomes pending. It reports whether there was such a job.
func (q *Queue) Resubmit(tx kv.Tx, id string, s Schedule) (bool, error) {
	old, err := q.header(tx, id)
	if err != nil || old == nil {
		return false, err
	}
	return true, q.reschedule(tx, old, s)
}

func (q *Queue) reschedule(tx kv.Tx, old *Job, s Schedule) error {
	to := *old
	to.Schedule = s
	if old.State == Running {
		to.Resubmit = true
	} else {
		to.State = Pending
	}
	q.move(tx, old, &to)
	return nil
}

// Remove deletes a job in any state and reports whether there was one. The worker that runs it, if any,
// gets ErrCanceled for its next write; its call counter is raised, so that it learns of the loss without one.
func (q *Queue) Remove(tx kv.Tx, id string) (bool, error) {
	old, err := q.header(tx, id)
	if err != nil || old == nil {
		return false, err
	}
	q.setData(tx, id, nil)
	q.move(tx, old, nil)
	if old.State == Running {
		q.Keys.call(tx, old.Lock.Worker)
	}
	return true, nil
}

// Discard removes a job of which a row cannot be read, as far as it can be read. Without its header nothing tells in
// which list and counter it is: these are left for a repair (see Sections).
func Discard(tx kv.Tx, q *Queue, id string) error {
	removed, err := q.Remove(tx, id)
	_, unreadable := errors.AsType[*UnreadableError](OfJob(id, err))
	if err != nil && !unreadable {
		return err
	}
	if !removed { // the header cannot be read, or is gone
		tx.ClearRange(q.Keys.Job.Sub(id).Range())
	}
	return nil
}

func (s Schedule) equal(o Schedule) bool {
	return s.Due == o.Due && s.Lot == o.Lot && s.Label == o.Label && bytes.Equal(s.Priority, o.Priority)
}

// Promote makes up to limit waiting jobs ready whose time has come, earliest first, and returns how many it
// moved and when the next one is due (instant.Never when none waits). It looks at the index through a
// snapshot, so that jobs that begin to wait meanwhile are no conflicts; it reads each header, so that nodes
// that promote the same job are. It fails with an UnreadableError if a job cannot be read, and leaves the jobs in
// without where they are.
func (q *Queue) Promote(
	tx kv.Tx, now instant.Time, limit int, without ...string,
) (moved int, next instant.Time, err error) {
	most := limit + 1 + len(without)
	rows, err := tx.Snapshot().GetRange(q.Keys.Waiting.Range(), kv.RangeOptions{Limit: most})
	if err != nil {
		return 0, 0, err
	}
	list, err := q.Keys.waitingOf(rows, without)
	if err != nil {
		return 0, 0, err
	}
	next = instant.Never
	for i, w := range list {
		if w.due > now || i == limit {
			list, next = list[:i], w.due
			break
		}
	}
	return len(list), next, q.promote(tx, list)
}

// waiting is a row of a job that waits.
type waiting struct {
	due instant.Time
	id  string
}

// waitingOf reads rows of waiting jobs but those in without.
func (k Keys) waitingOf(rows []kv.KeyValue, without []string) (list []waiting, err error) {
	for _, row := range rows {
		due, id, err := k.scanWaiting(row.Key)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(without, id) {
			list = append(list, waiting{due, id})
		}
	}
	return list, nil
}

func (k Keys) scanWaiting(key []byte) (due instant.Time, id string, err error) {
	if err := k.Waiting.Scan(key, (*int64)(&due), &id); err != nil {
		return 0, "", corrupt(err)
	}
	return due, id, nil
}

// Recall makes up to limit waiting jobs ready that are due after latest, the last first, and returns how
// many. It is for due times that only a wrong clock can have given. Of jobs that cannot be read it does as Promote.
func (q *Queue) Recall(tx kv.Tx, latest instant.Time, limit int, without ...string) (moved int, err error) {
	beyond := q.Keys.Waiting.Range()
	beyond.Begin = q.Keys.Waiting.Pack(int64(latest) + 1)
	rows, err := tx.Snapshot().GetRange(beyond, kv.RangeOptions{Limit: limit + len(without), Reverse: true})
	if err != nil {
		return 0, err
	}
	list, err := q.Keys.waitingOf(rows, without)
	if err != nil {
		return 0, err
	}
	list = list[:min(len(list), limit)]
	return len(list), q.promote(tx, list)
}

// promote makes jobs ready that wait.
func (q *Queue) promote(tx kv.Tx, list []waiting) error {
	ids := make([]string, len(list))
	for i, w := range list {
		ids[i] = w.id
	}
	q.Keys.prefetchHeaders(tx, ids)
	for _, w := range list {
		old, err := q.header(tx, w.id)
		if err != nil {
			return OfJob(w.id, err)
		}
		if old == nil || old.State != Pending || old.Due != w.due || old.Lot != "" {
			return OfJob(w.id, corruptf("waiting row of job %q contradicts its header", w.id))
		}
		to := *old
		to.Due = 0
		q.move(tx, old, &to)
	}
	return nil
}

// Page selects jobs for List.
type Page struct {
	Prefix string // only ids that start with it
	From   string // only ids from it on
	After  string // only ids behind it, instead of From
	Limit  int    // at most so many jobs
	// Without are jobs that could not be read. Of these the list has the ids alone.
	Without []string
}

// List reads jobs in the order of their ids. Give a snapshot reader and small limits: a long list is
// read page by page, each in its own transaction. It fails with an UnreadableError if a job cannot be read.
func (q *Queue) List(r kv.Reader, p Page) ([]*Job, error) {
	at := kv.PrefixRange(stringPrefix(q.Keys.Job, p.Prefix))
	if p.From != "" {
		at.Begin = q.Keys.Job.Pack(p.From)
	}
	if p.After != "" {
		at.Begin = q.Keys.Job.Sub(p.After).Range().End
	}
	var list []*Job
	for len(list) < p.Limit && !at.Empty() {
		want := p.Limit - len(list)
		part, odd := q.Keys.upTo(at, p.Without)
		rows, err := r.GetRange(part, kv.RangeOptions{Limit: 2 * want})
		if err != nil {
			return nil, q.Keys.ofRow(err)
		}
		all := len(rows) < 2*want
		page, rest, err := q.assemble(rows, all)
		if err != nil {
			return nil, err
		}
		if len(rows) > 0 && len(page) == 0 { // one job with more chunks than the page
			j, err := q.Get(r, rest)
			if err != nil {
				return nil, OfJob(rest, err)
			}
			page = []*Job{j}
		}
		if all && odd != "" && len(page) < want { // what the rows of the odd job say is not looked at
			if header, err := r.Get(q.Keys.Job.Pack(odd)); err != nil {
				return nil, err
			} else if header != nil {
				page = append(page, &Job{ID: odd})
			}
			at.Begin = q.Keys.Job.Sub(odd).Range().End
			list = append(list, page...)
			continue
		}
		if len(page) == 0 {
			break
		}
		list = append(list, page[:min(len(page), want)]...)
		at.Begin = q.Keys.Job.Sub(list[len(list)-1].ID).Range().End
	}
	return list, nil
}

// upTo is the part of a range before the first of some jobs in it, and that job; all of it if none is there.
func (k Keys) upTo(at kv.Range, without []string) (part kv.Range, odd string) {
	part = at
	for _, id := range without {
		own := k.Job.Sub(id).Range()
		if bytes.Compare(own.Begin, at.Begin) >= 0 && bytes.Compare(own.Begin, part.End) < 0 {
			part.End, odd = own.Begin, id
		}
	}
	return part, odd
}

// ofRow notes of which job a value is that a read of many does not open.
func (k Keys) ofRow(err error) error {
	if e, is := errors.AsType[*kv.UnreadableError](err); is {
		if t, wrong := k.Job.Unpack(e.Key); wrong == nil && len(t) > 0 {
			id, _ := t[0].(string)
			return OfJob(id, err)
		}
	}
	return err
}

// IDs reads the ids of all jobs, also of jobs with a row that cannot be read. It reads every row of the queue in one
// transaction, so the queue must have few jobs, such as that of followed databases.
func (k Keys) IDs(r kv.Reader) (list []string, err error) {
	rows, err := r.GetRange(k.Job.Range(), kv.RangeOptions{})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		t, err := k.Job.Unpack(row.Key)
		if err != nil || len(t) == 0 {
			return nil, corruptf("job key %x", row.Key)
		}
		if id, _ := t[0].(string); len(t) == 1 {
			list = append(list, id)
		}
	}
	return list, nil
}

// assemble puts header and data rows together. Unless these are all rows there are, the last job may have
// more of them behind; then it is left out and its id returned.
func (q *Queue) assemble(rows []kv.KeyValue, all bool) (page []*Job, rest string, err error) {
	var last *Job
	var parts int64 // of its data
	for _, row := range rows {
		t, err := q.Keys.Job.Unpack(row.Key)
		if err != nil || len(t) == 0 {
			return nil, "", corruptf("job key %x", row.Key)
		}
		id, _ := t[0].(string)
		if len(t) == 1 {
			if last, err = decodeHeader(id, row.Value); err != nil {
				return nil, "", OfJob(id, err)
			}
			page, parts = append(page, last), 0
			continue
		}
		if last == nil || last.ID != id {
			return nil, "", OfJob(id, corruptf("data of job %q without its header", id))
		}
		if t[1] != parts {
			return nil, "", OfJob(id, corruptf("data of job %q continues with part %v instead of %d", id, t[1], parts))
		}
		parts++
		last.Data = append(last.Data, row.Value...)
	}
	if !all && last != nil {
		return page[:len(page)-1], last.ID, nil
	}
	return page, "", nil
}

// stringPrefix is the packed form of a string element without its end.
func stringPrefix(s tuple.Subspace, prefix string) []byte {
	b := s.Pack(prefix)
	return b[:len(b)-1]
}
