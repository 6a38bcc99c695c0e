package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// members are the invariants of what nodes tell each other.
type members struct{ *chronicle }

var memberSubject = subject{
	invariants: []Invariant{
		{"S5", "A node runs no more than max_jobs, and takes none while it hands them back."},
		{"L5", "The registry shows all nodes that live, as they are, and nobody else."},
	},
	begin: func(c *chronicle) {
		o := &members{c}
		c.on.nodeStepped.add(o.memberStepped)
		c.on.landed.add(o.checkLeaves)
		c.on.runStarted.add(o.checkWelcome)
		c.on.armed.add(o.checkArmed)
		c.on.ticked.add(func(world.Ticked) {
			for _, r := range c.runs {
				o.checkStops(r)
			}
		})
		c.on.unsettled = append(c.on.unsettled, o.unsettled)
		c.on.atRest.add(func(struct{}) {
			o.checkPages()
			o.checkLeftovers()
			o.checkRemains()
		})
	},
}

// membership is what a process was told last, and what it told others.
type membership struct {
	beat   uint64       // id of its last attempt to send a heartbeat
	missed instant.Time // when that failed; 0 when it did not
	asked  uint64       // id of its last attempt to join or to send a heartbeat
	told   node.Info    // with that
	sweep  uint64       // id of its last sweep
	calls  int64        // that it had when it last saw the list of its jobs
	lists  uint64       // id of its last look at that, 0 once that is answered
}

// maxBeatPause is the longest time after which a heartbeat that failed is tried again.
const maxBeatPause = time.Second

