package metrics

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/replication"
)

// told is a node that tells an Engine what it does.
type told struct {
	*Meter
	id uint64
}

func (n *told) step(ev node.Event, effects ...node.Effect) {
	n.Engine.NodeStepped(node.Clock{}, ev, effects)
}

// ask has the node ask for something, and answers with a fault or with a result.
func (n *told) ask(q node.Request, fault node.Outcome, result node.Result) {
	n.id++
	n.step(node.Wake{}, node.Ask{ID: n.id, Request: q})
	n.step(node.Done{ID: n.id, Fault: fault, Result: result})
}

// start starts a run of a job that was ready for a minute.
func (n *told) start(job, database string) {
	at := instant.Seconds(1_700_000_000)
	rec := &jobstore.Record{Database: database,
		History: []jobstore.Event{{Type: "started", At: at.Add(time.Minute)}, {Type: "added", At: at}}}
	n.step(node.Wake{}, node.StartRun{Work: jobstore.Work{JobID: job, Record: rec}})
	n.Engine.RunBegins(1, replication.Plan{Options: replication.Options{Workers: 4}})
}

// TestEngine: runs count when they begin, and when their ends are stored; what failed to be stored does not.
func TestEngine(t *testing.T) {
	n := &told{Meter: New("1.2.3", time.Now())}
	held := func(i int) node.Held { return node.Held{JobID: fmt.Sprint("job", i)} }
	for i := range 9 {
		n.start(held(i).JobID, map[bool]string{true: "a/_replicator"}[i%2 == 0])
	}
	trouble := func(name string) replication.Trouble { return replication.Trouble{Error: name} }
	n.ask(node.Complete{Held: held(0)}, node.StoreDown, nil)
	n.ask(node.Complete{Held: held(0)}, node.Committed, node.Ok{})
	n.ask(node.Complete{Held: held(1)}, node.Committed, node.Ok{}) // of a request
	n.ask(node.Crash{Held: held(2), Trouble: trouble("stalled")}, node.Committed, node.Ok{})
	n.ask(node.Crash{Held: held(3), Trouble: trouble("changes_req_failed")}, node.Committed, node.Ok{})
	n.ask(node.Crash{Held: held(4), Trouble: trouble("bulk_docs_failed")}, node.Canceled, nil)
	n.ask(node.Crash{Held: held(4), Trouble: trouble("bulk_docs_failed")}, node.Committed, node.Ok{})
	n.ask(node.Fail{Held: held(6), Trouble: trouble("never heard of")}, node.Committed, node.Ok{})
	n.ask(node.Requeue{Held: held(7)}, node.Committed, node.Ok{})
	n.ask(node.Claim{Held: held(8)}, node.Committed, node.Claimed{})
	n.ask(node.Claim{Held: held(8)}, node.Committed, node.Claimed{Refused: true})
	n.ask(node.StandBy{Held: held(8)}, node.Committed, node.Ok{})
	n.step(node.Wake{}, node.Note{What: "halted", Job: held(5).JobID}, node.Note{What: "lease_lost"})
	n.step(node.RunEnded{End: replication.End{Cause: replication.Crashed}})
	n.step(node.RunEnded{End: replication.End{Cause: replication.Crashed, Info: replication.Info{ThroughSeq: "1"}}})
	n.step(node.RunEnded{End: replication.End{Cause: replication.Stopped}})
	n.step(node.Wake{}, node.Note{What: "worker_silent"}, node.Note{What: "killed"})
	ends := "couchrelay_run_ends_total"
	read(t, n.Meter, State{}).want(t, readings{
		inJobs + "starts_total": 9, "couchrelay_queue_wait_seconds": 9, inJobs + "crashes_total": 3,
		"couchdb_couch_replicator_workers_started_total":              36,
		"couchdb_couch_replicator_docs_completed_state_updates_total": 1,
		"couchdb_couch_replicator_docs_failed_state_updates_total":    1,
		"couchdb_couch_replicator_worker_deaths_total":                1,
		"couchdb_couch_replicator_changes_reader_deaths_total":        1,
		"couchdb_couch_replicator_failed_starts_total":                1, inJobs + "duplicate_adds_total": 1,
		ends + `{class="none",outcome="completed"}`: 2, ends + `{class="stalled",outcome="crashed"}`: 1,
		ends + `{class="server",outcome="crashed"}`: 2, ends + `{class="other",outcome="failed"}`: 1,
		ends + `{class="none",outcome="stopped"}`: 1, ends + `{class="none",outcome="waiting"}`: 1,
		ends + `{class="none",outcome="halted"}`: 1, "couchrelay_leases_lost_total": 1,
		"couchrelay_nodes_given_up_total": 1, "couchrelay_runs_killed_total": 1,
	})
	if len(n.Engine.asks)+len(n.Engine.docs) > 0 {
		t.Errorf("it remembers %v and %v of runs that are over", n.Engine.asks, n.Engine.docs)
	}
}

// TestStops: runs that are to give way count as rotations when a look at the queue has brought it about, unless their
// jobs are to move.
func TestStops(t *testing.T) {
	n := &told{Meter: New("1.2.3", time.Now())}
	survey := node.Done{Result: node.Surveyed{}}
	giveWay := func(run uint64) node.Effect { return node.TellRun{Run: run, Event: replication.GiveWay{}} }
	n.step(survey, giveWay(1), giveWay(2), node.TellRun{Run: 9, Event: replication.TryRefused{}})
	n.step(survey, giveWay(3), node.Note{What: "rebalanced"})
	for run := range uint64(3) {
		n.step(node.RunGivesWay{Run: run}, node.StopRun{Run: run})
	}
	n.step(node.Drain{}, node.StopRun{Run: 4}, node.StopRun{Run: 5}, node.StopRun{Run: 6})
	read(t, n.Meter, State{}).want(t, readings{inJobs + "stops_total": 6, "couchrelay_rotations_total": 2,
		"couchrelay_moves_total": 1})
}

// TestTallied: what runs have done counts once, however often it is told.
func TestTallied(t *testing.T) {
	m := New("1.2.3", time.Now())
	tally := replication.Tally{DocsRead: 5, DocsWritten: 3, DocsRefused: 2, BytesRead: 50, BytesWritten: 30,
		Checkpoints: 4, CheckpointFailures: 1}
	for range 3 {
		m.Engine.Tallied(tally)
	}
	tally.DocsRead++
	m.Engine.Tallied(tally)
	m.Engine.Tallied(replication.Tally{}) // of a host that begins anew
	read(t, m, State{}).want(t, readings{
		"couchrelay_documents_read_total": 6, "couchrelay_documents_written_total": 3,
		"couchrelay_documents_refused_total": 2, "couchrelay_document_read_bytes_total": 50,
		"couchrelay_document_written_bytes_total": 30, "couchdb_couch_replicator_checkpoints_total": 5,
		"couchdb_couch_replicator_checkpoints_failure_total": 1,
	})
}
