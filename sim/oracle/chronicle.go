package oracle

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/kv/ryw"
	"couchrelay/core/node"
	"couchrelay/sim/model"
	"couchrelay/sim/protocol"
	"couchrelay/sim/world"
)

// chronicle keeps the knowledge of a run of the simulator up to date, and tells checkers all events. It
// judges nothing. Whether it takes note of a fact before or after it tells it stands with the fields of
// hearing.
type chronicle struct {
	known
	on       hearing
	landings []landing // commits of the present event
	// conversations are what runs that are over took of the replication protocol; kept by protocols.
	conversations protocol.Counts
	model         *model.Model // of the job system; kept by specified
}

// boot begins a life of a node, which has lost all that it knew.
func (c *chronicle) boot(n *world.Node) {
	p := c.process(n)
	*p = process{
		Node: n, called: n.Title(), born: append(p.born, birth{n.Clock().Wall, n.Worker()}), stood: p.stood,
		applied: settings{n.Settings(), c.w.Now()},
	}
	c.on.nodeUp.tell(p)
}

// stepped tells of a node's step. The settings and the name that the step gives the node are known before,
// and the runs that it stops are known to be stopped after.
func (c *chronicle) stepped(s nodeStep) {
	if configure, is := s.ev.(node.Configure); is {
		s.p.applied = settings{configure.Settings, c.w.Now()}
	}
	for _, e := range s.effects {
		if renamed, is := e.(node.Rename); is {
			s.p.called = renamed.Name
		}
	}
	s.partial = s.seesPart()
	c.on.nodeStepped.tell(s)
	for _, e := range s.effects {
		switch e := e.(type) {
		case node.StopRun:
			if r := s.p.find(e.Run); r != nil {
				r.stopped, r.stopAt = true, c.w.Now()
			}
		case node.TellRun:
			if r := s.p.find(e.Run); r != nil && asksToGiveWay(e) {
				r.yields = true
			}
		}
	}
}

// started tells of a run before the run is known to be under way.
func (c *chronicle) started(w *world.Run) {
	p := c.process(w.Node())
	r := &run{Run: w, p: p, strayed: instant.Never, admissions: admissions{}}
	r.begin = c.beginning(r)
	c.of[w] = r
	p.runs = append(p.runs, r)
	c.on.runStarted.tell(r)
	c.runs = append(c.runs, r)
}

// ended tells of a run when it is known not to be under way any more.
func (c *chronicle) ended(w *world.Run) {
	r := c.of[w]
	is := func(other *run) bool { return other == r }
	c.runs = slices.DeleteFunc(c.runs, is)
	c.on.runEnded.tell(r)
	r.p.runs = slices.DeleteFunc(r.p.runs, is)
	delete(c.of, w)
}

// follow brings the shadows up to date with the commits of an event, and tells of each of them.
func (c *chronicle) follow() {
	landings := c.landings
	c.landings = nil
	for _, l := range landings {
		c.on.landed.tell(l)
		for _, id := range l.jobs {
			c.followJob(id, l)
		}
		c.on.followed.tell(l)
	}
}

// landing is a commit with the jobs that it changed.
type landing struct {
	world.Landed
	jobs []string
}

// touched are the jobs that a commit changes.
func (c *chronicle) touched(l world.Landed) (jobs []string) {
	for _, m := range l.Mutations {
		if id, ok := c.w.Store().Jobs.JobOf(m.Key); ok && !slices.Contains(jobs, id) {
			jobs = append(jobs, id)
		}
	}
	return jobs
}

// read decodes the record of a job, unless its data is as it was.
func (s *shadow) read(header *jobs.Job) (*jobstore.Record, error) {
	if s.header != nil && bytes.Equal(s.header.Data, header.Data) {
		return s.record, nil
	}
	record := &jobstore.Record{}
	return record, json.DecodeRecord(header.Data, record)
}

func (c *chronicle) followJob(id string, l landing) {
	header, err := c.w.Store().Jobs.Get(c.w.Present(), id)
	if err != nil {
		c.unreadable("job "+id, err)
		return
	}
	before, now := c.shadows[id], c.w.Now()
	if before == nil {
		before = &shadow{}
	}
	after := &shadow{header: header, came: before.came, gone: before.gone, over: before.over, at: now}
	change := jobChange{id: id, before: before, after: after, landing: l}
	if before.header == nil {
		after.came = now
	}
	if header == nil {
		after.gone = now
	} else {
		if after.record, err = before.read(header); err != nil {
			c.unreadable("record of job "+id, err)
			return
		}
		// A job of another time was removed and added in one commit.
		if before.record != nil && before.record.Created != after.record.Created {
			after.came, after.gone = now, now
			change.anew = true
		}
		change.anew = change.anew || madeAnew(before.record, after.record)
		if header.State == jobs.Finished && (before.header == nil || before.header.State != jobs.Finished) {
			after.over = now
		}
		c.readSpec(id, before, after, l)
	}
	c.know(id, after)
	c.on.jobChanged.tell(change)
	if before.header != nil && header != nil {
		c.on.jobMoved.tell(change)
	}
}

// readSpec reads the replication of a job that was made, as it is stored. Two requests may make a job at one moment.
func (c *chronicle) readSpec(id string, before, after *shadow, l landing) {
	of := c.w.Store().Keys.Spec.Sub(id)
	stored := slices.ContainsFunc(l.Mutations, func(m ryw.Mutation) bool { return of.Contains(m.Key) })
	if before.header != nil && after.record.Created == before.record.Created && !stored {
		after.spec, after.rep = before.spec, before.rep
		return
	}
	rows, err := c.w.Present().GetRange(of.Range(), kv.RangeOptions{})
	if err != nil {
		c.unreadable("replication of job "+id, err)
	}
	var spec strings.Builder
	for _, row := range rows {
		spec.Write(row.Value)
	}
	after.spec = spec.String()
}

// dropDatabase forgets the documents of a database that was deleted.
func (c *chronicle) dropDatabase(t *world.Tenant) {
	c.dropped[jobstore.DocumentJobs(t.Instance())] = c.w.Now()
	maps.DeleteFunc(c.docs, func(_ string, truth *docTruth) bool { return truth.j.Tenant() == t })
}

// madeAnew reports whether the history of a job begins with its making, or with the retry of one that was over, because
// it had failed or had a list of refused documents: two users who retry a job at the same moment make it at the same
// time, though it may have ended in between.
func madeAnew(before, after *jobstore.Record) bool {
	if len(after.History) == 0 {
		return false
	}
	ended := before != nil && (before.State == jobstore.Failed ||
		before.State == jobstore.Completed && before.Refused != nil && before.Refused.Listed > 0)
	retried := after.History[0].Type == "retried" && ended
	return after.History[0].Type == "added" || retried && !after.State.Terminal()
}
