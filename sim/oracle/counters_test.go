package oracle

import (
	"testing"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/world"
)

func TestCounters(t *testing.T) {
	// copying has a run read two rows and copy the one document that its target lacks.
	copying := func(r *rig) *world.Run {
		r.edit(r.db("s1", "a1"), "a", "b")
		run := r.run(nil)
		run.SetInfo(replication.Info{Counters: checkpoint.Counters{DocsWritten: 10, DocsRead: 10}})
		r.does(run, read, ended(r.db("s1", "a1").Last(), "a", "b"))
		r.does(run, asked("a", "b"), lacks("b"))
		r.does(run, reads("b"), came(1, 0))
		return run
	}
	honest := func(r *rig) replication.Info {
		return replication.Info{Written: 1, SourceSeq: r.db("s1", "a1").Last(),
			ThroughSeq: r.db("s1", "a1").Last(),
			Counters: checkpoint.Counters{
				DocsWritten: 11, DocsRead: 11, BulkGetAttempts: 1, BulkGetDocs: 1, MissingChecked: 2,
				MissingFound: 1,
			}}
	}
	// done has a run be done with the numbers it should tell, but for a change.
	done := func(but func(*replication.Info)) func(*rig) {
		return func(r *rig) {
			run, info := copying(r), honest(r)
			but(&info)
			r.ends(run, replication.Completed, info)
		}
	}
	check(t, along(&counterSubject, &feedSubject), []case_{
		{"what was done", done(func(*replication.Info) {}), ""},
		{"docs_written", done(func(i *replication.Info) { i.DocsWritten++ }), "S14b"},
		{"doc_write_failures", done(func(i *replication.Info) { i.DocWriteFailures++ }), "S14b"},
		{"docs_read", done(func(i *replication.Info) { i.DocsRead-- }), "S14b"},
		{"bulk_get_attempts", done(func(i *replication.Info) { i.BulkGetAttempts++ }), "S14b"},
		{"bulk_get_docs", done(func(i *replication.Info) { i.BulkGetDocs = 0 }), "S14b"},
		{"revisions_checked", done(func(i *replication.Info) { i.MissingChecked++ }), "S14b"},
		{"missing_revisions_found", done(func(i *replication.Info) { i.MissingFound++ }), "S14b"},
		{"revisions_checked, of a source that repeats them", func(r *rig) {
			run, info := copying(r), honest(r)
			run.GoBack()
			info.MissingChecked++
			r.ends(run, replication.Completed, info)
		}, ""},
		{"docs_read too few, not done yet", func(r *rig) {
			run, info := copying(r), honest(r)
			info.DocsRead = 0
			r.tells(run, nil, info)
		}, ""},
		{"source_seq behind", done(func(i *replication.Info) { i.SourceSeq = peer.Zero }), "S14c"},
		{"read without a question", func(r *rig) { r.call(r.run(nil), reads("a")) }, "S30y"},
		{"read what the target has", func(r *rig) {
			run := r.run(nil)
			r.does(run, asked("a", "b", "c"), lacks("b"))
			r.call(run, reads("a"))
		}, "S30y"},
		{"read without an answer", func(r *rig) {
			run := r.run(nil)
			r.fails(run, asked("a"), status(500))
			r.call(run, reads("a"))
		}, "S30y"},
		{"read without an answer by a lenient run", func(r *rig) {
			run := r.run(nil)
			run.Record().ErrorCount = 5
			r.fails(run, asked("a"), status(500))
			r.call(run, reads("a"))
		}, ""},
		{"read without a question after five answers", func(r *rig) {
			run := r.run(nil)
			for range absentMost {
				r.does(run, asked("a"), lacks("a"))
			}
			r.call(run, reads("z"))
		}, ""},
	})
}
