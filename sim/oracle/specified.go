package oracle

import (
	"errors"

	"couchrelay/sim/model"
)

// specified has each commit compared with the executable specification of the job system.
type specified struct{ *chronicle }

var specifiedSubject = subject{
	invariants: []Invariant{
		{"S99a", "A commit changes all rows of a job together, as they follow from the job, and the counters by as " +
			"much."},
		{"S99b", "A commit makes of a job only what its life allows, and what the request of the commit asks for."},
		{"S99c", "Jobs are accepted from among the first, under a lock that no run had before; they " +
			"are taken only from workers that are given up, and ended only by those that hold them; waits end " +
			"when they are due, the earliest first."},
		{"S99d", "A lease begins and lives by heartbeats of its worker, and ends with that worker's last job."},
		{"S99e", "The record of a job says what the commit has made of it, and nothing else changes in it; a " +
			"replication that a job gives up goes to one that waits for it."},
	},
	begin: func(c *chronicle) {
		c.model = model.New(c.w.Root())
		s := &specified{c}
		c.on.landed.add(s.landed)
		c.on.runStarted.add(func(r *run) { c.model.Ran(r.Lock()) })
	},
}

// landed compares a commit, until the first that is not as it must be.
func (s *specified) landed(l landing) {
	if s.violation != nil {
		return
	}
	err := s.model.Commit(&model.Commit{
		Mutations: l.Mutations, Read: l.Read, Version: l.Version, Stamp: l.Stamp, Request: l.Request, Wall: l.Wall,
	})
	if b, is := errors.AsType[*model.Breach](err); is {
		id := map[model.Rule]string{
			model.Rows: "S99a", model.Life: "S99b", model.Taking: "S99c", model.Leasing: "S99d",
			model.Records: "S99e",
		}[b.Rule]
		s.Fail(id, "%s", b.Text)
	}
}
