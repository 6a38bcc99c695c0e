package replication

import (
	"time"

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

// NewPlan is the plan for a replication on a server with this identity. throttled says that its last run
// ended because endpoints asked to slow down.
func NewPlan(rep *spec.Replication, server repid.Server, throttled bool) Plan {
	o := Options{
		Continuous: rep.Continuous, CreateTarget: rep.CreateTarget, CreateParams: rep.CreateTargetParams,
		UseCheckpoints: rep.UseCheckpoints, UseBulkGet: rep.UseBulkGet, FlatLog: rep.Filter.Kind == spec.DocIDs,
		SinceSeq: peer.Seq(rep.SinceSeq), Workers: rep.WorkerProcesses, BatchSize: rep.WorkerBatchSize,
		Connections: min(rep.Source.Connections, rep.Target.Connections), Retries: rep.Source.Retries,
		CheckpointInterval: rep.CheckpointInterval, ProgressInterval: 10 * time.Second,
	}
	if rep.Filter.Kind == spec.FunctionFilter {
		ddoc, name := rep.Filter.DesignDoc()
		o.Filter = &peer.GetFilter{DesignDoc: ddoc, Name: name}
	}
	if throttled {
		o.Workers, o.BatchSize = min(o.Workers, throttledWorkers), min(o.BatchSize, throttledBatch)
		o.Connections, o.CheckpointInterval = min(o.Connections, throttledConnections), min(o.CheckpointInterval, throttledCheckpoint)
	}
	return Plan{Options: o, IDs: func(filterCode string) IDs {
		id := repid.New(server, rep, filterCode)
		ids := IDs{Bases: []string{id.Base}, Extension: id.Extension}
		for version := repid.Version - 1; version > 0; version-- {
			ids.Bases = append(ids.Bases, repid.Base(version, server, rep, filterCode))
		}
		return ids
	}}
}
