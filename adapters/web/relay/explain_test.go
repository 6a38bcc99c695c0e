package relay

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/ratelimit"
	"couchrelay/core/replication"
)

// churning is a process that tells its max_churn and min_run_time_sec.
type churning struct{ testHost }

func (churning) Config(context.Context) map[string]map[string]Setting {
	return map[string]map[string]Setting{"replicator": {
		"max_churn": {Value: "5"}, "min_run_time_sec": {Value: "6m"},
	}}
}

// named is a process of a node with another name.
type named struct {
	churning
	name string
}

func (n *named) NodeName() string { return n.name }

// TestExplain: a job is explained under both ids, with all members whatever its state, and 404 when it is gone.
func TestExplain(t *testing.T) {
	var o *Options
	host, kept := &named{name: "n"}, []ratelimit.Kept(nil)
	s := newService(t, func(with *Options) {
		with.Host, with.Pauses, o = host, func() []ratelimit.Kept { return kept }, with
	})
	id := makeJob(s, "a/b c", oneShot)
	path := "GET /_scheduler/jobs/" + url.PathEscape(id) + "/explain"
	v := show(s, path)
	slots, _ := v["slots"].(map[string]any)
	if v["state"] != "pending" || v["position"] != 1. || v["job"] != id ||
		v["estimated_wait_seconds"] != nil || slots["free"] != 0. ||
		!strings.Contains(v["sentence"].(string), "No node takes jobs") {
		t.Errorf("%v", v)
	}
	if got := show(s, "GET /_scheduler/jobs/"+v["id"].(string)+"/explain"); got["job"] != id {
		t.Errorf("by the replication's id: %v", got)
	}
	do := func(f func(tx kv.Tx) error) {
		t.Helper()
		if err := kv.Do(t.Context(), o.DB, f); err != nil {
			t.Fatal(err)
		}
	}
	do(func(tx kv.Tx) error {
		_, err := node.Perform(tx, o.Store, node.Join{Worker: "w", Info: node.Info{
			Name: "n1", Roles: node.AllRoles, Status: node.Up, MaxJobs: 4, Running: 4, Seen: 1,
		}}, 1)
		return err
	})
	s.Want("GET /_cluster_setup", 200, `{"state":"single_node_enabled"}`)
	v = show(s, path)
	if v["estimated_wait_seconds"] != 90. || v["why"].([]any)[1] != "slots_in_use" {
		t.Errorf("with all slots in use: %v", v)
	}
	var work jobstore.Work
	do(func(tx kv.Tx) error {
		taken, err := o.Store.Accept(tx, "w", "n1", jobs.Demand{Batch: 1, Max: 1}, 1)
		work = taken.Work[0]
		return err
	})
	limiters := func(at string, pauses []ratelimit.Kept) (why string, source, target any, unknown string) {
		host.name, kept = at, pauses
		v := show(s, path)
		servers := v["servers"].([]any)
		return fmt.Sprint(v["why"]), servers[0].(map[string]any)["limiter"], servers[1].(map[string]any)["limiter"],
			fmt.Sprint(v["unknown"])
	}
	held := []ratelimit.Kept{
		{Key: ratelimit.Key{Endpoint: "http://h/b/", Method: "GET"}, Verdict: ratelimit.Verdict{Wait: time.Second}},
		{Key: ratelimit.Key{Endpoint: "http://h/other/", Method: "GET"}, Verdict: ratelimit.Verdict{Wait: time.Second}},
	}
	why, source, target, unknown := limiters("n1", held)
	row := map[string]any{"url": "http://h/b/", "method": "GET", "pause_seconds": 1., "closed": false}
	if why != "[running slowed_down]" || !reflect.DeepEqual(source, []any{}) ||
		!reflect.DeepEqual(target, []any{row}) || strings.Contains(unknown, "limiter") {
		t.Errorf("on the node that is asked: %s, %v, %v, %s", why, source, target, unknown)
	}
	why, source, target, unknown = limiters("n2", held)
	if why != "[running]" || source != nil || target != nil || !strings.Contains(unknown, "node n1, which runs") {
		t.Errorf("on another node: %s, %v, %v, %s", why, source, target, unknown)
	}
	s.Ask("POST /_scheduler/holds " + `{"server":"h","reason":"disks"}`)
	v = show(s, path)
	on, _ := v["node"].(map[string]any)
	holds, _ := v["holds"].([]any)
	servers, _ := v["servers"].([]any)
	if on["name"] != "n1" || on["last_seen"] != "1970-01-01T00:00:00Z" || len(holds) != 1 || len(servers) != 2 ||
		holds[0].(map[string]any)["reason"] != "disks" || v["position"] != nil || v["due"] != nil {
		t.Errorf("running under a hold: %v", v)
	}
	do(func(tx kv.Tx) error {
		trouble := replication.Trouble{Error: "db_not_found", Reason: "could not open http://h/a"}
		return o.Store.Owned(tx, work.JobID, work.Lock, 5_000_000).Crash(trouble, nil,
			jobstore.Turn{Place: work.Place}, 1)
	})
	s.Ask("DELETE /_scheduler/holds/server:h")
	v = show(s, path)
	for _, at := range v["servers"].([]any) {
		if holds, is := at.(map[string]any)["holds"].([]any); !is || len(holds) != 0 {
			t.Errorf("a server without holds has %v", at)
		}
	}
	wrong, _ := v["error"].(map[string]any)
	if wrong["class"] != "missing" || wrong["count"] != 1. || v["due"] == nil || v["why"].([]any)[0] != "backoff" {
		t.Errorf("after a crash: %v", v)
	}
	s.Fails("GET /_scheduler/jobs/gone/explain", 404, "not_found", "no job has the id gone, neither its own nor "+
		"that of its "+
		"replication: it is over and forgotten, was canceled, or never was; "+
		"/_scheduler/docs/DB/DOC has that of a document")
}
