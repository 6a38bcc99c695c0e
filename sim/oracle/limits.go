package oracle

import (
	"slices"
	"time"

	"couchrelay/core/peer"
)

// Settings that a run is slowed down to whose last one ended because it was asked to, CouchDB's.
const (
	slowWorkers     = 2
	slowConnections = 5
	slowCheckpoint  = 5 * time.Second
)

// checkLoad is a part of S30: a run has no more batches under way, documents that it copies one by one and bodies in
// memory than its replication allows. It is called before the request leaves.
func (o *Oracle) checkLoad(r *run, op peer.Op) {
	rep := r.Replication()
	workers, connections := rep.WorkerProcesses, min(rep.Source.Connections, rep.Target.Connections)
	if r.Record().Throttled {
		workers, connections = min(workers, slowWorkers), min(connections, slowConnections)
	}
	o.checkAhead(r, op, workers)
	fetch, is := op.(peer.FetchDocs)
	batches, copies := 0, 0 // each batch has at most one of its requests to compare or to read in bulk under way
	count := func(op peer.Op) {
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
	if batches > workers {
		o.Fail("S30", "run %d of %s works on %d batches at once, and may on %d", r.ID(), r.p.Name, batches, workers)
	}
	if most := max(1, connections-workers-1); copies > most {
		o.Fail("S30", "run %d of %s copies %d documents at once, and may %d", r.ID(), r.p.Name, copies, most)
	}
	repeated := func(d peer.DocRev) bool { return d.ID == fetch.Docs[0].ID && d.Rev == fetch.Docs[0].Rev }
	if is && !slices.ContainsFunc(r.numbers.again, repeated) { // what is repeated has its place
		held := r.KeptBytes(r.IsInFlight)
		for _, op := range r.InFlight() {
			if other, is := op.(peer.FetchDocs); is {
				held += other.Budget
			}
		}
		if most := o.w.Config().Memory; held > 0 && held+fetch.Budget > most {
			o.Fail("S30", "run %d of %s reads %d bytes of bodies more, holds %d, and may hold %d", r.ID(), r.p.Name, fetch.Budget, held, most)
		}
	}
}

// checkAhead is a part of S30: a run reads no more rows of a feed while it has not begun with a batch for each worker.
func (o *Oracle) checkAhead(r *run, op peer.Op, workers int) {
	n := &r.numbers
	switch op := op.(type) {
	case peer.DiffRevs:
		n.compared += int64(len(op.Docs))
	case peer.ReadChanges:
		if ahead, most := n.rows-n.compared, int64(workers*r.Replication().WorkerBatchSize); n.diffs < enough && !r.WentBack() && ahead > most {
			o.Fail("S30", "run %d of %s reads more changes, and has %d that it has not looked at; it may have %d", r.ID(), r.p.Name, ahead, most)
		}
	}
}
