package relay

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/web"
)

// audited is a site that remembers what it was told to record.
func audited(t *testing.T) (s *site, lines *[]*web.Request) {
	lines = &[]*web.Request{}
	s = newSite(t)
	s.service.Record = func(q *web.Request, _ time.Duration) { *lines = append(*lines, q) }
	s.handler = New(s.service.Options)
	return s, lines
}

// reading are the requests that change nothing though their method is not GET.
var reading = []string{
	"POST /{db}/_all_docs", "POST /{db}/_all_docs/queries", "POST /{db}/_design_docs",
	"POST /{db}/_design_docs/queries",
	"POST /{db}/_local_docs", "POST /{db}/_local_docs/queries", "POST /{db}/_changes", "POST /{db}/_bulk_get",
	"POST /{db}/_revs_diff",
	"POST /{db}/_ensure_full_commit", "POST /{db}/_missing_revs", "POST /{db}/_compact",
	"POST /{db}/_compact/{rest...}",
	"POST /{db}/_view_cleanup", "POST /{db}/_find", "POST /{db}/_explain", "POST /_dbs_info",
}

// TestEveryChangeIsRecorded: each route that changes something leaves one line, whoever asks and whether it is refused,
// and no other route leaves any.
func TestEveryChangeIsRecorded(t *testing.T) {
	refused, allowed := 0, 0
	s, lines := audited(t)
	for _, route := range s.service.routes() {
		for _, who := range "NUA" {
			if route.Path == rekeyPath && who == 'A' {
				continue // needs a store that is sealed
			}
			if route.Method == "DELETE" || route.Path == "/_session" {
				s, lines = audited(t)
			}
			method := route.Method
			if method == "*" {
				method = "POST"
			}
			body := `{"source":"http://h/c","target":"http://h/d"}`
			if route.Path == "/_replicate" {
				body = `{"cancel":true,"id":"none"}`
			}
			*lines = nil
			w := s.ask(who, method, s.pathOf(route.Method, route.Path), body)
			want := 1
			if method == "GET" || slices.Contains(reading, method+" "+route.Path) {
				want = 0
			}
			if len(*lines) != want {
				t.Errorf("%c %s %s: %d lines", who, method, route.Path, len(*lines))
				continue
			}
			for _, q := range *lines {
				if q.Status() != w.Code || q.Pattern != route.Path || q.User.Name != walkerNames[who] ||
					q.ID != w.Header().Get("X-Couch-Request-ID") {
					t.Errorf("%c %s %s: %+v", who, method, route.Path, q)
				}
				if w.Code == 401 || w.Code == 403 {
					refused++
				} else {
					allowed++
				}
			}
		}
	}
	if refused < 40 || allowed < 30 {
		t.Errorf("%d refused, %d not", refused, allowed)
	}
}

// TestRecordedLogins: a wrong password or token leaves a line on any route, with the name that was tried. Requests that
// carry no login, a right one or an old cookie leave none.
func TestRecordedLogins(t *testing.T) {
	s, lines := audited(t)
	for header, c := range map[string]struct {
		name   string
		denied bool
	}{
		"":                         {"", false},
		basic("adm", "secret"):     {"adm", false},
		basic("adm", "wrong"):      {"adm", true},
		basic("nobody", "planted"): {"nobody", true},
		"Basic !":                  {"", true},
		"Bearer x.y.z":             {"", true},
	} {
		*lines = nil
		q := httptest.NewRequestWithContext(t.Context(), "GET", "/_scheduler/jobs", nil)
		q.Host = "relay:5980"
		if header != "" {
			q.Header.Set("Authorization", header)
		}
		s.handler.ServeHTTP(httptest.NewRecorder(), q)
		if len(*lines) > 0 != c.denied || c.denied && (*lines)[0].Claimed != c.name {
			t.Errorf("%s: %d lines", header, len(*lines))
		}
	}
}

// TestRecordedDocuments: a line says which documents were written, and how many were not.
func TestRecordedDocuments(t *testing.T) {
	s, lines := audited(t)
	notes := func() string {
		var all []string
		for _, note := range (*lines)[len(*lines)-1].Notes() {
			all = append(all, note.String())
		}
		return strings.Join(all, " ")
	}
	const db = "/team%2F_replicator"
	doc := func(id string) string { return `{"_id":"` + id + `","source":"http://h/c","target":"http://h/d"}` }
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", db, doc("new"), "doc=new"},
		{"PUT", db + "/put", doc("put"), ""},
		{"POST", db + "/_bulk_docs", `{"docs":[` + doc("b1") + "," + doc("new") + "," + doc("b2") + `]}`,
			"docs=[b1 b2] asked=3 refused=1"},
		{"PUT", "/_node/_local/_config/log", `{"level":"info","format":"json"}`, "keys=[format level]"},
		{"POST", "/_scheduler/holds", `{"database":"team/_replicator"}`, "hold=database:team/_replicator"},
	} {
		s.must('A', c.method, c.path, c.body)
		if got := notes(); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.method, c.path, got, c.want)
		}
	}
	s.ask('O', "POST", "/_replicate", `{"cancel":true,"id":"`+s.jobs[1]+`"}`)
	if got := notes(); !strings.HasPrefix(got, "canceled=") {
		t.Errorf("%s", got)
	}
}
