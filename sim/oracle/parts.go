package oracle

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/node"
	"couchrelay/core/prng"
)

// parts are the invariants of which jobs the nodes of a fleet take. A node is judged by what it was told of the
// others, which may be old or wrong: it cannot know better.
type parts struct {
	*chronicle
	asked map[string]asking       // the last accept of each worker
	ready map[string]instant.Time // since when jobs wait for a slot
	taken map[string]instant.Time // when jobs last ceased to wait
}

var partSubject = subject{
	invariants: []Invariant{
		{"S32a", "While other nodes have free slots, a node leaves them the jobs beside its own part for two " +
			"seconds."},
		{"S32b", "A node takes jobs beside its part only when its part has none among the first that wait."},
		{"S32c", "A node leaves no job to other nodes that have no free slots."},
		{"S32d", "A job that was left to others for two seconds is not left to them again."},
		{"L9a", "A node with free slots that has looked at the others waits to be told of all jobs of its " +
			"part, or asks for jobs."},
		{"L9b", "A node with free slots that left a job to others looks after it two seconds later."},
	},
	begin: func(c *chronicle) {
		times := func() map[string]instant.Time { return map[string]instant.Time{} }
		o := &parts{chronicle: c, asked: map[string]asking{}, ready: times(), taken: times()}
		c.on.nodeUp.add(func(p *process) { p.outlook = newOutlook() })
		c.on.nodeStepped.add(o.stepped)
		c.on.landed.add(o.landed)
		c.on.jobChanged.add(o.follow)
	},
}

// asking is an accept with what its node knew when it made it.
type asking struct {
	jobs.Demand
	fleet fleet
	sure  bool
	left  string // the job that the node had left to others for two seconds; empty for none
	at    instant.Time
}

// outlook is what a node knows of the nodes that take jobs.
type outlook struct {
	worker string               // its own lease
	news   map[uint64]node.Info // that it sends and has no answer for, by the request
	own    node.Info            // that the others have, as it knows
	seen   map[string]sighting  // of all other workers
	others []node.Member        // that took jobs at its last look
	sure   bool                 // none of them was silent for so long that it may be given up

	waits   bool         // it waits to be told of jobs
	awaited jobs.Part    // of which jobs
	accept  uint64       // the last one that it asked
	asked   asking       // what it knew when it asked that
	left    string       // the job that it left to others; empty for none
	since   instant.Time // when it left that job first, by its steady clock

	divided fleet     // whose parts were computed last
	mine    jobs.Part // of the node in that fleet
}

// sighting is a heartbeat of another worker, and when a node saw it first, by that node's steady clock.
type sighting struct {
	beat [10]byte
	at   instant.Time
}

func newOutlook() outlook {
	return outlook{news: map[uint64]node.Info{}, seen: map[string]sighting{}, sure: true}
}

// fleet is the nodes that take jobs as one of them knows them, in the order of their names as workers.
type fleet struct {
	nodes []room
	me    int
}

// room is a node's slots as it told of them.
type room struct {
	name          string // as a worker
	most, running int
}

func (l room) free() int { return max(0, l.most-l.running) }

// fleet is the nodes that take jobs as a node knows them.
func (k *outlook) fleet() (f fleet) {
	for _, o := range k.others {
		if o.Worker < k.worker {
			f.me++
		}
		f.nodes = append(f.nodes, room{o.Worker, o.Info.MaxJobs, o.Info.Running})
	}
	f.nodes = slices.Insert(f.nodes, f.me, room{k.worker, k.own.MaxJobs, k.own.Running})
	return f
}

// part is the node's part of a fleet. It is asked for at every step, and rarely changes.
func (k *outlook) part(f fleet) jobs.Part {
	if f.me != k.divided.me || !slices.Equal(f.nodes, k.divided.nodes) {
		k.divided, k.mine = f, f.own()
	}
	return k.mine
}

// othersFree reports whether another node has free slots.
func (f fleet) othersFree() bool {
	for i, l := range f.nodes {
		if i != f.me && l.free() > 0 {
			return true
		}
	}
	return false
}

