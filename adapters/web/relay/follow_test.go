package relay

import (
	"context"
	"strings"
	"testing"

	"couchrelay/core/follow"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// TestFollowed: operators see which databases are followed, by which node and how far, and why one is not.
func TestFollowed(t *testing.T) {
	var o Options
	site := newService(t, func(made *Options) {
		made.Followed = follow.NewStore(tuple.Subspace("service"), made.Store)
		o = *made
	})
	get := func() string { return site.Text(site.Ask("GET /_scheduler/follow")) }
	if got := get(); got != `{"total_rows":0,"follow":[]}` {
		t.Errorf("got %s", got)
	}
	do := func(f func(tx kv.Tx) error) {
		t.Helper()
		if err := kv.Do(context.Background(), o.DB, f); err != nil {
			t.Fatal(err)
		}
	}
	perform := func(q follow.Request) (got follow.Result) {
		t.Helper()
		do(func(tx kv.Tx) (err error) {
			got, err = follow.Perform(tx, o.Followed, q, 1_000_000)
			return err
		})
		return got
	}
	list := []follow.Database{
		{Section: "a", Name: "jobs", URL: "http://h/jobs/"}, {Section: "b", Name: "reps", URL: "http://h/reps/"},
	}
	do(func(tx kv.Tx) error {
		_, _, err := follow.Follow(tx, o.Followed, list, []tuple.UUID{{1}, {2}}, 0)
		return err
	})
	perform(follow.Join{Worker: "relay1/0a1b"})
	known := []string{list[0].ID(), list[1].ID()}
	taken := perform(follow.Accept{Worker: "relay1/0a1b", Batch: 1, Max: 2, Known: known}).(follow.Accepted).Jobs
	for _, job := range taken {
		if job.ID == list[1].ID() {
			perform(follow.Release{Held: job.Held, Errors: 2, Error: "db_not_found", Reason: "no", Wait: 60e9})
			continue
		}
		bad := follow.Incoming{Seq: `"7-x"`, ID: "d", Rev: "1-a", Body: []byte(`{"_id":"d","_rev":"1-a","source":7}`)}
		perform(follow.Apply{Held: job.Held, Docs: []follow.Incoming{bad}, Since: `"7-x"`, Behind: 3})
		perform(follow.Prepare{Held: job.Held, Changed: []string{"d"}})
	}
	for _, want := range []string{
		`{"total_rows":2,"follow":[{"name":"a/jobs/_replicator","url":"http://h/jobs/","database":"jobs",` +
			`"section":"a","trusted":false,"node":"relay1","sequence":"7-x","changes_pending":3,"states_pending":1,` +
			`"reconciling":false,"error_count":0,"error":null,"reason":null,"next_try":null}`,
		`"section":"b","trusted":false,"node":null,"sequence":null,"changes_pending":null,"states_pending":0,`,
		`"error_count":2,"error":"db_not_found","reason":"no","next_try":"1970-01-01T00:01:01Z"}]}`,
	} {
		if got := get(); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	do(func(tx kv.Tx) error { tx.Set(o.Followed.Keys.Jobs.Job.Pack(list[0].ID(), 0), []byte("x")); return nil })
	odd := `"database":"jobs","section":"a","trusted":false,"node":null,"sequence":null,"changes_pending":null,` +
		`"states_pending":0,"reconciling":false,"error_count":0,"error":"unreadable","reason":"a row of this job`
	if got := get(); !strings.Contains(got, odd) || !strings.Contains(got, `"section":"b"`) {
		t.Errorf("got %s, want %s", got, odd)
	}
}
