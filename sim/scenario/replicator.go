package scenario

import (
	"strconv"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/sim/world"
)

// setting is a key of [replicator] that means something to a simulation, with its value in a world.
type setting struct {
	names []string // the first is written
	get   func(c *world.Config) string
}

var settings = []setting{
	number("max_jobs", func(c *world.Config) int { return c.Settings.MaxJobs }),
	number("max_churn", func(c *world.Config) int { return c.Settings.MaxChurn }),
	duration("interval", func(c *world.Config) time.Duration { return c.Settings.Interval }),
	{[]string{"scheduling_policy"}, func(c *world.Config) string { return c.Sharing.Policy.String() }},
	{[]string{"usage_coeff"}, func(c *world.Config) string { return millionths(c.Sharing.Forgetting.Coeff) }},
	{[]string{"priority_coeff"}, func(c *world.Config) string {
		if c.Sharing.PriorityCoeff == 0 {
			return "auto"
		}
		return millionths(c.Sharing.PriorityCoeff)
	}},
	duration("min_run_time_sec", func(c *world.Config) time.Duration { return c.Settings.MinRun }),
	duration("startup_jitter", func(c *world.Config) time.Duration { return c.Settings.StartupJitter }),
	duration("activity_timeout_sec", func(c *world.Config) time.Duration { return c.Settings.ActivityTimeout }),
	duration("stop_timeout_sec", func(c *world.Config) time.Duration { return c.Settings.StopTimeout }),
	duration("stats_update_interval_sec", func(c *world.Config) time.Duration { return c.Settings.ProgressInterval }),
	duration("health_threshold_sec", func(c *world.Config) time.Duration { return c.Backoff.Health }, "health_threshold"),
	duration("min_backoff_penalty_sec", func(c *world.Config) time.Duration { return c.Backoff.Min }),
	duration("max_backoff_penalty_sec", func(c *world.Config) time.Duration { return c.Backoff.Max }),
	duration("transient_job_max_age_sec", func(c *world.Config) time.Duration { return c.TransientMaxAge }),
	duration("checkpoint_interval", func(c *world.Config) time.Duration { return c.CheckpointInterval }),
	number("worker_batch_size", func(c *world.Config) int { return c.BatchSize }),
	number("worker_processes", func(c *world.Config) int { return c.Workers }),
	number("retries_per_request", func(c *world.Config) int { return c.Retries }),
}

func millionths(n int64) string { return strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64) }

func number(name string, get func(*world.Config) int) setting {
	return setting{[]string{name}, func(c *world.Config) string { return strconv.Itoa(get(c)) }}
}

// duration is written with units: production takes them too.
func duration(name string, get func(*world.Config) time.Duration, aliases ...string) setting {
	return setting{append([]string{name}, aliases...), func(c *world.Config) string { return short(get(c)) }}
}

// production is what production's configuration would be in a world.
func production(c world.Config) config.Config {
	p := config.Default()
	p.Node, p.Replicator.Sharing = c.Settings, c.Sharing
	p.Replicator.Backoff, p.Replicator.TransientMaxAge = c.Backoff, c.TransientMaxAge
	parse := &p.Replicator.Parse
	parse.CheckpointInterval, parse.WorkerBatchSize, parse.WorkerProcesses, parse.RetriesPerRequest = c.CheckpointInterval, c.BatchSize, c.Workers, c.Retries
	return p
}

// adopt puts production's configuration into a world. The time between looks at the queue has no key.
func adopt(c *world.Config, p config.Config) {
	p.Node.PollInterval = c.Settings.PollInterval
	c.Settings = p.Node
	sharing := p.Replicator.Sharing
	c.Sharing.Policy, c.Sharing.Forgetting.Coeff, c.Sharing.PriorityCoeff = sharing.Policy, sharing.Forgetting.Coeff, sharing.PriorityCoeff
	c.Backoff, c.TransientMaxAge = p.Replicator.Backoff, p.Replicator.TransientMaxAge
	parse := p.Replicator.Parse
	c.CheckpointInterval, c.BatchSize, c.Workers, c.Retries = parse.CheckpointInterval, parse.WorkerBatchSize, parse.WorkerProcesses, parse.RetriesPerRequest
}
