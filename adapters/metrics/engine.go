package metrics

import (
	"couchrelay/core/explain"
	"couchrelay/core/host"
	"couchrelay/core/instant"
	"couchrelay/core/node"
	"couchrelay/core/replication"

	"github.com/prometheus/client_golang/prometheus"
)

// Engine counts what a node and its runs do. It is a host.Observer, and a loop.Meter; one goroutine tells it.
type Engine struct {
	counters
	couchCounters

	asks    map[uint64]node.Request // in flight, of those that count when they have committed
	docs    map[string]bool         // jobs of documents, of the runs there are
	tallied replication.Tally
}

// couchCounters are those that CouchDB has, too.
type couchCounters struct {
	starts, stops, crashes, duplicates    prometheus.Counter
	failedStarts                          prometheus.Counter
	completedDocs, failedDocs             prometheus.Counter
	workersStarted, workerDeaths, readers prometheus.Counter // readers of changes that died
	checkpoints, checkpointFailures       prometheus.Counter
}

const (
	ofReplicator = "couchdb_couch_replicator_"
	inJobs       = ofReplicator + "jobs_"
)

func newCouchCounters(m *Meter) couchCounters {
	of := func(path, name, help string) prometheus.Counter {
		return m.counter(Family{Name: ofReplicator + name, Couch: "couch_replicator/" + path, Help: help})
	}
	return couchCounters{
		starts: of("jobs/starts", "jobs_starts_total", "runs that this node has begun"),
		stops: of("jobs/stops", "jobs_stops_total",
			"runs that this node has asked to stop, for whatever reason"),
		crashes: of("jobs/crashes", "jobs_crashes_total", "runs of this node that have crashed"),
		duplicates: of("jobs/duplicate_adds", "jobs_duplicate_adds_total",
			"runs that found that another job has their replication"),
		failedStarts: of("failed_starts", "failed_starts_total",
			"runs that crashed before they could copy anything"),
		completedDocs: of("docs/completed_state_updates", "docs_completed_state_updates_total",
			"documents of which this node has written that they are completed"),
		failedDocs: of("docs/failed_state_updates", "docs_failed_state_updates_total",
			"documents of which this node has written that they failed"),
		checkpoints: m.counter(Family{Name: ofReplicator + "checkpoints_total",
			Couch: "couch_replicator/checkpoints/success", Less: ofReplicator + "checkpoints_failure_total",
			Help: "checkpoints that runs have written, and those that could not be written",
			Rest: "checkpoints that runs have written"}),
		checkpointFailures: of("checkpoints/failure", "checkpoints_failure_total",
			"checkpoints that could not be written"),
		workersStarted: of("workers_started", "workers_started_total",
			"batches that runs may copy at a time (worker_processes), summed up over the runs that have begun"),
		workerDeaths: of("worker_deaths", "worker_deaths_total", "runs that crashed while they copied documents"),
		readers: of("changes_reader_deaths", "changes_reader_deaths_total",
			"runs that crashed while they read changes"),
	}
}

// counters are those that CouchDB does not have.
type counters struct {
	ends                     *prometheus.CounterVec
	queueWait                prometheus.Observer
	rotations, moves, killed prometheus.Counter
	docsRead, docsWritten    prometheus.Counter
	docsRefused              prometheus.Counter
	bytesRead, bytesWritten  prometheus.Counter
	leasesLost, nodesGivenUp prometheus.Counter
}

func newCounters(m *Meter) counters {
	of := func(name, help string) prometheus.Counter {
		return m.counter(Family{Name: "couchrelay_" + name, Help: help})
	}
	return counters{
		ends: newEnds(m),
		queueWait: m.histograms(Family{Name: "couchrelay_queue_wait_seconds",
			Help: "how long jobs that began to run had been ready; waits after a crash are left out"},
			[]float64{1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600}).WithLabelValues(),
		rotations: of("rotations_total", "runs that were asked to give way to waiting jobs"),
		moves: of("moves_total",
			"runs that were asked to stop since their jobs are to move to other nodes"),
		killed: of("runs_killed_total", "runs that did not stop in stop_timeout_sec and were dropped"),
		docsRead: of("documents_read_total",
			"documents that runs have read from their sources; each revision counts"),
		docsWritten: of("documents_written_total", "documents that targets have taken; each revision counts"),
		docsRefused: of("documents_refused_total", "documents that targets have refused; each attempt counts"),
		bytesRead:   of("document_read_bytes_total", "bytes of documents and attachments from sources"),
		bytesWritten: of("document_written_bytes_total",
			"bytes of documents and attachments to targets"),
		leasesLost: of("leases_lost_total",
			"times that this node could not renew its lease and dropped its runs"),
		nodesGivenUp: of("nodes_given_up_total", "nodes that this one found silent and gave up"),
	}
}

// newEnds makes the counters of ends. All are there from the beginning: the increase from nothing to 1 is none to
// Prometheus, and alerts would miss it.
func newEnds(m *Meter) *prometheus.CounterVec {
	ends := m.counters(Family{Name: "couchrelay_run_ends_total", Labels: []string{"outcome", "class"},
		Help: "runs that have ended, by outcome and by the class of their error (none without one)"})
	for _, outcome := range []string{"completed", "stopped", "waiting", "halted"} {
		ends.WithLabelValues(outcome, "none")
	}
	for _, class := range append(explain.Classes(), other) {
		ends.WithLabelValues("crashed", class)
		ends.WithLabelValues("failed", class)
	}
	return ends
}

