package oracle

import (
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/replication"
	"couchrelay/sim/world"
)

const refusal = "replication has document `other` from db `a/_replicator`"

func TestClaims(t *testing.T) {
	owner := jobstore.Record{
		State: jobstore.Running, RepID: "rep", Database: "a/_replicator", DocID: "other", Instance: "i",
	}
	claims := func(r *rig, jobID string) {
		r.set(r.w.View().Store().Keys.Claim.Pack("rep"), []byte(jobID))
	}
	// kept has another job take the replication id of a job.
	kept := func(rec jobstore.Record) func(*rig) {
		return func(r *rig) {
			r.know("first", aJob(rec))
			claims(r, "first")
			claims(r, "second")
		}
	}
	another, over := owner, owner
	another.RepID, over.State = "another", jobstore.Completed
	check(t, &claimSubject, []case_{
		{"lost while it runs", kept(owner), "S18a"},
		{"given on when it is over", kept(over), ""},
		{"given on when it is another", kept(another), ""},
		{"claimed by a job that has it", func(r *rig) {
			r.know("first", aJob(owner))
			claims(r, "first")
			r.atRest()
		}, ""},
		{"claimed by a job that is another", func(r *rig) {
			r.know("first", aJob(another))
			claims(r, "first")
			r.atRest()
		}, "S18e"},
		{"claimed by no job", func(r *rig) { claims(r, ""); r.atRest() }, ""},
	})
}

func TestRefusedClaims(t *testing.T) {
	owner := jobstore.Record{
		State: jobstore.Running, RepID: "rep", Database: "a/_replicator", DocID: "other", Instance: "i",
	}
	claim := node.Claim{Held: held, RepID: "rep"}
	refuse := func(r *rig, reason string, since instant.Time) {
		r.know("job", aJob(jobstore.Record{State: jobstore.Running}))
		r.see(world.Answered{Node: r.node(1), Request: claim,
			Result: node.Claimed{Refused: true, Reason: reason}, Since: since})
	}
	fails := func(r *rig) {
		failed := jobstore.Record{State: jobstore.Failed}
		r.change(node.Fail{Held: held, Trouble: replication.Trouble{Error: "duplicate_job"}},
			r.o.shadows["job"], aJob(failed))
	}
	// had has a job lose the replication id so long before the refusal.
	had := func(ago time.Duration) func(*rig) {
		return func(r *rig) {
			gone := owner
			gone.RepID = ""
			r.o.on.jobChanged.tell(jobChange{id: "other", before: aJob(owner), after: aJob(gone)})
			r.know("other", aJob(gone))
			r.pass(ago)
			refuse(r, refusal, r.now())
		}
	}
	request := owner
	request.Database = ""
	check(t, &claimSubject, []case_{
		{"for a job", func(r *rig) { r.know("other", aJob(owner)); refuse(r, refusal, 0) }, ""},
		{"granted", func(r *rig) {
			r.see(world.Answered{Node: r.node(1), Request: claim, Result: node.Claimed{}})
		}, ""},
		{"for no job", func(r *rig) { refuse(r, refusal, 0) }, "S18b"},
		{"for a job that had it of late", had(time.Second), ""},
		{"for a job that had it long ago", had(2 * time.Minute), "S18b"},
		{"without its name", func(r *rig) { r.know("other", aJob(owner)); refuse(r, "no", 0) }, "S29d"},
		{"without the name of a request", func(r *rig) {
			r.know("other", aJob(request))
			refuse(r, "no", 0)
		}, ""},
		{"for another replication", func(r *rig) {
			s := aJob(owner)
			s.spec = `{"replication":{"Continuous":true}}`
			r.know("other", s)
			refuse(r, refusal, 0)
		}, "S18c"},
		{"for another replication, by a worker that lost the job", func(r *rig) {
			r.know("job", aJob(jobstore.Record{State: jobstore.Pending}))
			s := aJob(owner)
			s.spec = `{"replication":{"Continuous":true}}`
			r.know("other", s)
			r.see(world.Answered{Node: r.node(1), Request: claim,
				Result: node.Claimed{Refused: true, Reason: refusal}})
		}, ""},
		{"fails for a document's job", func(r *rig) {
			r.know("other", aJob(owner))
			refuse(r, refusal, 0)
			fails(r)
		}, ""},
		{"fails for a request's job", func(r *rig) {
			r.know("other", aJob(request))
			refuse(r, refusal, 0)
			fails(r)
		}, "S18d"},
		{"fails for a job of a deleted database", func(r *rig) {
			r.o.dropped["i"] = r.now() - 1
			r.know("other", aJob(owner))
			refuse(r, refusal, r.now())
			fails(r)
		}, "S18d"},
	})
}

func TestConfirmedRuns(t *testing.T) {
	// two runs of two jobs are told that one replication id is their own.
	two := func(hold bool) func(*rig) {
		return func(r *rig) {
			for _, id := range []string{"first", "second"} {
				s := aJob(jobstore.Record{State: jobstore.Running})
				if id == "first" && !hold {
					s.header.Lock = jobs.Lock{Worker: "n2/1"}
				}
				r.know(id, s)
				r.runs++
				run := r.runOf(r.node(1), jobstore.Work{JobID: id, Lock: aLock,
					Replication: r.replication(nil), Record: s.record})
				r.see(world.RunConfirmed{Run: run})
			}
		}
	}
	check(t, &claimSubject, []case_{
		{"both hold their jobs", two(true), "S18f"},
		{"one was taken over", two(false), ""},
	})
}

func TestWaitingForClaims(t *testing.T) {
	owner := jobstore.Record{
		State: jobstore.Running, RepID: "rep", Database: "a/_replicator", DocID: "other", Instance: "i",
	}
	waits := func(r *rig, record jobstore.Record, claimed string) {
		r.know("other", aJob(record))
		r.set(r.w.View().Store().Keys.Claim.Pack("rep"), []byte(claimed))
		s := aJob(jobstore.Record{State: jobstore.Pending, RepID: "rep"})
		s.header.Lot = "behind/rep"
		r.know("job", s)
		r.see(world.Ticked{})
	}
	over := owner
	over.State = jobstore.Completed
	request := func(r *rig, owner jobstore.Record) {
		r.know("other", aJob(owner))
		r.set(r.w.View().Store().Keys.Claim.Pack("rep"), []byte("other"))
		r.change(nil, &shadow{}, aJob(jobstore.Record{State: jobstore.Pending, RepID: "rep"}))
	}
	check(t, &claimSubject, []case_{
		{"for a job that has it", func(r *rig) { waits(r, owner, "other") }, ""},
		{"for a job that is over", func(r *rig) { waits(r, over, "other") }, "S18i"},
		{"for no job", func(r *rig) { waits(r, owner, "") }, "S18i"},
		{"for itself", func(r *rig) { waits(r, owner, "job") }, "S18i"},
		{"for a promotion", func(r *rig) {
			r.set(r.w.View().Store().Keys.Lifted.Pack("behind/rep"), []byte{})
			waits(r, over, "other")
		}, ""},
		{"a request for a job's replication", func(r *rig) { request(r, owner) }, "S18h"},
		{"a request for that of a job that is over", func(r *rig) { request(r, over) }, ""},
	})
}
