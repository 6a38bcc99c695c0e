package relay

import (
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/spec"
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

// TestFilesGiveNoRights: a server admin who attaches a file to a document, takes one away or copies the document has
// not written its body, and does not answer for it. The admin's own jobs stay what they are.
func TestFilesGiveNoRights(t *testing.T) {
	s := newSite(t)
	rights := func(doc string) (owner string, admin bool) {
		rep, err := kv.Run(t.Context(), s.service.DB, func(tx kv.Tx) (*spec.Replication, error) {
			return s.service.Store.Spec(tx, strings.TrimSuffix(s.jobs[0], "doc")+doc)
		})
		if err != nil {
			t.Fatal(err)
		}
		return rep.Owner, rep.User.Admin
	}
	for i, c := range []struct {
		who  rune
		want string
	}{{'D', ""}, {'A', "adm"}} {
		doc := "files" + strconv.Itoa(i)
		path := "/team%2F_replicator/" + doc
		rev := func(w *httptest.ResponseRecorder) string {
			var said struct{ Rev string }
			if err := json.Unmarshal(w.Body.Bytes(), &said); err != nil {
				t.Fatal(err)
			}
			return "?rev=" + said.Rev
		}
		body := `{"source":"http://h/` + doc + `","target":"http://h/b","owner":"adm"}`
		at := rev(s.must(c.who, "PUT", path, body))
		for _, method := range []string{"", "PUT", "DELETE"} {
			if method != "" {
				at = rev(s.must('A', method, path+"/file"+at, "text"))
			}
			if owner, admin := rights(doc); owner != c.want || admin != (c.want != "") {
				t.Errorf("%c's document after %q of a file: owner %q, admin: %t", c.who, method, owner, admin)
			}
		}
		q := s.request('A', "COPY", path, "")
		q.Header.Set("Destination", doc+"copy")
		w := httptest.NewRecorder()
		if s.handler.ServeHTTP(w, q); w.Code != 201 {
			t.Fatal(w.Code, w.Body)
		}
		if owner, admin := rights(doc + "copy"); owner != "" || admin {
			t.Errorf("copy of %c's document: owner %q, admin: %t", c.who, owner, admin)
		}
	}
}