func newEngine(m *Meter) *Engine {
	return &Engine{couchCounters: newCouchCounters(m), counters: newCounters(m),
		asks: map[uint64]node.Request{}, docs: map[string]bool{}}
}

// NodeStepped is host.Observer's.
func (e *Engine) NodeStepped(_ node.Clock, ev node.Event, effects []node.Effect) {
	surveyed := false
	switch ev := ev.(type) {
	case node.Done:
		_, surveyed = ev.Result.(node.Surveyed)
		e.done(ev)
	case node.RunEnded:
		if ev.End.Cause == replication.Crashed && ev.End.Info.ThroughSeq == "" {
			e.failedStarts.Inc()
		}
	}
	stops, yields, rebalanced := 0, 0, false
	for _, effect := range effects {
		switch effect := effect.(type) {
		case node.Ask:
			e.asked(effect)
		case node.StartRun:
			e.started(effect)
		case node.StopRun:
			stops++
		case node.TellRun:
			if _, is := effect.Event.(replication.GiveWay); is {
				yields++
			}
		case node.Note:
			e.noted(effect)
			rebalanced = rebalanced || effect.What == "rebalanced"
		}
	}
	e.stops.Add(float64(stops))
	switch {
	case rebalanced:
		e.moves.Add(float64(yields))
	case surveyed:
		e.rotations.Add(float64(yields))
	}
}

// RunBegins is host.Observer's.
func (e *Engine) RunBegins(_ uint64, plan replication.Plan) {
	e.workersStarted.Add(float64(plan.Workers))
}

// RunStepped is host.Observer's. What a run does is in its tally.
func (e *Engine) RunStepped(uint64, instant.Time, replication.Event, []replication.Effect) {}

// Tallied takes over what all runs have done so far.
func (e *Engine) Tallied(now replication.Tally) {
	if now == e.tallied {
		return
	}
	did := now.Since(e.tallied)
	e.tallied = now
	add := func(c prometheus.Counter, n int64) { c.Add(float64(max(0, n))) } // less would be of another host
	add(e.docsRead, did.DocsRead)
	add(e.docsWritten, did.DocsWritten)
	add(e.docsRefused, did.DocsRefused)
	add(e.bytesRead, did.BytesRead)
	add(e.bytesWritten, did.BytesWritten)
	add(e.checkpoints, did.Checkpoints+did.CheckpointFailures)
	add(e.checkpointFailures, did.CheckpointFailures)
}

func (e *Engine) started(s node.StartRun) {
	e.starts.Inc()
	if waited, known := s.Work.Record.Waited(); known {
		e.queueWait.Observe(waited.Seconds())
	}
	if !s.Work.Record.Transient() {
		e.docs[s.Work.JobID] = true
	}
}

// asked remembers a request that counts once it has committed.
func (e *Engine) asked(a node.Ask) {
	switch a.Request.(type) {
	case node.EndsTurn, node.Claim:
		e.asks[a.ID] = a.Request
	}
}

// done counts a request that has committed.
func (e *Engine) done(d node.Done) {
	q, asked := e.asks[d.ID]
	delete(e.asks, d.ID)
	if !asked || d.Fault != node.Committed {
		return
	}
	if _, is := q.(node.Claim); is {
		if d.Result.(node.Claimed).Refused {
			e.duplicates.Inc()
		}
		return
	}
	e.ended(q.(node.EndsTurn))
}

// ended counts the end of a run, which is stored.
func (e *Engine) ended(q node.EndsTurn) {
	job := q.HeldJob().JobID
	switch q := q.(type) {
	case node.Complete:
		e.ends.WithLabelValues("completed", "none").Inc()
		if e.docs[job] {
			e.completedDocs.Inc()
		}
	case node.Crash:
		e.ends.WithLabelValues("crashed", classOf(q.Trouble)).Inc()
		e.crashed(q.Trouble)
	case node.Fail:
		e.ends.WithLabelValues("failed", classOf(q.Trouble)).Inc()
		if e.docs[job] {
			e.failedDocs.Inc()
		}
	case node.StandBy:
		e.ends.WithLabelValues("waiting", "none").Inc()
	case node.Requeue:
		e.ends.WithLabelValues("stopped", "none").Inc()
	}
	delete(e.docs, job)
}

// crashed counts what a run was about when it crashed.
func (e *Engine) crashed(t replication.Trouble) {
	e.crashes.Inc()
	switch t.Error {
	case "changes_req_failed":
		e.readers.Inc()
	case "revs_diff_failed", "bulk_docs_failed", "open_doc_revs_failed", "doc_write_failed", "missing_doc",
		"request_too_large":
		e.workerDeaths.Inc()
	}
}

// classOf returns the class of an error, of which there are few.
func classOf(t replication.Trouble) string {
	if class, known := explain.ClassOf(t.Error); known {
		return class.Class
	}
	return other
}

// noted counts what the log is told.
func (e *Engine) noted(n node.Note) {
	switch n.What {
	case "halted":
		e.ends.WithLabelValues("halted", "none").Inc()
		delete(e.docs, n.Job)
	case "killed":
		e.killed.Inc()
	case "lease_lost":
		e.leasesLost.Inc()
	case "worker_silent":
		e.nodesGivenUp.Inc()
	}
}

var _ host.Observer = (*Engine)(nil)
