package lab

import (
	"cmp"
	"slices"

	"couchrelay/core/backoff"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/prng"
	"couchrelay/core/schedule"
	"couchrelay/core/spec"
)

// Model is a Queue in plain memory. It answers the requests of nodes as production's queue does, which is
// core/jobs and core/jobstore, while no transaction fails or is repeated, and no node drains; core/schedule says
// how jobs are ordered in both.
type Model struct {
	backoff  backoff.Policy
	jobs     []modelJob
	ids      []string
	numbers  map[string]int32 // of jobs, by id
	records  []*jobstore.Record
	ready    index
	waiting  index // by due time
	running  int64
	finished int64
	signals  [jobs.Buckets]int64
	workers  leases
	accounts accounts
}

// modelJob is a job of the model.
type modelJob struct {
	lastStart instant.Time
	place     schedule.Place // in the queue, when it was queued last
	worker    *modelWorker   // that runs it, nil for none
	batch     uint64         // of the accept
	account   int32
	weight    int16
	errors    uint16
	lost      uint16
	state     jobs.State // 0 before the job is made, and after it was removed
	bucket    uint8
	one       bool // a one-shot
}

var (
	oneShot    = &spec.Replication{}
	continuous = &spec.Replication{Continuous: true}
)

// Perform answers a request.
func (m *Model) Perform(q node.Request, now instant.Time) (node.Result, error) {
	switch q := q.(type) {
	case node.Join:
		return m.workers.join(q)
	case node.Beat:
		return m.workers.beat(q)
	case node.ListLeases:
		return m.workers.list(), nil
	case node.ListOwned:
		return m.owned(q.Worker)
	case node.Expire:
		return m.expire(q.Worker, q.Beat, q.Limit), nil
	case node.Accept:
		return m.accept(q, now)
	case node.Promote:
		return m.promote(q.Limit, now), nil
	case node.Sweep:
		return node.Progressed{Done: true}, nil
	case node.Survey:
		return m.survey(q, now), nil
	case node.Charge:
		m.accounts.charge(q.Charges, now)
		return node.Ok{}, nil
	case node.Tune:
		m.accounts.tune(q.Seen, q.HalfLife, now)
		return node.Ok{}, nil
	case node.EndRound:
		m.endRound(q.Seen, now)
		return node.Ok{}, nil
	case node.HeldRequest:
		return m.held(q, now)
	}
	panic("lab: no answer to " + q.String())
}

// held answers a request of a run, if the worker still holds the job.
func (m *Model) held(q node.HeldRequest, now instant.Time) (node.Result, error) {
	h := q.HeldJob()
	n := m.numbers[h.JobID]
	j := &m.jobs[n]
	if !j.under(h.Lock) {
		if _, err := m.workers.live(h.Lock.Worker); err != nil && (j.state == jobs.Pending || j.state == jobs.Running) {
			return nil, jobs.ErrWorkerConflict
		}
		return nil, jobs.ErrCanceled
	}
	switch q := q.(type) {
	case node.Claim:
		return node.Claimed{}, nil
	case node.Record:
		if now.Sub(j.lastStart) > m.backoff.Health {
			j.errors, j.lost = 0, 0
		}
	case node.Requeue:
		m.release(n, j)
		m.settle(n, j, q.Turn, 0, now)
	case node.Complete:
		m.finish(n, j, q.Turn, now)
	case node.Crash:
		if m.records[j.account].Transient() && !q.Trouble.Throttled {
			m.finish(n, j, q.Turn, now)
			break
		}
		rng := prng.New(q.Seed)
		j.errors = uint16(m.backoff.Errors(int(j.errors), now.Sub(j.lastStart)))
		due := now.Add(m.backoff.Jittered(int(j.errors), &rng))
		m.release(n, j)
		m.settle(n, j, q.Turn, due, now)
	default:
		panic("lab: no answer to " + q.String())
	}
	return node.Ok{}, nil
}

func (j *modelJob) under(l jobs.Lock) bool {
	return j.worker != nil && j.worker.name == l.Worker && j.batch == l.Batch
}

// release takes a running job from its worker.
func (m *Model) release(n int32, j *modelJob) {
	i := j.worker.place(m, n)
	j.worker.owned = slices.Delete(j.worker.owned, i, i+1)
	j.worker, j.state = nil, 0
	m.running--
}

