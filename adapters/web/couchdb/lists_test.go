package couchdb

import (
	"fmt"
	"strings"
	"testing"
)

// TestOtherLists: lists of design documents and of local ones take the parameters of _all_docs. Answers are those of
// CouchDB 3.5.
func TestOtherLists(t *testing.T) {
	s := newSite(t)
	for _, id := range []string{"_design/d", "_design/e", "a", "z"} {
		s.Want("PUT /db/"+id+` {"n":1}`, 201, `{"ok":true,"id":"`+id+`","rev":"1-*"}`)
	}
	for _, id := range []string{"_local/k", "_local/l", "_local/m", "_local/gone"} {
		s.Want("PUT /db/"+id+` {"n":1}`, 201, `{"ok":true,"id":"`+id+`","rev":"0-1"}`)
	}
	s.Want("DELETE /db/_local/gone?rev=0-1", 200, `{"ok":true,"id":"_local/gone","rev":"0-0"}`)
	rows := func(rev string, ids ...string) string {
		var list []string
		for _, id := range ids {
			list = append(list, fmt.Sprintf(`{"id":"%s","key":"%s","value":{"rev":"%s"}}`, id, id, rev))
		}
		return `"rows":[` + "\n" + strings.Join(list, ",\r\n") + "\n]}"
	}
	const d, e, k, l, m = "_design/d", "_design/e", "_local/k", "_local/l", "_local/m"
	for query, want := range map[string]string{
		"_design_docs":                           `"offset":0,` + rows("1-*", d, e),
		"_design_docs?limit=1&skip=1":            `"offset":1,` + rows("1-*", e),
		"_design_docs?descending=true&limit=1":   `"offset":null,` + rows("1-*", e),
		`_design_docs?start_key=%22_design/e%22`: `"offset":1,` + rows("1-*", e),
		`_design_docs?startkey=%22a%22`:          `"offset":2,` + rows("1-*"),
		`_design_docs?endkey=%22a%22`:            `"offset":0,` + rows("1-*", d, e),
		`_design_docs?key=%22a%22`:               `"offset":2,` + rows("1-*"),
		`_design_docs?key=%22_design/d%22`:       `"offset":0,` + rows("1-*", d),
		`_design_docs?descending=true&end_key=%22_design/e%22&inclusive_end=false`: `"offset":null,` + rows("1-*"),
		`_design_docs?keys=%5B%22_design/e%22,%22a%22,3%5D`:                        `"offset":null,` + rows("1-*", e),
		`_design_docs?update_seq=true&limit=0`: `"offset":0,"update_seq":S,` +
			rows(""),
		"_local_docs":                                                            rows("0-1", k, l, m),
		"_local_docs?limit=1":                                                    rows("0-1", k),
		"_local_docs?descending=true&limit=2":                                    rows("0-1", m, l),
		"_local_docs?skip=2":                                                     rows("0-1", m),
		`_local_docs?start_key=%22_local/l%22`:                                   rows("0-1", l, m),
		`_local_docs?end_key=%22_local/l%22`:                                     rows("0-1", k, l),
		`_local_docs?end_key=%22_local/l%22&inclusive_end=false`:                 rows("0-1", k),
		`_local_docs?descending=true&start_key=%22_local/l%22`:                   rows("0-1", l, k),
		`_local_docs?descending=true&end_key=%22_local/l%22&inclusive_end=false`: rows("0-1", m),
		`_local_docs?key=%22_local/l%22`:                                         rows("0-1", l),
		`_local_docs?key=%22_local/gone%22`:                                      rows("0-1"),
		`_local_docs?keys=%5B%22_local/m%22,%22a%22,%22k%22%5D`:                  rows("0-1", m),
	} {
		head := `{"total_rows":2,`
		if strings.HasPrefix(query, "_local") {
			head = `{"total_rows":null,"offset":null,`
		}
		s.Want("GET /db/"+query, 200, head+want)
		s.Want("POST /db/"+query+" {}", 200, head+want)
	}
	s.Want(`POST /db/_local_docs {"keys":["_local/m","_local/gone"],"include_docs":true}`, 200,
		`{"total_rows":null,"offset":null,"rows":[`+"\n"+`{"id":"_local/m","key":"_local/m","value":{"rev":"0-1"},`+
			`"doc":{"_id":"_local/m","_rev":"0-1","n":1}},`+"\r\n"+`{"key":"_local/gone","error":"not_found"}`+"\n]}")
	s.Want(`GET /db/_design_docs?include_docs=true&limit=1`, 200, `{"total_rows":2,"offset":0,"rows":[`+"\n"+
		`{"id":"_design/d","key":"_design/d","value":{"rev":"1-*"},"doc":{"_id":"_design/d","_rev":"1-*","n":1}}`+
		"\n]}")
}

