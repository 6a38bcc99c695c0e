package couchdb

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// found is a site with documents to find.
func found(t *testing.T) *site {
	s := newSite(t)
	for _, doc := range []string{
		`"_id":"a","_rev":"1-a","n":1,"o":{"p":[{"q":1}]}`, `"_id":"b","_rev":"1-b","n":2`,
		`"_id":"c","_rev":"1-c","n":3`,
		`"_id":"c","_rev":"1-0","n":4`, `"_id":"_design/d","_rev":"1-d","n":2`,
		`"_id":"x","_rev":"1-x","_deleted":true,"n":2`,
	} {
		s.Want(`POST /db/_bulk_docs {"new_edits":false,"docs":[{`+doc+`}]}`, 201, `[]`)
	}
	return s
}

const noIndexFound = "No matching index found, create an index to optimize query time."

// answer is what _find answers.
func answer(bookmark, warning string, documents ...string) string {
	end := "\n],\n"
	if len(documents) == 0 {
		end = "],\n"
	}
	return `{"docs":[` + "\n" + strings.Join(documents, ",\n") + end + `"bookmark": "` + bookmark + `",` + "\n" +
		`"warning": "` + warning + `"}`
}

// TestFind: answers are those of CouchDB 3.5, but for bookmarks.
func TestFind(t *testing.T) {
	s := found(t)
	const a, b, c = `{"_id":"a"}`, `{"_id":"b"}`, `{"_id":"c"}`
	for body, want := range map[string]string{
		`{"selector":{"n":{"$gt":1}},"fields":["_id"]}`: answer(bookmarkOf("c"),
			noIndexFound, b, c),
		`{"selector":{"n":2}}`: answer(bookmarkOf("b"),
			noIndexFound, `{"_id":"b","_rev":"1-b","n":2}`),
		`{"selector":{},"fields":["_id"]}`: answer(bookmarkOf("c"),
			noIndexFound, a, b, c),
		`{"selector":{},"fields":["_id"],"limit":2}`: answer(bookmarkOf("b"),
			noIndexFound, a, b),
		`{"selector":{},"fields":["_id"],"limit":1,"skip":1}`: answer(bookmarkOf("b"),
			noIndexFound, b),
		`{"selector":{},"fields":["_id"],"skip":9}`: answer("nil", noIndexFound),
		`{"selector":{},"limit":0}`:                 answer("nil", noIndexFound),
		`{"selector":{"n":77}}`:                     answer("nil", noIndexFound),
		`{"selector":{"_id":"b"},"fields":["_id"]}`: answer(bookmarkOf("b"),
			noIndexFound, b),
		`{"selector":{"_id":{"$gt":"a","$lt":"c"}},"fields":["_id"]}`: answer(bookmarkOf("b"),
			noIndexFound, b),
		`{"selector":{"_id":{"$gt":"z","$lt":"a"}},"fields":["_id"]}`: answer("nil", noIndexFound),
		`{"selector":{"_id":5}}`: answer("nil", noIndexFound),
		`{"selector":{"_id":{"$gt":null}},"sort":["_id"],"fields":["_id"]}`: answer(bookmarkOf("c"),
			noIndexFound, a, b, c),
		`{"selector":{"_id":{"$gt":"a"}},"sort":[{"_id":"desc"}],"fields":["_id"]}`: answer(bookmarkOf("b"),
			noIndexFound, c, b),
		`{"selector":{"_id":{"$lte":"b"}},"sort":[{"_id":"desc"}],"fields":["_id"]}`: answer(bookmarkOf("a"),
			noIndexFound, b, a),
		`{"selector":{"_id":{"$beginsWith":"b"}},"fields":["_id"]}`: answer(bookmarkOf("b"),
			noIndexFound, b),
		`{"selector":{"n":1},"fields":["o.p.0.q","n","none"]}`: answer(bookmarkOf("a"),
			noIndexFound, `{"o":{"p":{"0":{"q":1}}},"n":1}`),
		`{"selector":{"_id":"c"},"conflicts":true}`: answer(bookmarkOf("c"),
			noIndexFound, `{"_id":"c","_rev":"1-c","n":3,"_conflicts":["1-0"]}`),
		`{"selector":{"n":1},"use_index":"d","fields":["_id"]}`: answer(bookmarkOf("a"),
			`_design/d was not used because it does not contain a valid index for this query.\n`+noIndexFound, a),
		`{"selector":{"n":1},"use_index":["_design/d","x"],"fields":["_id"]}`: answer(bookmarkOf("a"),
			`_design/d, x was not used because it is not a valid index for this query.\n`+noIndexFound, a),
		`{"selector":{"n":1},"r":1,"update":true,"stable":false,"stale":"ok","use_index":null,"bookmark":null,` +
			`"partition":"","execution_stats":false,"fields":["_id"]}`: answer(bookmarkOf("a"), noIndexFound, a),
	} {
		s.Want("POST /db/_find "+body, 200, want)
	}
	text := s.Text(s.Ask(`POST /db/_find {"selector":{"n":1},"execution_stats":true}`))
	if !strings.Contains(text, `"execution_stats": {"total_keys_examined":3,"total_docs_examined":3,`+
		`"total_quorum_docs_examined":0,"results_returned":1,"execution_time_ms":`) {
		t.Error(text)
	}
}