func (w *modelWorker) place(m *Model, n int32) int {
	i, _ := slices.BinarySearchFunc(w.owned, n, func(a, b int32) int {
		return cmp.Or(cmp.Compare(m.jobs[a].batch, m.jobs[b].batch), cmp.Compare(m.waiting.rank[a], m.waiting.rank[b]))
	})
	return i
}

// settle queues a job that has ended its turn, at once or when it is due.
func (m *Model) settle(n int32, j *modelJob, t schedule.Turn, due, now instant.Time) {
	j.lost = 0
	j.place = m.accounts.settle(int(j.account), int64(j.weight), t, m.floor(), now)
	m.queue(n, j, due)
}

func (m *Model) finish(n int32, j *modelJob, t schedule.Turn, now instant.Time) {
	m.release(n, j)
	j.state, j.lost, j.errors = jobs.Finished, 0, 0
	m.finished++
	m.accounts.count(int(j.account), -1, int64(j.weight))
	m.accounts.settle(int(j.account), int64(j.weight), t, m.floor(), now)
}

// queue makes a job pending.
func (m *Model) queue(n int32, j *modelJob, due instant.Time) {
	j.state = jobs.Pending
	if due != 0 {
		m.waiting.add(entry{schedule.Place{Key: int64(due)}, n})
		return
	}
	m.ready.add(entry{j.place, n})
	m.signals[j.bucket]++
}

// floor is the place of the first ready job, if there is one.
func (m *Model) floor() *schedule.Place {
	if len(m.ready.heap) == 0 {
		return nil
	}
	return &m.ready.heap[0].place
}

// endRound begins the next round, as jobstore.Store.EndRound does.
func (m *Model) endRound(seen schedule.Round, now instant.Time) {
	order := &m.accounts.order
	if order.Round != seen || len(m.ready.heap) == 0 {
		return
	}
	key := func(p schedule.Place) int64 {
		if p.Epoch != order.Epoch {
			return 0
		}
		return p.Key
	}
	last := *m.floor()
	for _, e := range m.ready.heap {
		if last.Compare(e.place) < 0 {
			last = e.place
		}
	}
	order.Round = order.NextRound(now, key(*m.floor()), key(last))
}

// Submit makes a job.
func (m *Model) Submit(job int, now instant.Time) error {
	j := &m.jobs[job]
	j.place = m.accounts.enter(int(j.account), int64(j.weight), m.floor(), now)
	m.queue(int32(job), j, 0)
	return nil
}

// Remove removes a job. Its worker, if any, learns of it by its counter.
func (m *Model) Remove(job int, _ instant.Time) error {
	n, j := int32(job), &m.jobs[job]
	switch {
	case j.worker != nil:
		j.worker.calls++
		m.release(n, j)
	case j.state == jobs.Pending && m.isWaiting(n):
		m.waiting.drop(n)
	case j.state == jobs.Pending:
		m.ready.drop(n)
	case j.state == jobs.Finished:
		m.finished--
		m.accounts.count(int(j.account), 1, int64(j.weight))
	}
	m.accounts.count(int(j.account), -1, int64(j.weight))
	j.state = 0
	return nil
}

func (m *Model) isWaiting(n int32) bool {
	at := int(m.waiting.at[n])
	return at >= 0 && at < len(m.waiting.heap) && m.waiting.heap[at].job == n
}

// Share sets the shares of an account.
func (m *Model) Share(account int, shares int64, _ instant.Time) error {
	m.accounts.list[account].shares = shares
	return nil
}

// Signal is the sum of the signals of a part.
func (m *Model) Signal(p jobs.Part) (sum int64, err error) {
	for b, n := range m.signals {
		if p == 0 || p>>b&1 != 0 {
			sum += n
		}
	}
	return sum, nil
}

// Calls is the call counter of a worker.
func (m *Model) Calls(worker string) (int64, error) {
	if w := m.workers.find(worker); w != nil {
		return w.calls, nil
	}
	return 0, nil
}

func (m *Model) owned(worker string) (node.Result, error) {
	w, err := m.workers.live(worker)
	if err != nil {
		return nil, err
	}
	o := node.Owned{Calls: w.calls, Jobs: make([]jobs.Held, len(w.owned))}
	for i, n := range w.owned {
		o.Jobs[i] = jobs.Held{ID: m.ids[n], Lock: m.jobs[n].lock()}
	}
	return o, nil
}

