package replication

import (
	"strings"
	"time"

	"couchrelay/core/checkpoint"
	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/peer"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
)

// Plan is all that a run is told before it begins. It does not change while the run lives.
type Plan struct {
	Options
	// IDs computes the replication's ids from the source text of its filter function, which is empty
	// without one.
	IDs func(filterCode string) IDs
	// Created is when the job was made. Checkpoints carry it as start_time.
	Created instant.Time
	// Resumed is the totals of the job's earlier runs.
	Resumed checkpoint.Counters
	// ResumedID is the id of the replication that Resumed and Listed count; empty if it is the same as this run's. If
	// the ids differ, as after a change of the filter function, totals begin at 0.
	ResumedID string
	// Delay postpones the first request, so that runs which start at the same time spread.
	Delay time.Duration
	// Seed makes the session ids of checkpoints. No two runs may have the same one: equal session ids are the
	// proof that two logs have a checkpoint in common.
	Seed uint64
	// Broken is told of a broken invariant, which then ends the run as crashed. Without it Step panics.
	Broken func(*invariant.Broken)
	// Reset has the run discard the checkpoints that it finds and copy everything anew.
	Reset bool
	// Listed is how many revisions the list of refused documents has (see ReadRefused).
	Listed int64
	// MaxListed is how many the list may have, as the store has it; 0 means the constant of that name.
	MaxListed int64 `eventlog:"omitzero"`
	// List is by what checkpoints know that list.
	List checkpoint.List
	// ListSaved is what the job's last run told (see Info), or the state of the list when something left it last, or it
	// began, if that is later. A database whose newest checkpoint of the job tells an earlier state was put back to a
	// backup, or its run was killed before it could tell.
	ListSaved [2]int64
	// Crashes is how many runs of the job crashed in a row before this one, or without getting further (see lenient).
	Crashes int
}

// hasList reports whether the job had its list already when it was the replication with these ids. Another list goes as
// the job becomes this replication.
func (p *Plan) hasList(ids IDs) bool { return p.Listed > 0 && p.resumes(ids) }

// resumes reports whether the job was the replication with these ids before, if it was one.
func (p *Plan) resumes(ids IDs) bool {
	return p.ResumedID == "" || strings.HasPrefix(p.ResumedID, ids.Bases[0])
}

// IDs is the ids of a replication.
type IDs struct {
	// Bases are the ids without options, of version 4, 3, 2 and 1. The first is the id of the checkpoint
	// documents; under the others older servers left theirs.
	Bases []string
	// Extension follows the first base in the id of the job. It has the options that tell jobs apart.
	Extension string
}

// Options are the settings of a replication that the run acts on.
type Options struct {
	Continuous bool
	Creation
	UseCheckpoints bool
	UseBulkGet     bool
	// FlatLog adds the fields of CouchDB 1.0 to checkpoints. It is set for doc_ids replications.
	FlatLog bool
	// Filter names the filter function, whose text is a part of the id; nil without one.
	Filter *peer.GetFilter
	// OnRefusal says what becomes of documents that the target refuses.
	OnRefusal spec.OnRefusal
	// SinceSeq is where to start if there is no checkpoint; empty means at the beginning.
	SinceSeq peer.Seq

	// Workers is the number of batches that are to be at the servers at once, at least 1; see window.
	Workers int
	// MaxWorkers bounds the batches that are worked on at once, on the line or at a server. It is at least Workers.
	MaxWorkers  int
	BatchSize   int // rows in a batch at most, at least 1
	Connections int // requests to one database at once, at least 1
	Retries     int // further attempts of a failed request, 0 or more
	// Compression is that of the target.
	Compression spec.Compression
	Memory      int // bytes of bodies held at once, but for one larger answer; 0 means DefaultMemory

	CheckpointInterval time.Duration // between checkpoints while there is something to checkpoint
	ProgressInterval   time.Duration // between Progress effects, after shorter ones in the beginning

	// StallTimeout is how long a run with pending changes may get nowhere before it ends as stalled; 0 means for
	// ever.
	StallTimeout time.Duration
	// Filtered reports that the source leaves out changes, so that its feed may be silent while it scans.
	Filtered bool
	// MissingPause is the time that the source has for finding what it announced; 0 is CouchDB's.
	MissingPause time.Duration
}

