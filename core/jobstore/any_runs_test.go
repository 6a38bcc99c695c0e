package jobstore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

func (o *anyOrder) accept() {
	n := 1 + o.draw(3)
	d := jobs.Demand{Max: n, Window: n + o.draw(3), Look: o.draw(8), Seed: uint64(o.draw(5))}
	if o.one(3) {
		d.Part = 0x5555555555555555
	}
	o.acceptSome(d)
}

// acceptSome has a worker take jobs.
func (o *anyOrder) acceptSome(d jobs.Demand) {
	worker, now := o.workers[o.draw(len(o.workers))], o.now
	o.batches[worker]++
	d.Batch = o.batches[worker]
	f := func(tx kv.Tx) (Taken, error) { return o.s.Accept(tx, worker, "n", d, now) }
	taken, late, err := do(o, false, f)
	if errors.Is(err, jobs.ErrLeaseLost) && !slices.Contains(o.workers, worker) {
		return
	}
	if err != nil {
		o.failf("accept: %v", err)
	}
	lots := o.lots()
	parked := 0
	for _, id := range o.ids() {
		j := o.jobs[id]
		if lot := lots[id]; j.ready() && lot != "" {
			parked++
			_, is := o.holds[strings.TrimPrefix(lot, lotHeld)]
			if is = is && o.held(j); lot == lotPaused && !j.paused() || lot != lotPaused && !is {
				o.failf("job %q is parked in %s", j.id, lot)
			}
			o.say("  parked %q in %s", id, lot)
			j.lot = lot
		}
	}
	if taken.Parked != parked {
		o.failf("%d jobs are parked, and told are %d", parked, taken.Parked)
	}
	for _, w := range taken.Work {
		o.take(w, now)
	}
	if len(taken.Work) > d.Max {
		o.failf("taken are %d, wanted %d", len(taken.Work), d.Max)
	}
	// A worker with enough jobs in its part does not look beside it, though it may have to park them.
	if all := max(d.Max, d.Window, d.Look) > len(o.jobs)+parked; !late && all && len(taken.Work) < d.Max &&
		d.Part == 0 {
		for _, id := range o.ids() {
			if j := o.jobs[id]; j.ready() && !o.isDropped(j) {
				o.failf("job %q is left by %+v, which took %d and parked %d", id, d, len(taken.Work), parked)
			}
		}
	}
	if len(taken.Work) > 0 {
		again, err := kv.Run(o.t.Context(), o.db, f)
		text := func(list []Work) string {
			byID := func(a, b Work) int { return cmp.Compare(a.JobID, b.JobID) }
			return fmt.Sprint(slices.SortedFunc(slices.Values(list), byID))
		}
		if err != nil || text(again.Work) != text(taken.Work) {
			o.failf("repeated, the accept gives %v, %v", again, err)
		}
	}
	o.works = append(o.works, taken.Work...)
}

// lots are the lots in which jobs are parked, by the ids of the jobs.
func (o *anyOrder) lots() map[string]string {
	lots := map[string]string{}
	rows := get(o.bench, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(o.s.Keys.Jobs.Parked.Range(), kv.RangeOptions{})
	})
	for _, row := range rows {
		var lot, id string
		if err := o.s.Keys.Jobs.Parked.Scan(row.Key, &lot, &id); err != nil {
			o.failf("%v", err)
		}
		lots[id] = lot
	}
	return lots
}

// take notes that a worker has taken a job.
func (o *anyOrder) take(w Work, now instant.Time) {
	j := o.jobs[w.JobID]
	o.say("%s: %s takes %q, claimed %v", now, w.Lock.Worker, w.JobID, w.Claimed)
	if j == nil || !j.ready() || j.paused() || o.held(j) {
		o.failf("taken is %+v", j)
	}
	if w.Replication == nil || w.Lost != j.lost || w.Record.Reset != j.reset || w.Record.RepID != j.repID {
		o.failf("taken is %s as %+v, and should be as %+v", w, w.Record, j)
	}
	if w.Claimed {
		if other := o.other(j.id, j.repID); other != nil || j.repID == "" {
			o.failf("job %q is given replication %q, which job %v has", j.id, j.repID, other)
		}
		o.rights[j.repID] = j.id
	}
	j.state, j.lock, j.started, j.event = Running, w.Lock, now, "started"
}

