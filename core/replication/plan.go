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

// Settings that a run is slowed down to after its endpoints answered 429 until patience ran out, as
// CouchDB does (and never speeds up by it).
const (
	throttledWorkers     = 2
	throttledBatch       = 100
	throttledConnections = 5
	throttledCheckpoint  = 5 * time.Second
)

// Terms are what a run's plan takes from elsewhere than its replication: from the job, the settings of the node and
// the server. The fields that Plan and Options have too mean the same there.
type Terms struct {
	// Server is the identity that goes into replication ids. Nodes that share jobs share it.
	Server    repid.Server
	Created   instant.Time
	Resumed   checkpoint.Counters
	ResumedID string
	// Throttled says that the job's last run ended because endpoints asked to slow down: this one goes slower.
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
