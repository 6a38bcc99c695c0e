package trial

import (
	"maps"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/replication"
	"couchrelay/sim/oracle"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// probe makes experiments once everything has come to rest: a job starts soon after its document was written,
// at the place in the order that the definition gives it, another right after it, and they stop soon after
// these were deleted. Watches that were lost before the healing end within a while.
func (t *Trial) probe() {
	t.pass(world.AwaitLimit + 2*oracle.ProbeLimit)
	t.balance()
	if t.broken() || t.JobsReady() > 0 || t.FreeSlots() == 0 || len(t.View().Tenants()) == 0 {
		return
	}
	s := t.Servers()[0]
	if s.DB("a1") == nil {
		return // deleted for good
	}
	first := t.start(s, "probe", nil)
	if first == nil {
		return
	}
	id := first.JobID()
	site := t.Decider.Site("experiments")
	second := t.start(s, "another-probe", map[string]any{
		"checkpoint_interval": 6000, "use_checkpoints": site.Int(4) < 3})
	if first.JobID() != id {
		return // a user who began before has made its database anew
	}
	another := ""
	if second != nil {
		another = second.JobID()
	}
	t.change(id)
	t.lowerMaxJobs()
	t.waitForNumbers()
	if second != nil {
		if second.JobID() != another {
			return // a user has made its database anew meanwhile
		}
		t.remakeTarget(another)
	}
	t.remakeFollowed()
	for _, j := range []*world.JobDoc{first, second} {
		if j == nil || t.broken() || !t.write(j, false) {
			return
		}
		t.pass(oracle.ProbeLimit)
		t.CheckGone(j)
	}
}

// balance waits until each node runs about its part of all jobs.
func (t *Trial) balance() {
	if e := t.Uneven(); e.Lasts > 0 && !t.broken() {
		t.pass(e.Lasts)
		t.CheckEven(e)
	}
}

// pass lets time pass.
func (t *Trial) pass(d time.Duration) { t.Engine.Run(t.Engine.Now().Add(d), t.broken) }

// write writes a document, or deletes it, at once, as nothing fails now.
func (t *Trial) write(j *world.JobDoc, present bool) bool {
	err := t.WriteNow(j, present)
	t.CheckWriteNow(j, err)
	return err == nil
}

// start writes a document while a slot is free, and looks for its run. It returns nil when there is none.
func (t *Trial) start(s *peers.Server, name string, options map[string]any) *world.JobDoc {
	if t.broken() || t.FreeSlots() == 0 {
		return nil
	}
	body := map[string]any{
		"source": world.URL(s.Name, "a1"), "target": world.URL(s.Name, name), "create_target": true, "continuous": true,
		"weight": 1 + 100*len(name)%1000}
	maps.Copy(body, options)
	j := t.NewDocument(name, body)
	id := j.JobID()
	t.ExpectPlace(id, j.Tenant().Name())
	if !t.write(j, true) {
		return nil
	}
	limit := t.StartLimit()
	if t.pass(limit); t.broken() || j.JobID() != id {
		return nil // a user who began before may make its database anew
	}
	t.CheckStarted(j, limit)
	return j
}

// lowerMaxJobs has a node run fewer jobs than it does, for a while.
func (t *Trial) lowerMaxJobs() {
	for _, p := range t.View().Nodes() {
		n := p.Running()
		if n == 0 || t.broken() || p.Draining() {
			continue
		}
		before := p.Settings()
		fewer := before
		fewer.MaxJobs = n - 1
		p.Configure(fewer)
		limit := before.StopTimeout + oracle.ProbeLimit
		t.pass(limit)
		if p.Settings().MaxJobs == n-1 { // else what the nemesis changed for a while was put back
			t.CheckRunsFewer(p, n, limit)
		}
		p.Configure(before)
		t.pass(oracle.ProbeLimit)
		return
	}
}

// change writes a document to the source of a job while its run waits for changes.
func (t *Trial) change(id string) {
	path := t.Follow(id)
	if path == nil {
		return
	}
	if !t.wait(10*time.Minute, path.Absent) || !t.wait(10*time.Minute, path.Uncovered) {
		return // what was there before takes what it takes
	}
	path.Source.Write([]docs.Edit{{Document: docs.Document{ID: "probe", Body: []byte("{}")}, Token: t.NextToken()}})
	path.Source.Sync()
	path.Watch()
	arrived := t.wait(oracle.Soon, path.Absent)
	if !arrived && path.GoesOn() {
		path.CheckArrived(oracle.Soon)
		return
	}
	if checkpointed := oracle.Soon + 2*path.Interval(); !t.wait(checkpointed, path.Uncovered) {
		path.CheckCovered(checkpointed)
	}
}

// remakeTarget deletes the target of a job whose run waits for changes, and makes it again.
func (t *Trial) remakeTarget(id string) {
	path := t.Follow(id)
	if path == nil || !t.wait(10*time.Minute, path.Absent) || !t.wait(10*time.Minute, path.Uncovered) {
		return
	}
	path.Watch()
	was := path.Target()
	made := world.Remake(t.World, was)
	if !t.wait(path.NextLook(), path.Unnoticed) {
		path.CheckRefilled(was, made)
	}
}

// remakeFollowed deletes followed databases, and makes them again without one of their documents. Their jobs may wait
// as long as after the healing: what was refused seven times is not tried again for more than an hour.
func (t *Trial) remakeFollowed() {
	const look = 10 * time.Second
	for _, f := range t.View().Followings() {
		if t.broken() || !f.RemakeWithout(t.World) {
			continue
		}
		for end := t.Engine.Now().Add(t.Config.Settle); !t.broken(); {
			if t.pass(look); t.Settled() {
				break
			} else if t.Engine.Now() > end {
				why := t.Unsettled()
				t.Fail(why.ID, "%s", why.Text)
			}
		}
	}
}

// wait lets time pass until nothing is missing, or the limit is over. It reports whether nothing is missing.
func (t *Trial) wait(limit time.Duration, missing func() string) bool {
	for end := t.Engine.Now().Add(limit); missing() != ""; {
		if t.pass(time.Second); t.Engine.Now() > end || t.broken() {
			return false
		}
	}
	return true
}

// waitForNumbers has jobs tell what their runs have done.
func (t *Trial) waitForNumbers() {
	if t.broken() {
		return
	}
	done := map[*world.Run]replication.Info{}
	for _, p := range t.View().Nodes() {
		for _, r := range p.Runs() {
			done[r] = r.Info()
		}
	}
	t.pass(2*t.Config.Settings.ProgressInterval + oracle.Soon)
	t.CheckTold(done)
}

// empty removes all jobs, and has the oracle look for rows, runs and slots that are left of them. It waits until no
// user writes, since a write that is under way may make a job anew.
func (t *Trial) empty() {
	if !t.wait(10*time.Minute, func() string { return world.UnderWay(t.World) }) {
		return
	}
	removed, err := world.RemoveAll(t.World)
	t.CheckRemoved(err)
	if removed && !t.broken() {
		t.pass(oracle.EmptyLimit + t.Config.Settings.PollInterval)
	}
	if removed && !t.broken() {
		t.CheckEmpty()
	}
}
