package relay

import (
	"strings"
	"testing"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
)

// TestNodes: a node that lives, one whose jobs are being given to others, and one that was given up are told apart.
func TestNodes(t *testing.T) {
	var o *Options
	s := newService(t, func(made *Options) { o = made })
	perform := func(r node.Request) {
		t.Helper()
		do(t, o.DB, func(tx kv.Tx) error {
			_, err := node.Perform(tx, o.Store, r, 5_000_000)
			return err
		})
	}
	for _, n := range []string{"1", "2", "3"} {
		perform(node.Join{Worker: "w" + n, Info: node.Info{Name: "n" + n, Version: "1.0", Roles: node.AllRoles,
			Status: node.Up, Running: 1, MaxJobs: 4, Started: 1_000_000, Seen: 2_000_000}})
	}
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	s.Want(`PUT /_replicator/r {"source":"http://s/a","target":"http://t/a","continuous":true}`, 201,
		`{"ok":true,"id":"r","rev":"1-*"}`)
	var taken jobstore.Taken
	var members []node.Member
	do(t, o.DB, func(tx kv.Tx) (err error) {
		taken, err = o.Store.Accept(tx, "w2", "n2", jobs.Demand{Batch: 1, Max: 1}, 1)
		return err
	})
	do(t, o.DB, func(tx kv.Tx) (err error) {
		members, err = node.Members(tx, o.Store)
		return err
	})
	perform(node.Expire{Worker: "w2", Limit: 10, Without: []string{taken.Work[0].JobID}})
	perform(node.Expire{Worker: "w3", Limit: 10, Beat: &members[2].Beat, By: "n1"})
	row := func(name, status, running, more string) string {
		return `{"name":"` + name + `","version":"1.0","roles":["api_frontend","replication"],"status":"` + status +
			`","running":` + running + `,"max_jobs":4,"start_time":"1970-01-01T00:00:01Z",` +
			`"last_seen":"1970-01-01T00:00:02Z"` + more + `}`
	}
	s.Want("GET /_scheduler/nodes", 200, `{"total_rows":3,"nodes":[`+row("n1", "up", "1", "")+`,`+
		row("n2", "lost", "0", "")+`,`+
		row("n3", "lost", "0", `,"given_up":"1970-01-01T00:00:05Z","given_up_by":"n1"`)+`],"answered_by":"n"}`)
	s.Want("GET /_membership", 200, `{"all_nodes":["n1"],"cluster_nodes":["n1","n2"]}`)
	s.Want("GET /_cluster_setup", 200, `{"state":"cluster_finished"}`)
	if text := s.Text(s.Ask("GET /_node/_local/_prometheus")); !strings.Contains(text, `{status="lost"} 1`) {
		t.Errorf("metrics: %s", text)
	}
}
