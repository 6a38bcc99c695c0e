package relay

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// TestFailures: the refused documents of a job are listed page by page, and a page that is not understood is
// refused.
func TestFailures(t *testing.T) {
	var o *Options
	s := newService(t, func(made *Options) { o = made })
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	s.Want(`PUT /_replicator/r {"source":"http://s/a","target":"http://t/a","continuous":true}`, 201,
		`{"ok":true,"id":"r","rev":"1-*"}`)
	now := instant.Seconds(1)
	var taken jobstore.Taken
	do(t, o.DB, func(tx kv.Tx) error { return o.Store.Jobs.Register(tx, "w", nil) })
	do(t, o.DB, func(tx kv.Tx) (err error) {
		taken, err = o.Store.Accept(tx, "w", "n", jobs.Demand{Batch: 1, Max: 1}, now)
		return err
	})
	work := taken.Work
	path := "/_scheduler/jobs/" + work[0].Record.RepID + "/failures"
	s.Want("GET "+path, 200, `{"total_rows":0,"stored":0,"failures":[],"cursor":null}`)
	var findings []replication.Finding
	for i := range 5 {
		v := peer.Refusal{ID: fmt.Sprint("doc", i), Rev: "1-a", Error: "forbidden", Reason: "no"}
		findings = append(findings, replication.Finding{Refusal: v})
	}
	findings[0].Status = 403
	do(t, o.DB, func(tx kv.Tx) error {
		return o.Store.Owned(tx, work[0].JobID, work[0].Lock, now).StoreRefused("x", findings)
	})
	row := `{"id":"doc%d","rev":"1-a","status":%s,"error":"forbidden","reason":"no",` +
		`"first":"1970-01-01T00:00:01Z","last":"1970-01-01T00:00:01Z","attempts":1}`
	first := s.Text(s.Ask("GET " + path + "?limit=2"))
	var page struct{ Cursor string }
	if err := json.Unmarshal([]byte(first), &page); err != nil || page.Cursor == "" {
		t.Fatalf("%s: %v", first, err)
	}
	s.Want("GET "+path+"?limit=2", 200, `{"total_rows":5,"stored":5,"failures":[`+fmt.Sprintf(row, 0, "403")+`,`+
		fmt.Sprintf(row, 1, "null")+`],"cursor":"`+page.Cursor+`"}`)
	s.Want("GET "+path+"?cursor="+page.Cursor, 200, `{"total_rows":5,"stored":5,"failures":[`+
		fmt.Sprintf(row, 2, "null")+`,`+fmt.Sprintf(row, 3, "null")+`,`+fmt.Sprintf(row, 4, "null")+
		`],"cursor":null}`)
	if got := s.Text(s.Ask("GET " + path + "?limit=1")); strings.Count(got, `"rev"`) != 1 {
		t.Errorf("a page of one: %s", got)
	}
	limit := "`limit` must be an integer from 1 to 1000"
	cursor := "`cursor` must be that of an earlier answer, or absent"
	for query, reason := range map[string]string{
		"limit=0": limit, "limit=1001": limit, "limit=x": limit, "cursor=!": cursor, "cursor=AA": cursor,
		"cursor=": cursor,
		"skip=1":  "unknown parameter `skip`: known are limit and cursor",
	} {
		s.Fails("GET "+path+"?"+query, 400, "query_parse_error", reason)
	}
	s.Fails("GET /_scheduler/jobs/none/failures", 404, "not_found", "no job has the id none, neither its own nor "+
		"that of its replication: it is over and forgotten, was canceled, or never was; "+
		"/_scheduler/docs/DB/DOC has that of a document")
}

func do(t *testing.T, db kv.Database, f func(kv.Tx) error) {
	t.Helper()
	if err := kv.Do(t.Context(), db, f); err != nil {
		t.Fatal(err)
	}
}
