package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/repid"
	"couchrelay/core/schedule"
	"couchrelay/core/spec"
)

// Settings are what the sections [replicator] and [replicator.shares] set.
type Settings struct {
	Replicator jobstore.Config
	Node       node.Settings
	TLS        TLS
}

// TLS says how connections to endpoints are secured.
type TLS struct {
	Verify   bool   // verify_ssl_certificates; true, where CouchDB has false
	CAFile   string // ssl_trusted_certificates_file; empty means the system's
	CertFile string // cert_file; set if and only if KeyFile is
	KeyFile  string // key_file
}

// Default returns what holds without a section.
func Default() Settings {
	s := Settings{
		Replicator: jobstore.DefaultConfig(repid.Server{HostName: "localhost", Port: 5980}),
		Node:       node.DefaultSettings(), TLS: TLS{Verify: true},
	}
	s.Replicator.Sharing.Shares = map[string]int64{}
	return s
}

// Replicator are the keys of [replicator].
var Replicator = Section[Settings]{
	{"max_jobs", Integer(func(s *Settings) *int { return &s.Node.MaxJobs }, 0, million)},
	{"max_churn", Integer(func(s *Settings) *int { return &s.Node.MaxChurn }, 0, million)},
	{"interval", milliseconds(func(s *Settings) *time.Duration { return &s.Node.Interval }, 100)},
	{"scheduling_policy", policy},
	{"usage_coeff", Coefficient(usageCoeff, 0, schedule.MaxUsageCoeff)},
	{"priority_coeff", priorityCoeff},
	{"min_run_time_sec", seconds(func(s *Settings) *time.Duration { return &s.Node.MinRun }, 0)},
	{"startup_jitter", milliseconds(func(s *Settings) *time.Duration { return &s.Node.StartupJitter }, 0)},
	{"activity_timeout_sec", seconds(func(s *Settings) *time.Duration { return &s.Node.ActivityTimeout }, 2)},
	{"stop_timeout_sec", seconds(func(s *Settings) *time.Duration { return &s.Node.StopTimeout }, 1)},
	{"stats_update_interval_sec", seconds(
		func(s *Settings) *time.Duration { return &s.Node.ProgressInterval }, 1)},
	{"max_history", Integer(func(s *Settings) *int { return &s.Replicator.MaxHistory }, 1, 1000)},
	{"health_threshold", seconds(func(s *Settings) *time.Duration { return &s.Replicator.Backoff.Health }, 0)},
	{"health_threshold_sec", seconds(
		func(s *Settings) *time.Duration { return &s.Replicator.Backoff.Health }, 0)},
	{"min_backoff_penalty_sec", seconds(
		func(s *Settings) *time.Duration { return &s.Replicator.Backoff.Min }, 1)},
	{"max_backoff_penalty_sec", seconds(
		func(s *Settings) *time.Duration { return &s.Replicator.Backoff.Max }, 1)},
	{"transient_job_max_age_sec", seconds(
		func(s *Settings) *time.Duration { return &s.Replicator.TransientMaxAge }, 1)},

	{"worker_processes", Integer(func(s *Settings) *int { return &parse(s).WorkerProcesses }, 1, 1000)},
	{"worker_batch_size", Integer(func(s *Settings) *int { return &parse(s).WorkerBatchSize }, 1, 100_000)},
	{"http_connections", Integer(func(s *Settings) *int { return &parse(s).HTTPConnections }, 1, 10_000)},
	{"retries_per_request", Integer(func(s *Settings) *int { return &parse(s).RetriesPerRequest }, 0, 1000)},
	{"connection_timeout", milliseconds(
		func(s *Settings) *time.Duration { return &parse(s).ConnectionTimeout }, 100)},
	{"checkpoint_interval", milliseconds(
		func(s *Settings) *time.Duration { return &parse(s).CheckpointInterval }, 100)},
	{"use_checkpoints", Boolean(func(s *Settings) *bool { return &parse(s).UseCheckpoints })},
	{"use_bulk_get", Boolean(func(s *Settings) *bool { return &parse(s).UseBulkGet })},
	{"socket_options", socketOptions},
	{"valid_socket_options", List(func(s *Settings) *[]string { return &parse(s).ValidSocketOptions })},
	{"valid_endpoint_protocols", List(func(s *Settings) *[]string { return &parse(s).EndpointProtocols })},
	{"valid_proxy_protocols", List(func(s *Settings) *[]string { return &parse(s).ProxyProtocols })},

	{"verify_ssl_certificates", Boolean(func(s *Settings) *bool { return &s.TLS.Verify })},
	{"ssl_trusted_certificates_file", Text(func(s *Settings) *string { return &s.TLS.CAFile })},
	{"cert_file", Text(func(s *Settings) *string { return &s.TLS.CertFile })},
	{"key_file", Text(func(s *Settings) *string { return &s.TLS.KeyFile })},
}

