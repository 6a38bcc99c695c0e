package oracle

import (
	"encoding/json"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/spec"
	"couchrelay/sim/world"
)

// newJobs are the invariants of how jobs are made.
type newJobs struct {
	*chronicle
	copies map[string]string // what replications copy, by the ids of their checkpoints
	bases  map[string]string // the other way round
}

var newJobSubject = subject{
	invariants: []Invariant{
		{"S18g", "A new job has its replication id, unless that depends on a filter function which its run " +
			"has to read."},
		{"S18j", "Replications have the same checkpoints if they copy the same from one database to the other, and " +
			"only then; their ids tell also whether they are continuous and make their targets."},
		{"S22", "A job that is not over is made anew only when its document or request asks for another " +
			"replication."},
		{"S29a", "A new job tells of one event, that it was added, at the time when it was made."},
		{"S29b", "The job of a document belongs to the user in whose name the document replicates, or to the " +
			"operator who had it run again and became the owner of a document without one."},
		{"S29c", "A new job, and one that is over as its edited document goes on saying, tells the source, target, " +
			"kind and checkpoint interval of its replication."},
	},
	begin: func(c *chronicle) {
		n := &newJobs{c, map[string]string{}, map[string]string{}}
		c.on.jobChanged.add(func(j jobChange) { n.changed(j); n.checkID(j) })
	},
}

// changed judges a commit that makes a job, be it in the place of one with the same id. Replications are
// compared as they are stored, byte by byte: a job that is made anew without need loses its numbers and its
// turn.
func (n *newJobs) changed(j jobChange) {
	before, after := j.before, j.after
	if before.header != nil && before.isOver() && after.header != nil && after.isOver() && after.spec != "" {
		n.checkTold(j.id, after)
	}
	if after.header == nil || before.header != nil && after.record.Created == before.record.Created {
		return
	}
	if !after.record.State.Terminal() { // a document may be written with a state, and its job is over at once
		n.checkNew(j.id, after)
	}
	if before.header != nil && !before.isOver() && after.spec != "" && after.spec == before.spec {
		n.Fail("S22", "job %s was made anew by %v, and does the same as before", j.id, j.Request)
	}
}

// checkID is S18j, whenever a job gets a replication id. The text of a filter function is a part of that, too.
func (n *newJobs) checkID(j jobChange) {
	rec := j.after.record
	if j.after.header == nil || rec.RepID == "" || j.after.spec == "" ||
		j.before.header != nil && j.before.record.RepID == rec.RepID && j.before.spec == j.after.spec {
		return
	}
	e, id := essenceOf(j.after.spec), rec.BaseID
	if e.continuous {
		id += "+continuous"
	}
	if e.createTarget {
		id += "+create_target"
	}
	was, had := n.copies[rec.BaseID]
	other, has := n.bases[e.matter]
	switch {
	case rec.RepID != id:
		n.Fail("S18j", "job %s is replication %s, and should be %s", j.id, rec.RepID, id)
	case had && was != e.matter:
		n.Fail("S18j", "checkpoints %s are of %s, and job %s copies %s", rec.BaseID, was, j.id, e.matter)
	case has && other != rec.BaseID && !e.filtered:
		n.Fail("S18j", "job %s copies %s, with checkpoints %s, not %s", j.id, e.matter, other, rec.BaseID)
	}
	n.copies[rec.BaseID], n.bases[e.matter] = e.matter, rec.BaseID
}

// userOf is in whose name a document replicates: its owner's, which only followed documents name.
func (n *newJobs) userOf(rec *jobstore.Record) string {
	for _, one := range n.w.Followings() {
		if rec.Database != one.Mirror().Name() {
			continue
		}
		if doc := n.document(one.Mirror(), rec.DocID); doc != nil {
			if owner, names := readFollowed(doc.Body).users["owner"].(string); names {
				return owner
			}
		}
	}
	return world.UserOf(rec.DocID)
}

// checkNew is S18g and S29a to S29c.
func (n *newJobs) checkNew(id string, s *shadow) {
	a := s.record
	told := a.History
	retried := len(told) == 2 && told[0].Type == "retried"
	if retried { // by the user who had it made of one that was over
		told = told[1:]
	}
	added := len(told) == 1 && told[0].Type == "added" && told[0].At == a.Created
	if !added || a.LastUpdated != a.Created {
		n.Fail("S29a", "job %s was made at %s, and tells of %s and %+v",
			id, a.Created, a.LastUpdated, a.History)
	}
	if rep, err := n.w.Store().Spec(n.w.Present(), id); err == nil && rep != nil {
		if filtered := rep.Filter.Kind == spec.FunctionFilter; (a.RepID == "") != filtered {
			n.Fail("S18g", "job %s is made as replication %q, with a filter function: %v",
				id, a.RepID, filtered)
		}
	}
	if user := n.userOf(a); !a.Transient() && a.User != user && !(retried && a.User == world.Requester) {
		n.Fail("S29b", "document %s/%s is of %s, and its job of %q", a.Database, a.DocID, user, a.User)
	}
	n.checkTold(id, s)
}

// checkTold is S29c.
func (n *newJobs) checkTold(id string, s *shadow) {
	a := s.record
	var stored struct {
		Replication struct {
			Source, Target struct{ URL string }
			Continuous     bool
			Interval       time.Duration `json:"checkpoint_interval_ns"`
		}
	}
	err := json.Unmarshal([]byte(s.spec), &stored)
	r := &stored.Replication
	if err != nil || a.Source != r.Source.URL || a.Target != r.Target.URL || a.Continuous != r.Continuous ||
		time.Duration(a.CheckpointInterval)*time.Millisecond != r.Interval {
		n.Fail("S29c", "job %s is %+v, and tells of %s, %s, continuous %v and checkpoints every %d ms: %v",
			id, *r, a.Source, a.Target, a.Continuous, a.CheckpointInterval, err)
	}
}
