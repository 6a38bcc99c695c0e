package relay

import (
	"io"
	"strings"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// TestUnreadableInLists: jobs with a row that cannot be read hide no others. Lists have them with the state unreadable
// and what to do, whatever they are asked for, and also while there is no index.
func TestUnreadableInLists(t *testing.T) {
	var o *Options
	s := newService(t, func(made *Options) { o = made })
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		more := ""
		if id == "c" {
			more = `,"_replication_state":"failed","_replication_state_reason":"bad"`
		}
		s.Ask("PUT /_replicator/" + id + ` {"source":"http://one/` + id + `","target":"http://two/b"` + more + `}`)
	}
	do := func(f func(kv.Tx) error) {
		t.Helper()
		if err := kv.Do(t.Context(), o.DB, f); err != nil {
			t.Fatal(err)
		}
	}
	var prefix string
	do(func(tx kv.Tx) error {
		db, err := o.Store.Docs.Open(tx, "_replicator")
		if err == nil {
			prefix = jobstore.DocumentJobs(db.Instance)
			err = o.Store.Jobs.Register(tx, "w", nil)
		}
		return err
	})
	do(func(tx kv.Tx) error {
		_, err := o.Store.Accept(tx, "w", "n", jobs.Demand{Max: 2}, instant.Of(time.Now()))
		return err
	})
	key := o.Store.Keys.Jobs.Job
	damaged := [][]byte{key.Pack(prefix + "b"), key.Pack(prefix+"c", int64(0)), key.Pack(prefix+"d", int64(0))}
	do(func(tx kv.Tx) error {
		for _, row := range damaged {
			tx.Set(row, []byte{0xff})
		}
		return nil
	})
	for _, old := range []bool{false, true} {
		if old {
			do(func(tx kv.Tx) error { tx.Set(o.Store.Keys.Reindex, nil); return nil })
		}
		for path, want := range map[string]string{
			"jobs":                  "a b d e",
			"docs":                  "a b c d e",
			"docs?descending=true":  "e d c b a",
			"docs?limit=2&skip=1":   "b c",
			"jobs?server=one:80":    "a b d e",
			"docs?database=*":       "a b c d e",
			`docs?start_key="c"`:    "c d e",
			"jobs?states=crashing":  "",
			"docs?states=failed":    "c",
			"docs?states=completed": "",
		} {
			chosen := strings.HasPrefix(path, "jobs") || strings.Contains(path, "states")
			if old && (chosen || strings.Contains(path, "descending")) {
				continue // nothing tells in which lists the jobs are
			}
			r, ids := ask(t, s, "/_scheduler/"+path)
			if strings.Join(ids, " ") != want {
				t.Errorf("old %v, %s: %v, want %s", old, path, ids, want)
			}
			for _, d := range r.Docs {
				named := d.Database == "_replicator" || path == "docs?database=*"
				if odd := strings.Contains("b c d", d.DocID); odd != (d.State == "unreadable") || !named {
					t.Errorf("old %v, %s: %+v", old, path, d)
				}
			}
		}
	}
	do(func(tx kv.Tx) error { tx.Clear(o.Store.Keys.Reindex); return nil })
	for _, path := range []string{"_scheduler/docs", "_scheduler/jobs"} {
		text, _ := io.ReadAll(s.Ask("GET /" + path).Body)
		if !strings.Contains(string(text), `"info":{"error":"a row of this job cannot be read: see what`) {
			t.Errorf("%s: %s", path, text)
		}
	}
	for _, path := range []string{"_active_tasks", "_scheduler/servers"} {
		if answer := s.Ask("GET /" + path); answer.StatusCode != 200 {
			text, _ := io.ReadAll(answer.Body)
			t.Errorf("%s: %s", path, text)
		}
	}
}
