package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
	"couchrelay/core/spec"
)

// Settings are what the sections [replicator] and [replicator.shares] set.
type Settings struct {
	Replicator jobstore.Config
	Node       node.Settings
	TLS        TLS
	Client     Client
	// Settling is how long a node takes no jobs after its start (cluster_start_period).
	Settling time.Duration
	// CreateReplicatorDB says whether a start makes the database _replicator (create_replicator_db).
	CreateReplicatorDB bool
	// RunMemory bounds the documents that a run holds at once, in bytes (max_run_memory).
	RunMemory int
	// Simulated settings may be such that a service refuses them: a policy that is there for comparison.
	Simulated bool
}

// Default returns the settings that are in force without a file.
func Default() Settings {
	s := Settings{
		Replicator: jobstore.DefaultConfig(repid.Server{HostName: "localhost", Port: 5980}),
		Node:       node.DefaultSettings(), TLS: defaultTLS, Client: defaultClient, Settling: node.DefaultSettling,
		CreateReplicatorDB: true, RunMemory: replication.DefaultMemory,
	}
	s.Replicator.Sharing.Shares = map[string]int64{}
	return s
}

// Replicator lists the keys of [replicator].
var Replicator = slices.Concat(jobKeys, replicationKeys, clientKeys, tlsKeys)

// SecondNames has keys of [replicator] that set what another key sets. Of both in a file the later one counts.
var SecondNames = map[string]string{
	"interval_sec": "interval", "health_threshold_sec": "health_threshold", "accept_jitter": "startup_jitter",
	"min_backoff_penalty": "min_backoff_penalty_sec", "max_backoff_penalty": "max_backoff_penalty_sec",
}