// owned is what a run does, as the twin has it done.
type owned struct {
	name string
	do   func(h Owned) error
	then func(j *twinJob)
}

// run has a run do something, which may be long over.
func (o *anyOrder) run() {
	if len(o.works) == 0 {
		return
	}
	w := o.works[max(0, len(o.works)-1-o.draw(4))]
	if o.one(8) {
		w = o.works[o.draw(len(o.works))]
	}
	j := o.jobs[w.JobID]
	if j == nil || j.lock != w.Lock {
		if !o.one(3) {
			return
		}
		j = &twinJob{repID: w.Record.RepID, base: w.Record.BaseID}
	}
	if j.repID == "" || o.rights[j.repID] != w.JobID {
		o.claims(w)
		return
	}
	ways := o.ways(w)
	o.does(w, ways[o.draw(len(ways))])
}

// runToItsEnd has a run complete, or wait for another one.
func (o *anyOrder) runToItsEnd(w Work) {
	if j := o.jobs[w.JobID]; j.repID == "" || o.rights[j.repID] != w.JobID {
		o.claims(w)
	}
	if j := o.jobs[w.JobID]; j != nil && j.lock == w.Lock {
		o.does(w, o.ways(w)[0])
	}
}

// claims has a run ask for its replication, and end if another job has that.
func (o *anyOrder) claims(w Work) {
	repID, base := w.Record.RepID, w.Record.BaseID
	if w.Replication.Filter.Name != "" {
		base = fmt.Sprint(w.Replication.Source.URL, o.draw(2))
		repID = fmt.Sprint(base, w.Replication.Continuous)
	}
	refused := (*Duplicate)(nil)
	o.does(w, owned{"claim", func(h Owned) error {
		refused = nil
		err := h.Claim(repID, base)
		if errors.As(err, &refused) {
			return h.held()
		}
		return err
	}, func(j *twinJob) {
		other := o.other(j.id, repID)
		if (refused != nil) != (other != nil) {
			o.failf("replication %s is refused: %v, and job %v has it", repID, refused, other)
		}
		if other == nil {
			o.become(j, repID, base)
			o.rights[repID] = j.id
			return
		}
		passing := other.database == "" || o.isDropped(other)
		if refused.Waits != (o.waits && j.database != "") || refused.Passing != passing {
			o.failf("refused is %+v", refused)
		}
	}})
	if refused == nil {
		return
	}
	now := o.now
	turn := Turn{Place: w.Place, Began: w.Place}
	trouble := replication.Trouble{Error: "duplicate", Reason: refused.Error()}
	switch j := o.jobs[w.JobID]; {
	case refused.Waits:
		o.does(w, owned{"stand by", func(h Owned) error { return h.StandBy(repID, base, turn) }, func(j *twinJob) {
			other := o.other(j.id, repID)
			o.become(j, repID, base)
			lot, at := "", j.place
			if other != nil {
				lot = lotBehind + repID
			}
			o.queue(j, Pending, lot, 0, now)
			if j.place = at; other != nil {
				j.event = "waiting"
			}
		}})
	case refused.Passing || j != nil && j.database == "":
		o.does(w, o.crashes(w, trouble, now))
	default:
		o.does(w, owned{"fail", func(h Owned) error { return h.Fail(trouble, turn) },
			func(j *twinJob) { o.finish(j, Failed, now.Add(o.s.Config.TransientMaxAge)) }})
	}
}

// does carries out what a run does. That fails if the job is not the run's any more.
func (o *anyOrder) does(w Work, what owned) {
	now := o.now
	reset := instant.Time(0)
	if what.name != "claim" && what.name != "stand by" && !o.one(3) {
		reset = w.Record.Reset
	}
	o.say("%s: run of %q %v: %s, carried out the order of %d", now, w.JobID, w.Lock, what.name, reset)
	_, _, err := do(o, what.name != "claim", func(tx kv.Tx) (bool, error) {
		h := o.s.Owned(tx, w.JobID, w.Lock, now)
		h.Reset = reset
		return true, what.do(h)
	})
	j := o.jobs[w.JobID]
	if j == nil || j.lock != w.Lock {
		o.say("  %v", err)
		if !errors.Is(err, jobs.ErrHalt) {
			o.failf("%v, though the job is not the run's: %+v", err, j)
		}
		return
	}
	if err != nil {
		o.failf("%v", err)
	}
	if j.reset == reset {
		j.reset = 0
	}
	what.then(j)
}

