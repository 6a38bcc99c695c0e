package oracle

import (
	"testing"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/peer"
	"couchrelay/sim/world"
)

func TestLimits(t *testing.T) {
	options := func(more ...any) map[string]any {
		m := map[string]any{"worker_processes": 3, "worker_batch_size": 2, "http_connections": 6,
			"use_bulk_get": true}
		for i := 0; i < len(more); i += 2 {
			m[more[i].(string)] = more[i+1]
		}
		return m
	}
	// calls has a run with these options send requests, none of which is answered.
	calls := func(members map[string]any, ops ...peer.Op) func(*rig) {
		return func(r *rig) {
			run := r.run(members)
			for _, op := range ops {
				r.call(run, op)
			}
		}
	}
	slowed := func(r *rig) *world.Run {
		return r.runOf(r.node(1), jobstore.Work{
			JobID: "job", Lock: jobs.Lock{Worker: "n1/1"}, Replication: r.replication(options()),
			Record: &jobstore.Record{Lessons: jobstore.Lessons{Throttled: true}},
		})
	}
	half := peer.FetchDocs{Docs: reads("a").Docs, Budget: world.Default().Memory/2 + 1}
	check(t, along(&limitSubject, &countsOnly, &calledOnly), []case_{
		{"three batches", calls(options(), asked("a"), asked("b"), reads("c")), ""},
		{"four batches", calls(options(), asked("a"), asked("b"), reads("c"), asked("d")), "S30s"},
		{"two batches of a run that was slowed down", func(r *rig) {
			run := slowed(r)
			r.call(run, asked("a"))
			r.call(run, asked("b"))
		}, ""},
		{"three batches of a run that was slowed down", func(r *rig) {
			run := slowed(r)
			r.call(run, asked("a"))
			r.call(run, asked("b"))
			r.call(run, asked("c"))
		}, "S30s"},
		{"two copies", calls(options(), copyOf("a"), copyOf("b")), ""},
		{"three copies", calls(options(), copyOf("a"), copyOf("b"), copyOf("c")), "S30s"},
		{"one read of half the memory", calls(options(), half), ""},
		{"two reads of more than half the memory", calls(options(), half, half), "S30t"},
		{"six rows ahead", func(r *rig) {
			run := r.run(options())
			r.does(run, read, rows(from, ids(6)...))
			r.call(run, read)
		}, ""},
		{"seven rows ahead", func(r *rig) {
			run := r.run(options())
			r.does(run, read, rows(from, ids(7)...))
			r.call(run, read)
		}, "S30u"},
		{"seven rows ahead of one that was compared", func(r *rig) {
			run := r.run(options())
			r.does(run, read, rows(from, ids(7)...))
			r.call(run, asked("d0"))
			r.call(run, read)
		}, ""},
		{"seven rows ahead, of a source that repeats them", func(r *rig) {
			run := r.run(options())
			run.GoBack()
			r.does(run, read, rows(from, ids(7)...))
			r.call(run, read)
		}, ""},
		{"a target made", calls(options("create_target", true), peer.Create{}), ""},
		{"a target made without create_target", calls(options(), peer.Create{}), "S30v"},
		{"a target made with parameters of its own", calls(options("create_target", true),
			peer.Create{Params: []peer.Param{{Name: "q", Value: "1"}}}), "S30v"},
		{"a checkpoint without use_checkpoints",
			calls(options("use_checkpoints", false), peer.PutLocal{}), "S30v"},
		{"a checkpoint", calls(options(), peer.PutLocal{}), ""},
		{"a bulk read without use_bulk_get", calls(options("use_bulk_get", false), reads("a")), "S30v"},
		{"two documents compared", calls(options(), asked("a", "b")), ""},
		{"three documents compared", calls(options(), asked("a", "b", "c")), "S30w"},
	})
}

// calledOnly counts the revisions that runs compare, and judges nothing.
var calledOnly = subject{begin: func(c *chronicle) {
	c.on.runCalls.add(func(c call) {
		if op, is := c.op.(peer.DiffRevs); is {
			c.counts.compared += int64(len(op.Docs))
		}
	})
}}