func (j *modelJob) lock() jobs.Lock { return jobs.Lock{Worker: j.worker.name, Batch: j.batch} }

func (m *Model) expire(worker string, beat *[10]byte, limit int) node.Progressed {
	w := m.workers.find(worker)
	if w == nil || !w.expired && beat != nil && *beat != w.stamp() {
		return node.Progressed{Done: true}
	}
	w.expired = true
	for _, n := range slices.Clone(w.owned[:min(limit, len(w.owned))]) {
		j := &m.jobs[n]
		m.release(n, j)
		if beat != nil { // else the worker gives its lease up by itself
			j.lost++
		}
		m.queue(n, j, 0)
	}
	if len(w.owned) > 0 {
		return node.Progressed{}
	}
	m.workers = slices.DeleteFunc(m.workers, func(o *modelWorker) bool { return o == w })
	return node.Progressed{Done: true}
}

func (m *Model) work(n int32) jobstore.Work {
	j := &m.jobs[n]
	rec := m.records[j.account]
	if j.weight != schedule.DefaultWeight {
		weighed := *rec
		weighed.Weight, rec = int64(j.weight), &weighed
	}
	w := jobstore.Work{
		JobID: m.ids[n], Lock: j.lock(), Record: rec, Replication: continuous,
		Lost: int(j.lost), Place: j.place, Claimed: true,
	}
	if j.one {
		w.Replication = oneShot
	}
	return w
}

func (m *Model) accept(q node.Accept, now instant.Time) (node.Result, error) {
	w, err := m.workers.live(q.Worker)
	if err != nil {
		return nil, err
	}
	var a node.Accepted
	d := q.Demand
	taken, left := m.choose(d)
	for _, n := range taken {
		m.take(n, w, d.Batch, now)
		a.Work = append(a.Work, m.work(n))
	}
	a.Left = left
	a.Signal, err = m.Signal(d.Part)
	return a, err
}

func (m *Model) take(n int32, w *modelWorker, batch uint64, now instant.Time) {
	j := &m.jobs[n]
	m.ready.drop(n)
	j.state, j.worker, j.batch, j.lastStart = jobs.Running, w, batch, now
	w.owned = slices.Insert(w.owned, w.place(m, n), n)
	m.running++
	m.accounts.dispatched(j.place)
}

// choose picks jobs from the head of the queue: those of the part first; then, unless they are left to
// others, some of the rest at random.
func (m *Model) choose(d jobs.Demand) (chosen []int32, left string) {
	var beside []int32
	for _, e := range m.ready.first(max(d.Max, d.Window)) {
		if d.Part != 0 && d.Part>>m.jobs[e.job].bucket&1 == 0 {
			beside = append(beside, e.job)
		} else if len(chosen) < d.Max {
			chosen = append(chosen, e.job)
		}
	}
	if len(beside) == 0 || len(chosen) == d.Max {
		return chosen, ""
	}
	if first := m.ids[beside[0]]; d.Yield && first != d.Left {
		return chosen, first
	}
	rng := prng.New(d.Seed)
	some := rng.Sample(len(beside), d.Max-len(chosen))
	slices.Sort(some)
	for _, i := range some {
		chosen = append(chosen, beside[i])
	}
	return chosen, ""
}

func (m *Model) promote(limit int, now instant.Time) node.Promoted {
	p := node.Promoted{Next: instant.Never}
	for len(m.waiting.heap) > 0 {
		first := m.waiting.heap[0]
		if due := instant.Time(first.place.Key); due > now || p.Moved == limit {
			p.Next = due
			break
		}
		m.waiting.drop(first.job)
		m.queue(first.job, &m.jobs[first.job], 0)
		p.Moved++
	}
	return p
}

func (m *Model) survey(q node.Survey, now instant.Time) node.Surveyed {
	s := node.Surveyed{Order: m.accounts.order}
	s.Counts = jobs.Counts{
		Ready: int64(len(m.ready.heap)), Waiting: int64(len(m.waiting.heap)), Running: m.running, Finished: m.finished,
	}
	for _, e := range m.ready.first(q.First) {
		s.First = append(s.First, e.place)
	}
	for _, name := range q.Accounts {
		s.Accounts = append(s.Accounts, m.accounts.view(name, m.floor(), now))
	}
	return s
}
