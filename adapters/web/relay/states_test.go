package relay

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/web/webtest"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
)

// taken is a service with the documents a to d, whose jobs the node n has taken.
func taken(t *testing.T, change ...func(*Options)) (*webtest.Site, *Options, map[string]jobstore.Work) {
	t.Helper()
	var o *Options
	s := newService(t, append(change, func(made *Options) { o = made })...)
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	for _, id := range []string{"a", "b", "c", "d"} {
		s.Want("PUT /_replicator/"+id+` {"source":"http://s/`+id+`","target":"http://t/a","continuous":true}`, 201,
			`{"ok":true,"id":"`+id+`","rev":"1-*"}`)
	}
	now := instant.Of(o.Clock.Now())
	do(t, o.DB, func(tx kv.Tx) error { return o.Store.Jobs.Register(tx, "w", nil) })
	work := map[string]jobstore.Work{}
	do(t, o.DB, func(tx kv.Tx) error {
		taken, err := o.Store.Accept(tx, "w", "n", jobs.Demand{Batch: 4, Max: 4}, now)
		for _, w := range taken.Work {
			work[w.Record.DocID] = w
		}
		return err
	})
	return s, o, work
}

// TestStatesOfDocuments: a document whose filter function cannot be read has the state error, as in CouchDB, and lists
// by state have it there and not among those that are crashing. Lists of jobs know no such state.
func TestStatesOfDocuments(t *testing.T) {
	s, o, work := taken(t)
	for id, class := range map[string]string{"a": filterFetch, "b": "db_not_found", "c": filterFetch} {
		do(t, o.DB, func(tx kv.Tx) error {
			owned := o.Store.Owned(tx, work[id].JobID, work[id].Lock, instant.Of(o.Clock.Now()))
			return owned.Crash(replication.Trouble{Error: class, Reason: "why"}, nil, jobstore.Turn{}, 1)
		})
	}
	s.Want("PUT /_replicator/e"+` {"source":"http://s/e","target":"http://t/a"}`, 201,
		`{"ok":true,"id":"e","rev":"1-*"}`)
	for query, want := range map[string]string{
		"docs":                                       "5: a=error b=crashing c=error d=running e=pending",
		"docs?states=error":                          "2: a=error c=error",
		"docs?states=error,initializing":             "2: a=error c=error",
		"docs?states=initializing":                   "0:",
		"docs?states=initializing&node=n":            "0:",
		"docs?states=crashing":                       "1: b=crashing",
		"docs?states=crashing,error":                 "3: a=error b=crashing c=error",
		"docs?states=RUNNING,Error":                  "3: a=error c=error d=running",
		"docs?states=pending,crashing":               "2: b=crashing e=pending",
		"docs?states=running,error&skip=1&limit=1":   "3: c=error",
		"docs?states=crashing&error=db_not_found":    "1: b=crashing",
		"docs?states=error&error=db_not_found":       "0:",
		"docs?states=crashing&error=" + filterFetch:  "0:",
		"docs?error=" + filterFetch:                  "2: a=error c=error",
		`docs?end_key="c"&inclusive_end=false`:       "5: a=error b=crashing",
		`docs?end_key="c"&inclusive_end=true`:        "5: a=error b=crashing c=error",
		`docs?keys=["e","a"]&descending=true`:        "5: a=error e=pending",
		`docs?keys=["a","b","d"]&states=error`:       "2: a=error",
		`docs?descending=true&states=error`:          "2: c=error a=error",
		"jobs?states=crashing&database=_replicator":  "3: a=crashing b=crashing c=crashing",
		"jobs?error=filter_fetch_error&states=error": "",
	} {
		path, parameters, _ := strings.Cut(query, "?")
		if want == "" {
			answer := s.Ask("GET /_scheduler/" + path + "?" + encoded(parameters))
			if answer.StatusCode != 400 {
				t.Errorf("%s: %d %s", query, answer.StatusCode, s.Text(answer))
			}
			continue
		}
		if got := statesOf(t, s, "/_scheduler/"+path+"?"+encoded(parameters)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for _, path := range []string{"/_scheduler/docs/_replicator/a", "/_scheduler/docs?limit=1"} {
		if text := s.Text(s.Ask("GET " + path)); !strings.Contains(text, `"id":null,"node":null,`) ||
			!strings.Contains(text, `"state":"error","info":{"error":"filter_fetch_error: why"},"error_count":1,`) {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// TestNumbersOfThisNode: what the runs of the node say is shown at once, in all lists, with sequences that can be used
// as such, before and after they have said something.
func TestNumbersOfThisNode(t *testing.T) {
	numbers := map[string]jobstore.Stats{}
	s, o, work := taken(t, func(o *Options) {
		o.Numbers = func(context.Context) map[string]jobstore.Stats { return numbers }
	})
	tasks := s.Text(s.Ask("GET /_active_tasks"))
	if strings.Count(tasks, `"checkpointed_source_seq":"0","source_seq":"0","type":"replication"`) != 4 ||
		strings.Contains(tasks, `""`) || strings.Contains(tasks, "through_seq") {
		t.Errorf("before the runs copy: %s", tasks)
	}
	text := s.Text(s.Ask("GET /_scheduler/jobs/" + work["a"].Record.RepID))
	if !strings.Contains(text, `"info":null,`) {
		t.Errorf("before the run copies: %s", text)
	}
	stored := jobstore.Stats{DocsWritten: 5, SourceSeq: "5", ThroughSeq: "5", CheckpointedSourceSeq: "4"}
	do(t, o.DB, func(tx kv.Tx) error {
		return o.Store.Owned(tx, work["a"].JobID, work["a"].Lock, instant.Seconds(1)).Progress(stored)
	})
	now := stored
	now.DocsWritten, now.ThroughSeq = 9, "9"
	for _, c := range []struct {
		said    jobstore.Stats
		written string
	}{{stored, `"docs_written":5,`}, {now, `"docs_written":9,`}} {
		numbers[work["a"].JobID] = c.said
		for _, path := range []string{"_scheduler/jobs?limit=1000", "_scheduler/docs/_replicator/a",
			"_scheduler/docs", "_scheduler/jobs/" + work["a"].Record.RepID, "_active_tasks"} {
			if text := s.Text(s.Ask("GET /" + path)); !strings.Contains(text, c.written) {
				t.Errorf("%s lacks %s: %s", path, c.written, text)
			}
		}
	}
	if text := s.Text(s.Ask("GET /_scheduler/docs/_replicator/a")); !strings.Contains(text,
		`"last_updated":"`+o.Clock.Now().UTC().Format("2006-01-02")) {
		t.Errorf("numbers of today: %s", text)
	}
	numbers[work["b"].JobID] = now
	do(t, o.DB, func(tx kv.Tx) error {
		return o.Store.Owned(tx, work["b"].JobID, work["b"].Lock, instant.Of(time.Now())).
			Requeue(nil, jobstore.Turn{})
	})
	if text := s.Text(s.Ask("GET /_scheduler/docs/_replicator/b")); strings.Contains(text, `"docs_written":9`) {
		t.Errorf("numbers of a run that is over: %s", text)
	}
}

// statesOf is the total and the rows of a list, with the states of documents.
func statesOf(t *testing.T, s *webtest.Site, path string) string {
	t.Helper()
	r, _ := ask(t, s, path)
	text := "null:"
	if r.Total != nil {
		text = fmt.Sprint(*r.Total, ":")
	}
	for _, j := range r.Jobs {
		text += " " + j.DocID + "=" + j.State
	}
	for _, d := range r.Docs {
		text += " " + d.DocID + "=" + d.State
	}
	return text
}
