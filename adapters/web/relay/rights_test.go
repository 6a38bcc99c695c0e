package relay

import (
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
