package lab

import (
	"time"

	"couchrelay/core/config"
	"couchrelay/sim/workload"
)

// Config is all that a run depends on.
type Config struct {
	// Settings are production's, of [replicator] and [replicator.shares]. The shares of accounts of the
	// workload come from there, or else from the workload.
	Settings config.Settings
	Workload *workload.Workload
	Nodes    int           // 1 or more, with the same settings
	Duration time.Duration // above 0
	Latency  time.Duration // of a transaction of a node, 0 or more
	// Checkpoint is the time between two checkpoints of a run; what was copied since the last one is lost when
	// the run is killed, crashes, or vanishes with its node. A run that stops in order writes one.
	Checkpoint time.Duration
	// StopTime is how long a run takes to stop in order.
	StopTime time.Duration
	Failures []Failure // of nodes
	Seed     uint64
	// Exact has the nodes' requests answered by production's queue instead of the model.
	Exact bool
}

// Failure kills a node, which comes back after For with no runs; never if that is 0.
type Failure struct {
	Node int // from 0
	At   time.Duration
	For  time.Duration
}
