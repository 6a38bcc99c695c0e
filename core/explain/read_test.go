package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/ratelimit"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"

	"pgregory.net/rapid"
)

// TestWaitingJobs: places, estimates and slots of ready jobs.
func TestWaitingJobs(t *testing.T) {
	b := newBench(t)
	var ids []string
	for n := range 7 {
		b.now += 1000
		ids = append(ids, b.put(fmt.Sprint("r", n), fmt.Sprint("b", n), ""))
	}
	e := b.want(ids[0], "No node takes jobs", Next, NoNode)
	if e.Wait != nil || !e.saysUnknown("estimated_wait_seconds") || !e.saysUnknown("checkpoint.source_seq") {
		t.Errorf("%+v", e)
	}
	b.node(2, 1)
	b.want(ids[0], "so it starts within seconds", Next)
	e = b.want(ids[4], "4 jobs are before it; it waits for about 2m", Queued)
	if e.Account.Jobs != 7 || e.Account.Shares != 100 || e.Account.Usage == nil ||
		e.Account.Name != "_replicator" || e.Priority == nil {
		t.Errorf("account %+v", e.Account)
	}
	policy := func(p schedule.Policy) {
		sharing := jobstore.DefaultSharing()
		sharing.Follow(2*time.Minute, time.Hour) // jobs give way in each of the former
		sharing.Policy = p
		b.do(func(tx kv.Tx) error { return b.s.Share(tx, sharing, b.now) })
	}
	policy(schedule.FairShare)
	b.want(ids[4], "it waits for about 4m", Queued)
	policy(schedule.FIFO)
	if e := b.explain(ids[4]); e.Account.Usage != nil || !e.saysUnknown("account.usage_seconds") {
		t.Errorf("where usage does not count, account %+v", e.Account)
	}
	policy(schedule.FairShare)
	b.do(func(tx kv.Tx) error {
		j, err := b.s.Jobs.Get(tx, ids[4])
		for limit, want := range map[int]bool{0: true, 3: true, 4: false, 5: false} {
			n, more, e := b.s.Keys.Jobs.Ahead(tx, j, limit)
			if err = errors.Join(err, e); n != min(limit, 4) || more != want {
				t.Errorf("up to %d: %d jobs are ahead, %v", limit, n, more)
			}
		}
		return err
	})
	b.node(1, 1) // of which no two give way, whatever max_churn says
	b.want(ids[4], "it waits for about 10m", Queued, AllInUse)
	b.minRun = 3 * time.Minute // which the one slot waits for, and two on the average
	b.want(ids[4], "it waits for about 15m", Queued, AllInUse)
	b.node(2, 2)
	b.want(ids[4], "it waits for about 10m", Queued, AllInUse)
	b.node(0, 0)
	e = b.want(ids[4], "No node takes jobs: max_jobs is 0 on 1 node", Queued, NoNode)
	if e.Wait != nil || !e.saysUnknown("estimated_wait_seconds") {
		t.Errorf("%+v", e)
	}
	if got := b.explain("none"); got != nil {
		t.Errorf("a job that there is not: %+v", got)
	}
	b.do(func(tx kv.Tx) error { b.s.Drop(tx, tuple.UUID{1}); return nil })
	if got := b.explain(ids[0]); got != nil {
		t.Errorf("a job of a deleted database: %+v", got)
	}
}