// TestFindPages: bookmarks lead through all documents, in both orders, also when documents come and go.
func TestFindPages(t *testing.T) {
	s := newSite(t)
	many(s, 250)
	for _, order := range []string{"asc", "desc"} {
		seen, bookmark := map[string]bool{}, ""
		for pages := 0; ; pages++ {
			text := s.Text(s.Ask(fmt.Sprintf(`POST /db/_find {"selector":{"_id":{"$gt":null}},"sort":[{"_id":"%s"}],`+
				`"fields":["_id"],"limit":40,"bookmark":"%s"}`, order, bookmark)))
			n := 0
			for line := range strings.Lines(text) {
				if id, is := strings.CutPrefix(line, `{"_id":"`); is {
					if id, _, _ = strings.Cut(id, `"`); seen[id] {
						t.Fatalf("%s twice", id)
					}
					seen[id] = true
					n++
				}
				if rest, is := strings.CutPrefix(line, `"bookmark": "`); is {
					bookmark, _, _ = strings.Cut(rest, `"`)
				}
			}
			if n == 0 {
				break
			}
			if pages > 10 {
				t.Fatal("there is no end")
			}
		}
		if len(seen) != 250 {
			t.Errorf("%s: %d documents", order, len(seen))
		}
	}
	text := s.Text(s.Ask(`POST /db/_find {"selector":{"_id":"249"},"fields":["_id"]}`))
	if strings.Contains(text, "high in proportion") {
		t.Errorf("more is looked at than the ids say: %s", text)
	}
	text = s.Text(s.Ask(`POST /db/_find {"selector":{"nothing":1}}`))
	if !strings.Contains(text, "The number of documents examined is high in proportion") {
		t.Error(text)
	}
}