// TestManyLocals: a list of local documents takes as many transactions as it needs, also over deleted and large ones.
func TestManyLocals(t *testing.T) {
	s := newSite(t)
	long := strings.Repeat("x", 200_000)
	for i := range 150 {
		id := fmt.Sprintf("_local/%03d", i)
		body := `{}`
		if i%50 == 0 {
			body = `{"long":"` + long + `"}`
		}
		s.Want("PUT /db/"+id+" "+body, 201, `{"ok":true,"id":"`+id+`","rev":"0-1"}`)
		if i >= 10 && i < 140 {
			s.Want("DELETE /db/"+id+"?rev=0-1", 200, `{"ok":true,"id":"`+id+`","rev":"0-0"}`)
		}
	}
	for query, want := range map[string]int{"": 20, "?descending=true": 20, "?skip=5&limit=9": 9, "?skip=15": 5} {
		if text := s.Text(s.Ask("GET /db/_local_docs" + query)); strings.Count(text, `"id":`) != want {
			t.Errorf("%s: %d rows, want %d", query, strings.Count(text, `"id":`), want)
		}
	}
}

// TestQueries: several lists in one request, each as if it had been asked for alone.
func TestQueries(t *testing.T) {
	s := newSite(t)
	s.Want("PUT /db/a {}", 201, `{"ok":true,"id":"a","rev":"1-*"}`)
	s.Want("PUT /db/_local/l {}", 201, `{"ok":true,"id":"_local/l","rev":"0-1"}`)
	row := `{"id":"a","key":"a","value":{"rev":"1-*"}}`
	s.Want(`POST /db/_all_docs/queries {"queries":[{"limit":1},{"keys":["b"]},{"start_key":"b"}]}`, 200,
		`{"results":[`+"\n"+`{"total_rows":1,"offset":0,"rows":[`+"\n"+row+"\n]},\n"+
			`{"total_rows":1,"offset":null,"rows":[`+"\n"+`{"key":"b","error":"not_found"}`+"\n]},\n"+
			`{"total_rows":1,"offset":null,"rows":[`+"\n\n]}\n]}")
	s.Want(`POST /db/_all_docs/queries {"queries":[]}`, 200, `{"results":[`+"\n\n]}")
	s.Want(`POST /db/_design_docs/queries {"queries":[{}]}`, 200,
		`{"results":[`+"\n"+`{"total_rows":0,"offset":0,"rows":[`+"\n\n]}\n]}")
	s.Want(`POST /db/_local_docs/queries {"queries":[{}]}`, 200, `{"results":[`+"\n"+
		`{"total_rows":null,"offset":null,"rows":[`+"\n"+`{"id":"_local/l","key":"_local/l","value":{"rev":"0-1"}}`+
		"\n]}\n]}")
	for body, reason := range map[string]string{
		`{}`:                         "Missing `queries` parameter, an array of objects with parameters of a list",
		`{"queries":1}`:              "`queries` must be an array of objects",
		`{"queries":[[]]}`:           "`queries` must be an array of objects",
		`{"queries":[{"keys":"a"}]}`: "`keys` parameter must be an array.",
	} {
		s.Fails("POST /db/_all_docs/queries "+body, 400, "bad_request", reason)
	}
}

// TestListParameters: what cannot be read is named.
func TestListParameters(t *testing.T) {
	s := newSite(t)
	for _, list := range []string{"_all_docs", "_design_docs", "_local_docs"} {
		for _, name := range []string{"descending", "include_docs", "inclusive_end", "update_seq", "conflicts",
			"attachments"} {
			s.Fails("GET /db/"+list+"?"+name+"=maybe", 400, "query_parse_error", name+" must be true or false")
		}
		s.Fails("GET /db/"+list+"?limit=x", 400, "query_parse_error", "limit must be an integer")
		s.Fails("GET /db/"+list+"?skip=-1", 400, "query_parse_error", "skip not in range of [0,infinity]")
		s.Fails("GET /db/"+list+"?keys=1", 400, "bad_request", "`keys` parameter must be an array.")
		s.Fails("GET /db/"+list+"?start_key=b", 400, "bad_request",
			"start_key must be JSON: the id of a document in double quotes")
		s.Fails("PUT /db/"+list, 405, "method_not_allowed", "Only GET,HEAD,POST allowed")
	}
}

// TestConflictsInLists: lists and feeds name the other leaves of the documents that they show.
func TestConflictsInLists(t *testing.T) {
	s := newSite(t)
	s.Want(`POST /db/_bulk_docs {"new_edits":false,"docs":[{"_id":"a","_rev":"1-a"},{"_id":"a","_rev":"1-b"},`+
		`{"_id":"b","_rev":"1-c"}]}`, 201, `[]`)
	for _, request := range []string{
		"GET /db/_all_docs?include_docs=true&conflicts=true",
		`POST /db/_all_docs {"keys":["a"],"include_docs":true,"conflicts":true}`,
		"GET /db/_changes?include_docs=true&conflicts=true",
	} {
		if text := s.Text(s.Ask(request)); strings.Count(text, `"_conflicts":["1-a"]`) != 1 ||
			strings.Count(text, "_conflicts") != 1 {
			t.Errorf("%s: %s", request, text)
		}
	}
}
