package oracle

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// under is a run with a policy for refused documents.
func (r *rig) under(policy spec.OnRefusal) *world.Run {
	members := map[string]any{}
	if policy != spec.SkipRefused {
		members["on_refusal"] = string(policy)
	}
	return r.run(members)
}

// forbidden is a copy of document a that the target's validation function refused.
func forbidden() peer.Copied {
	got := refused(403)
	got.Revs[0].Refused.Error = "forbidden"
	return got
}

// blames has a run end after an answer for the sake of a revision of document a.
func (r *rig) blames(run *world.Run, op peer.Op, reply peer.Reply, rev string) {
	r.see(world.RunReplied{Run: run, Op: op, Reply: reply})
	r.see(world.RunSaidEnd{Run: run, Asked: op, Event: replication.Reply{Reply: reply}, End: replication.End{
		Cause: replication.Failed, Trouble: replication.Trouble{Error: "refused", Reason: "a"},
		Refused: &replication.Finding{Refusal: peer.Refusal{ID: "a", Rev: rev}},
	}})
}

func TestVerdictsOnTheRun(t *testing.T) {
	// copies has a run under a policy go on after these outcomes of a copy, with something done between them.
	copies := func(policy spec.OnRefusal, between func(*rig, *world.Run), outcomes ...peer.Copied) func(*rig) {
		return func(r *rig) {
			run := r.under(policy)
			for _, got := range outcomes {
				r.does(run, copyOf("a"), got)
				between(r, run)
			}
		}
	}
	nothing := func(*rig, *world.Run) {}
	opens := func(r *rig, run *world.Run) { r.does(run, peer.Open{Side: peer.Target}, peer.Opened{}) }
	inBulk := peer.Written{Refused: []peer.Refusal{{ID: "a", Rev: "1-a", Error: "forbidden"}}}
	single := peer.WriteDocs{Docs: make([]peer.Kept, 1)}
	ends := func(policy spec.OnRefusal, op peer.Op, reply peer.Reply, rev string) func(*rig) {
		return func(r *rig) { r.blames(r.under(policy), op, reply, rev) }
	}
	tooLong := peer.Reply{Result: refused(413)}
	// third has a run go on when a copy was refused, sent again after the target was opened, answered so, and refused
	// once more after a pause.
	third := func(second peer.Copied) func(*rig) {
		return func(r *rig) {
			run := r.under(spec.FailRefused)
			r.does(run, copyOf("a"), forbidden())
			opens(r, run)
			r.does(run, copyOf("a"), second)
			r.heard = replication.Wake{}
			r.does(run, copyOf("a"), forbidden())
		}
	}
	check(t, along(&bulkSubject, &verdictSubject), []case_{
		{"goes on under skip", copies(spec.SkipRefused, nothing, refused(413)), ""},
		{"goes on under retry", copies(spec.RetryRefused, nothing, refused(413)), ""},
		{"goes on under fail", copies(spec.FailRefused, nothing, refused(413)), "S73a"},
		{"asks whether the target knows it", copies(spec.FailRefused, nothing, forbidden(), forbidden()), ""},
		{"goes on though the target knows it", copies(spec.FailRefused, opens, forbidden(), forbidden()), "S73a"},
		{"goes on though a copy wrote what the target refuses later, which comes with the rest", func(r *rig) {
			run := r.under(spec.FailRefused)
			first := r.call(run, copyOf("a"))
			took := peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a"}}}
			r.answer(run, first, copyOf("a"), peer.Reply{Result: took, Failure: kind(peer.Broken)})
			r.does(run, copyOf("a"), refused(413))
		}, ""},
		{"goes on after another copy of the document that was sent before", func(r *rig) {
			run := r.under(spec.FailRefused)
			other := r.call(run, copyOf("a"))
			r.does(run, copyOf("a"), forbidden())
			opens(r, run)
			r.call(run, copyOf("a"))
			r.answer(run, other, copyOf("a"), peer.Reply{Result: forbidden()})
		}, ""},
		{"goes on after a copy of a later change", func(r *rig) {
			run := r.under(spec.FailRefused)
			r.does(run, copyOf("a"), forbidden())
			opens(r, run)
			r.does(run, peer.DiffRevs{}, peer.Diff{})
			r.does(run, copyOf("a"), forbidden())
		}, ""},
		{"goes on though a second copy after a pause was refused", func(r *rig) {
			run := r.under(spec.FailRefused)
			r.does(run, copyOf("a"), forbidden())
			opens(r, run)
			r.fails(run, copyOf("a"), kind(peer.Broken))
			r.heard = replication.Wake{}
			r.does(run, copyOf("a"), forbidden())
		}, "S73a"},
		{"goes on though a second copy was refused, where both had failed before", func(r *rig) {
			run := r.under(spec.FailRefused)
			again := func() {
				r.fails(run, copyOf("a"), kind(peer.Broken))
				r.heard = replication.Wake{}
				r.does(run, copyOf("a"), forbidden())
			}
			again()
			opens(r, run)
			again()
		}, "S73a"},
		{"goes on though a third copy was refused, where the first was refused and broke off, and the second failed",
			func(r *rig) {
				run := r.under(spec.FailRefused)
				first := r.call(run, copyOf("a"))
				r.answer(run, first, copyOf("a"), peer.Reply{Result: forbidden(), Failure: kind(peer.Broken)})
				opens(r, run)
				r.fails(run, copyOf("a"), kind(peer.Broken))
				r.heard = replication.Wake{}
				r.does(run, copyOf("a"), forbidden())
			}, "S73a"},
		{"goes on though a third copy was refused, where the source lacked the revision in the second",
			third(peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a", Missing: true}}}), "S73a"},
		{"goes on though a third copy was refused, where the second met a conflict", third(refused(409)), "S73a"},
		{"goes on after a second copy after a pause, of another change", func(r *rig) {
			run := r.under(spec.FailRefused)
			other := r.call(run, copyOf("a"))
			r.does(run, copyOf("a"), forbidden())
			opens(r, run)
			r.call(run, copyOf("a"))
			r.answer(run, other, copyOf("a"), peer.Reply{Failure: kind(peer.Broken)})
			r.heard = replication.Wake{}
			r.does(run, copyOf("a"), forbidden())
		}, ""},
		{"goes on after something else", copies(spec.FailRefused, nothing, refused(409)), ""},
		{"goes on after a bulk write", func(r *rig) {
			r.does(r.under(spec.FailRefused), peer.WriteDocs{}, inBulk)
		}, "S73a"},
		{"goes on after a document that was too large", func(r *rig) {
			r.fails(r.under(spec.FailRefused), single, status(413))
		}, "S73a"},
		{"copies a document alone that was too large with its attachments", func(r *rig) {
			run := r.under(spec.FailRefused)
			r.does(run, reads("a"), peer.Fetched{Docs: []peer.FetchedDoc{{Fate: peer.Attachments, Size: 10}}})
			op := reads("a")
			op.Attachments, op.Budget = true, 100
			id := r.call(run, op)
			r.fails(run, peer.WriteDocs{Docs: []peer.Kept{{Fetch: id}}}, status(413))
		}, ""},
		{"halves a write that was too large", func(r *rig) {
			r.fails(r.under(spec.FailRefused), peer.WriteDocs{Docs: make([]peer.Kept, 2)}, status(413))
		}, ""},
		{"crashes instead", func(r *rig) {
			r.crashes(r.under(spec.FailRefused), copyOf("a"), tooLong, replication.Trouble{})
		}, "S73a"},
		{"crashes for a failure", func(r *rig) {
			reply := peer.Reply{Result: refused(413), Failure: kind(peer.Broken)}
			r.crashes(r.under(spec.FailRefused), copyOf("a"), reply, replication.Trouble{})
		}, ""},
		{"crashes for another document that must be taken", func(r *rig) {
			both := refused(413)
			both.Revs = append(both.Revs, peer.CopiedRev{Rev: "1-b", Refused: &peer.Refusal{Status: 418}})
			r.crashes(r.under(spec.FailRefused), copyOf("a"), peer.Reply{Result: both}, replication.Trouble{})
		}, ""},
		{"fails", ends(spec.FailRefused, copyOf("a"), tooLong, "1-a"), ""},
		{"fails for another revision", ends(spec.FailRefused, copyOf("a"), tooLong, "2-b"), "S73b"},
		{"fails under skip", ends(spec.SkipRefused, copyOf("a"), tooLong, "1-a"), "S73b"},
		{"fails for nothing", ends(spec.FailRefused, copyOf("a"), peer.Reply{Result: copied}, "1-a"), "S73b"},
		{"fails for one that was too large",
			ends(spec.FailRefused, single, peer.Reply{Failure: status(413)}, "1-a"), ""},
	})
}

// lists has the list of a job be known with these revisions of document a.
func (r *rig) lists(job string, revs ...string) {
	rows := map[peers.Revision]refusedRow{}
	for _, rev := range revs {
		rows[peers.Revision{ID: "a", Rev: rev}] = refusedRow{Attempts: 1, Last: r.now()}
	}
	r.o.lists[job] = refusedList{rows: rows}
}

func TestVerdictsInTheList(t *testing.T) {
	running, beyond := jobstore.Record{State: jobstore.Running}, &jobstore.RefusedDocs{Beyond: 1}
	failed := jobstore.Record{State: jobstore.Failed, Error: "refused", Reason: "document a"}
	fail := node.Fail{Held: held, Refused: &replication.Finding{Refusal: peer.Refusal{ID: "a", Rev: "1-a"}}}
	unnamed, untold := failed, failed
	unnamed.Reason = "why"
	untold.Refused = &jobstore.RefusedDocs{By: "end", Changes: 7}
	store := func(rows int, rec jobstore.Record) func(*rig) {
		return func(r *rig) {
			var revs []string
			for i := range rows {
				revs = append(revs, fmt.Sprint(i, "-a"))
			}
			r.lists("job", revs...)
			r.change(node.StoreRefused{Held: held}, aJob(running), aJob(rec))
		}
	}
	more := running
	more.Refused = beyond
	// changes has a list have so many rows, the last of them as of state 7, with what left it last.
	changes := func(left int64, rows ...int) func(*rig) {
		return func(r *rig) {
			for i, n := range rows {
				at := int64(8 - len(rows) + i)
				rec := running
				rec.Refused = &jobstore.RefusedDocs{By: "w", Changes: at, Left: min(at, left)}
				store(n, rec)(r)
			}
		}
	}
	fails := func(rec jobstore.Record, revs ...string) func(*rig) {
		return func(r *rig) { r.lists("job", revs...); r.change(fail, aJob(running), aJob(rec)) }
	}
	check(t, &verdictSubject, []case_{
		{"full", store(10_000, running), ""},
		{"too long", store(10_001, running), "S71c"},
		{"counted beyond a list with room", store(3, more), "S71c"},
		{"one left, and checkpoints are to tell", changes(7, 2, 1), ""},
		{"one left, and none need tell", changes(6, 2, 1), "S71d"},
		{"one came, and none need tell", changes(6, 1, 2), ""},
		{"it begins, and checkpoints are to tell", changes(7, 1), ""},
		{"it begins, and none need tell", changes(6, 1), "S71d"},
		{"failed and listed", fails(failed, "1-a"), ""},
		{"failed and begins a list, and none need tell", fails(untold, "1-a"), "S71d"},
		{"failed and not listed", fails(failed), "S73c"},
		{"failed without a name", fails(unnamed, "1-a"), "S73c"},
	})
}

// TestVerdictsOfOneShots: what the list has when a one-shot is done.
func TestVerdictsOfOneShots(t *testing.T) {
	done := func(rec jobstore.Record, hears func(*rig, *world.Run, string), as *refusedRow) func(*rig) {
		return func(r *rig) {
			r.edit(r.db("s1", "a1"), "a")
			r.pass(time.Second)
			run, rev := r.run(nil), r.db("s1", "a1").Latest("a").Rev.String()
			hears(r, run, rev)
			r.ends(run, replication.Completed, replication.Info{})
			if r.lists("job"); as != nil {
				r.o.lists["job"].rows[peers.Revision{ID: "a", Rev: rev}] = *as
			}
			before := jobstore.Record{State: jobstore.Running}
			rec.State = jobstore.Completed
			r.change(node.Complete{Held: held}, aJob(before), aJob(rec))
		}
	}
	outcome := func(v *peer.Refusal) func(*rig, *world.Run, string) {
		return func(r *rig, run *world.Run, rev string) {
			if v == nil {
				doc := *r.db("s1", "a1").Latest("a")
				r.db("s2", "b1").Write([]docs.Edit{{Document: doc, Replicated: true}})
			}
			got := peer.Copied{Revs: []peer.CopiedRev{{Rev: rev, Refused: v}}}
			r.does(run, peer.CopyDoc{ID: "a", Revs: []string{rev}}, got)
		}
	}
	unread := func(r *rig, run *world.Run, rev string) {
		diff := peer.DiffRevs{Docs: []peer.DocRevs{{ID: "a", Revs: []string{rev}}}}
		r.fails(run, diff, status(400))
		outcome(nil)(r, run, rev)
	}
	listed := &refusedRow{Attempts: 1}
	leaves := func(policy spec.OnRefusal, of func(source *peers.DB) []string) func(*rig) {
		return func(r *rig) {
			r.edit(r.db("s1", "a1"), "a")
			r.ends(r.under(policy), replication.Completed, replication.Info{})
			r.lists("job", of(r.db("s1", "a1"))...)
			running, over := jobstore.Record{State: jobstore.Running}, jobstore.Record{State: jobstore.Completed}
			r.change(node.Complete{Held: held}, aJob(running), aJob(over))
		}
	}
	here := func(source *peers.DB) []string { return []string{source.Latest("a").Rev.String()} }
	gone := func(*peers.DB) []string { return []string{"1-a"} }
	nothing := func(*peers.DB) []string { return nil }
	tooLong := &peer.Refusal{ID: "a", Status: 413}
	var none jobstore.Record
	check(t, &verdictSubject, []case_{
		{"refused and listed", done(none, outcome(tooLong), listed), ""},
		{"refused and not listed", done(none, outcome(tooLong), nil), "S71a"},
		{"taken and not listed", done(none, outcome(nil), nil), ""},
		{"taken and listed", done(none, outcome(nil), listed), "S71b"},
		{"taken and listed, and not compared", done(none, unread, listed), ""},
		{"taken, and listed as failed", done(none, outcome(nil), &refusedRow{Attempts: 1, Failed: true}), ""},
		{"listed before, under skip", leaves(spec.SkipRefused, here), ""},
		{"listed before, under fail", leaves(spec.FailRefused, here), "S73d"},
		{"listed before, under fail, and gone", leaves(spec.FailRefused, gone), ""},
		{"nothing listed under fail", leaves(spec.FailRefused, nothing), ""},
	})
}

func TestDocumentSaysRefused(t *testing.T) {
	says := func(n int) func(*rig) {
		return func(r *rig) {
			r.w.MakeTenants()
			d := r.w.NewDocument("r", map[string]any{
				"source": world.URL("s1", "a1"), "target": world.URL("s2", "b1"),
				"_replication_state": "completed", "_replication_stats": map[string]any{"refused": n},
			})
			if err := r.w.WriteNow(d, true); err != nil {
				r.t.Fatal(err)
			}
			s := r.o.shadows[d.JobID()]
			run := r.runOf(r.node(1), jobstore.Work{
				JobID: d.JobID(), Lock: aLock, Replication: r.replication(nil), Record: s.record,
			})
			r.ends(run, replication.Completed, replication.Info{})
			r.lists(d.JobID(), "1-a", "2-b")
			q := node.Complete{Held: node.Held{JobID: d.JobID(), Lock: aLock}}
			landed := world.Landed{Asked: world.Asked{Request: q, Wall: r.now()}}
			r.o.on.followed.tell(landing{landed, []string{d.JobID()}})
		}
	}
	check(t, &verdictSubject, []case_{
		{"the number", says(2), ""},
		{"another number", says(1), "S74"},
	})
}