// ways are what a run may do.
func (o *anyOrder) ways(w Work) []owned {
	now, turn := o.now, Turn{Place: w.Place, Began: w.Place, Owed: time.Duration(o.draw(60)) * time.Second}
	expires := now.Add(o.s.Config.TransientMaxAge)
	trouble := replication.Trouble{Error: "boom", Reason: "why", Throttled: o.one(3)}
	doc := []string{"x", "y", "z"}[o.draw(3)]
	finding := replication.Finding{Refusal: peer.Refusal{ID: doc, Rev: "1-a", Error: "forbidden"}}
	gone := finding
	gone.Over = true
	o.made++
	by := fmt.Sprint("change", o.made)
	list := func(j *twinJob) {
		if j.listed == nil {
			j.listed = map[string]bool{}
		}
		j.asked = j.asked && len(j.listed) > 0
		j.of = j.base
		if int64(len(j.listed)) < o.s.Config.MaxRefused {
			j.listed[doc] = true
		}
	}
	unlist := func(j *twinJob) {
		if j.listed == nil {
			j.listed = map[string]bool{}
		}
		j.of = j.base
		delete(j.listed, doc)
		j.asked = j.asked && len(j.listed) > 0
	}
	return []owned{
		{"complete", func(h Owned) error { return h.Complete(replication.End{}, turn) }, func(j *twinJob) {
			if j.errors = 0; j.reset != 0 {
				o.queue(j, Pending, "", 0, now)
			} else {
				o.finish(j, Completed, expires)
			}
		}},
		{"fail", func(h Owned) error { return h.Fail(trouble, turn) },
			func(j *twinJob) { o.finish(j, Failed, expires) }},
		{"fail for a document", func(h Owned) error { return h.FailRefused(trouble, Stats{}, finding, turn) },
			func(j *twinJob) { list(j); o.finish(j, Failed, expires) }},
		o.crashes(w, trouble, now),
		{"requeue", func(h Owned) error { return h.Requeue(nil, turn) },
			func(j *twinJob) { o.queue(j, Pending, "", 0, now) }},
		{"progress", func(h Owned) error { return h.Progress(Stats{DocsRead: 1}) }, func(j *twinJob) {
			if now.Sub(j.started) > 2*time.Minute {
				j.errors, j.lost = 0, 0
			}
		}},
		{"list", func(h Owned) error { return h.StoreRefused(by, []replication.Finding{finding}) }, list},
		{"take from the list", func(h Owned) error { return h.StoreRefused(by, []replication.Finding{gone}) }, unlist},
	}
}

func (o *anyOrder) crashes(w Work, trouble replication.Trouble, now instant.Time) owned {
	seed, turn := uint64(o.draw(100)), Turn{Place: w.Place, Began: w.Place}
	return owned{"crash", func(h Owned) error { return h.Crash(trouble, nil, turn, seed) }, func(j *twinJob) {
		if j.database == "" && !trouble.Throttled {
			o.finish(j, Failed, now.Add(o.s.Config.TransientMaxAge))
			return
		}
		if j.errors++; now.Sub(j.started) > 2*time.Minute {
			j.errors = 1
		}
		o.queue(j, Crashing, "", 0, now)
		wait := min(32*time.Second<<(j.errors-1), 48*time.Hour)
		rec := o.record(j.id)
		header := get(o.bench, func(tx kv.Tx) (*jobs.Job, error) { return o.s.Jobs.Get(tx, j.id) })
		if j.due = header.Due; j.due < now.Add(wait*3/4) || j.due > now.Add(wait) {
			o.failf("job %q waits until %s, after %d errors, %s", j.id, j.due, j.errors, rec.State)
		}
	}}
}