// TestSlotsOfNodes: only the slots of nodes that take jobs count, and one that runs too many has none free for others.
func TestSlotsOfNodes(t *testing.T) {
	b := newBench(t)
	id := b.put("r", "b", "")
	for worker, info := range map[string]node.Info{
		"up": {Name: "n1", Roles: node.AllRoles, Status: node.Up, MaxJobs: 5, Running: 2}, "low": {
			Name: "n2", Roles: node.AllRoles, Status: node.Up, MaxJobs: 4, Running: 6},
		"leaves": {Name: "n3", Roles: node.AllRoles, Status: node.Draining, MaxJobs: 100},
		"front":  {Name: "n4", Roles: node.APIFrontend, Status: node.Up, MaxJobs: 100},
		"gone":   {Name: "n5", Roles: node.AllRoles, Status: node.Up, MaxJobs: 100},
	} {
		raw, err := json.Encode(info)
		if err != nil {
			t.Fatal(err)
		}
		b.do(func(tx kv.Tx) error { return b.s.Jobs.Register(tx, worker, raw) })
	}
	b.do(func(tx kv.Tx) error {
		_, err := b.s.Accept(tx, "gone", "n5", jobs.Demand{Batch: 1, Max: 1}, b.now)
		return err
	})
	b.do(func(tx kv.Tx) error { _, err := b.s.Jobs.Expire(tx, "gone", nil, 0); return err })
	if got, want := b.explain(id).Slots, (Slots{Nodes: 2, MaxJobs: 9, Running: 8, Free: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestOtherJobIsHidden: of the job that another one waits for, a user who does not see it learns the state alone.
func TestOtherJobIsHidden(t *testing.T) {
	b := newBench(t)
	b.put("r", "b", "")
	id := b.put("s", "b", "")
	for _, sees := range []bool{false, true} {
		e, err := kv.Run(t.Context(), b.db, func(tx kv.Tx) (*Explanation, error) {
			return Read(tx.Snapshot(), b.s, id, Asking{Now: b.now, Sees: func(*jobstore.Record) bool { return sees }})
		})
		if err != nil {
			t.Fatal(err)
		}
		if o := e.Behind; o.State != jobstore.Pending || (o.JobID != "") != sees || (o.DocID != "") != sees {
			t.Errorf("sees it %t: %+v", sees, o)
		}
	}
}

// TestLifeExplained follows a job through its runs.
func TestLifeExplained(t *testing.T) {
	b := newBench(t)
	b.node(5, 0)
	id := b.put("r", "b", "")
	second := b.put("s", "b", "")
	e := b.want(second, "document r of _replicator, which is pending", Waits)
	if e.Behind.JobID != id || e.Wait != nil {
		t.Errorf("%+v", e.Behind)
	}
	b.accept(5)
	e = b.want(id, "The job runs on n1, since 2023", Running)
	if e.Position != nil || e.Due != 0 || e.Told != 0 {
		t.Errorf("%+v", e)
	}
	b.node(5, 5)
	b.want(second, "document r of _replicator, which is running", Waits)
	b.node(5, 3)
	e = b.want(id, "The job runs on n1, since 2023", Running)
	if want := (Node{Name: "n1", Worker: "w", Status: "up", Seen: b.now, Running: 3, MaxJobs: 5}); *e.Node != want {
		t.Errorf("it runs on %+v, want %+v", *e.Node, want)
	}
	stats, left := jobstore.Stats{CheckpointedSourceSeq: "3-x"}, int64(7)
	stats.ChangesPending = &left
	w := b.work[0]
	early := jobstore.Stats{ChangesPending: &left}
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now+5).Progress(early) })
	if e = b.explain(id); *e.Pending != 7 || !e.saysUnknown("checkpoint.source_seq") {
		t.Errorf("before the first checkpoint: %+v", e)
	}
	b.do(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now+5).Progress(stats) })
	b.do(func(tx kv.Tx) error {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now+5).StoreRefused("1", []replication.Finding{{
			Refusal: peer.Refusal{ID: "d", Rev: "1-x", Status: 403},
		}})
	})
	e = b.want(id, "The target refused 1 revision of documents", Running, Refused)
	if e.Checkpoint != "3-x" || *e.Pending != 7 || e.Told != b.now+5 ||
		e.Endpoint[1].Server != "h:81" ||
		!*e.Endpoint[0].Checkpoints {
		t.Errorf("%+v", e)
	}
	b.now = b.now.Add(time.Second)
	b.crash("max_backoff", true)
	e = b.want(id, "(in 26s)", Backoff, Throttled, Refused)
	if e.saysUnknown("error.class") {
		t.Error("the class of its error is not known")
	}
	if e.Problem.Class != "throttled" || e.Due <= b.now || e.Problem.Count != 1 ||
		!e.saysUnknown("estimated_wait_seconds", "when it is due") {
		t.Errorf("%+v", e)
	}
	b.now = b.now.Add(time.Hour)
	b.want(id, "about to become ready", Backoff, Throttled, Refused)
	b.do(func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 5); return err })
	b.want(id, "none is before it", Next, Throttled, Refused)
	b.accept(1)
	b.crash("unauthorized", false)
	b.want(id, "2 crashes in a row, the last with unauthorized (because); what to do: correct the user",
		Backoff, Refused)
	b.now = b.now.Add(time.Hour)
	b.do(func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 5); return err })
	b.want(id, "It crashed before, last with unauthorized", Next, Crashed, Refused)
	b.accept(1)
	b.do(func(tx kv.Tx) error { _, err := b.s.Jobs.Expire(tx, "w", nil, 0); return err })
	b.want(id, "about to be queued again", Running, Lost, Crashed, Refused)
}