// parts divides the buckets of jobs among the nodes in proportion to free slots, and to slots and one when none is
// free. Each node bids for each bucket, by its name; the highest bid of all gets its bucket while its node may
// have more. A node that gets none has that of its highest bid too.
func (f fleet) parts() []jobs.Part {
	weights, all := make([]int, len(f.nodes)), 0
	for i, l := range f.nodes {
		weights[i], all = l.free(), all+l.free()
	}
	for i, l := range f.nodes {
		if !f.anyFree() {
			weights[i], all = l.most+1, all+l.most+1
		}
	}
	type bid struct {
		score        uint64
		node, bucket int
	}
	var bids []bid
	for i, l := range f.nodes {
		for b := range jobs.Buckets {
			source := prng.Fork(uint64(b), l.name)
			bids = append(bids, bid{source.Uint64(), i, b})
		}
	}
	slices.SortFunc(bids, func(a, b bid) int { return cmp.Compare(b.score, a.score) })
	parts, given := make([]jobs.Part, len(f.nodes)), jobs.Part(0)
	before := 0
	most := make([]int, len(f.nodes))
	for i, w := range weights {
		most[i] = jobs.Buckets*(before+w)/all - jobs.Buckets*before/all
		before += w
	}
	for _, b := range bids {
		one := jobs.Part(1) << b.bucket
		if n := bits.OnesCount64(uint64(parts[b.node])); n < most[b.node] && given&one == 0 {
			parts[b.node], given = parts[b.node]|one, given|one
		}
	}
	for _, b := range bids {
		if parts[b.node] == 0 {
			parts[b.node] = jobs.Part(1) << b.bucket
		}
	}
	return parts
}

// anyFree reports whether a node has free slots.
func (f fleet) anyFree() bool {
	return slices.ContainsFunc(f.nodes, func(l room) bool { return l.free() > 0 })
}

// own is the part of the node itself.
func (f fleet) own() jobs.Part { return f.parts()[f.me] }

// rejoins reports whether a node finds in a step that its lease is lost.
func (s nodeStep) rejoins() bool {
	return slices.ContainsFunc(s.effects, func(e node.Effect) bool {
		ask, is := e.(node.Ask)
		if !is {
			return false
		}
		_, joins := ask.Request.(node.Join)
		return joins
	})
}

// stepped follows what a node knows.
func (o *parts) stepped(s nodeStep) {
	p, k := s.p, &s.p.outlook
	done, _ := s.ev.(node.Done)
	if info, is := k.news[done.ID]; is && done.Fault == node.Committed {
		k.own = info
	}
	delete(k.news, done.ID)
	switch got := done.Result.(type) {
	case node.Leases:
		k.look(p, got.List, !o.w.Config().Exclusive())
	case node.Accepted:
		if done.ID == k.accept && !s.rejoins() { // and not an accept of a lease that was lost since
			o.checkLeaves(p, got.Left)
			k.leaves(got.Left, p.Steady())
		}
	}
	if heard, is := s.ev.(node.Notified); is && heard.Topic == node.ReadyJobs {
		k.waits = false
	}
	for _, e := range s.effects {
		switch e := e.(type) {
		case node.Await:
			if e.Topic == node.ReadyJobs {
				k.waits, k.awaited = true, e.Part
			}
		case node.Ask:
			o.notes(p, e)
		}
	}
	if _, looked := done.Result.(node.Leases); looked {
		o.checkAwaits(p)
	}
	o.checkLooksAfter(p)
}

// notes notes a request. An accept that is repeated is the same.
func (o *parts) notes(p *process, ask node.Ask) {
	k := &p.outlook
	switch q := ask.Request.(type) {
	case node.Join:
		k.worker, k.news = q.Worker, map[uint64]node.Info{ask.ID: q.Info}
		k.accept = 0 // the lease that it was asked under is lost: the node takes no notice of the answer
	case node.Beat:
		k.news[ask.ID] = q.Info
	case node.Accept:
		k.accept = ask.ID
		if o.asked[q.Worker].Demand != q.Demand {
			known := asking{Demand: q.Demand, fleet: k.fleet(), sure: k.sure, at: o.w.Now()}
			if p.Steady().Sub(k.since) >= patience {
				known.left = k.left
			}
			o.asked[q.Worker] = known
		}
		k.asked = o.asked[q.Worker]
	}
}

// look takes note of the leases as a node read them. A node that is alone by its configuration takes all others
// for gone.
func (k *outlook) look(p *process, list []node.Member, shares bool) {
	now, before := p.Steady(), k.seen
	k.others, k.seen, k.sure = nil, map[string]sighting{}, shares
	for _, m := range list {
		if m.Worker == k.worker {
			continue
		}
		at, known := before[m.Worker]
		if !known || at.beat != m.Beat {
			at = sighting{m.Beat, now}
		}
		k.seen[m.Worker] = at
		takes := m.Info.Roles.Has(node.Replication) && m.Info.Status == node.Up && !m.Expired
		if !takes || strings.HasPrefix(m.Worker, p.Worker()) {
			continue
		}
		k.others = append(k.others, m)
		k.sure = k.sure && now.Sub(at.at) < max(p.applied.ActivityTimeout, m.Info.ActivityTimeout)
	}
}

