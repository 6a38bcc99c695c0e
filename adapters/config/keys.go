package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
	"couchrelay/core/spec"
)

// key is one setting of a section.
type key struct {
	name string
	set  func(c *Config, value string) error
}

// sections are all keys by section. The times of [replicator] have the units that CouchDB gave them:
// seconds where the name ends in _sec or is health_threshold, else milliseconds.
var sections = map[string][]key{
	"chttpd": {
		{"bind_address", text(func(c *Config) *string { return &c.BindAddress })},
		{"port", integer(func(c *Config) *int { return &c.Port }, 0, 65535)},
	},
	"couchdb": {
		{"uuid", uuid},
		{"maintenance_mode", maintenance},
	},
	"node_types": {
		{"api_frontend", role(node.APIFrontend)},
		{"replication", role(node.Replication)},
	},
	"log": {
		{"level", oneOf(func(c *Config) *string { return &c.LogLevel }, "debug", "info", "warning", "error")},
	},
	"store": {
		{"key_prefix", name(func(c *Config) *string { return &c.KeyPrefix })},
	},
	"replicator": {
		{"max_jobs", integer(func(c *Config) *int { return &c.Node.MaxJobs }, 0, 1_000_000)},
		{"max_churn", integer(func(c *Config) *int { return &c.Node.MaxChurn }, 0, 1_000_000)},
		{"interval", duration(func(c *Config) *time.Duration { return &c.Node.Interval }, time.Millisecond, 100)},
		{"scheduling_policy", policy},
		{"usage_coeff", coefficient(func(c *Config) *int64 { return &c.Replicator.Sharing.Forgetting.Coeff }, 0, schedule.MaxUsageCoeff)},
		{"priority_coeff", priorityCoeff},
		{"min_run_time_sec", duration(func(c *Config) *time.Duration { return &c.Node.MinRun }, time.Second, 0)},
		{"startup_jitter", duration(func(c *Config) *time.Duration { return &c.Node.StartupJitter }, time.Millisecond, 0)},
		{"activity_timeout_sec", duration(func(c *Config) *time.Duration { return &c.Node.ActivityTimeout }, time.Second, 2)},
		{"stop_timeout_sec", duration(func(c *Config) *time.Duration { return &c.Node.StopTimeout }, time.Second, 1)},
		{"stats_update_interval_sec", duration(func(c *Config) *time.Duration { return &c.Node.ProgressInterval }, time.Second, 1)},
		{"max_history", integer(func(c *Config) *int { return &c.Replicator.MaxHistory }, 1, 1000)},
		{"health_threshold", duration(func(c *Config) *time.Duration { return &c.Replicator.Backoff.Health }, time.Second, 0)},
		{"health_threshold_sec", duration(func(c *Config) *time.Duration { return &c.Replicator.Backoff.Health }, time.Second, 0)},
		{"min_backoff_penalty_sec", duration(func(c *Config) *time.Duration { return &c.Replicator.Backoff.Min }, time.Second, 1)},
		{"max_backoff_penalty_sec", duration(func(c *Config) *time.Duration { return &c.Replicator.Backoff.Max }, time.Second, 1)},
		{"transient_job_max_age_sec", duration(func(c *Config) *time.Duration { return &c.Replicator.TransientMaxAge }, time.Second, 1)},

		{"worker_processes", integer(func(c *Config) *int { return &c.Replicator.Parse.WorkerProcesses }, 1, 1000)},
		{"worker_batch_size", integer(func(c *Config) *int { return &c.Replicator.Parse.WorkerBatchSize }, 1, 100_000)},
		{"http_connections", integer(func(c *Config) *int { return &c.Replicator.Parse.HTTPConnections }, 1, 10_000)},
		{"retries_per_request", integer(func(c *Config) *int { return &c.Replicator.Parse.RetriesPerRequest }, 0, 1000)},
		{"connection_timeout", duration(func(c *Config) *time.Duration { return &c.Replicator.Parse.ConnectionTimeout }, time.Millisecond, 100)},
		{"checkpoint_interval", duration(func(c *Config) *time.Duration { return &c.Replicator.Parse.CheckpointInterval }, time.Millisecond, 100)},
		{"use_checkpoints", boolean(func(c *Config) *bool { return &c.Replicator.Parse.UseCheckpoints })},
		{"use_bulk_get", boolean(func(c *Config) *bool { return &c.Replicator.Parse.UseBulkGet })},
		{"socket_options", socketOptions},
		{"valid_socket_options", list(func(c *Config) *[]string { return &c.Replicator.Parse.ValidSocketOptions })},
		{"valid_endpoint_protocols", list(func(c *Config) *[]string { return &c.Replicator.Parse.EndpointProtocols })},
		{"valid_proxy_protocols", list(func(c *Config) *[]string { return &c.Replicator.Parse.ProxyProtocols })},

		{"verify_ssl_certificates", boolean(func(c *Config) *bool { return &c.TLS.Verify })},
		{"ssl_trusted_certificates_file", text(func(c *Config) *string { return &c.TLS.CAFile })},
		{"cert_file", text(func(c *Config) *string { return &c.TLS.CertFile })},
		{"key_file", text(func(c *Config) *string { return &c.TLS.KeyFile })},
	},
}

