package oracle

import (
	"fmt"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// membership is what a process was told last, and what it told others.
type membership struct {
	applied node.Settings
	since   instant.Time // when these became its settings
	beat    uint64       // id of its last attempt to send a heartbeat
	missed  instant.Time // when that failed; 0 when it did not
	asked   uint64       // id of its last attempt to join or to send a heartbeat
	told    node.Info    // with that
	sweep   uint64       // id of its last sweep
	calls   int64        // that it had when it last saw the list of its jobs
	lists   uint64       // id of its last look at that, 0 once that is answered
}

// maxBeatPause is the longest time after which a heartbeat that failed is tried again.
const maxBeatPause = time.Second

// memberStepped is a part of L5 and of S26: a node tells others what is true of it, and goes on to send heartbeats when
// they fail.
func (o *Oracle) memberStepped(p *process, ev node.Event, effects []node.Effect) {
	m, now, changes, owes, sweeps := &p.member, o.w.Now(), false, false, false
	switch ev := ev.(type) {
	case node.Configure:
		m.applied, m.since, changes = ev.Settings, now, true
	case node.Drain:
		changes = true
	case node.Done:
		if ev.ID == m.beat && ev.Fault == node.StoreDown {
			m.missed = now
		}
		defer o.checkCalled(p, ev)
		owes = ev.ID == m.asked && ev.Fault == node.NoFault
		swept, is := ev.Result.(node.Progressed)
		sweeps = is && ev.ID == m.sweep && !swept.Done
	}
	for _, e := range effects {
		if renamed, is := e.(node.Rename); is {
			changes = true
			o.renamed(p, renamed.Name)
		}
	}
	owes = owes && o.outdated(p)
	for _, e := range effects {
		ask, _ := e.(node.Ask)
		switch q := ask.Request.(type) {
		case node.ListOwned:
			m.lists = ask.ID
		case node.Join:
			m.beat, m.missed, owes, m.calls, m.lists = 0, 0, false, 0, 0
			m.asked, m.told = ask.ID, q.Info
			if !changes { // it may have joined before it heard
				o.checkTold(p, q.Info)
			}
		case node.Beat:
			if late := now.Sub(m.missed); m.missed > p.PausedLast() && late > maxBeatPause {
				o.Fail("S26", "%s sends its next heartbeat %s after one that failed", p.Name, late)
			}
			m.beat, m.missed, owes = ask.ID, 0, false
			m.asked, m.told = ask.ID, q.Info
			o.checkTold(p, q.Info)
		case node.Sweep:
			m.sweep, sweeps = ask.ID, false
		}
	}
	if sweeps && !p.Draining() {
		o.Fail("L4", "%s has more to sweep up, and leaves it for later", p.Name)
	}
	if owes {
		o.Fail("L5", "%s has told %+v, which is not true any more, and tells nothing else", p.Name, m.told)
	}
}

// checkCalled is a part of S4: a node that hears with its heartbeat that a job was taken from it looks which, so that it
// need not have been notified. It is called when the answer has been dealt with; the node may have asked for a new lease.
func (o *Oracle) checkCalled(p *process, ev node.Done) {
	m := &p.member
	switch got := ev.Result.(type) {
	case node.Owned:
		if ev.ID == m.lists {
			m.calls, m.lists = got.Calls, 0
		}
	case node.Beaten:
		if ev.ID == m.beat && ev.Fault == node.NoFault && got.Calls != m.calls && m.lists == 0 && !p.Draining() {
			o.Fail("S4", "%s hears that it was called %d times, and has looked at its jobs after %d", p.Name, got.Calls, m.calls)
		}
	}
}

// birth is how a process began a life: when by its wall clock, and under which name as a worker.
type birth struct {
	at     instant.Time
	worker string
}

// renamed is a part of L5: of two nodes with one name the one that started later goes on under its worker's name.
func (o *Oracle) renamed(p *process, name string) {
	p.called = name
	if name != p.Worker() {
		o.Fail("L5", "%s of %s is called %s from now on", p.Worker(), p.Title(), name)
	}
	own := p.born[len(p.born)-1]
	for _, q := range o.nodes {
		if q != p && q.Title() == p.Title() && slices.ContainsFunc(q.born, func(b birth) bool { return b.at < own.at || b.at == own.at && b.worker < own.worker }) {
			return
		}
	}
	o.Fail("L5", "%s is called %s no more, and no node of that name started before", p.Worker(), p.Title())
}

// outdated says whether what a node told last is not true any more. How many jobs it runs may wait for its next
// heartbeat, and one that drains is about to leave.
func (o *Oracle) outdated(p *process) bool {
	now := o.truth(p, p.member.told)
	now.Running, now.Seen = p.member.told.Running, p.member.told.Seen
	return !p.Draining() && now != p.member.told
}

// checkTold is a part of L5: what a node tells of itself is true.
func (o *Oracle) checkTold(p *process, i node.Info) {
	if want := o.truth(p, i); i != want {
		o.Fail("L5", "%s says of itself %+v, and is %+v", p.Name, i, want)
	}
}

// truth is what a node has to say of itself now.
func (o *Oracle) truth(p *process, i node.Info) node.Info {
	m := &p.member
	want := node.Info{Name: p.called, Roles: p.Roles(), Status: node.Up, Running: p.Running(), ActivityTimeout: m.applied.ActivityTimeout,
		Started: i.Started, Seen: p.Clock().Wall}
	switch {
	case p.Draining():
		want.Status = node.Draining
	case m.applied.Maintenance:
		want.Status = node.InMaintenance
	}
	if p.Roles().Has(node.Replication) {
		want.MaxJobs = m.applied.MaxJobs
	}
	return want
}

// checkWelcome is a part of S5: who hands jobs back starts none.
func (o *Oracle) checkWelcome(r *run) {
	switch p := r.p; {
	case p.Draining():
		o.Fail("S5", "%s drains, and starts job %s", p.Name, r.JobID())
	case p.member.applied.Maintenance:
		o.Fail("S5", "%s is in maintenance, and starts job %s", p.Name, r.JobID())
	}
}

// checkStops is a part of L6: a run that was told to stop is over soon, and so are all of a node in maintenance.
func (o *Oracle) checkStops(r *run) {
	since := r.stopAt
	if m := &r.p.member; since == 0 && m.applied.Maintenance {
		since = m.since
	}
	now, limit := o.w.Now(), r.p.Settings().StopTimeout+time.Second
	if since > 0 && now.Sub(since) > limit && now.Sub(r.p.PausedLast()) > limit && !r.p.Paused() {
		o.Fail("L6", "%s runs job %s %s after it was to stop", r.p.Name, r.JobID(), now.Sub(since))
	}
}

// checkLeaves is a part of S9 and L6: a node that leaves in order has stopped its runs, and charged what they used.
func (o *Oracle) checkLeaves(worker string) {
	if o.leases[worker].gone {
		return
	}
	for _, r := range o.runs {
		if r.Lock().Worker == worker {
			o.Fail("L6", "%s leaves, and still runs job %s", worker, r.JobID())
		}
	}
	for p, b := range o.bills { // in any order: one is enough
		if charged, held := b.charged, o.held(p, o.w.Now()); isOf(worker, p.worker) && charged < held && !o.clocksWereSet() {
			o.Fail("S9", "%s leaves, and charged %s with %s, though its runs held slots for %s", worker, p.account, charged, held)
			return
		}
	}
}

// checkLeftovers is a part of S17: of a worker that is gone nothing stays in the store.
func (o *Oracle) checkLeftovers() {
	space := tuple.Subspace(tuple.Pack("couchrelay")).Sub("jobs").Sub("replication")
	for _, kind := range []string{"worker", "beat", "call", "owned"} {
		rows, err := o.w.Present().GetRange(space.Sub(kind).Range(), kv.RangeOptions{})
		if err != nil {
			o.Fail("S17", "%v", err)
		}
		for _, row := range rows {
			t, err := space.Sub(kind).Unpack(row.Key)
			if err != nil || o.leases[fmt.Sprint(t[0])].gone {
				o.Fail("S17", "%s of %v is there, and the worker is gone: %v", kind, t, err)
			}
		}
	}
}

// checkArmed is a part of L6: a node waits for a change of what it has seen, and not for the one after.
func (o *Oracle) checkArmed(f world.Armed) {
	if f.Is != f.Await.Seen {
		o.Fail("L6", "%s waits for %s, and that is %d already", f.Node.Name, f.Await, f.Is)
	}
}

// checkRemains is a part of S17: of a job that is gone neither the replication, with its passwords, nor the time at which
// it was to be forgotten stays in the store.
func (o *Oracle) checkRemains() {
	for _, kind := range []string{"spec", "expire"} {
		rows, err := o.w.Present().GetRange(root.Sub(kind).Range(), kv.RangeOptions{})
		if err != nil {
			o.Fail("S17", "%v", err)
		}
		for _, row := range rows {
			t, err := root.Sub(kind).Unpack(row.Key)
			is := func(id any) bool { s := o.shadows[fmt.Sprint(id)]; return s != nil && s.header != nil }
			if err != nil || !slices.ContainsFunc(t, is) {
				o.Fail("S17", "%s of job %v is there, and the job is gone: %v", kind, t, err)
			}
		}
	}
}

// checkPages is a part of S3: pages of any length list every job once, in order.
func (o *Oracle) checkPages() {
	all, err := o.w.Store().Jobs.List(o.w.Present(), jobs.Page{Limit: 1 << 20})
	if err != nil {
		o.Fail("S3", "%v", err)
		return
	}
	there := 0
	for _, s := range o.shadows {
		if s.header != nil {
			there++
		}
	}
	for limit := 1; limit <= 3 && o.Violation == nil; limit++ {
		after, n := "", 0
		for {
			page, err := o.w.Store().Jobs.List(o.w.Present(), jobs.Page{After: after, Limit: limit})
			if err != nil || len(page) > limit {
				o.Fail("S3", "a page of %d jobs has %d: %v", limit, len(page), err)
				return
			}
			for _, j := range page {
				if s := o.shadows[j.ID]; j.ID <= after || s == nil || s.header == nil {
					o.Fail("S3", "job %q comes after %q in pages of %d", j.ID, after, limit)
				}
				after = j.ID
			}
			n += len(page)
			if len(page) < limit || o.Violation != nil {
				break
			}
		}
		if n != there || len(all) != there {
			o.Fail("S3", "pages of %d list %d jobs, one page %d, and there are %d", limit, n, len(all), there)
		}
	}
}