// jobKeys are about when jobs run, and on which node.
var jobKeys = Section[Settings]{
	{"max_jobs", "How many jobs this node runs at once.",
		Integer(func(s *Settings) *int { return &s.Node.MaxJobs }, 0, million)},
	{"max_churn", "How many continuous jobs at most give way to waiting ones in one interval.",
		Integer(func(s *Settings) *int { return &s.Node.MaxChurn }, 0, million)},
	{"interval", "The time between two rounds in which jobs give way, and the period of all that has none of its own.",
		milliseconds(func(s *Settings) *time.Duration { return &s.Node.Interval }, 100)},
	{"usage_interval", "The period by which use is accounted, and of usage_coeff (t1 of RFC 017; fairshare).",
		period(func(s *Settings) *time.Duration { return &s.Node.UsageInterval })},
	{"priority_interval", "The period of priority_coeff (t2 of RFC 017; fairshare).",
		period(func(s *Settings) *time.Duration { return &s.Replicator.Sharing.Periods.Priority })},
	{"growth_interval", "How long a job runs until its priority has grown by its account's use (t3 of RFC 017).",
		period(func(s *Settings) *time.Duration { return &s.Replicator.Sharing.Periods.Growth })},
	{"scheduling_policy", "The order in which waiting jobs get their turn; docs/scheduling.md explains each policy.",
		policy},
	{"usage_coeff", "The part of an account's use that is still remembered one interval later (fairshare).",
		Coefficient(usageCoeff, 0, schedule.MaxUsageCoeff)},
	{"priority_coeff", "The part of a job's priority left an interval later (fairshare); auto follows the queue.",
		priorityCoeff},
	{"min_run_time_sec", "How long a continuous job runs before it may have to give way to another one.",
		seconds(func(s *Settings) *time.Duration { return &s.Node.MinRun }, 0)},
	{"rebalance", "Whether a node gives some of its jobs to other nodes when these run far fewer.",
		Boolean(func(s *Settings) *bool { return &s.Node.Rebalance })},
	{"startup_jitter", "The longest delay of a run's first request when many runs start at once.",
		milliseconds(func(s *Settings) *time.Duration { return &s.Node.StartupJitter }, 0)},
	{"activity_timeout_sec", "How long a node may be silent before the other nodes take its jobs.",
		seconds(func(s *Settings) *time.Duration { return &s.Node.ActivityTimeout }, 2)},
	{"stop_timeout_sec", "How long a run may take to write its checkpoint and stop before it is killed.",
		seconds(func(s *Settings) *time.Duration { return &s.Node.StopTimeout }, 1)},
	{"stall_timeout_sec", "How long a run with changes to copy may get nowhere before it ends as stalled.",
		stallTimeout},
	{"stats_update_interval_sec", "How often a run stores its progress, which /_scheduler and /_active_tasks show.",
		seconds(func(s *Settings) *time.Duration { return &s.Node.ProgressInterval }, 1)},
	{"max_history", "How many events are kept in the history of a job.",
		Integer(func(s *Settings) *int { return &s.Replicator.MaxHistory }, 1, 1000)},
	{"health_threshold", "How long a run must last for its next error to count as the first in a row.",
		seconds(func(s *Settings) *time.Duration { return &s.Replicator.Backoff.Health }, 0)},
	{"health_threshold_sec", "The same setting as health_threshold, under the name that RFC 016 gives it.",
		seconds(func(s *Settings) *time.Duration { return &s.Replicator.Backoff.Health }, 0)},
	{"min_backoff_penalty_sec", "How long a job waits after its first error; further errors in a row double the wait.",
		seconds(func(s *Settings) *time.Duration { return &s.Replicator.Backoff.Min }, 1)},
	{"max_backoff_penalty_sec", "The longest wait after errors, however many there were in a row.",
		seconds(func(s *Settings) *time.Duration { return &s.Replicator.Backoff.Max }, 1)},
	{"duplicates_wait", "Whether a document waits while another has its replication; else it fails, as in CouchDB.",
		Boolean(func(s *Settings) *bool { return &s.Replicator.DuplicatesWait })},
	{"transient_job_max_age_sec", "How long the finished job of a request to /_replicate is kept.",
		seconds(func(s *Settings) *time.Duration { return &s.Replicator.TransientMaxAge }, 1)},
	{"cluster_start_period", "How long a node that shares its store takes no jobs after its start.",
		seconds(func(s *Settings) *time.Duration { return &s.Settling }, 0)},
	{"create_replicator_db", "Whether a start makes the database _replicator if it does not exist.",
		Boolean(func(s *Settings) *bool { return &s.CreateReplicatorDB })},
	{"update_docs", "Whether documents show passing states; here lists and explanations show these.",
		only("false", "documents have final states only; see /_scheduler/docs for the others")},

	{"interval_sec", "The same setting as interval, in seconds (RFC 016).",
		seconds(func(s *Settings) *time.Duration { return &s.Node.Interval }, 1)},
	{"accept_jitter", "The same setting as startup_jitter, under the name that drafts of RFC 016 gave it.",
		milliseconds(func(s *Settings) *time.Duration { return &s.Node.StartupJitter }, 0)},
	{"min_backoff_penalty", "The same setting as min_backoff_penalty_sec, under the name that RFC 016 gives it.",
		seconds(func(s *Settings) *time.Duration { return &s.Replicator.Backoff.Min }, 1)},
	{"max_backoff_penalty", "The same setting as max_backoff_penalty_sec, under the name that RFC 016 gives it.",
		seconds(func(s *Settings) *time.Duration { return &s.Replicator.Backoff.Max }, 1)},
	{"max_acceptors", "How many jobs a node takes out of the queue at once.",
		Integer(func(s *Settings) *int { return &s.Node.MaxAcceptors }, 1, node.AcceptLimit)},
}

