package replication

import (
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/peer"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
)

// Plan is all that a run needs to know.
type Plan struct {
	Options
	// IDs computes the replication's ids from the source text of its filter function, which is empty
	// without one.
	IDs func(filterCode string) IDs
	// Created is when the job was made; checkpoints carry it as start_time.
	Created instant.Time
	// Resumed are the counters of earlier runs of the job.
	Resumed checkpoint.Counters
	// ResumedID is the replication that these counters are of; empty for whichever this is. Another one, as
	// with a changed filter function, counts from the beginning.
	ResumedID string
	// Delay postpones the first request, so that many runs that start at once spread.
	Delay time.Duration
	// Seed makes the session ids. No two runs may share one.
	Seed uint64
	// Broken is told of a broken invariant, which then ends the run as crashed. Without it Step panics.
	Broken func(*invariant.Broken)
}

// IDs names a replication.
type IDs struct {
	// Bases are the ids without options, of version 4, 3, 2 and 1. The first names the checkpoint
	// documents; the others are where older servers left theirs.
	Bases []string
	// Extension is what the options add to the first: the id of the job.
	Extension string
}

// Options are the settings of a replication that the machine acts on.
type Options struct {
	Continuous     bool
	CreateTarget   bool
	CreateParams   []peer.Param
	UseCheckpoints bool
	UseBulkGet     bool
	// FlatLog writes the fields of CouchDB 1.0 into checkpoints; doc_ids replications do.
	FlatLog bool
	// Filter is the filter function whose text is part of the id, nil when there is none.
	Filter *peer.GetFilter
	// SinceSeq is where to start without a checkpoint; empty means from the beginning.
	SinceSeq peer.Seq

	Workers     int // batches under way at once
	BatchSize   int // rows in a batch
	Connections int // requests to one database at once
	Retries     int // further attempts of a failed request
	Memory      int // bytes of bodies held at once, but for one larger answer; 0 means DefaultMemory

	CheckpointInterval time.Duration
	// ProgressInterval is the time between Progress effects.
	ProgressInterval time.Duration
}

// Settings that a run is slowed down to after its endpoints answered 429 until patience ran out, as
// CouchDB does (and never speeds up by it).
const (
	throttledWorkers     = 2
	throttledBatch       = 100
	throttledConnections = 5
	throttledCheckpoint  = 5 * time.Second
)

// Terms are what a run's plan takes from elsewhere than its replication: from the job, the settings of the
// node and the server. The fields that Plan and Options have too mean the same there.
type Terms struct {
	// Server is the identity that goes into replication ids. Nodes that share jobs share it.
	Server    repid.Server
	Created   instant.Time
	Resumed   checkpoint.Counters
	ResumedID string
	// Throttled says that the job's last run ended because endpoints asked to slow down: this one goes
	// slower.
	Throttled        bool
	Delay            time.Duration
	Seed             uint64
	ProgressInterval time.Duration
	Memory           int
	Broken           func(*invariant.Broken)
}

// NewPlan is the whole plan of a run.
func NewPlan(rep *spec.Replication, t Terms) Plan {
	o := Options{
		Continuous: rep.Continuous, CreateTarget: rep.CreateTarget, CreateParams: rep.CreateTargetParams,
		UseCheckpoints: rep.UseCheckpoints, UseBulkGet: rep.UseBulkGet, FlatLog: rep.Filter.Kind == spec.DocIDs,
		SinceSeq: peer.Seq(rep.SinceSeq), Workers: rep.WorkerProcesses, BatchSize: rep.WorkerBatchSize,
		Connections: min(rep.Source.Connections, rep.Target.Connections), Retries: rep.Source.Retries,
		CheckpointInterval: rep.CheckpointInterval, ProgressInterval: t.ProgressInterval, Memory: t.Memory,
	}
	if rep.Filter.Kind == spec.FunctionFilter {
		ddoc, name := rep.Filter.DesignDoc()
		o.Filter = &peer.GetFilter{DesignDoc: ddoc, Name: name}
	}
	if t.Throttled {
		o.Workers, o.BatchSize = min(o.Workers, throttledWorkers), min(o.BatchSize, throttledBatch)
		o.Connections, o.CheckpointInterval = min(o.Connections, throttledConnections), min(o.CheckpointInterval, throttledCheckpoint)
	}
	return Plan{
		Options: o, Created: t.Created, Resumed: t.Resumed, ResumedID: t.ResumedID, Delay: t.Delay, Seed: t.Seed, Broken: t.Broken,
		IDs: func(filterCode string) IDs { return idsOf(rep, t.Server, filterCode) },
	}
}

// idsOf names a replication, as servers of all versions do.
func idsOf(rep *spec.Replication, server repid.Server, filterCode string) IDs {
	id := repid.New(server, rep, filterCode)
	ids := IDs{Bases: []string{id.Base}, Extension: id.Extension}
	for version := repid.Version - 1; version > 0; version-- {
		ids.Bases = append(ids.Bases, repid.Base(version, server, rep, filterCode))
	}
	return ids
}