// TestFindRefused: errors have CouchDB's words, and name what is wrong.
func TestFindRefused(t *testing.T) {
	const unsorted = "documents are sorted by _id alone, with a condition on _id in the selector: there is " +
		"no other index, and none can be made"
	s := found(t)
	for body, want := range map[string][2]string{
		`{}`:                            {"missing_required_key", "Missing required key: selector"},
		`[]`:                            {"bad_request", "Request body must be a JSON object"},
		`{`:                             {"bad_request", "invalid UTF-8 JSON"},
		`{"selector":5}`:                {"invalid_selector_json", "`selector`: Selector must be a JSON object"},
		`{"selector":{"a":{"$foo":1}}}`: {"invalid_operator", "`selector`: Invalid operator: $foo"},
		`{"selector":{"a":{"$in":1}}}`: {"bad_arg",
			"`selector`: Bad argument for operator $in: it must be an array"},
		`{"selector":{},"foo":1}`:             {"invalid_key", "Invalid key foo for this request."},
		`{"selector":{},"limit":-1}`:          {"invalid_non_neg_integer", "`limit` must be an integer of at least 0"},
		`{"selector":{},"limit":1.0}`:         {"invalid_non_neg_integer", "`limit` must be an integer of at least 0"},
		`{"selector":{},"limit":null}`:        {"invalid_non_neg_integer", "`limit` must be an integer of at least 0"},
		`{"selector":{},"skip":"x"}`:          {"invalid_non_neg_integer", "`skip` must be an integer of at least 0"},
		`{"selector":{},"r":0}`:               {"invalid_pos_integer", "`r` must be an integer of at least 1"},
		`{"selector":{},"conflicts":5}`:       {"invalid_boolean", "`conflicts` must be true or false"},
		`{"selector":{},"update":"x"}`:        {"invalid_boolean", "`update` must be true or false"},
		`{"selector":{},"execution_stats":1}`: {"invalid_boolean", "`execution_stats` must be true or false"},
		`{"selector":{},"stale":"x"}`:         {"invalid_ok_or_false_value", "`stale` must be \\\"ok\\\" or false"},
		`{"selector":{},"fields":"a"}`:        {"invalid_fields", "`fields` must be an array of strings"},
		`{"selector":{},"fields":[1]}`:        {"invalid_field", "`fields` must be an array of strings"},
		`{"selector":{},"fields":["a..b"]}`: {"invalid_field_name",
			"`fields`: Invalid field name: \\\"a..b\\\" has an empty part"},
		`{"selector":{},"sort":"n"}`: {"invalid_sort_json",
			"`sort` must be an array of names of fields and objects like {\\\"_id\\\": \\\"desc\\\"}"},
		`{"selector":{},"sort":[5]}`: {"invalid_sort_field",
			"`sort`: each field is a name or an object of a name and asc or desc"},
		`{"selector":{},"sort":[{"_id":"x"}]}`: {"invalid_sort_field",
			"`sort`: each field is a name or an object of a name and asc or desc"},
		`{"selector":{},"sort":["a",{"b":"desc"}]}`: {"unsupported_mixed_sort",
			"`sort`: Sorts currently only support a single direction for all fields."},
		`{"selector":{},"sort":["n"]}`:        {"no_usable_index", unsorted},
		`{"selector":{"n":1},"sort":["_id"]}`: {"no_usable_index", unsorted},
		`{"selector":{},"bookmark":"foo"}`: {"invalid_bookmark",
			"`bookmark` must be the bookmark of an answer of this service"},
		`{"selector":{},"bookmark":5}`: {"invalid_bookmark",
			"`bookmark` must be the bookmark of an answer of this service"},
		`{"selector":{},"use_index":5}`: {"invalid_index_name",
			"`use_index` must be the name of a design document, and may have that of an index"},
		`{"selector":{},"use_index":"a/b/c"}`: {"invalid_index_name",
			"`use_index` must be the name of a design document, and may have that of an index"},
		`{"selector":{},"allow_fallback":false}`: {"invalid_index",
			"You must specify an index with the `use_index` parameter."},
		`{"selector":{},"allow_fallback":false,"use_index":"x"}`: {"invalid_index",
			"_design/x specified by `use_index` could not be found or it is not suitable."},
		`{"selector":{},"partition":"x"}`: {"query_parse_error", "`partition` parameter is not supported on this db"},
	} {
		s.Fails("POST /db/_find "+body, 400, want[0], want[1])
		if want[0] != "no_usable_index" && want[0] != "invalid_index" {
			s.Fails("POST /db/_explain "+body, 400, want[0], want[1])
		}
	}
	s.Fails("GET /db/_find", 405, "method_not_allowed", "Only POST allowed")
	s.Fails(`POST /none/_find {"selector":{}}`, 404, "not_found", "Database does not exist.")
	s.Fails(`POST /none/_find {"selector":{"_id":5}}`, 404, "not_found", "Database does not exist.")
	s.Fails(`POST /none/_explain {"selector":{}}`, 404, "not_found", "Database does not exist.")
}

