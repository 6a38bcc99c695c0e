package relay

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestRights: the table gives away what docs/security.md says, and nothing else. TestWalk tells that routes keep to
// the table.
func TestRights(t *testing.T) {
	published := map[right][]string{
		toAll: {"GET /", "GET /_up", "GET /_uuids", "GET /_utils/{file...}", "GET /_dashboard/{file...}",
			"GET /_session", "POST /_session",
			"DELETE /_session"},
		toUsers: {"POST /_replicate", "GET /_active_tasks", "GET /_scheduler/jobs", "GET /_scheduler/jobs/{id...}",
			"POST /_scheduler/jobs/{id...}", "GET /_scheduler/docs", "GET /_scheduler/docs/{doc...}",
			"GET /_scheduler/{list...}"},
		toAdminsOfDB: {"PUT /{db}/_security", "PUT /{db}/_revs_limit", "POST /{db}/_compact",
			"POST /{db}/_compact/{rest...}", "POST /{db}/_view_cleanup"},
		toListers: {"GET /{db}/_all_docs", "POST /{db}/_all_docs", "POST /{db}/_all_docs/queries",
			"GET /{db}/_design_docs", "POST /{db}/_design_docs", "POST /{db}/_design_docs/queries",
			"GET /{db}/_local_docs", "POST /{db}/_local_docs", "POST /{db}/_local_docs/queries",
			"GET /{db}/_changes", "POST /{db}/_changes", "POST /{db}/_find", "POST /{db}/_explain",
			"GET /{db}/_index", "POST /{db}/_index", "DELETE /{db}/_index/{rest...}", "* /{db}/_index/{rest...}"},
		toMonitors: {"GET /_node/{node}/_stats", "GET /_node/{node}/_stats/{metric...}", "GET /_node/{node}/_system",
			"GET /_node/{node}/_prometheus"},
		toAdmins: {"PUT /{db}", "DELETE /{db}", "POST /{db}/_purge"}, // and all else that is not below a database
	}
	found := 0
	for _, route := range newSite(t).service.routes() {
		name, want := route.Method+" "+route.Path, toAdmins
		if strings.HasPrefix(route.Path, "/{db}") {
			want = toMembers
		}
		for r, names := range published {
			if slices.Contains(names, name) {
				want = r
				found++
			}
		}
		if got := ruleOf(route.Method, route.Path).right; got != want {
			t.Errorf("%s is for %s, and should be for %s", name, mayUse[got], mayUse[want])
		}
	}
	if named := len(slices.Concat(published[toAll], published[toUsers], published[toAdminsOfDB], published[toListers],
		published[toMonitors], published[toAdmins])); found != named {
		t.Errorf("%d of %d routes are there", found, named)
	}
}

// TestCursorNamesNoHiddenDocument: where a list goes on is told without the id of a document that the user does not
// see, be it of one that is the next or of the last that was looked at.
func TestCursorNamesNoHiddenDocument(t *testing.T) {
	s := newSite(t)
	s.must('A', "PUT", "/_replicator", "")
	s.must('A', "PUT", "/_replicator/hidden", `{"source":"http://h/1","target":"http://h/2"}`)
	all := map[string]int{}
	for _, query := range []string{"", "&descending=true"} {
		for _, who := range "MA" {
			var list struct{ Cursor string }
			w := s.ask(who, "GET", "/_scheduler/docs?database=*&limit=0"+query, "")
			if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 {
				t.Fatal(w.Code, w.Body)
			}
			text, err := base64.RawURLEncoding.DecodeString(list.Cursor)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "hidden") {
				all[string(who)]++
			}
			w = s.ask(who, "GET", "/_scheduler/docs?database=*&cursor="+list.Cursor+query, "")
			if got := strings.Count(w.Body.String(), `"doc_id":"doc"`); got != 1 {
				t.Errorf("%c follows the cursor to %s", who, w.Body)
			}
		}
	}
	if all["M"] != 0 || all["A"] != 1 {
		t.Errorf("cursors name the hidden document: %v", all)
	}
}
