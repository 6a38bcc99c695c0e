package oracle

import (
	"errors"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/replication"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

func TestProbes(t *testing.T) {
	// runs has the first node run the job of a document.
	runs := func(r *rig, j *world.JobDoc) {
		r.runOf(r.node(1), jobstore.Work{JobID: j.JobID(), Replication: r.replication(nil),
			Record: &jobstore.Record{}})
	}
	doc := func(r *rig) *world.JobDoc { return r.w.NewDocument("doc", nil) }
	occupied := func(n, limit int) func(*rig) {
		return func(r *rig) {
			r.node(1).Occupy(n)
			r.o.CheckRunsFewer(r.node(1), limit, time.Second)
		}
	}
	checkDocuments(t, &probingSubject, []case_{
		{"written", func(r *rig) { r.o.CheckWriteNow(doc(r), nil) }, ""},
		{"not written", func(r *rig) { r.o.CheckWriteNow(doc(r), errors.New("no")) }, "S3h"},
		{"runs", func(r *rig) { runs(r, doc(r)); r.o.CheckStarted(doc(r), r.o.StartLimit()) }, ""},
		{"does not run", func(r *rig) { r.o.CheckStarted(doc(r), r.o.StartLimit()) }, "L6e"},
		{"has no slot", func(r *rig) { busy(r); r.o.CheckStarted(doc(r), r.o.StartLimit()) }, ""},
		{"is behind others", func(r *rig) {
			r.know("other", aJob(jobstore.Record{State: jobstore.Crashing, LastStart: r.now().Add(-time.Second / 2)}))
			r.o.CheckStarted(doc(r), r.o.StartLimit())
		}, ""},
		{"is behind nobody", func(r *rig) {
			r.know("other", aJob(jobstore.Record{State: jobstore.Crashing, LastStart: r.now().Add(-time.Second)}))
			r.o.CheckStarted(doc(r), r.o.StartLimit())
		}, "L6e"},
		{"is gone", func(r *rig) { r.o.CheckGone(doc(r)) }, ""},
		{"still runs", func(r *rig) { runs(r, doc(r)); r.o.CheckGone(doc(r)) }, "L6f"},
		{"runs fewer", occupied(1, 2), ""},
		{"runs as many", occupied(2, 2), "L6g"},
		{"counts ready jobs", func(r *rig) {
			if r.request(nil); r.o.JobsReady() != 1 {
				r.t.Error("one job waits")
			}
		}, ""},
	})
}

func TestProbedNumbers(t *testing.T) {
	// told has a job tell of a read document, when its run had read so many.
	told := func(read int64, reads, holds bool) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			s := aJob(jobstore.Record{State: jobstore.Running, Stats: jobstore.Stats{DocsRead: 1}})
			if r.know("job", s); !holds {
				s.header.State = jobs.Pending
			}
			r.o.of[run].feed.begun = reads
			info := replication.Info{}
			info.DocsRead = read
			r.o.CheckTold(map[*world.Run]replication.Info{run: info})
		}
	}
	check(t, &probingSubject, []case_{
		{"all", told(1, true, true), ""},
		{"too few", told(2, true, true), "L8a"},
		{"by a run that has not begun to read", told(2, false, true), ""},
		{"by a run that lost its job", told(2, true, false), ""},
		{"by a run that is new", func(r *rig) { r.run(nil); r.o.CheckTold(nil) }, ""},
	})
}

func TestProbedChanges(t *testing.T) {
	// follow has a run wait for changes of the source of a job, which has one.
	follow := func(then func(*rig, *Path)) func(*rig) {
		return func(r *rig) {
			id := r.request(map[string]any{"doc_ids": []string{"doc"}})
			s := r.o.shadows[id]
			r.runOf(r.node(1), jobstore.Work{JobID: id, Replication: r.replication(nil), Record: s.record})
			r.write(r.db("s1", "a1"), "doc")
			p := r.o.Follow(id)
			p.Watch()
			then(r, p)
		}
	}
	ends := func(r *rig) { r.see(world.RunEnded{Run: r.o.runs[0].Run}) }
	// remakes has the target made again that has no checkpoints.
	remakes := func(starts peers.Starts, numeric bool, edits int) func(*rig) {
		return follow(func(r *rig, p *Path) {
			was := p.Target()
			was.Server.Starts, was.Server.Numeric, p.rep.UseCheckpoints = starts, numeric, false
			for range edits {
				r.write(was, "doc")
			}
			was.Server.Delete(was.Name)
			p.CheckRefilled(was, was.Server.Create(was.Name))
		})
	}
	check(t, &probingSubject, []case_{
		{"has not arrived", follow(func(_ *rig, p *Path) { p.CheckArrived(Soon) }), "L8b"},
		{"waits for its turn", follow(func(r *rig, p *Path) { ends(r); p.CheckArrived(Soon) }), ""},
		{"is not covered", follow(func(_ *rig, p *Path) { p.CheckCovered(Soon) }), "L8c"},
		{"waits for its turn to cover", follow(func(r *rig, p *Path) { ends(r); p.CheckCovered(Soon) }), ""},
		{"is not filled again", follow(func(_ *rig, p *Path) { p.CheckRefilled(p.Target(), p.Target()) }), "L8e"},
		{"is not filled again, and tells its start", remakes(peers.StartsOfDatabases, false, 0), "L8e"},
		{"is not filled again, and tells that of its server", remakes(peers.StartOfServer, false, 0), ""},
		{"is not filled again, and its number went back", remakes(peers.NoStarts, true, 1), "L8e"},
		{"is not filled again, and tells nothing", remakes(peers.NoStarts, false, 1), ""},
		{"has a run that noticed", follow(func(r *rig, p *Path) {
			if ends(r); p.Unnoticed() != "" {
				r.t.Error("a run that is over goes on")
			}
		}), ""},
		{"a job that is not there", func(r *rig) {
			if r.o.Follow("none") != nil {
				r.t.Error("there is a path")
			}
		}, "S3a"},
		{"all that is to come", follow(func(r *rig, p *Path) {
			if p.Absent() == "" || p.Uncovered() == "" {
				r.t.Error("a document has arrived that no run has copied")
			}
			if delete(r.o.shadows, p.id); p.Uncovered() != "" {
				r.t.Error("a job that is gone has something to cover")
			}
		}), ""},
	})
}

func TestWatchedJobs(t *testing.T) {
	r := newRig(t, &probingSubject)
	var last JobChanged
	times := 0
	r.o.Watch = func(j JobChanged) { last = j; times++ }
	running := jobstore.Record{State: jobstore.Running, Database: "a/_replicator", DocID: "doc", Node: "n1"}
	waiting := running
	waiting.State = jobstore.Crashing
	waiting.Reason = "because"
	for _, c := range []struct {
		before, after *shadow
		want          JobChanged
	}{
		{&shadow{}, aJob(running), JobChanged{"job", "a/_replicator", "doc", jobstore.Running, "n1", ""}},
		{aJob(running), aJob(waiting),
			JobChanged{"job", "a/_replicator", "doc", jobstore.Crashing, "", "because"}},
		{aJob(waiting), &shadow{}, JobChanged{Job: "job"}},
	} {
		if r.change(nil, c.before, c.after); last != c.want {
			t.Errorf("told of %+v, and should be of %+v", last, c.want)
		}
	}
	if r.change(nil, &shadow{}, &shadow{}); times != 3 {
		t.Error("told of a job that never was")
	}
}