// replicationKeys are about each replication.
var replicationKeys = Section[Settings]{
	{"worker_processes", "How many batches of changes one replication has at its servers at once.",
		Integer(func(s *Settings) *int { return &parse(s).WorkerProcesses }, 1, 1000)},
	{"max_worker_processes", "How many batches one replication that does not set worker_processes has in flight at " +
		"most, when its servers are far away; 0 is 32, or worker_processes where that is set here.",
		Integer(func(s *Settings) *int { return &parse(s).MaxWorkers }, 0, 1000)},
	{"worker_batch_size", "How many changes one batch holds at most.",
		Integer(func(s *Settings) *int { return &parse(s).WorkerBatchSize }, 1, 100_000)},
	{"http_connections", "How many requests one replication has in flight at each of its two endpoints.",
		Integer(func(s *Settings) *int { return &parse(s).HTTPConnections }, 1, 10_000)},
	{"retries_per_request", "How often a failed request to an endpoint is repeated before the run ends with an error.",
		Integer(func(s *Settings) *int { return &parse(s).RetriesPerRequest }, 0, 1000)},
	{"connection_timeout", "How long a connection to an endpoint may carry no byte before the request fails.",
		milliseconds(func(s *Settings) *time.Duration { return &parse(s).ConnectionTimeout }, 100)},
	{"checkpoint_interval", "The time between two checkpoints of a run that makes progress.",
		milliseconds(func(s *Settings) *time.Duration { return &parse(s).CheckpointInterval }, 100)},
	{"use_checkpoints", "Whether runs write checkpoints, from which later runs go on.",
		Boolean(func(s *Settings) *bool { return &parse(s).UseCheckpoints })},
	{"use_bulk_get", "Whether documents are read with _bulk_get from sources that have it.",
		Boolean(func(s *Settings) *bool { return &parse(s).UseBulkGet })},
	{"max_run_memory", "How many bytes of documents one run holds at most, but for a single larger one; what is on " +
		"the way counts, so large documents travel faster over long distances with more.",
		Integer(func(s *Settings) *int { return &s.RunMemory }, 1<<20, 1<<40)},
	{"compression", "Whether bodies travel compressed by gzip, where an endpoint does not say it: documents to " +
		"targets (auto: while that is faster), and answers of servers that do so (auto and on).",
		OneOf(func(s *Settings) *string { return &parse(s).Compression }, "auto", "on", "off")},
	{"socket_options", "TCP options of connections to endpoints; buffer sizes are bytes.",
		socketOptions},
	{"valid_socket_options", "The socket options that a replication document may set.",
		known(func(c *spec.Config) *[]string { return &c.ValidSocketOptions })},
	{"valid_endpoint_protocols", "The URL schemes that an endpoint may have.",
		known(func(c *spec.Config) *[]string { return &c.EndpointProtocols })},
	{"valid_proxy_protocols", "The URL schemes that a proxy may have.",
		known(func(c *spec.Config) *[]string { return &c.ProxyProtocols })},
}

// known takes some of the words that a setting has by default: those that mean anything here.
func known(field func(*spec.Config) *[]string) Kind[Settings] {
	byDefault := spec.DefaultConfig()
	return Some(func(s *Settings) *[]string { return field(parse(s)) }, *field(&byDefault)...)
}

func seconds(field func(*Settings) *time.Duration, least int64) Kind[Settings] {
	return Duration(field, time.Second, least)
}

func milliseconds(field func(*Settings) *time.Duration, least int64) Kind[Settings] {
	return Duration(field, time.Millisecond, least)
}

// leastStall is the shortest stall_timeout_sec but 0: servers that are busy are silent for seconds.
const leastStall = 60

// stallTimeout is a time, or 0 for ever.
var stallTimeout = func() Kind[Settings] {
	kind := seconds(func(s *Settings) *time.Duration { return &s.Node.StallTimeout }, leastStall)
	set := kind.Set
	kind.Takes = "0 for ever, or " + kind.Takes
	kind.Set = func(s *Settings, v string) error {
		if v == "0" || v == "0s" {
			s.Node.StallTimeout = 0
			return nil
		}
		if set(s, v) != nil {
			return must(kind.Takes)
		}
		return nil
	}
	return kind
}()

// period is a time, or 0 for that of interval.
func period(field func(*Settings) *time.Duration) Kind[Settings] {
	const follow = "interval"
	other := milliseconds(field, 100)
	return Kind[Settings]{
		Takes: follow + " to follow that setting, or " + other.Takes,
		Get: func(s *Settings) string {
			if *field(s) == 0 {
				return follow
			}
			return other.Get(s)
		},
		Set: func(s *Settings, v string) error {
			if v == follow {
				*field(s) = 0
				return nil
			}
			if other.Set(s, v) != nil {
				return must(follow + " to follow that setting, or " + other.Takes)
			}
			return nil
		},
	}
}

func parse(s *Settings) *spec.Config { return &s.Replicator.Parse }

func usageCoeff(s *Settings) *int64 { return &s.Replicator.Sharing.Forgetting.Coeff }

var takesPolicy = "one of " + strings.Join(schedule.Policies(), ", ")

var policy = Kind[Settings]{
	Takes: takesPolicy,
	Get:   func(s *Settings) string { return s.Replicator.Sharing.Policy.String() },
	Set: func(s *Settings, v string) error {
		p, err := schedule.ParsePolicy(v)
		switch {
		case s.Simulated && err != nil:
			return err
		case !s.Simulated && err == nil && !p.InService():
			return fmt.Errorf("is there for comparison in simulations (couchsim), and not for services; %w",
				must(takesPolicy))
		case !s.Simulated && err != nil:
			return must(takesPolicy)
		}
		s.Replicator.Sharing.Policy = p
		return nil
	},
}

