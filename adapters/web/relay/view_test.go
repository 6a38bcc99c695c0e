package relay

import (
	"testing"

	"couchrelay/adapters/web"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
)

const second = 1_000_000 // in microseconds

// shown is a record in which all values differ.
func shown(state jobstore.State) *jobstore.Record {
	pending := int64(7)
	r := &jobstore.Record{
		Database: "_replicator", DocID: "doc", User: "joe", Source: "http://s/?a&b", Target: "http://t/",
		SourceProxy: "http://sp/", TargetProxy: "http://tp/", Continuous: true, CheckpointInterval: 30000,
		Control: jobstore.Control{Weight: 250},
		State:   state, RepID: "rep", ErrorCount: 3, Refused: &jobstore.RefusedDocs{Listed: 1, Beyond: 1},
		Created: 1 * second, LastStart: 2 * second, LastUpdated: 3 * second,
		Stats: jobstore.Stats{
			RevisionsChecked: 1, MissingRevisionsFound: 2, DocsRead: 3, DocsWritten: 4, ChangesPending: &pending,
			DocWriteFailures: 5, BulkGetDocs: 6, BulkGetAttempts: 8,
			CheckpointedSourceSeq: "c", SourceSeq: "s", ThroughSeq: "t",
		},
		History: []jobstore.Event{{Type: "crashed", At: 3 * second, Reason: "boom"}, {Type: "added", At: 1 * second}},
	}
	switch state {
	case jobstore.Running:
		r.Node = "n1"
	case jobstore.Crashing, jobstore.Failed:
		r.Error, r.Reason = "db_not_found", "no such database"
	}
	return r
}

func asJob(r *jobstore.Record) job           { return jobOf("j", r.View()) }
func asDocument(r *jobstore.Record) document { return documentOf("j", r.Error, r.View()) }

// TestViews: every endpoint shows a job as CouchDB would, member by member.
func TestViews(t *testing.T) {
	const (
		start, update = `"start_time":"1970-01-01T00:00:01Z"`, `"last_updated":"1970-01-01T00:00:03Z"`
		stats         = `"revisions_checked":1,"missing_revisions_found":2,"docs_read":3,"docs_written":4,` +
			`"changes_pending":7,"doc_write_failures":5,"bulk_get_docs":6,"bulk_get_attempts":8,` +
			`"checkpointed_source_seq":"c","source_seq":"s","through_seq":"t"`
		history = `"history":[{"timestamp":"1970-01-01T00:00:03Z","type":"crashed","reason":"boom"},` +
			`{"timestamp":"1970-01-01T00:00:01Z","type":"added"}]`
		ends    = `"source":"http://s/?a&b","target":"http://t/"`
		proxies = `"source_proxy":"http://sp/","target_proxy":"http://tp/"`
		run     = `"n1@1970-01-01T00:00:02Z"`
		id      = `,"weight":250,"job":"j","refused":2}`
		problem = `{"error":"db_not_found: no such database"}`
	)
	request := &jobstore.Record{Source: "http://s/", Target: "http://t/", State: jobstore.Pending,
		Created: instant.Time(second)}
	for name, c := range map[string]struct {
		shown any
		want  string
	}{
		"running job": {asJob(shown(jobstore.Running)),
			`{"database":"_replicator","id":"rep","pid":` + run + `,` + ends +
				`,"user":"joe","doc_id":"doc","info":{` + stats + `},` + history +
				`,"node":"n1","state":"running",` + start + id},
		"crashing job": {asJob(shown(jobstore.Crashing)), `{"database":"_replicator","id":"rep","pid":null,` + ends +
			`,"user":"joe","doc_id":"doc","info":` + problem + `,` + history +
			`,"node":null,"state":"crashing",` + start + id},
		"completed job": {asJob(shown(jobstore.Completed)),
			`{"database":"_replicator","id":"rep","pid":null,` + ends + `,"user":"joe","doc_id":"doc",` +
				`"info":{` + stats + `},` + history + `,"node":null,"state":"completed",` + start + id},
		"new job": {asJob(request), `{"database":null,"id":null,"pid":null,"source":"http://s/","target":"http://t/",` +
			`"user":null,"doc_id":null,"info":null,"history":[],"node":null,"state":"pending",` + start +
			`,"weight":100,"job":"j"}`},
		"running document": {asDocument(shown(jobstore.Running)),
			`{"database":"_replicator","doc_id":"doc","id":"rep","node":"n1",` +
				ends + `,` + proxies + `,"state":"running","info":{` + stats + `},"error_count":3,` +
				update + `,` + start + `,"pid":` + run + id},
		"failed document": {asDocument(shown(jobstore.Failed)),
			`{"database":"_replicator","doc_id":"doc","id":null,"node":null,` +
				ends + `,` + proxies + `,"state":"failed","info":` + problem + `,"error_count":1,` +
				update + `,` + start + `,"pid":null` + id},
		"completed document": {asDocument(shown(jobstore.Completed)),
			`{"database":"_replicator","doc_id":"doc","id":null,"node":null,` +
				ends + `,` + proxies + `,"state":"completed","info":{` + stats + `},"error_count":3,` +
				update + `,` + start + `,"pid":null` + id},
		"task": {taskOf(shown(jobstore.Running).View()),
			`{` + stats + `,"type":"replication","node":"n1","pid":` + run +
				`,"process_status":"running","replication_id":"rep","database":"_replicator","doc_id":"doc",` +
				`"user":"joe",` + ends +
				`,"continuous":true,"checkpoint_interval":30000,"started_on":2,"updated_on":3}`},
		"refused":   {ended{true, 3, []byte(`{"no_changes":true}`)}, `{"ok":true,"refused":3,"no_changes":true}`},
		"result":    {ended{true, 0, []byte(`{"no_changes":true}`)}, `{"ok":true,"no_changes":true}`},
		"no result": {ended{true, 0, nil}, `{"ok":true}`},
	} {
		got, err := web.Encode(c.shown)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, c.want)
		}
	}
}
