package oracle

import (
	"encoding/json"
	"errors"
	"strconv"

	"couchrelay/sim/model"
	"couchrelay/sim/world"
)

// specified has each commit compared with the executable specification of the job system.
type specified struct {
	*chronicle
	writes map[uint64]*world.Write // of documents, by number
}

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
		{"S100a", "A document has the job that it asks for: it keeps one that does the same, and gets another one in " +
			"the commit that asks for another replication, or says that it is over."},
		{"S100b", "A document is stored as its user sent it, with an owner, and without what another replicator " +
			"wrote of a replication that is not over; one that cannot be replicated, or is forbidden, is not " +
			"stored."},
		{"S100c", "A node writes into a document when it ends the job, in the same commit: how that ended, when, and " +
			"why or with which numbers. Nothing else in it changes."},
		{"S100d", "A document with conflicts is the leaf that is not deleted, has the longest history and then the " +
			"greatest name; a write replaces the leaf that it was made from, and no other."},
	},
	begin: func(c *chronicle) {
		c.model = model.New(c.w.Root())
		c.model.Forbids, c.model.Usual = world.Forbidden, usualNumbers(c.w.Config())
		s := &specified{c, map[uint64]*world.Write{}}
		c.on.writeBegins.add(func(f world.WriteBegins) { s.writes[f.Write.Token] = f.Write })
		c.on.landed.add(s.landed)
		c.on.runStarted.add(func(r *run) { c.model.Ran(r.Lock()) })
	},
}

// usualNumbers are those of replications that name none. Whoever names worker_processes has no more batches on the
// line, so it makes a difference unless that is configured, too.
func usualNumbers(c *world.Config) map[string]json.Number {
	usual := map[string]int{
		"worker_batch_size": c.BatchSize, "http_connections": usualConnections, "retries_per_request": c.Retries,
		"checkpoint_interval": int(c.CheckpointInterval.Milliseconds()),
	}
	if mostWorkers(c) == 0 {
		usual["worker_processes"] = c.Workers
	}
	numbers := map[string]json.Number{}
	for name, n := range usual {
		numbers[name] = json.Number(strconv.Itoa(n))
	}
	return numbers
}

// landed compares a commit, until the first that is not as it must be.
func (s *specified) landed(l landing) {
	if s.violation != nil {
		return
	}
	err := s.model.Commit(&model.Commit{
		Mutations: l.Mutations, Read: l.Read, Version: l.Version, Stamp: l.Stamp, Request: l.Request, Wall: l.Wall,
		Sent: s.sent,
	})
	if b, is := errors.AsType[*model.Breach](err); is {
		id := map[model.Rule]string{
			model.Rows: "S99a", model.Life: "S99b", model.Taking: "S99c", model.Leasing: "S99d",
			model.Records: "S99e", model.Following: "S100a", model.Storing: "S100b", model.Telling: "S100c",
			model.Winning: "S100d",
		}[b.Rule]
		s.Fail(id, "%s", b.Text)
	}
}

// sent is a document as its user sends it.
func (s *specified) sent(n uint64) *model.Sent {
	if w := s.writes[n]; w != nil {
		return &model.Sent{Body: w.Sent, Brought: w.Brought, Over: w.Over}
	}
	return nil
}
