package integration

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var record = flag.Bool("record", false, "write down pouchdb-server's answers anew")

// recordingsDir has the answers from which fuzzing starts.
const recordingsDir = "../../fuzz/testdata/pouchdb"

const (
	grown = `{"_id":"doc","_rev":"2-b","_revisions":{"start":2,"ids":["b","a"]},"text":"ü\u2028<&>","n":1.50,` +
		`"_attachments":{"f.txt":{"content_type":"text/plain","revpos":2,"data":"aGVsbG8="}}}`
	other   = `{"_id":"doc","_rev":"2-c","_revisions":{"start":2,"ids":["c","a"]},"list":[{},[],null,true,""]}`
	deleted = `{"_id":"gone","_rev":"2-e","_revisions":{"start":2,"ids":["e","d"]},"_deleted":true}`
	design  = `{"_id":"_design/d","_rev":"1-f","_revisions":{"start":1,"ids":["f"]},` +
		`"filters":{"all":"function (doc, req) { return true }"}}`
	log = `{"session_id":"s","source_last_seq":3,"replication_id_version":4,"history":[{"session_id":"s",` +
		`"start_time":"Thu, 07 Nov 2013 09:42:17 GMT","end_time":"Thu, 07 Nov 2013 09:42:18 GMT",` +
		`"start_last_seq":0,"end_last_seq":"3-<&>","recorded_seq":"3-<&>","docs_read":5}]}`
)

// exchanges are requests in the order in which they are sent. The answers to those with a name are recorded
// under it.
var exchanges = []struct{ name, method, path, body string }{
	{"", "PUT", "", ""},
	{"bulk_docs", "POST", "/_bulk_docs",
		`{"new_edits":false,"docs":[` + grown + `,` + other + `,` + deleted + `,` + design + `]}`},
	{"bulk_docs_conflict", "POST", "/_bulk_docs", `{"docs":[{"_id":"doc","_rev":"1-x"}]}`},
	{"info", "GET", "", ""},
	{"changes", "GET", "/_changes?feed=normal&style=all_docs&since=0", ""},
	{"changes_limit", "GET", "/_changes?feed=normal&style=all_docs&since=1&limit=1", ""},
	{"changes_longpoll", "GET", "/_changes?feed=longpoll&style=all_docs&since=0&heartbeat=10000", ""},
	{"changes_main_only", "GET", "/_changes?style=main_only&since=0", ""},
	{"changes_doc_ids", "POST", "/_changes?filter=_doc_ids&since=0", `{"doc_ids":["gone"]}`},
	{"changes_end", "GET", "/_changes?since=100", ""},
	{"revs_diff", "POST", "/_revs_diff", `{"doc":["2-b","3-x","1-y"],"new":["1-z"],"gone":["2-e"]}`},
	{"bulk_get", "POST", "/_bulk_get?revs=true&latest=true&att_encoding_info=true&attachments=false",
		`{"docs":[{"id":"doc","rev":"2-c"},{"id":"doc","rev":"2-b"},{"id":"gone","rev":"2-e"}]}`},
	// pouchdb-server crashes when it is asked with latest=true for a revision that it does not have.
	{"bulk_get_missing", "POST", "/_bulk_get?revs=true",
		`{"docs":[{"id":"doc","rev":"2-c"},{"id":"nope","rev":"1-a"},{"id":"doc","rev":"7-x"}]}`},
	{"open_revs", "GET", `/doc?open_revs=["2-b","2-c"]&revs=true&latest=true`, ""},
	{"open_revs_missing", "GET", `/doc?open_revs=["2-b","7-x"]&revs=true`, ""},
	{"open_revs_all", "GET", `/gone?open_revs=all&revs=true`, ""},
	{"attachment", "GET", "/doc/f.txt?rev=2-b", ""},
	{"design", "GET", "/_design/d", ""},
	{"", "PUT", "/_local/log", log},
	{"local", "GET", "/_local/log", ""},
	{"failure_local", "GET", "/_local/nope", ""},
	{"failure_document", "GET", "/nope", ""},
	{"failure_database", "GET", "-nope/_changes", ""},
	{"failure_exists", "PUT", "", ""},
	{"failure_json", "POST", "/_bulk_docs", `{"docs":[`},
	{"failure_filter", "GET", "/_changes?filter=d/nope", ""},
}

var startTime = regexp.MustCompile(`"instance_start_time":"\d+"`)

// TestRecordings compares pouchdb-server's answers with those that were recorded:
//
//	make integration RECORD=-record
//
// records them anew.
func TestRecordings(t *testing.T) {
	needPouch(t)
	// A server of its own, since some of these requests make it crash later.
	server := startPouch(os.Getenv("POUCHDB_SERVER"), t.TempDir())
	defer server.kill()
	db := server.url + "recorded"
	for _, e := range exchanges {
		q, err := http.NewRequestWithContext(t.Context(), e.method,
			db+strings.NewReplacer(`"`, "%22", "[", "%5B", "]", "%5D").Replace(e.path),
			strings.NewReader(e.body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, multipart/mixed")
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if e.name == "" {
			continue
		}
		text := fmt.Sprintf("%s /recorded%s\n%s\n%s\n\n%s", e.method, e.path, answer.Status,
			answer.Header.Get("Content-Type"),
			startTime.ReplaceAll(body, []byte(`"instance_start_time":"0"`)))
		path := filepath.Join(recordingsDir, e.name+".txt")
		if *record {
			check(os.WriteFile(path, []byte(text), 0o644))
		}
		if recorded, err := os.ReadFile(path); err != nil || string(recorded) != text {
			t.Errorf("%s: %v\n%s\n\nwas recorded as\n\n%s", e.name, err, text, recorded)
		}
	}
}