// TestEndsExplained: jobs that are over.
func TestEndsExplained(t *testing.T) {
	b := newBench(t)
	b.node(5, 0)
	done, failed := b.put("r", "b", ""), b.put("s", "c", "")
	b.accept(5)
	if b.work[0].JobID != done {
		b.work[0], b.work[1] = b.work[1], b.work[0]
	}
	refused := replication.Finding{Refusal: peer.Refusal{ID: "d", Rev: "1-x", Status: 403}}
	b.do(func(tx kv.Tx) error {
		return b.s.Owned(tx, done, b.work[0].Lock, b.now).StoreRefused("1", []replication.Finding{refused})
	})
	b.end(func(h jobstore.Owned, turn jobstore.Turn) error { return h.Complete(replication.End{}, turn) })
	b.end(func(h jobstore.Owned, turn jobstore.Turn) error {
		return h.Fail(replication.Trouble{Error: "duplicate", Reason: "twice"}, turn)
	})
	strange := b.put("t", "d", "")
	b.accept(1)
	b.end(func(h jobstore.Owned, turn jobstore.Turn) error {
		return h.Fail(replication.Trouble{Error: "strange"}, turn)
	})
	if e := b.want(strange, "with strange", Failed); !e.saysUnknown("error.class", "strange has no class") {
		t.Errorf("%+v", e)
	}
	lost := b.put("u", "e", "")
	b.accept(1)
	b.end(func(h jobstore.Owned, turn jobstore.Turn) error {
		return h.Fail(replication.Trouble{Error: "timeout"}, turn)
	})
	b.want(lost, "what to do: check that the server is up and reachable from the nodes; then retry the job.", Failed)
	b.hold(jobstore.Hold{Server: "h"})
	b.want(done, "The job is completed", Completed, Refused)
	e := b.want(failed, "with duplicate (twice); what to do: end the job", Failed)
	if e.Problem.Class != "configuration" || len(e.Holds) > 0 || e.saysUnknown("rates") ||
		e.saysUnknown("estimated_wait_seconds") {
		t.Errorf("%+v", e)
	}
}

// TestStoppedJobs: pauses and holds, of jobs that wait and that run.
func TestStoppedJobs(t *testing.T) {
	b := newBench(t)
	b.node(5, 0)
	id := b.put("r", "b", "")
	both := b.put("s", "c", `,"paused":true`)
	b.want(both, `its document says "paused": true`, ByDoc)
	b.accept(5)
	b.order(func(o jobstore.Operator) error { _, err := o.Pause(id, "disks"); return err })
	e := b.want(id, "about to stop, with a checkpoint. The job is paused until it is resumed, by ann since "+
		"2023-11-14T22:13:20Z, because: disks",
		Running, Stopping, Paused)
	if !e.Node.Stop {
		t.Error("the run is not told to stop")
	}
	b.end(func(h jobstore.Owned, turn jobstore.Turn) error { return h.Requeue(nil, turn) })
	e = b.want(id, "The job is paused until it is resumed, by ann", Paused)
	if !e.saysUnknown("estimated_wait_seconds") || e.Position != nil {
		t.Errorf("%+v", e)
	}
	b.order(func(o jobstore.Operator) error { _, err := o.Resume(id, ""); return err })
	b.hold(jobstore.Hold{Server: "h", Reason: "move"})
	b.hold(jobstore.Hold{Server: "h:81"})
	b.hold(jobstore.Hold{Server: "h:82"})
	b.hold(jobstore.Hold{Database: "_replicator"})
	e = b.want(id, "any of the holds database:_replicator (by ann", Held) // still among the ready jobs
	if len(e.Holds) != 3 || e.Position == nil || e.Wait != nil || !slices.Equal(e.Endpoint[0].Holds,
		[]string{"server:h"}) ||
		!slices.Equal(e.Endpoint[1].Holds, []string{"server:h", "server:h:81"}) {
		t.Errorf("%+v", e)
	}
	b.accept(5)
	b.want(id, "any of the holds", Held)
	for _, hold := range []string{"database:_replicator", "server:h", "server:h:81"} {
		b.order(func(o jobstore.Operator) error { _, err := o.LiftHold(hold); return err })
	}
	b.want(id, "Hold database:_replicator, which kept the job, is lifted", Lifted)
	b.do(func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 5); return err })
	b.want(id, "comes back into the queue at 2023", Returning)
	b.hold(jobstore.Hold{Server: "h"})
	b.want(id, "is in force. The job comes back into the queue at 2023", Held, Returning)
	b.now++ // else it is a repetition of the first order
	b.order(func(o jobstore.Operator) error { _, err := o.Pause(id, ""); return err })
	if e = b.explain(id); !e.saysUnknown("estimated_wait_seconds", "until what stops it ends") {
		t.Errorf("paused before it is due: %+v", e.Unknown)
	}
}

