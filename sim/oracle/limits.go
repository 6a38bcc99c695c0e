package oracle

import (
	"slices"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// limits judge the requests of a run by the options of its replication.
type limits struct{ *chronicle }

var limitSubject = subject{
	invariants: []Invariant{
		{"S30s", "A run works on as many batches, and copies as many documents, at once as its replication " +
			"allows."},
		{"S30t", "A run holds and asks for no more bytes of documents at once than the memory of a run " +
			"allows."},
		{"S30u", "A run reads changes ahead for no more batches than it may work on at once."},
		{"S30v", "A run asks for nothing that the options of its replication rule out."},
		{"S30w", "A run compares no more documents at once than worker_batch_size."},
	},
	begin: func(c *chronicle) {
		ls := &limits{c}
		c.on.runCalls.add(func(c call) {
			ls.checkOptions(c.run, c.op)
			ls.checkAhead(c.run, c.op)
			ls.checkParallel(c.run, c.op)
			ls.checkMemory(c.run, c.op)
		})
	},
}

// Options of a run whose last one ended because a server asked to slow down, CouchDB's, where its own are not
// smaller.
const (
	slowWorkers     = 2
	slowConnections = 5
	slowCheckpoint  = 5 * time.Second
)

// batches is how many batches the run may work on at once, while they are on their way to servers that are far away.
// The feed and a checkpoint have connections of their own.
func (r *run) batches() int {
	if r.Record().Throttled {
		return r.workers()
	}
	return max(r.workers(), min(r.Replication().MaxWorkers, r.connections()-2))
}

// workers is how many batches the run may work on at once between near servers.
func (r *run) workers() int {
	if r.Record().Throttled {
		return min(r.Replication().WorkerProcesses, slowWorkers)
	}
	return r.Replication().WorkerProcesses
}

// interval is how long the run leaves between checkpoints.
func (r *run) interval() time.Duration {
	if r.Record().Throttled {
		return min(r.Replication().CheckpointInterval, slowCheckpoint)
	}
	return r.Replication().CheckpointInterval
}

// connections is how many requests the run may have in flight to one side.
func (r *run) connections() int {
	rep := r.Replication()
	most := min(rep.Source.Connections, rep.Target.Connections)
	if r.Record().Throttled {
		most = min(most, slowConnections)
	}
	return most
}

// checkParallel is S30s. A batch has one request to compare or to read in bulk in flight at most, so these
// count batches. Copies have the connections that are left beside the workers' and the feed's.
func (ls *limits) checkParallel(r *run, op peer.Op) {
	batches, copies := 0, 0
	count := func(op peer.Op) {
		if r.ofList(op) {
			return // a pass through the list of refused documents goes on beside the batches
		}
		switch op.(type) {
		case peer.DiffRevs, peer.FetchDocs:
			batches++
		case peer.CopyDoc:
			copies++
		}
	}
	count(op)
	for _, op := range r.InFlight() {
		count(op)
	}
	if most := r.batches(); batches > most {
		ls.Fail("S30s", "%s works on %d batches at once, and may on %d", r, batches, most)
	}
	if most := max(1, r.connections()-r.workers()-1); copies > most {
		ls.Fail("S30s", "%s copies %d documents at once, and may %d", r, copies, most)
	}
}

// checkMemory is S30t: bodies that were read and not written yet and the budgets of reads in flight. A run
// that holds nothing may read one body of any size, and a read that is repeated has its place already.
func (ls *limits) checkMemory(r *run, op peer.Op) {
	fetch, is := op.(peer.FetchDocs)
	repeated := func(d peer.DocRev) bool { return d.ID == fetch.Docs[0].ID && d.Rev == fetch.Docs[0].Rev }
	if !is || slices.ContainsFunc(r.bulk.unheard, repeated) {
		return
	}
	held := r.KeptBytes(r.IsInFlight)
	for _, op := range r.InFlight() {
		if other, is := op.(peer.FetchDocs); is {
			held += other.Budget
		}
	}
	if most := ls.w.Config().Memory; held > 0 && held+fetch.Budget > most {
		ls.Fail("S30t", "%s reads %d bytes of bodies more, holds %d, and may hold %d",
			r, fetch.Budget, held, most)
	}
}

// checkAhead is S30u: a run that reads the feed faster than it copies would hold all of it. It goes by the
// documents that were compared with the target, so a run that may not compare any more, since the target
// lacked nearly all, is excused, and so is one whose source repeated changes, which are compared once.
func (ls *limits) checkAhead(r *run, op peer.Op) {
	if _, reads := op.(peer.ReadChanges); !reads || r.counts.diffs >= unasked || r.WentBack() {
		return
	}
	ahead, most := r.counts.rows-r.counts.compared, int64(r.batches()*r.Replication().WorkerBatchSize)
	if ahead > most {
		ls.Fail("S30u", "%s reads more changes, and has %d that it has not looked at; it may have %d",
			r, ahead, most)
	}
}

// checkOptions is S30v and S30w.
func (ls *limits) checkOptions(r *run, op peer.Op) {
	rep := r.Replication()
	switch op := op.(type) {
	case peer.Create:
		if !slices.Equal(op.Params, rep.CreateTargetParams) {
			ls.Fail("S30v", "%s makes its target with %v, and should with %v",
				r, op.Params, rep.CreateTargetParams)
		}
		if !rep.CreateTarget {
			ls.Fail("S30v", "%s makes its target without create_target", r)
		}
	case peer.PutLocal:
		head, err := ls.logs.head(op.Body)
		discards := err == nil && head.session == "" && r.Record().Reset != 0
		if !rep.UseCheckpoints && !discards {
			ls.Fail("S30v", "%s writes a checkpoint without use_checkpoints", r)
		}
	case peer.FetchDocs:
		if !rep.UseBulkGet {
			ls.Fail("S30v", "%s reads in bulk without use_bulk_get", r)
		}
	case peer.WriteDocs:
		if op.Gzip && rep.Target.Compression == spec.CompressOff {
			ls.Fail("S30v", "%s writes %d documents compressed, with compression off", r, len(op.Docs))
		}
	case peer.DiffRevs:
		if len(op.Docs) > rep.WorkerBatchSize {
			ls.Fail("S30w", "%s compares %d documents at once, with worker_batch_size %d",
				r, len(op.Docs), rep.WorkerBatchSize)
		}
	}
}