// checkLeaves is S32c and S32d.
func (o *parts) checkLeaves(p *process, job string) {
	known, was := o.asked[p.outlook.worker]
	if job == "" || !was || !known.sure {
		return
	}
	if !known.fleet.othersFree() {
		o.Fail("S32c", "%s leaves job %s to others, and of %+v none has free slots", p.Name, job, known.fleet)
	}
	if job == known.left {
		o.Fail("S32d", "%s has left job %s to others for %s, and does so again", p.Name, job, patience)
	}
}

// leaves notes the job that an accept left to others.
func (k *outlook) leaves(job string, now instant.Time) {
	if job != k.left {
		k.left, k.since = job, now
	}
}

// takes reports whether a node could take a job now.
func (p *process) takes() bool {
	return p.Roles().Has(node.Replication) && !p.Draining() && !p.applied.Maintenance &&
		p.Running() < p.MaxJobs() && p.duties[join].id == 0
}

// asksForJobs reports whether a node asks for jobs, or for one that it turned out to hold.
func (p *process) asksForJobs() bool {
	return p.duties[acceptReady].id != 0 || p.duties[resume].id != 0
}

// checkAwaits is L9a. A watch for part 0 is for all jobs.
func (o *parts) checkAwaits(p *process) {
	k := &p.outlook
	f := k.fleet()
	own := k.part(f)
	covered := k.awaited == 0 || own&^k.awaited == 0
	if p.takes() && !p.asksForJobs() && k.waits && k.sure && !covered {
		o.Fail("L9a", "%s waits to be told of jobs in %x, has looked at the others, and its part is %x",
			p.Name, k.awaited, own)
	}
}

// checkLooksAfter is L9b.
func (o *parts) checkLooksAfter(p *process) {
	k := &p.outlook
	if !p.takes() || p.asksForJobs() || k.left == "" {
		return
	}
	last := p.duties[acceptReady].last // when the last accept was answered
	if now := p.Steady(); last < k.since.Add(patience) && now > k.since.Add(patience+dutyGrace) {
		o.Fail("L9b", "%s left job %s to others at %s, and has not looked after it at %s", p.Name, k.left, k.since, now)
	}
}

// follow takes note of jobs that begin and cease to wait for a slot.
func (o *parts) follow(j jobChange) {
	_, waited := o.ready[j.id]
	waits := j.after.ready()
	if waits && !waited {
		o.ready[j.id] = o.w.Now()
	}
	if !waits && waited {
		delete(o.ready, j.id)
		o.taken[j.id] = o.w.Now()
	}
}

// landed judges an accept before its jobs are known to have left the queue.
func (o *parts) landed(l landing) {
	q, is := l.Request.(node.Accept)
	known, was := o.asked[q.Worker]
	if !is || !was || known.Demand != q.Demand || !known.sure || len(known.fleet.nodes) == 1 {
		return
	}
	own, beside := known.fleet.own(), ""
	for _, id := range l.jobs {
		if _, waited := o.ready[id]; waited && !own.Has(id) {
			beside = id
		}
	}
	if beside != "" {
		o.checkLeft(l, known, beside)
		o.checkOwnFirst(l, known, q, beside)
	}
}

// checkLeft is S32a: some job was left to others in vain. It may have left the queue since the accept read it.
func (o *parts) checkLeft(l landing, known asking, beside string) {
	_, waits := o.ready[known.left]
	taken, was := o.taken[known.left]
	inVain := known.left != "" && (waits || was && o.w.Now().Sub(taken) <= readAge)
	if known.fleet.othersFree() && !inVain {
		o.Fail("S32a", "job %s is taken by %v beside its part of %+v, and no job was left to others for %s",
			beside, l.Request, known.fleet, patience)
	}
}

// isDropped reports whether the database of a job was deleted, or may have been by a deletion that is not answered yet.
func (o *parts) isDropped(s *shadow) bool {
	_, dropped := o.dropped[s.instance()]
	return dropped || !s.record.Transient() && !o.instances()[s.instance()]
}

// checkOwnFirst is S32b, as far as all jobs that waited when the accept read are among the first.
func (o *parts) checkOwnFirst(l landing, known asking, q node.Accept, beside string) {
	waited := len(o.ready)
	for _, taken := range o.taken {
		if o.w.Now().Sub(taken) <= readAge {
			waited++
		}
	}
	if waited > q.Demand.Window {
		return
	}
	own, read := known.fleet.own(), known.at.Add(-readAge) // the transaction may have read at once
	for id, since := range o.ready {                       // in any order: one is enough
		free := since < read && !slices.Contains(q.Without, id) && !o.isDropped(o.shadows[id])
		if free && own.Has(id) && !slices.Contains(l.jobs, id) {
			o.Fail("S32b", "job %s is taken by %v beside its part %x, and %s in it waits since %s",
				beside, q, own, id, since)
		}
	}
}