// TestAllStatesExplained: whatever happens to jobs, each has a cause and a sentence, and what is not known has a
// reason.
func TestAllStatesExplained(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(t)
		b.node(2, 1)
		pick := func() string {
			n := rapid.IntRange(0, 3).Draw(t, "job")
			return jobstore.DocumentJobs(tuple.UUID{1}) + fmt.Sprint(n)
		}
		holds := []jobstore.Hold{{Server: "h"}, {Server: "h:81"}, {Database: "_replicator"}}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for n := range 4 {
					if e := b.explain(jobstore.DocumentJobs(tuple.UUID{1}) + fmt.Sprint(n)); e != nil {
						checkExplained(t, e)
					}
				}
			},
			"put": func(t *rapid.T) {
				n := rapid.IntRange(0, 3).Draw(t, "doc")
				extra := rapid.SampledFrom([]string{"", `,"paused":true`, `,"continuous":true`}).Draw(t, "members")
				b.put(fmt.Sprint(n), fmt.Sprint("t", n/2), extra)
				b.work = nil // locks may be gone
			},
			"accept": func(*rapid.T) { b.work = nil; b.accept(2) },
			"end": func(t *rapid.T) {
				if len(b.work) == 0 {
					t.Skip()
				}
				name := rapid.SampledFrom([]string{"timeout", "max_backoff", "new_error"}).Draw(t, "error")
				trouble := replication.Trouble{Error: name, Throttled: name == "max_backoff"}
				b.end(rapid.SampledFrom([]func(jobstore.Owned, jobstore.Turn) error{
					func(h jobstore.Owned, turn jobstore.Turn) error { return h.Requeue(nil, turn) },
					func(h jobstore.Owned, turn jobstore.Turn) error { return h.Complete(replication.End{}, turn) },
					func(h jobstore.Owned, turn jobstore.Turn) error { return h.Fail(trouble, turn) },
					func(h jobstore.Owned, turn jobstore.Turn) error { return h.Crash(trouble, nil, turn, 1) },
				}).Draw(t, "how"))
			},
			"pause": func(*rapid.T) {
				id := pick()
				b.order(func(o jobstore.Operator) error { return obstructed(o.Pause(id, "")) })
			},
			"resume": func(*rapid.T) {
				id := pick()
				b.order(func(o jobstore.Operator) error { return obstructed(o.Resume(id, "")) })
			},
			"hold": func(t *rapid.T) { b.hold(rapid.SampledFrom(holds).Draw(t, "hold")) },
			"lift": func(t *rapid.T) {
				e := rapid.SampledFrom(holds).Draw(t, "hold")
				b.order(func(o jobstore.Operator) error { _, err := o.LiftHold(e.ID()); return err })
			},
			"pass": func(t *rapid.T) {
				b.now = b.now.Add(time.Duration(rapid.IntRange(1, 200).Draw(t, "seconds")) * time.Second)
				b.do(func(tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 5); return err })
			},
		})
	})
}

// obstructed leaves out that an order cannot be carried out.
func obstructed(_ bool, err error) error {
	if _, is := err.(jobstore.Obstacle); is {
		return nil
	}
	return err
}

func checkExplained(t *rapid.T, e *Explanation) {
	text := e.Sentence()
	if len(e.Why) == 0 || len(text) < 10 || strings.Contains(text, "..") || strings.Contains(text, "%!") {
		t.Fatalf("%v: %q", e.Why, text)
	}
	for i, c := range e.Why {
		if e.words(c) == "" || slices.Contains(e.Why[:i], c) {
			t.Fatalf("cause %q says nothing new in %v", c, e.Why)
		}
	}
	for i, u := range e.Unknown {
		if slices.ContainsFunc(e.Unknown[:i], func(o Unknown) bool { return o.Field == u.Field }) {
			t.Fatalf("%s is twice among what is not known", u.Field)
		}
	}
	waits := !e.View.State.Terminal() && !e.Is(Running)
	if waits && e.Wait == nil && !e.saysUnknown("estimated_wait_seconds") {
		t.Fatalf("no estimate, and no reason: %+v", e)
	}
	if e.Pending == nil && !e.saysUnknown("pending_changes") {
		t.Fatalf("no number of changes, and no reason: %+v", e)
	}
}

