package oracle

import (
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// row is a row of a list, for document a in its first revision.
func row(attempts int, last instant.Time) refusedList {
	name := peers.Revision{ID: "a", Rev: "1-a"}
	return refusedList{rows: map[peers.Revision]refusedRow{name: {Attempts: attempts, Last: last}}}
}

// stays is a continuous run under a policy, which holds its job.
func (r *rig) stays(policy spec.OnRefusal) *world.Run {
	members := map[string]any{"continuous": true}
	if policy != spec.SkipRefused {
		members["on_refusal"] = string(policy)
	}
	r.know("job", aJob(jobstore.Record{State: jobstore.Running}))
	return r.run(members)
}

// TestTriedAgain: S72a.
func TestTriedAgain(t *testing.T) {
	// passes has a run try document a so long after an attempt.
	passes := func(policy spec.OnRefusal, attempts int, after time.Duration, between func(*rig)) func(*rig) {
		return func(r *rig) {
			run := r.stays(policy)
			r.o.lists["job"] = row(attempts, r.now())
			between(r)
			r.pass(after)
			reads := []replication.Effect{replication.ReadRefused{}}
			r.see(world.RunStepped{Run: run, Event: replication.Wake{}, Effects: reads})
			op := asked("a")
			r.see(world.RunCalls{Run: run, Op: op, By: replication.RefusedPage{Docs: make([]replication.Listed, 1)}})
			r.see(world.RunStepped{Run: run, Asked: op, Event: replication.Reply{Reply: peer.Reply{Result: lacks("a")}},
				Effects: []replication.Effect{replication.Call{Op: copyOf("a")}}})
		}
	}
	nothing := func(*rig) {}
	asks := func(r *rig) {
		r.pass(time.Second)
		r.see(world.Ordered{Verb: world.Retry, ID: "job", At: r.now()})
	}
	// heard has the row tried so often since the request, for the last time so long after it.
	heard := func(times int, after time.Duration) func(r *rig) {
		return func(r *rig) {
			asks(r)
			r.pass(after)
			r.o.lists["job"] = row(1+times, r.now())
		}
	}
	// identified has the job's first run tell its replication.
	identified := func(r *rig) {
		asks(r)
		r.pass(time.Second)
		of := jobstore.Record{State: jobstore.Running}
		before := aJob(of)
		of.BaseID = "base"
		r.change(node.Claim{}, before, aJob(of))
	}
	under := func(between func(*rig)) func(*rig) { return passes(spec.SkipRefused, 1, time.Minute, between) }
	check(t, along(&counterSubject, &verdictSubject, &triedAgainSubject), []case_{
		{"on request, before its first run was identified", passes(spec.SkipRefused, 1, time.Minute, identified), ""},
		{"after three quarters of a minute", passes(spec.RetryRefused, 1, 45*time.Second, nothing), ""},
		{"before that", passes(spec.RetryRefused, 1, 44*time.Second, nothing), "S72a"},
		{"before that, on request", passes(spec.RetryRefused, 1, 40*time.Second, asks), ""},
		{"after a minute, for the third time", passes(spec.RetryRefused, 3, time.Minute, nothing), "S72a"},
		{"after three minutes, for the third time", passes(spec.RetryRefused, 3, 3*time.Minute, nothing), ""},
		{"after the longest pause", passes(spec.RetryRefused, 50, 5*time.Hour, nothing), ""},
		{"under skip", passes(spec.SkipRefused, 1, time.Hour, nothing), "S72a"},
		{"under skip, on request", passes(spec.SkipRefused, 1, time.Minute, asks), ""},
		{"under skip, on request, after those under way", under(heard(2, time.Hour)), ""},
		{"under skip, on request, after many under way", under(heard(9, manyUnderWay)), ""},
		{"under skip, on a request that was heard", under(heard(3, manyUnderWay+time.Second)), "S72a"},
	})
}

// TestNotTriedAgain: S72b.
func TestNotTriedAgain(t *testing.T) {
	waits := func(policy spec.OnRefusal, attempts int, rests time.Duration) func(*rig) {
		return func(r *rig) {
			r.pass(r.w.View().End().Sub(r.now()) + calm)
			run := r.stays(policy)
			r.does(run, read, rows(from))
			r.o.lists["job"] = row(attempts, r.now())
			r.pass(rests)
			r.see(world.Ticked{})
		}
	}
	lacks := func(knows, rests time.Duration) func(*rig) {
		return func(r *rig) {
			waits(spec.FailRefused, 1, time.Minute)(r)
			missing := peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a", Missing: true}}}
			copies := peer.CopyDoc{ID: "a", Revs: []string{"1-a"}}
			r.does(r.o.runs[0].Run, copies, missing)
			r.pass(knows)
			r.does(r.o.runs[0].Run, copies, missing)
			r.pass(rests)
			r.see(world.Ticked{})
		}
	}
	check(t, along(&feedSubject, &verdictSubject, &triedAgainSubject), []case_{
		{"a minute", waits(spec.RetryRefused, 1, time.Minute), ""},
		{"four minutes", waits(spec.RetryRefused, 1, 4*time.Minute), "S72b"},
		{"four minutes, after many attempts", waits(spec.RetryRefused, 5, 4*time.Minute), ""},
		{"three minutes, after the source lacked it", lacks(time.Second, 3*time.Minute), ""},
		{"four minutes, after the source lacked it", lacks(time.Second, 4*time.Minute), "S72b"},
		{"an hour, as the source lacks it for an hour", lacks(time.Hour, time.Hour), ""},
		{"a day, as the source lacks it for a day", lacks(24*time.Hour, 24*time.Hour), "S72b"},
		{"for ever under skip", waits(spec.SkipRefused, 1, time.Hour), ""},
	})
}

// asksFor has a user ask to try what a job lists.
func asksFor(r *rig, id string) {
	r.see(world.Ordered{Verb: world.Retry, ID: id, At: r.now()},
		world.Obeyed{Verb: world.Retry, ID: id, Changed: true, Asked: r.now(), At: r.now()})
}

// TestHealed: L13 and L12.
func TestHealed(t *testing.T) {
	var edited bool               // the job is made anew by an edit that leaves its list
	var refusedSince instant.Time // when what was tried is refused anew; 0 if it was refused all the time
	var gone, newer bool          // the source said that it lacks the listed revision; the source has a newer one
	// job has a real job of a request that lists document a be asked to try it, if it is, and then tried.
	job := func(policy string, lists bool, asked, tried bool) func(*rig) {
		return func(r *rig) {
			r.edit(r.db("s1", "a1"), "a")
			name := peers.Revision{ID: "a", Rev: r.db("s1", "a1").Latest("a").Rev.String()}
			id := r.request(map[string]any{"continuous": true, "on_refusal": policy})
			list := refusedList{rows: map[peers.Revision]refusedRow{name: {Attempts: 1}}}
			if r.o.lists[id] = list; !lists {
				delete(list.rows, name)
			}
			if asked {
				asksFor(r, id)
			}
			if edited {
				r.o.shadows[id].came = r.now()
				r.o.on.followed.tell(landing{jobs: []string{id}})
			}
			if edited = false; tried && refusedSince > 0 {
				list.rows[name] = refusedRow{Attempts: 1, First: refusedSince}
			} else if tried {
				list.rows[name] = refusedRow{Attempts: 2}
			}
			if gone && newer {
				r.db("s1", "a1").Write([]docs.Edit{{Document: *r.db("s1", "a1").Latest("a")}})
			}
			if gone {
				list.rows[name] = refusedRow{Attempts: 2, Failed: true, Status: 404}
			}
			refusedSince, gone, newer = 0, false, false
			r.atRest()
		}
	}
	// refuses has the target refuse a revision to a run, which is listed under skip once more has happened.
	refuses := func(policy string, more func(r *rig, id string, again func())) func(*rig) {
		return func(r *rig) {
			r.edit(r.db("s1", "a1"), "a")
			rev := r.db("s1", "a1").Latest("a").Rev.String()
			members := map[string]any{"continuous": true, "on_refusal": policy}
			id := r.request(members)
			run := r.runOf(r.node(1), jobstore.Work{JobID: id, Lock: aLock, Record: r.o.shadows[id].record,
				Replication: r.replication(members)})
			run.Identify(r.o.shadows[id].record.BaseID + "+continuous")
			refused := peer.Copied{Revs: []peer.CopiedRev{{Rev: rev, Refused: &peer.Refusal{Status: 413}}}}
			again := func() { r.does(run, peer.CopyDoc{ID: "a", Revs: []string{rev}}, refused) }
			again()
			more(r, id, again)
			if policy == "skip" {
				row := refusedRow{Attempts: 1, First: r.now()}
				r.o.lists[id] = refusedList{rows: map[peers.Revision]refusedRow{{ID: "a", Rev: rev}: row}}
			}
			r.atRest()
		}
	}
	check(t, along(&verdictSubject, &triedAgainSubject), []case_{
		{"listed under retry", job("retry", true, false, false), "L13"},
		{"listed under skip", job("skip", true, false, false), ""},
		{"not there under skip", func(r *rig) {
			gone = true
			job("skip", true, false, false)(r)
		}, "L13"},
		{"not there under skip, and another one is", func(r *rig) {
			gone, newer = true, true
			job("skip", true, false, false)(r)
		}, ""},
		{"not there under retry, and another one is", func(r *rig) {
			gone, newer = true, true
			job("retry", true, false, false)(r)
		}, "L13"},
		{"not listed under retry", job("retry", false, false, false), ""},
		{"asked for and not tried", job("skip", true, true, false), "L12"},
		{"asked for, edited and not tried", func(r *rig) {
			edited = true
			job("skip", true, true, false)(r)
		}, "L12"},
		{"asked for and tried", job("skip", true, true, true), ""},
		{"asked for, through, and refused later", func(r *rig) {
			refusedSince = r.now().Add(time.Minute)
			job("skip", true, true, true)(r)
		}, ""},
		{"refused, not listed and not there", refuses("retry", func(*rig, string, func()) {}), "L13"},
		{"refused, asked for, listed and not tried", refuses("skip", func(r *rig, id string, _ func()) {
			asksFor(r, id)
		}), "L12"},
		{"refused, asked for, listed and tried", refuses("skip", func(r *rig, id string, again func()) {
			asksFor(r, id)
			again()
		}), ""},
		{"refused, and asked for before", refuses("skip", func(r *rig, id string, again func()) {
			again()
		}), ""},
	})
}