// TestIndexes: there is one index, and no other can be made.
func TestIndexes(t *testing.T) {
	s := found(t)
	all := `{"ddoc":null,"name":"_all_docs","type":"special","def":{"fields":[{"_id":"asc"}]}}`
	s.Want("GET /db/_index", 200, `{"total_rows":1,"indexes":[`+all+`]}`)
	s.Want("GET /db/_index?skip=1", 200, `{"total_rows":1,"indexes":[]}`)
	s.Fails("GET /db/_index?limit=x", 400, "query_parse_error", "limit must be an integer")
	s.Fails("GET /db/_index?limit=0", 400, "query_parse_error", "limit must be at least 1")
	s.Fails("GET /none/_index", 404, "not_found", "Database does not exist.")
	s.Fails("DELETE /db/_index/_design/d/json/x", 404, "not_found", "missing")
	s.Fails(`POST /db/_index {}`, 400, "missing_required_key", "Missing required key: index")
	s.Fails(`POST /db/_index []`, 400, "bad_request", "Request body must be a JSON object")
	s.Fails(`POST /db/_index {"index":{"fields":["n"]}}`, 501, "not_implemented",
		"this service keeps no indexes of documents: _find looks at all of them, and sorts by _id")
	opts := func(index, sort string) string {
		return `"opts":{"use_index":[` + index + `],"bookmark":"nil","limit":25,"skip":0,"sort":{` + sort +
			`},"fields":[],` +
			`"partition":"","r":1,"conflicts":false,"stale":false,"update":true,"stable":false,` +
			`"execution_stats":false,"allow_fallback":true},"limit":25,"skip":0,"fields":[],`
	}
	view := func(start, end, direction string) string {
		return `"mrargs":{"include_docs":true,"view_type":"map","reduce":false,"partition":null,"start_key":` + start +
			`,"end_key":` + end + `,"direction":"` + direction +
			`","stable":false,"update":true,"conflicts":"undefined"},` +
			`"covering":false}`
	}
	hints := func(fields string) string {
		return `"selector_hints":[{"type":"json","indexable_fields":[` + fields + `],"unindexable_fields":[]}]`
	}
	head := `{"dbname":"db","index":` + all + `,"partitioned":false,`
	for body, want := range map[string]string{
		`{"selector":{"n":{"$gt":1}},"use_index":"foo"}`: head + `"selector":{"n":{"$gt":1}},` + opts(`"foo"`, "") +
			`"index_candidates":[],` + hints(`"n"`) + "," + view("null", `"<MAX>"`, "fwd"),
		`{"selector":{"_id":{"$gt":"a","$lte":"q"}},"sort":[{"_id":"desc"}]}`: head +
			`"selector":{"$and":[{"_id":{"$gt":"a"}},{"_id":{"$lte":"q"}}]},` + opts("", `"_id":"desc"`) +
			`"index_candidates":[],` + hints(`"_id"`) + "," + view(`"q"`, `"a"`, "rev"),
		`{"selector":{"n":1},"sort":["_id"]}`: `{"dbname":"db","index":null,"partitioned":false,` +
			`"selector":{"n":{"$eq":1}},` +
			opts("", `"_id":"asc"`) + `"index_candidates":[{"index":` + all + `,"analysis":{"usable":false,` +
			`"reasons":[{"name":"field_mismatch"}],"ranking":1,"covering":null}}],` + hints(`"n"`) + `}`,
	} {
		s.Want("POST /db/_explain "+body, 200, want)
	}
}

// TestCostlySelector: a selector that takes too long for one document is refused, with the document's name, also when
// other documents were found before.
func TestCostlySelector(t *testing.T) {
	s := newSite(t)
	s.Want(`PUT /db/big {"x":[`+strings.Repeat(`{"b":2},`, 5000)+`{"b":1}]}`, 201,
		`{"ok":true,"id":"big","rev":"1-*"}`)
	body := `{"selector":{"x":{"$allMatch":{"$or":[` + strings.Repeat(`{"a":1},`, 5000) + `{"b":2}]}}}}`
	reason := "`selector`, for document \\\"big\\\": the selector takes more than "
	for _, route := range []string{"_find", "_changes?filter=_selector", "_changes?filter=_selector&feed=continuous"} {
		answer := s.Ask("POST /db/" + route + " " + body)
		status := answer.StatusCode
		text := s.Text(answer)
		if status != 400 || !strings.HasPrefix(text, `{"error":"too_costly","reason":"`+reason) {
			t.Errorf("%s: %d %s", route, status, text)
		}
	}
	s.Want(`PUT /db/a {"x":[{"b":2}]}`, 201, `{"ok":true,"id":"a","rev":"1-*"}`)
	raw, err := io.ReadAll(s.Ask("POST /db/_find " + body).Body)
	found, reason, _ := strings.Cut(string(raw), "\n\n")
	if err == nil || !strings.HasPrefix(found, `{"docs":[`) || !strings.HasPrefix(reason, `{"error":"too_costly",`) {
		t.Errorf("%s, %v", raw, err)
	}
}