// memberStepped is a part of L5 and of S26: a node tells others what is true of it, and goes on to send heartbeats when
// they fail.
func (o *members) memberStepped(s nodeStep) {
	p, ev, effects := s.p, s.ev, s.effects
	m, now, changes, owes, sweeps := &p.member, o.w.Now(), false, false, false
	switch ev := ev.(type) {
	case node.Configure, node.Drain:
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
func (o *members) checkCalled(p *process, ev node.Done) {
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

// renamed is a part of L5: of two nodes with one name the one that started later goes on under its worker's name.
func (o *members) renamed(p *process, name string) {
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
func (o *members) outdated(p *process) bool {
	now := o.truth(p, p.member.told)
	now.Running, now.Seen = p.member.told.Running, p.member.told.Seen
	return !p.Draining() && now != p.member.told
}

// checkTold is a part of L5: what a node tells of itself is true.
func (o *members) checkTold(p *process, i node.Info) {
	if want := o.truth(p, i); i != want {
		o.Fail("L5", "%s says of itself %+v, and is %+v", p.Name, i, want)
	}
}

// truth is what a node has to say of itself now.
func (o *members) truth(p *process, i node.Info) node.Info {
	want := node.Info{Name: p.called, Roles: p.Roles(), Status: node.Up, Running: p.Running(), ActivityTimeout: p.applied.ActivityTimeout,
		Started: i.Started, Seen: p.Clock().Wall}
	switch {
	case p.Draining():
		want.Status = node.Draining
	case p.applied.Maintenance:
		want.Status = node.InMaintenance
	}
	if p.Roles().Has(node.Replication) {
		want.MaxJobs = p.applied.MaxJobs
	}
	return want
}

// checkWelcome is a part of S5: who hands jobs back starts none.
func (o *members) checkWelcome(r *run) {
	if !r.p.Roles().Has(node.Replication) {
		o.Fail("S5", "%s starts a run without the role replication", r.p.Name)
	}
	if n := len(r.p.runs); n > r.p.MaxJobs() {
		o.Fail("S5", "%s starts run %d though it may have %d", r.p.Name, n, r.p.MaxJobs())
	}
	switch p := r.p; {
	case p.Draining():
		o.Fail("S5", "%s drains, and starts job %s", p.Name, r.JobID())
	case p.applied.Maintenance:
		o.Fail("S5", "%s is in maintenance, and starts job %s", p.Name, r.JobID())
	}
}

// checkStops is a part of L6: a run that was told to stop is over soon, and so are all of a node in maintenance.
func (o *members) checkStops(r *run) {
	since := r.stopAt
	if s := r.p.applied; since == 0 && s.Maintenance {
		since = s.since
	}
	now, limit := o.w.Now(), r.p.Settings().StopTimeout+time.Second
	if since > 0 && now.Sub(since) > limit && now.Sub(r.p.PausedLast()) > limit && !r.p.Paused() {
		o.Fail("L6", "%s runs job %s %s after it was to stop", r.p.Name, r.JobID(), now.Sub(since))
	}
}

// checkLeaves is a part of L6: a node that leaves in order has stopped its runs.
func (o *members) checkLeaves(l landing) {
	q, is := l.Request.(node.Retire)
	if !is || o.leases[q.Worker].gone {
		return
	}
	for _, r := range o.runs {
		if r.Lock().Worker == q.Worker {
			o.Fail("L6", "%s leaves, and still runs job %s", q.Worker, r.JobID())
		}
	}
}

// checkLeftovers is a part of S17: of a worker that is gone nothing stays in the store.
func (o *members) checkLeftovers() {
	keys := o.w.Store().Keys.Jobs
	for kind, space := range map[string]tuple.Subspace{"worker": keys.Worker, "beat": keys.Beat, "call": keys.Call, "owned": keys.Owned} {
		rows, err := o.w.Present().GetRange(space.Range(), kv.RangeOptions{})
		if err != nil {
			o.Fail("S17", "%v", err)
		}
		for _, row := range rows {
			t, err := space.Unpack(row.Key)
			if err != nil || o.leases[fmt.Sprint(t[0])].gone {
				o.Fail("S17", "%s of %v is there, and the worker is gone: %v", kind, t, err)
			}
		}
	}
}

// checkArmed is a part of L6: a node waits for a change of what it has seen, and not for the one after.
func (o *members) checkArmed(f world.Armed) {
	if f.Is != f.Await.Seen {
		o.Fail("L6", "%s waits for %s, and that is %d already", f.Node.Name, f.Await, f.Is)
	}
}

// checkRemains is a part of S17: of a job that is gone neither the replication, with its passwords, nor the time at which
// it was to be forgotten stays in the store.
func (o *members) checkRemains() {
	keys := o.w.Store().Keys
	for kind, space := range map[string]tuple.Subspace{"spec": keys.Spec, "expire": keys.Expire} {
		rows, err := o.w.Present().GetRange(space.Range(), kv.RangeOptions{})
		if err != nil {
			o.Fail("S17", "%v", err)
		}
		for _, row := range rows {
			t, err := space.Unpack(row.Key)
			is := func(id any) bool { s := o.shadows[fmt.Sprint(id)]; return s != nil && s.header != nil }
			if err != nil || !slices.ContainsFunc(t, is) {
				o.Fail("S17", "%s of job %v is there, and the job is gone: %v", kind, t, err)
			}
		}
	}
}

// checkPages is a part of S3: pages of any length list every job once, in order.
func (o *members) checkPages() {
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
	for limit := 1; limit <= 3 && o.violation == nil; limit++ {
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
			if len(page) < limit || o.violation != nil {
				break
			}
		}
		if n != there || len(all) != there {
			o.Fail("S3", "pages of %d list %d jobs, one page %d, and there are %d", limit, n, len(all), there)
		}
	}
}

// unsettled is L5.
func (o *members) unsettled() *Violation {
	if why := o.registry(); why != "" {
		return &Violation{ID: "L5", Text: why}
	}
	return nil
}

// registry says how what nodes see of each other differs from those that live: all of them, and nobody else.
func (o *members) registry() string {
	members, err := node.Members(o.w.Present(), o.w.Store())
	if err != nil {
		return err.Error()
	}
	living, names := 0, map[string]string{}
	for _, p := range o.nodes {
		if !p.Alive() || p.Draining() {
			continue
		}
		living++
		i := slices.IndexFunc(members, func(m node.Member) bool { return strings.HasPrefix(m.Worker, p.Worker()) })
		if i < 0 {
			return fmt.Sprintf("%s lives and is no member", p.Name)
		}
		if other := names[p.called]; other != "" {
			return fmt.Sprintf("%s and %s are both called %s", other, p.Name, p.called)
		}
		names[p.called] = p.Name
		if info := members[i].Info; info.Name != p.called || info.Roles != p.Roles() || info.Status != node.Up {
			return fmt.Sprintf("%s with roles %s is a member as %+v", p.Name, p.Roles(), info)
		}
	}
	if len(members) != living {
		return fmt.Sprintf("%d nodes live, and the members are %+v", living, members)
	}
	return ""
}