func seconds(field func(*Settings) *time.Duration, least int64) Kind[Settings] {
	return Duration(field, time.Second, least)
}

func milliseconds(field func(*Settings) *time.Duration, least int64) Kind[Settings] {
	return Duration(field, time.Millisecond, least)
}

func parse(s *Settings) *spec.Config { return &s.Replicator.Parse }

func usageCoeff(s *Settings) *int64 { return &s.Replicator.Sharing.Forgetting.Coeff }

var policy = Kind[Settings]{
	Get: func(s *Settings) string { return s.Replicator.Sharing.Policy.String() },
	Set: func(s *Settings, v string) (err error) {
		s.Replicator.Sharing.Policy, err = schedule.ParsePolicy(v)
		return err
	},
}

// priorityCoeff is 0 when it is auto.
var priorityCoeff = Kind[Settings]{
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
			return errors.New("must be auto, or a number above 0 up to 1")
		}
		s.Replicator.Sharing.PriorityCoeff = n
		return nil
	},
}

var socketOptions = Kind[Settings]{
	Get: func(s *Settings) string {
		o := parse(s).SocketOptions
		props := []string{fmt.Sprintf("{keepalive, %t}", o.KeepAlive), fmt.Sprintf("{nodelay, %t}", o.NoDelay)}
		for _, size := range []struct {
			name  string
			bytes int // 0 when it is not set
		}{{"sndbuf", o.SendBuffer}, {"recbuf", o.ReceiveBuffer}, {"buffer", o.Buffer}} {
			if size.bytes > 0 {
				props = append(props, fmt.Sprintf("{%s, %d}", size.name, size.bytes))
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

// SetShares sets the shares of an account, a key of [replicator.shares].
func (s *Settings) SetShares(account, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case !jobstore.IsAccount(account):
		return fmt.Errorf("[replicator.shares] %s: must be the name of a replicator database (_replicator, or one that "+
			"ends in /_replicator), or user:NAME for what a user asks of _replicate", account)
	case err != nil || n < schedule.MinShares || n > schedule.MaxShares:
		return fmt.Errorf("[replicator.shares] %s = %s: must be a whole number from %d to %d",
			account, value, schedule.MinShares, schedule.MaxShares)
	}
	s.Replicator.Sharing.Shares[account] = n
	return nil
}

// Check completes settings that follow from others, and returns an error when some do not agree.
func (s *Settings) Check() error {
	if (s.TLS.CertFile == "") != (s.TLS.KeyFile == "") {
		return fmt.Errorf("[replicator] cert_file and key_file are needed both or none")
	}
	if b := s.Replicator.Backoff; b.Min > b.Max {
		return fmt.Errorf("[replicator] min_backoff_penalty_sec (%s) is above max_backoff_penalty_sec (%s)", b.Min, b.Max)
	}
	s.Replicator.Sharing.Forgetting.Interval = s.Node.Interval
	return nil
}