// unsupported are keys of CouchDB that may come to be.
var unsupported = []string{
	"auth_plugins", "cacert_reload_interval_hours", "cluster_start_period", "connect_to", "connection_close_interval",
	"ibrowse_options", "max_document_id_length", "missing_doc_retry_msec", "password", "request_timeout",
	"session_min_update_interval", "session_refresh_interval_sec", "ssl_certificate_max_depth", "update_docs",
	"valid_endpoint_protocols_log", "valid_ibrowse_options", "verify_ssl_certificates_log",
}

// text takes anything but nothing: an empty address is every interface, an empty file of certificates those of
// the system, and whoever has an empty value, of a template say, meant neither.
func text(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v == "" {
			return errors.New("must not be empty; leave the key out for the default")
		}
		*field(c) = v
		return nil
	}
}

func name(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v == "" || len(v) > 100 {
			return errors.New("must be 1 to 100 characters")
		}
		*field(c) = v
		return nil
	}
}

func oneOf(field func(*Config) *string, allowed ...string) func(*Config, string) error {
	return func(c *Config, v string) error {
		if !slices.Contains(allowed, v) {
			return fmt.Errorf("must be one of %s", strings.Join(allowed, ", "))
		}
		*field(c) = v
		return nil
	}
}

func integer(field func(*Config) *int, least, most int) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > most {
			return fmt.Errorf("must be a whole number from %d to %d", least, most)
		}
		*field(c) = n
		return nil
	}
}

func boolean(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v != "true" && v != "false" {
			return errors.New("must be true or false")
		}
		*field(c) = v == "true"
		return nil
	}
}

// duration takes a whole number of units, or a number with a unit such as 90s.
func duration(field func(*Config) *time.Duration, unit time.Duration, least int64) func(*Config, string) error {
	return func(c *Config, v string) error {
		d, err := time.ParseDuration(v)
		if n, plain := strconv.ParseInt(v, 10, 64); plain == nil {
			if n > math.MaxInt64/int64(unit) {
				n = -1
			}
			d, err = time.Duration(n)*unit, nil
		}
		if err != nil || d < time.Duration(least)*unit {
			return fmt.Errorf("must be a whole number of %ss, at least %d, or a time such as 90s", unitName(unit), least)
		}
		*field(c) = d
		return nil
	}
}

func unitName(unit time.Duration) string {
	if unit == time.Second {
		return "second"
	}
	return "millisecond"
}

func maintenance(c *Config, v string) error {
	if err := oneOf(func(c *Config) *string { return &c.Maintenance }, MaintenanceModes...)(c, v); err != nil {
		return err
	}
	c.Node.Maintenance = v == "true"
	return nil
}

func role(r node.Roles) func(*Config, string) error {
	return func(c *Config, v string) error {
		if v = strings.ToLower(v); v != "true" && v != "false" {
			return errors.New("must be true or false")
		}
		c.Roles = c.Roles.With(r, v == "true")
		return nil
	}
}

func list(field func(*Config) *[]string) func(*Config, string) error {
	return func(c *Config, v string) error {
		var items []string
		for item := range strings.SplitSeq(v, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		*field(c) = items
		return nil
	}
}

func policy(c *Config, v string) (err error) {
	c.Replicator.Sharing.Policy, err = schedule.ParsePolicy(v)
	return err
}

// coefficient takes a decimal number and keeps millionths of it.
func coefficient(field func(*Config) *int64, least, most int64) func(*Config, string) error {
	return func(c *Config, v string) error {
		f, err := strconv.ParseFloat(v, 64)
		n := math.Round(f * million)
		if err != nil || !(n >= float64(least) && n <= float64(most)) {
			return fmt.Errorf("must be a number from %g to %g", float64(least)/million, float64(most)/million)
		}
		*field(c) = int64(n)
		return nil
	}
}

const million = 1_000_000

func priorityCoeff(c *Config, v string) error {
	field := func(c *Config) *int64 { return &c.Replicator.Sharing.PriorityCoeff }
	if v == "auto" {
		*field(c) = 0
		return nil
	}
	if err := coefficient(field, 1, million)(c, v); err != nil {
		return errors.New("must be auto, or a number above 0 up to 1")
	}
	return nil
}

// shares sets the shares of an account.
func (c *Config) shares(account, value string) error {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case !jobstore.IsAccount(account):
		return fmt.Errorf("[replicator.shares] %s: must be the name of a replicator database (_replicator, or one that ends in /_replicator), "+
			"or user:NAME for what a user asks of _replicate", account)
	case err != nil || n < schedule.MinShares || n > schedule.MaxShares:
		return fmt.Errorf("[replicator.shares] %s = %s: must be a whole number from %d to %d", account, value, schedule.MinShares, schedule.MaxShares)
	}
	c.Replicator.Sharing.Shares[account] = n
	return nil
}

func uuid(c *Config, v string) error {
	if v == "" || len(v) > 100 {
		return errors.New("must be 1 to 100 characters, 32 hexadecimal digits as a rule")
	}
	c.UUID = v
	return nil
}

func socketOptions(c *Config, v string) error {
	o, err := spec.ParseSocketOptions(v, spec.DefaultConfig().ValidSocketOptions)
	if err != nil {
		return err
	}
	c.Replicator.Parse.SocketOptions = o
	return nil
}