// Creation says whether a run makes its target, and how.
type Creation struct {
	CreateTarget bool
	CreateParams []peer.Param
}

// Settings of a run whose job's last run ended because an endpoint answered 429 until patience ran out, as in
// CouchDB. They only lower what the replication asks for.
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
	// Throttled reports that the job's last run ended because an endpoint asked to slow down. This one goes
	// slower.
	Throttled        bool
	Delay            time.Duration
	Seed             uint64
	ProgressInterval time.Duration
	Memory           int
	Broken           func(*invariant.Broken)
	Reset            bool
	Listed           int64
	MaxListed        int64
	List             checkpoint.List
	ListSaved        [2]int64
	Crashes          int
	StallTimeout     time.Duration
	MissingPause     time.Duration
}

// NewPlan returns the plan of a run.
func NewPlan(rep *spec.Replication, t Terms) Plan {
	o := Options{
		Continuous: rep.Continuous, Creation: Creation{rep.CreateTarget, rep.CreateTargetParams},
		UseCheckpoints: rep.UseCheckpoints, UseBulkGet: rep.UseBulkGet, FlatLog: rep.Filter.Kind == spec.DocIDs,
		OnRefusal: rep.OnRefusal,
		SinceSeq:  peer.Seq(rep.SinceSeq), Workers: rep.WorkerProcesses, MaxWorkers: rep.MaxWorkers,
		BatchSize:   rep.WorkerBatchSize,
		Connections: min(rep.Source.Connections, rep.Target.Connections), Retries: rep.Source.Retries,
		Compression:        rep.Target.Compression,
		CheckpointInterval: rep.CheckpointInterval, ProgressInterval: t.ProgressInterval, Memory: t.Memory,
		StallTimeout: t.StallTimeout, Filtered: rep.Filter.Kind != spec.NoFilter,
		MissingPause: t.MissingPause,
	}
	if rep.Filter.Kind == spec.FunctionFilter {
		ddoc, name := rep.Filter.DesignDoc()
		o.Filter = &peer.GetFilter{DesignDoc: ddoc, Name: name}
	}
	if t.Throttled {
		o.Workers = min(o.Workers, throttledWorkers)
		o.MaxWorkers = o.Workers
		o.BatchSize = min(o.BatchSize, throttledBatch)
		o.Connections = min(o.Connections, throttledConnections)
		o.CheckpointInterval = min(o.CheckpointInterval, throttledCheckpoint)
	}
	if t.Reset {
		t.Resumed, t.ListSaved = checkpoint.Counters{}, [2]int64{}
	}
	return Plan{
		Options: o, Created: t.Created, Resumed: t.Resumed, ResumedID: t.ResumedID,
		Delay: t.Delay, Seed: t.Seed, Broken: t.Broken, Reset: t.Reset,
		Listed: t.Listed, MaxListed: t.MaxListed, List: t.List, ListSaved: t.ListSaved, Crashes: t.Crashes,
		IDs: func(filterCode string) IDs { return idsOf(rep, t.Server, filterCode) },
	}
}

// idsOf returns the ids that servers of all versions give a replication.
func idsOf(rep *spec.Replication, server repid.Server, filterCode string) IDs {
	id := repid.New(server, rep, filterCode)
	ids := IDs{Bases: []string{id.Base}, Extension: id.Extension}
	for version := repid.Version - 1; version > 0; version-- {
		ids.Bases = append(ids.Bases, repid.Base(version, server, rep, filterCode))
	}
	return ids
}
