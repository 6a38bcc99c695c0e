package prometheus

import "fmt"

// ends are the ends of runs of one outcome.
func ends(outcome, class, values string) string {
	return fmt.Sprintf("  couchrelay_run_ends_total{instance=\"a\",outcome=%q,class=%q} %s\n", outcome, class, values)
}

// asked are the requests to a server.
func asked(outcome, values string) string {
	return fmt.Sprintf("  couchrelay_endpoint_requests_total{instance=\"a\",server=\"s\",outcome=%q} %s\n",
		outcome, values)
}

// buckets are those of a histogram.
func buckets(name, le, values string) string {
	return fmt.Sprintf("  couchrelay_%s_bucket{instance=\"a\",le=%q} %s\n", name, le, values)
}

// Series are in the notation of promtool: 1+2x3 is 1, 3, 5, 7, and 1x3 is 1, four times. A story has 360 values.
var stories = []story{
	{"CouchrelayDown", `  couchrelay_build_info{instance="a"} 1x300`, true},
	{"CouchrelayDown", `  couchrelay_build_info{instance="a"} 1x360`, false},

	{"CouchrelayNoNodeTakesJobs", `  couchrelay_slots{instance="a"} 500x300 0x60
  couchrelay_slots{instance="b"} 500x300 0x60`, true},
	{"CouchrelayNoNodeTakesJobs", `  couchrelay_slots{instance="a"} 500x360`, false},
	{"CouchrelayNoNodeTakesJobs", `  couchrelay_slots{instance="a"} 500x357 0x3`, false},

	{"CouchrelayNodeLost", `  couchrelay_nodes_given_up_total{instance="a"} 0x355 1x5`, true},
	{"CouchrelayNodeLost", `  couchrelay_nodes_given_up_total{instance="a"} 0x300 1x60`, false},

	{"CouchrelayStoreAway", `  couchrelay_store_up{instance="a"} 1x350 0x10`, true},
	{"CouchrelayStoreAway", `  couchrelay_store_up{instance="a"} 1x350 0x5 1x5`, false},

	{"CouchrelayStoreConflicts", `  couchrelay_store_conflicts_total{instance="a",tag="node"} 0+40x360
  couchrelay_store_transactions_total{instance="a",tag="node",outcome="committed"} 0+100x360`, true},
	{"CouchrelayStoreConflicts", `  couchrelay_store_conflicts_total{instance="a",tag="node"} 0+10x360
  couchrelay_store_transactions_total{instance="a",tag="node",outcome="committed"} 0+100x360`, false},
	{"CouchrelayStoreConflicts", `  couchrelay_store_conflicts_total{instance="a",tag="node"} 0x360
  couchrelay_store_transactions_total{instance="a",tag="node",outcome="committed"} 0x360`, false},

	{"CouchrelayStoreSlow", buckets("store_commit_seconds", "0.5", "0+80x360") +
		buckets("store_commit_seconds", "1", "0+100x360") +
		buckets("store_commit_seconds", "+Inf", "0+100x360"), true},
	{"CouchrelayStoreSlow", buckets("store_commit_seconds", "0.5", "0+99x360") +
		buckets("store_commit_seconds", "1", "0+100x360") +
		buckets("store_commit_seconds", "+Inf", "0+100x360"), false},

	{"CouchrelayLeaseLost", `  couchrelay_leases_lost_total{instance="a"} 0x355 1x5`, true},
	{"CouchrelayLeaseLost", `  couchrelay_leases_lost_total{instance="a"} 3x360`, false},

	{"CouchrelayCrashLoops", `  couchrelay_jobs{instance="a",state="crashing"} 20x360
  couchdb_couch_replicator_jobs_total{instance="a"} 100x360`, true},
	{"CouchrelayCrashLoops", `  couchrelay_jobs{instance="a",state="crashing"} 5x360
  couchdb_couch_replicator_jobs_total{instance="a"} 100x360`, false},
	{"CouchrelayCrashLoops", `  couchrelay_jobs{instance="a",state="crashing"} 0x360
  couchdb_couch_replicator_jobs_total{instance="a"} 0x360`, false},

	{"CouchrelayJobsFail", ends("failed", "configuration", "0x350 2x10"), true},
	{"CouchrelayJobsFail", ends("failed", "configuration", "2x360"), false},
	{"CouchrelayJobsFail", ends("crashed", "network", "0+1x360"), false},

	{"CouchrelayCredentials", ends("crashed", "credentials", "0x350 1x10"), true},
	{"CouchrelayCredentials", ends("crashed", "network", "0x350 1x10"), false},

	{"CouchrelayLagGrows", `  couchrelay_lag_seconds{instance="a",database="d"} 0+60x360
  couchrelay_lag_changes{instance="a",database="d"} 0+1000x360`, true},
	{"CouchrelayLagGrows", `  couchrelay_lag_seconds{instance="a",database="d"} 0+60x360
  couchrelay_lag_changes{instance="a",database="d"} 400000-1000x360`, false},
	{"CouchrelayLagGrows", `  couchrelay_lag_seconds{instance="a",database="d"} 10x360
  couchrelay_lag_changes{instance="a",database="d"} 0+1000x360`, false},

	{"CouchrelayBehind", `  couchrelay_lag_seconds{instance="a",database="d"} 20000+60x360`, true},
	{"CouchrelayBehind", `  couchrelay_lag_seconds{instance="a",database="d"} 20000x360`, false},

	{"CouchrelayStalled", ends("crashed", "stalled", "0x330 1x30"), true},
	{"CouchrelayStalled", ends("crashed", "stalled", "1x360"), false},

	{"CouchrelayDocumentsRefused", `  couchrelay_documents_refused_total{instance="a"} 0x330 1x30`, true},
	{"CouchrelayDocumentsRefused", `  couchrelay_documents_refused_total{instance="a"} 1x360`, false},

	{"CouchrelayCheckpointsFail",
		`  couchdb_couch_replicator_checkpoints_failure_total{instance="a"} 0+1x360`, true},
	{"CouchrelayCheckpointsFail",
		`  couchdb_couch_replicator_checkpoints_failure_total{instance="a"} 0x350 2x10`, false},

	{"CouchrelayThrottled", asked("throttled", "0+50x360") +
		asked("success", "0+50x360"), true},
	{"CouchrelayThrottled", asked("throttled", "0+5x360") +
		asked("success", "0+50x360"), false},

	{"CouchrelayServerFails", asked("timeout", "0+60x360") +
		asked("success", "0+40x360"), true},
	{"CouchrelayServerFails", asked("not_found", "0+60x360") +
		asked("network", "0+10x360") +
		asked("success", "0+40x360"), false},

	{"CouchrelaySchedulerStarves", `  couchrelay_queue_jobs{instance="a",standing="ready"} 7x360
  couchdb_couch_replicator_jobs_starts_total{instance="a"} 9x360`, true},
	{"CouchrelaySchedulerStarves", `  couchrelay_queue_jobs{instance="a",standing="ready"} 7x360
  couchdb_couch_replicator_jobs_starts_total{instance="a"} 0+0.1x360`, false},
	{"CouchrelaySchedulerStarves", `  couchrelay_queue_jobs{instance="a",standing="ready"} 0x350 7x10
  couchdb_couch_replicator_jobs_starts_total{instance="a"} 9x360`, false},

	{"CouchrelayLongWaits", buckets("queue_wait_seconds", "14400", "0+5x360") +
		buckets("queue_wait_seconds", "86400", "0+10x360") +
		buckets("queue_wait_seconds", "+Inf", "0+10x360"), true},
	{"CouchrelayLongWaits", buckets("queue_wait_seconds", "14400", "0+10x360") +
		buckets("queue_wait_seconds", "86400", "0+10x360") +
		buckets("queue_wait_seconds", "+Inf", "0+10x360"), false},

	{"CouchrelayCertificateExpires",
		`  couchrelay_certificate_expiry_timestamp_seconds{instance="a"} 800000x360`, true},
	{"CouchrelayCertificateExpires",
		`  couchrelay_certificate_expiry_timestamp_seconds{instance="a"} 8000000x360`, false},

	{"CouchrelayCertificateErrors", `  couchrelay_certificate_errors_total{instance="a"} 0x350 1x10`, true},
	{"CouchrelayCertificateErrors", `  couchrelay_certificate_errors_total{instance="a"} 1x360`, false},

	{"CouchrelayFollowFails",
		`  couchrelay_follow_errors_total{instance="a",kind="follow_failed"} 0+1x360`, true},
	{"CouchrelayFollowFails",
		`  couchrelay_follow_errors_total{instance="a",kind="follow_failed"} 0x350 1x10`, false},

	{"CouchrelayInvariantBroken", `  couchrelay_invariants_broken_total{instance="a"} 0x350 1x10`, true},
	{"CouchrelayInvariantBroken", `  couchrelay_invariants_broken_total{instance="a"} 0x360`, false},

	{"CouchrelayLoginsRefused", `  couchrelay_logins_refused_total{instance="a"} 0+120x360`, true},
	{"CouchrelayLoginsRefused", `  couchrelay_logins_refused_total{instance="a"} 0+6x360`, false},
}
