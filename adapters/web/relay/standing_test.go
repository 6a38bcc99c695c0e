package relay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/ratelimit"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
)

// TestStanding: accounts, servers and errors of the jobs that there are, page by page.
func TestStanding(t *testing.T) {
	var o *Options
	s := newService(t, func(with *Options) {
		o = with
		with.Pauses = func() []ratelimit.Kept {
			return []ratelimit.Kept{
				{Key: ratelimit.Key{Endpoint: "http://one/a/", Method: "GET"},
					Verdict: ratelimit.Verdict{Wait: 1500 * time.Millisecond, Closed: true}},
				{Key: ratelimit.Key{Endpoint: "http://elsewhere/a/", Method: "GET"}},
			}
		}
	})
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	s.Want(`PUT /_replicator/a {"source":"http://one/a","target":"https://two/b"}`, 201,
		`{"ok":true,"id":"a","rev":"1-*"}`)
	s.Want(`PUT /_replicator/b {"source":"http://one/x","target":"http://one/b",`+
		`"_replication_state":"failed","_replication_state_reason":"bad"}`, 201, `{"ok":true,"id":"b","rev":"1-*"}`)
	s.Want(`POST /_scheduler/holds {"server":"two"}`, 201, `{"ok":true,"id":"server:two","changed":true}`)
	s.Want(`DELETE /_scheduler/holds/server:two`, 200, `{"ok":true,"id":"server:two","changed":true}`)
	crash(t, o)
	s.Want(`POST /_scheduler/holds {"server":"two"}`, 201, `{"ok":true,"id":"server:two","changed":true}`)
	at := instant.Of(o.Clock.Now()).Add(-3 * time.Minute)
	at -= at % instant.Seconds(60)
	do(t, o.DB, func(tx kv.Tx) error {
		return o.Store.Charge(tx, []schedule.Charge{{Account: "_replicator", At: at, Worker: "w", Used: 8_000_000}}, at)
	})
	counted := o.Store.Config.Sharing.Forgetting.Counted(instant.Of(o.Clock.Now()))
	usage := 8.0
	for ; at < counted; counted -= instant.Seconds(60) {
		usage /= 2
	}
	s.Want("GET /_scheduler/accounts", 200, fmt.Sprintf(`{"policy":"fairshare","interval_seconds":60,`+
		`"usage_coeff":0.5,"accounts":[{"name":"_replicator","shares":100,"jobs":1,"usage_seconds":%v,`+
		`"used":[{"time":"%s","seconds":8}]}],"cursor":null}`, usage, at.ISO8601()))
	one := `{"server":"one:80","jobs":1,"over":1,"crashing":1,"crashing_bounded":false,"example":{"job":"%s",` +
		`"error":"db_not_found","reason":"none"},"holds":[],"limiter":[{"url":"http://one/a/","method":"GET",` +
		`"pause_seconds":1.5,"closed":true}]}`
	v := show(s, "GET /_scheduler/servers")
	list := v["servers"].([]any)
	id := list[0].(map[string]any)["example"].(map[string]any)["job"].(string)
	if !strings.HasSuffix(id, "|a") || len(list) != 2 || v["node"] != "n" {
		t.Errorf("%v", v)
	}
	first := show(s, "GET /_scheduler/servers?limit=1")
	s.Want("GET /_scheduler/servers?limit=1", 200,
		fmt.Sprintf(`{"servers":[`+one+`],"node":"n","cursor":"%s"}`, "H|a", first["cursor"]))
	s.Want(fmt.Sprintf("GET /_scheduler/servers?cursor=%s", first["cursor"]), 200,
		`{"servers":[{"server":"two:443","jobs":1,"over":0,"crashing":1,"crashing_bounded":false,`+
			`"example":{"job":"H|a","error":"db_not_found","reason":"none"},`+
			`"holds":["server:two"],"limiter":[]}],"node":"n","cursor":null}`)
	errors := show(s, "GET /_scheduler/errors")["errors"].([]any)
	got := fmt.Sprint(errors[0], errors[1])
	for _, want := range []string{"crashing:1", "class:missing", "error:db_not_found", "advice:create the database",
		"error:failed", "failed:1"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// crash has the one job that is ready crash.
func crash(t *testing.T, o *Options) {
	t.Helper()
	do(t, o.DB, func(tx kv.Tx) error {
		_, err := node.Perform(tx, o.Store, node.Join{Worker: "w", Info: node.Info{
			Name: "n", Roles: node.AllRoles, Status: node.Up, MaxJobs: 4, Seen: 1,
		}}, 1)
		return err
	})
	now := instant.Of(o.Clock.Now()).Add(time.Hour) // held jobs come back over a minute
	do(t, o.DB, func(tx kv.Tx) error { _, _, err := o.Store.Promote(tx, now, 10); return err })
	var taken jobstore.Taken
	do(t, o.DB, func(tx kv.Tx) (err error) {
		taken, err = o.Store.Accept(tx, "w", "n", jobs.Demand{Batch: 1, Max: 1}, now)
		return err
	})
	do(t, o.DB, func(tx kv.Tx) error {
		h := o.Store.Owned(tx, taken.Work[0].JobID, taken.Work[0].Lock, now)
		return h.Crash(replication.Trouble{Error: "db_not_found", Reason: "none"}, nil, jobstore.Turn{}, 1)
	})
}

// TestStandingPages: a page that is not understood is refused, and one behind the end is empty.
func TestStandingPages(t *testing.T) {
	s := newService(t)
	for _, list := range []string{"accounts", "servers", "errors"} {
		for _, c := range [][2]string{
			{"limit=0", "`limit` must be an integer from 1 to 200"},
			{"limit=201", "`limit` must be an integer from 1 to 200"},
			{"limit=x", "`limit` must be an integer from 1 to 200"},
			{"cursor=", "`cursor` must be that of an earlier answer, or absent"},
			{"cursor=%2a", "`cursor` must be that of an earlier answer, or absent"},
			{"skip=1", "unknown parameter `skip`: known are limit and cursor"},
		} {
			s.Fails("GET /_scheduler/"+list+"?"+c[0], 400, "query_parse_error", c[1])
		}
		if v := show(s, "GET /_scheduler/"+list+"?limit=200&cursor="+*cursorBehind("zzz")); v["cursor"] != nil ||
			fmt.Sprint(v[list]) != "[]" {
			t.Errorf("%s: %v", list, v)
		}
	}
}