// TestCheckpointsExplained: where checkpoints are stored, by what the replication asks for and by what the source lets
// the run do.
func TestCheckpointsExplained(t *testing.T) {
	b := newBench(t)
	b.node(5, 0)
	want := func(id string, source, target bool) {
		t.Helper()
		if e := b.explain(id); *e.Endpoint[0].Checkpoints != source || *e.Endpoint[1].Checkpoints != target {
			t.Errorf("at the source %v, at the target %v", *e.Endpoint[0].Checkpoints, *e.Endpoint[1].Checkpoints)
		}
	}
	want(b.put("none", "a", `,"use_checkpoints":false`), false, false)
	b.accept(1)
	id := b.put("r", "b", "")
	want(id, true, true)
	b.accept(1)
	w := b.work[1]
	b.do(func(tx kv.Tx) error {
		return b.s.Owned(tx, w.JobID, w.Lock, b.now).Progress(jobstore.Stats{SourceReadOnly: true})
	})
	want(id, false, true)
	b.do(func(tx kv.Tx) error { tx.ClearRange(b.s.Keys.Spec.Sub(id).Range()); return nil })
	if e := b.explain(id); e.Endpoint[1].Checkpoints != nil || !e.saysUnknown("servers.checkpoints", "not stored") {
		t.Errorf("without its replication: %+v", e)
	}
}

// TestRunWithoutLease: a job whose worker has no lease is told as one that runs, and the node as not known.
func TestRunWithoutLease(t *testing.T) {
	b := newBench(t)
	b.node(5, 0)
	id := b.put("r", "b", "")
	b.accept(1)
	b.do(func(tx kv.Tx) error { tx.ClearRange(b.s.Keys.Jobs.Worker.Range()); return nil })
	e := b.want(id, "on a node that has no lease", Running, Lost)
	if e.Node != nil || !e.saysUnknown("node", "no lease") {
		t.Errorf("%+v", e)
	}
}

// TestStopOfAResetExplained: a run that is to stop for an order which leaves its job in force is told to be stopping.
func TestStopOfAResetExplained(t *testing.T) {
	b := newBench(t)
	b.node(5, 0)
	id := b.put("r", "b", "")
	b.accept(1)
	b.order(func(o jobstore.Operator) error { _, err := o.Reset(id, ""); return err })
	b.want(id, "about to stop", Running, Stopping)
}

// TestPausesExplained: the node that runs a job tells which of the job's requests it holds back after answers 429, and
// of no other job's; another node tells that it does not know them.
func TestPausesExplained(t *testing.T) {
	b := newBench(t)
	b.node(5, 0)
	id := b.put("r", "b?token=x", "")
	pauses := []ratelimit.Kept{}
	for _, url := range []string{"http://h/a", "http://h/a/?token=x", "http://h:81/b/", "http://h/other/"} {
		pauses = append(pauses, ratelimit.Kept{Key: ratelimit.Key{Endpoint: url, Method: "GET"}})
	}
	ask := func(asking Asking) *Explanation {
		t.Helper()
		asking.Now = b.now
		e, err := kv.Run(t.Context(), b.db, func(tx kv.Tx) (*Explanation, error) {
			return Read(tx.Snapshot(), b.s, id, asking)
		})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := ask(Asking{Node: "n1", Pauses: pauses})
	if e.Endpoint[0].Limiter != nil || e.Endpoint[1].Limiter != nil || e.saysUnknown("servers.limiter") {
		t.Errorf("a job that waits: %+v", e)
	}
	b.accept(1)
	e = ask(Asking{Node: "n1", Pauses: pauses})
	if !slices.Equal(e.Endpoint[0].Limiter, pauses[:2]) || !slices.Equal(e.Endpoint[1].Limiter, pauses[2:3]) ||
		e.saysUnknown("servers.limiter") {
		t.Errorf("on the node of the job: %+v", e)
	}
	if e = ask(Asking{Node: "n1"}); e.Endpoint[0].Limiter == nil || len(e.Endpoint[0].Limiter) > 0 {
		t.Errorf("without pauses, where a client expects a list: %+v", e)
	}
	if e = ask(Asking{Node: "n2", Pauses: pauses}); e.Endpoint[0].Limiter != nil || !e.saysUnknown("servers.limiter") {
		t.Errorf("on another node: %+v", e)
	}
}
