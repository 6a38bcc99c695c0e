package relay

import (
	"strings"
	"testing"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
)

// TestStats: a node tells CouchDB's numbers of jobs where CouchDB's clients look for them, and says what there is when
// they ask for more.
func TestStats(t *testing.T) {
	s, o, work := taken(t)
	do(t, o.DB, func(tx kv.Tx) error {
		owned := o.Store.Owned(tx, work["a"].JobID, work["a"].Lock, instant.Of(o.Clock.Now()))
		return owned.Crash(replication.Trouble{Error: "db_not_found", Reason: "why"}, nil, jobstore.Turn{}, 1)
	})
	running := `{"value":3,"type":"gauge","desc":"replicator scheduler running jobs"}`
	s.Want("GET /_node/_local/_stats/couch_replicator/jobs/running", 200, running)
	s.Want("GET /_node/n/_stats", 200, `{"couch_replicator":{"jobs":{`+
		`"crashed":{"value":1,"type":"gauge","desc":"replicator scheduler crashed jobs"},`+
		`"pending":{"value":0,"type":"gauge","desc":"replicator scheduler pending jobs"},"running":`+running+`,`+
		`"total":{"value":4,"type":"gauge","desc":"total number of replicator scheduler jobs"}}}}`)
	s.Fails("GET /_node/_local/_stats/couchdb/httpd", 404, "not_found",
		"of CouchDB's statistics there is couch_replicator/jobs")
	s.Fails("GET /_node/other/_stats", 404, "not_found", "no such node: other; see /_membership")

	answer := s.Ask("GET /_node/_local/_prometheus")
	text := s.Text(answer)
	for _, line := range []string{"# TYPE couchdb_couch_replicator_jobs_running gauge\n",
		"\ncouchdb_couch_replicator_jobs_running 3\n", "\ncouchdb_couch_replicator_jobs_crashed 1\n",
		"\ncouchdb_couch_replicator_jobs_total 4\n", "# TYPE couchdb_uptime_seconds counter\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("metrics lack %q:\n%s", line, text)
		}
	}
	if kind := answer.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain; version=") {
		t.Errorf("metrics are %s", kind)
	}
	system := show(s, "GET /_node/_local/_system")
	memory, _ := system["memory"].(map[string]any)
	if heap, _ := memory["heap"].(float64); system["uptime"] == nil || heap < 1000 || system["process_count"] == 0.0 {
		t.Errorf("the process: %v", system)
	}
	s.Fails("GET /_node/_local/_versions", 501, "not_implemented", "of a node there are its state (/_node/NAME), "+
		"_config, _stats, _system and _prometheus; see also /_scheduler/nodes")
}

// TestClusterSetup: pages that would set a cluster up are told that this was done.
func TestClusterSetup(t *testing.T) {
	s := newService(t)
	s.Want("GET /_cluster_setup", 200, `{"state":"single_node_enabled"}`)
	s.Fails(`POST /_cluster_setup {"action":"finish_cluster"}`, 501, "not_implemented",
		"nodes that share a store are a cluster, and need no setup")
	if text := s.Text(s.Ask("GET /")); !strings.Contains(text, `"features":["scheduler"]`) {
		t.Errorf("welcome: %s", text)
	}
}
