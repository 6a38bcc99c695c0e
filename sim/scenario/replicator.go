package scenario

import (
	"maps"

	"couchrelay/core/config"
	"couchrelay/sim/world"
)

// settings are the keys of [replicator] that mean something to a simulation, in the order in which they are
// written.
var settings = []string{
	"max_jobs", "max_churn", "interval", "usage_interval", "priority_interval", "growth_interval",
	"scheduling_policy", "usage_coeff", "priority_coeff", "min_run_time_sec",
	"rebalance", "startup_jitter", "activity_timeout_sec", "stop_timeout_sec", "stall_timeout_sec",
	"stats_update_interval_sec",
	"health_threshold_sec", "min_backoff_penalty_sec", "max_backoff_penalty_sec", "transient_job_max_age_sec",
	"duplicates_wait",
	"checkpoint_interval", "worker_batch_size", "worker_processes", "max_worker_processes", "retries_per_request",
	"compression",
}

// otherHealth is another name of health_threshold_sec, which is not written.
const otherHealth = "health_threshold"

// production is what production's configuration would be in a world.
func production(c world.Config) config.Settings {
	p := config.Default()
	p.Simulated = true
	p.Node, p.Replicator.Sharing = c.Settings, c.Sharing
	if p.Replicator.Sharing.Shares = maps.Clone(c.Sharing.Shares); p.Replicator.Sharing.Shares == nil {
		p.Replicator.Sharing.Shares = map[string]int64{}
	}
	p.Replicator.Backoff, p.Replicator.TransientMaxAge = c.Backoff, c.TransientMaxAge
	p.Replicator.DuplicatesWait = !c.DuplicatesFail
	parse := &p.Replicator.Parse
	parse.CheckpointInterval, parse.WorkerBatchSize = c.CheckpointInterval, c.BatchSize
	parse.WorkerProcesses, parse.RetriesPerRequest = c.Workers, c.Retries
	parse.MaxWorkers, parse.Compression = c.MaxWorkers, c.Compression
	return p
}

// adopt puts production's configuration into a world. The time between looks at the queue has no key.
func adopt(c *world.Config, p config.Settings) {
	p.Node.PollInterval = c.Settings.PollInterval
	c.Settings = p.Node
	if c.Sharing = p.Replicator.Sharing; len(c.Sharing.Shares) == 0 {
		c.Sharing.Shares = nil
	}
	c.Backoff, c.TransientMaxAge = p.Replicator.Backoff, p.Replicator.TransientMaxAge
	c.DuplicatesFail = !p.Replicator.DuplicatesWait
	parse := p.Replicator.Parse
	c.CheckpointInterval, c.BatchSize = parse.CheckpointInterval, parse.WorkerBatchSize
	c.Workers, c.Retries = parse.WorkerProcesses, parse.RetriesPerRequest
	c.MaxWorkers, c.Compression = parse.MaxWorkers, parse.Compression
}
