package world

import (
	"context"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/sim/decide"
)

// Waiter is a user who waits until a job is as wanted, or gone.
type Waiter struct {
	JobID  string
	Wanted Wanted
	Node   *Node // the frontend of the request that waits
}

// Wanted is what users wait for.
type Wanted uint8

// What users wait for: that a job is over, that its replication id is known or it is over, that it has compared
// revisions or is over, that it runs or is over. All but the first and the last depend on more than its state.
const (
	Over Wanted = iota
	Named
	Compared
	Running
)

// Learned is what a user who waited was told of a job.
type Learned struct {
	Gone   bool
	Header jobs.State // for Running alone
	State  jobstore.State
	RepID  string
}

// waitActions are those of users who wait. A swarm draws them by themselves.
var waitActions = []action{
	{name: JobWait, where: "a frontend", most: 200_000, do: func(u *users, site *decide.Site) { waiting{u}.wait(site) },
		what: "a user waits for a state of a job; so do those who send requests"},
}

// JobWait is the action of users who wait.
const JobWait = "job-wait"

// Bounds of waits: those of web.Wait, and how patient users are.
const (
	lookAnyway = 30 * time.Second
	lookAgain  = time.Second
	patience   = 10 * time.Minute
)

// waiting is the part of users that waits for jobs.
type waiting struct{ *users }

// wait has a user wait for any job, which may be gone.
func (u waiting) wait(site *decide.Site) {
	p, j := u.frontend(site), u.anyJob(site)
	if p == nil || j == nil {
		return
	}
	wishes := int(Running) + 1
	if u.w.Config.Rates[misread] > 0 { // who waits for Running reads the record of a job, and does not look at it
		wishes--
	}
	w := &Waiter{j.JobID(), Wanted(site.Int(wishes)), p}
	u.w.Engine.Go(p.Process, "api", func() { u.await(w) })
}

// look subscribes to a job, as requests do.
func (w *Waiter) look(s *jobstore.Store, tx kv.Tx) (l Learned, watch kv.Watch, err error) {
	if w.Wanted == Running {
		j, watch, err := s.Jobs.Subscribe(tx, w.JobID, jobs.In(jobs.Running, jobs.Finished))
		if l.Gone = j == nil; j != nil {
			l.Header = j.State
		}
		return l, watch, err
	}
	rec, watch, err := jobstore.Subscribe(tx, s, w.JobID, w.Wanted != Over, func(rec *jobstore.Record) bool {
		named := w.Wanted == Named && rec.RepID != ""
		return rec.State.Terminal() || named || w.Wanted == Compared && rec.Stats.RevisionsChecked > 0
	})
	if l.Gone = rec == nil; rec != nil {
		l.State, l.RepID = rec.State, rec.RepID
	}
	return l, watch, err
}

// await has a user wait until the job is as wanted, or for as long as the user is patient.
func (u waiting) await(w *Waiter) {
	if l, told := u.untilTold(w); told {
		u.w.emit(WaiterLearns{w, l})
	}
	u.w.emit(WaiterLeaves{w})
}

// untilTold waits as web.Wait has a request wait: until a look finds what is wanted, with a watch in between, and a
// look now and then, since a watch may be lost.
func (u waiting) untilTold(w *Waiter) (l Learned, told bool) {
	type seen struct {
		Learned
		watch kv.Watch
	}
	for end := u.w.Engine.Now().Add(patience); u.w.Engine.Now() < end; {
		u.w.emit(WaiterLooks{w})
		ctx := u.w.Engine.NewContext(w.Node.Process, RequestLimit)
		s, err := kv.Run(ctx, u.w.db, func(tx kv.Tx) (s seen, err error) {
			s.Learned, s.watch, err = w.look(u.w.store, tx)
			return s, err
		})
		if err != nil || s.watch == nil {
			return s.Learned, err == nil
		}
		u.w.emit(WaiterWaits{w})
		limit := u.w.Engine.NewContext(w.Node.Process, lookAnyway)
		lost := s.watch.Wait(limit) != nil && limit.Err() == nil
		u.w.emit(WaiterWoken{w})
		if lost {
			_ = u.w.Engine.Sleep(context.Background(), lookAgain)
		}
	}
	return l, false
}

// Facts about users who wait. Those of a user whose frontend dies end without another one.
type (
	// WaiterLooks is a user whose request is about to read the job.
	WaiterLooks struct{ Waiter *Waiter }
	// WaiterWaits is a user whose request has read the job, which was not as wanted, and waits for its watch.
	WaiterWaits struct{ Waiter *Waiter }
	// WaiterWoken is a user whose request does not wait for its watch any more.
	WaiterWoken struct{ Waiter *Waiter }
	// WaiterLearns is a user who is told that the job is as wanted.
	WaiterLearns struct {
		Waiter *Waiter
		Learned
	}
	// WaiterLeaves is a user who waits no more.
	WaiterLeaves struct{ Waiter *Waiter }
)

func (WaiterLooks) fact()  {}
func (WaiterWaits) fact()  {}
func (WaiterWoken) fact()  {}
func (WaiterLearns) fact() {}
func (WaiterLeaves) fact() {}
