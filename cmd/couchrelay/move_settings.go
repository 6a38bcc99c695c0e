package main

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	coreconfig "couchrelay/core/config"
)

// settingsOfScheduler are the keys of [replicator] that an import takes over. Those of TLS are not among them: CouchDB
// verifies no certificates by default.
var settingsOfScheduler = []string{
	"max_jobs", "interval", "max_churn", "max_history", "startup_jitter", "usage_coeff", "priority_coeff",
	"worker_processes", "worker_batch_size", "http_connections", "connection_timeout", "retries_per_request",
	"checkpoint_interval", "use_checkpoints", "use_bulk_get",
}

// settings takes settings of the scheduler and shares over. What the service refuses stays as it is, with a line.
func (m *move) settings() error {
	for _, section := range []string{"replicator", "replicator.shares"} {
		theirs, ours := map[string]string{}, map[string]string{}
		path := "/_config/" + section
		if err := m.couch.into("GET", localNode+path, nil, nil, &theirs); err != nil && !isMissing(err) {
			return err
		}
		path = m.node + path
		if err := m.remote.into("GET", path, nil, nil, &ours); err != nil && !isMissing(err) {
			return err
		}
		if m.stopped || theirs["max_jobs"] == "0" { // perhaps by an import before, which may have stopped some nodes
			delete(theirs, "max_jobs")
		}
		for _, key := range slices.Sorted(maps.Keys(theirs)) {
			value := theirs[key]
			if section == "replicator" && !slices.Contains(settingsOfScheduler, key) || sameSetting(value, ours[key]) {
				continue
			}
			restart := ""
			if effect(coreconfig.Row{Section: section, Key: key}) == atNextStart {
				restart = ", and a restart"
			}
			m.say("[%s] %s = %s (here %s)%s", section, key, value, orNone(ours[key]), restart)
			if m.DryRun {
				continue
			}
			err := m.remote.into("PUT", path+"/"+url.PathEscape(key), nil, value, nil)
			if r, is := errors.AsType[*rejection](err); is && r.status == http.StatusBadRequest {
				m.say("  stays: %s", r.Reason)
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// sameSetting compares a value of the CouchDB with one of the service, which tells a number of milliseconds as a time.
func sameSetting(theirs, ours string) bool {
	if theirs == ours {
		return true
	}
	ms, err := strconv.ParseInt(theirs, 10, 64)
	d, notTime := time.ParseDuration(ours)
	return err == nil && notTime == nil && d%time.Millisecond == 0 && d.Milliseconds() == ms
}

func orNone(value string) string {
	if value == "" {
		return "not set"
	}
	return value
}