const takesPriorityCoeff = "auto, or a number above 0 up to 1"

// priorityCoeff is 0 when it is auto.
var priorityCoeff = Kind[Settings]{
	Takes: takesPriorityCoeff,
	Get: func(s *Settings) string {
		if n := s.Replicator.Sharing.PriorityCoeff; n != 0 {
			return decimal(n)
		}
		return "auto"
	},
	Set: func(s *Settings, v string) error {
		n, ok := millionths(v)
		switch {
		case v == "auto":
			n = 0
		case !ok || n < 1 || n > million:
			return must(takesPriorityCoeff)
		}
		s.Replicator.Sharing.PriorityCoeff = n
		return nil
	},
}

var socketOptions = Kind[Settings]{
	Takes: "a list in Erlang's notation of keepalive, nodelay (true or false), sndbuf, recbuf, buffer (bytes), " +
		"priority (0 to 6)",
	Get: func(s *Settings) string {
		o := parse(s).SocketOptions
		props := []string{fmt.Sprintf("{keepalive, %t}", o.KeepAlive), fmt.Sprintf("{nodelay, %t}", o.NoDelay)}
		for _, number := range []struct {
			name string
			is   int // 0 when it is not set
		}{{"sndbuf", o.SendBuffer}, {"recbuf", o.ReceiveBuffer}, {"buffer", o.Buffer}, {"priority", o.Priority}} {
			if number.is > 0 {
				props = append(props, fmt.Sprintf("{%s, %d}", number.name, number.is))
			}
		}
		return "[" + strings.Join(props, ", ") + "]"
	},
	Set: func(s *Settings, v string) error {
		o, err := spec.ParseSocketOptions(v, spec.DefaultConfig().ValidSocketOptions)
		if err != nil {
			return err
		}
		parse(s).SocketOptions = o
		return nil
	},
}

// Set sets one key of [replicator].
func (s *Settings) Set(name, value string) error {
	return Replicator.Set(s, "replicator", name, value)
}

var takesShares = fmt.Sprintf("a whole number from %d to %d", schedule.MinShares, schedule.MaxShares)

// SetShares sets the shares of an account, a key of [replicator.shares].
func (s *Settings) SetShares(account, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case !jobstore.IsAccount(account):
		return fmt.Errorf("[replicator.shares] %s: must be the name of a replicator database "+
			"(_replicator, or one that ends in /_replicator), or user:NAME for what a user asks of _replicate", account)
	case err != nil || n < schedule.MinShares || n > schedule.MaxShares:
		return fmt.Errorf("[replicator.shares] %s = %s: %w", account, value, must(takesShares))
	}
	s.Replicator.Sharing.Shares[account] = n
	return nil
}

// Shares describes [replicator.shares], whose keys are accounts: a row for each that has shares of its own, or one for
// any account if there is none.
func (s *Settings) Shares() []Row {
	row := Row{
		Section: "replicator.shares", Key: "ACCOUNT", Takes: takesShares, Default: strconv.Itoa(schedule.DefaultShares),
		Says: "The shares of a replicator database, or of user:NAME for a user of /_replicate, while jobs wait.",
	}
	var rows []Row
	for _, account := range slices.Sorted(maps.Keys(s.Replicator.Sharing.Shares)) {
		row.Key, row.Value = account, strconv.FormatInt(s.Replicator.Sharing.Shares[account], 10)
		rows = append(rows, row)
	}
	if rows == nil {
		rows = []Row{row}
	}
	return rows
}

// Check completes settings that follow from others, and returns an error when some do not agree.
func (s *Settings) Check() error {
	if (s.TLS.CertFile == "") != (s.TLS.KeyFile == "") {
		return fmt.Errorf("[replicator] cert_file and key_file are needed both or none")
	}
	if b := s.Replicator.Backoff; b.Min > b.Max {
		return fmt.Errorf("[replicator] min_backoff_penalty_sec (%s) is above max_backoff_penalty_sec (%s)",
			b.Min, b.Max)
	}
	s.Replicator.Sharing.Follow(s.Node.Interval, s.Node.UsageInterval)
	return nil
}
