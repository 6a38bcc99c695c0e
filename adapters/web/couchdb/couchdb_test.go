package couchdb

import (
	"fmt"
	"strings"
	"testing"

	"couchrelay/adapters/web/webtest"
	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"
)

// site is a server with a database called db.
type site struct{ *webtest.Site }

func newSite(t *testing.T, change ...func(o *Options)) *site {
	t.Helper()
	o := Options{Store: fakefdb.New(), Docs: docs.New(tuple.Subspace("docs")), UUID: "u"}
	for _, c := range change {
		c(&o)
	}
	s := &site{webtest.New(t, New(o))}
	s.Want("PUT /db", 201, `{"ok":true}`)
	return s
}

func TestServer(t *testing.T) {
	s := newSite(t)
	s.Want("GET /", 200,
		`{"couchdb":"Welcome","version":"3.5.0","uuid":"u","features":[],"vendor":{"name":"couchrelay"}}`)
	s.Want("GET /_up", 200, `{"status":"ok","seeds":{}}`)
	s.Want("GET /_uuids?count=2", 200, `{"uuids":["H","H"]}`)
	if got := s.Text(s.Ask("GET /_uuids?count=1000")); strings.Count(got, `"`) != 2+2*1000 {
		t.Errorf("a thousand ids: %.100s", got)
	}
	s.Fails("GET /_uuids?count=1001", 400, "bad_request", "count parameter too large")
	s.Fails("GET /_uuids?count=x", 400, "query_parse_error", "count must be an integer")
	for _, name := range []string{"a", "b%2Fc", "_users"} {
		s.Want("PUT /"+name, 201, `{"ok":true}`)
	}
	s.Want("GET /_all_dbs", 200, `["_users","a","b/c","db"]`)
	s.Want("GET /_all_dbs?limit=2&skip=1", 200, `["a","b/c"]`)
	s.Want("GET /_all_dbs?descending=true&start_key=%22b/c%22&end_key=%22_users%22&inclusive_end=false", 200,
		`["b/c","a"]`)
	s.Want("GET /_all_dbs?skip=9", 200, `[]`)
	s.Want("GET /_all_dbs?keys=%5B%22b/c%22,%22none%22,%22a%22%5D", 200, `["b/c","a"]`)
	s.Fails("GET /_all_dbs?keys=1", 400, "bad_request", "`keys` parameter must be an array.")
	s.Fails("GET /_all_dbs?descending=x", 400, "query_parse_error", "descending must be true or false")
	s.Fails("GET /_all_dbs?inclusive_end=x", 400, "query_parse_error", "inclusive_end must be true or false")
	s.Fails("GET /_db_updates", 501, "not_implemented", "this feature is not yet implemented")
	s.Fails("POST /_up", 405, "method_not_allowed", "Only GET,HEAD allowed")
	s.Fails("GET /_nope", 404, "not_found", "Database does not exist.")
	s.Fails("PUT /_nope", 400, "illegal_database_name",
		"Name: '_nope'. Only lowercase characters (a-z), digits (0-9), and any of the "+
			"characters _, $, (, ), +, -, and / are allowed. Must begin with a letter.")
	answer := s.Ask("HEAD /db")
	for _, name := range []string{"Server", "X-Couch-Request-ID", "X-CouchDB-Body-Time", "Content-Type"} {
		if answer.Header.Get(name) == "" {
			t.Errorf("no header %s", name)
		}
	}
}

func TestDatabase(t *testing.T) {
	s := newSite(t)
	s.Want("GET /db/", 200,
		`{"instance_start_time":T,"db_name":"db","purge_seq":"0","update_seq":S,`+
			`"sizes":{"file":0,"external":0,"active":0},"props":{},"doc_del_count":0,"doc_count":0,`+
			`"disk_format_version":8,"compact_running":false,"cluster":{"q":1,"n":1,"w":1,"r":1}}`)
	s.Fails("PUT /db", 412, "file_exists", "The database could not be created, the file already exists.")
	s.Fails("PATCH /db", 405, "method_not_allowed", "Only DELETE,GET,HEAD,POST,PUT allowed")
	s.Want("POST /db/_ensure_full_commit", 201, `{"ok":true,"instance_start_time":T}`)
	s.Want("GET /db/_security", 200, `{}`)
	s.Want(`PUT /db/_security {"admins": {"roles": []}}`, 200, `{"ok":true}`)
	s.Want("GET /db/_security", 200, `{"admins":{"roles":[]}}`)
	s.Fails("PUT /db/_security 3", 400, "bad_request", "the security object must be a JSON object")
	s.Want("PUT /db/_revs_limit 7", 200, `{"ok":true}`)
	s.Want("GET /db/_revs_limit", 200, `7`)
	s.Fails(`PUT /db/_revs_limit "x"`, 400, "bad_request", "revs_limit must be a positive integer")
	s.Fails("DELETE /db?rev=1-x", 400, "bad_request",
		"You tried to DELETE a database with a ?=rev parameter. Did you mean to DELETE a document instead?")
	s.Want("DELETE /db", 200, `{"ok":true}`)
	for _, request := range []string{
		"GET /db", "DELETE /db", "GET /db/a", "PUT /db/a {}", "GET /db/_changes", "GET /db/_all_docs",
		"POST /db/_revs_diff {}", `POST /db/_bulk_docs {"docs":[{}]}`, `POST /db/_bulk_get {"docs":[]}`,
		"GET /db/_security", "POST /db/_ensure_full_commit", "PUT /db/_revs_limit 3", "PUT /db/a/b x",
	} {
		s.Fails(request, 404, "not_found", "Database does not exist.")
	}
}

func TestDocument(t *testing.T) {
	s := newSite(t)
	s.Want(`PUT /db/a {"n":1}`, 201, `{"ok":true,"id":"a","rev":"1-*"}`)
	first := s.Rev
	answer := s.Ask("GET /db/a")
	if tag := answer.Header.Get("ETag"); tag != `"`+first+`"` {
		t.Errorf("ETag %s of %s", tag, first)
	}
	s.Want("GET /db/a", 304, "", "If-None-Match", `"x", "`+first+`"`)
	s.Want("GET /db/a?rev=$rev&revs=true", 200, `{"_id":"a","_rev":"1-*","n":1,"_revisions":{"start":1,"ids":["H"]}}`)
	s.Want("GET /db/a?meta=true&local_seq=true", 200,
		`{"_id":"a","_rev":"1-*","n":1,"_revs_info":[{"rev":"1-*","status":"available"}],"_local_seq":S}`)
	s.Want("HEAD /db/a", 200, "")
	s.Fails("PUT /db/a {}", 409, "conflict", "Document update conflict.")
	s.Rev = first
	s.Fails(`PUT /db/a?rev=1-x {"_rev":"$rev"}`, 400, "bad_request",
		"Document rev from request body and query string have different values")
	s.Fails(`PUT /db/a?rev=1-x {}`, 400, "bad_request", "Document rev and etag have different values", "If-Match",
		first)
	s.Want(`PUT /db/a {"n":2}`, 201, `{"ok":true,"id":"a","rev":"2-*"}`, "If-Match", `"`+first+`"`)
	s.Want(`PUT /db/a?rev=$rev {"n":3}`, 201, `{"ok":true,"id":"a","rev":"3-*"}`)
	s.Fails("DELETE /db/a", 409, "conflict", "Document update conflict.")
	s.Want("GET /db/a", 200, `{"_id":"a","_rev":"3-*","n":3}`)
	s.Want("DELETE /db/a?rev=$rev", 200, `{"ok":true,"id":"a","rev":"4-*"}`)
	s.Fails("GET /db/a", 404, "not_found", "deleted")
	s.Want("GET /db/a?deleted=true", 200, `{"_id":"a","_rev":"4-*","_deleted":true}`)
	s.Fails("DELETE /db/a?rev=$rev", 404, "not_found", "deleted")
	s.Want(`POST /db {"_id":"p"}`, 201, `{"ok":true,"id":"p","rev":"1-*"}`)
	s.Want(`POST /db {}`, 201, `{"ok":true,"id":"H","rev":"1-*"}`)
	s.Want(`PUT /db/p {"_rev":"$rev","_deleted":true}`, 200,
		`{"ok":true,"id":"p","rev":"2-*"}`) // equal documents have equal revisions
	s.Want(`PUT /db/b%2Fc%20%C3%A9?x=1 {"_id":"other"}`, 201, `{"ok":true,"id":"b/c é","rev":"1-*"}`)
	s.Want("GET /db/b%2Fc%20%C3%A9", 200, `{"_id":"b/c é","_rev":"1-*"}`)
	if location := s.Ask("PUT /db/l%2Bm {}").Header.Get("Location"); location != s.URL+"/db/l%2Bm" {
		t.Errorf("Location is %s", location)
	}
	if location := s.Ask("PUT /db/l%2Fm {}").Header.Get("Location"); location != s.URL+"/db/l%2Fm" {
		t.Errorf("location %s", location)
	}
	for _, request := range []string{`PUT /db/_design/d {"x":1}`, `PUT /db/_design%2Fe {"x":1}`} {
		id := "_design/" + string(request[len(request)-9])
		s.Want(request, 201, `{"ok":true,"id":"`+id+`","rev":"1-*"}`)
		s.Want("GET /db/"+id, 200, `{"_id":"`+id+`","_rev":"1-*","x":1}`)
	}
	s.Fails("GET /db/_design/d/_view/v", 501, "not_implemented", "this service runs no views, shows, lists, updates "+
		"and rewrites of design documents; _all_docs, _changes and _find show its documents")
}

func TestReplicatedDocument(t *testing.T) {
	s := newSite(t)
	s.Want(`PUT /db/c?new_edits=false {"_revisions":{"start":3,"ids":["c","b","a"]},"n":3}`, 201,
		`{"ok":true,"id":"c","rev":"3-c"}`)
	s.Want(`PUT /db/c?new_edits=false {"_rev":"2-x","_revisions":{"start":2,"ids":["x","a"]},"n":2}`, 201,
		`{"ok":true,"id":"c","rev":"2-x"}`)
	s.Want(`PUT /db/c?new_edits=false&rev=3-y {"_deleted":true}`, 200, `{"ok":true,"id":"c","rev":"3-y"}`)
	s.Fails(`PUT /db/c?new_edits=false {}`, 400, "bad_request",
		"When `new_edits: false`, the document needs `_rev` or `_revisions` specified")
	s.Want("GET /db/c?conflicts=true&deleted_conflicts=true", 200,
		`{"_id":"c","_rev":"3-c","n":3,"_conflicts":["2-x"],"_deleted_conflicts":["3-y"]}`)
	s.Want("GET /db/c?open_revs=all", 200,
		`[{"ok":{"_id":"c","_rev":"3-c","n":3}},{"ok":{"_id":"c","_rev":"2-x","n":2}},`+
			`{"ok":{"_id":"c","_rev":"3-y","_deleted":true}}]`)
	s.Want("GET /db/c?open_revs=%5B%222-b%22,%229-z%22%5D&latest=true&revs=true", 200,
		`[{"ok":{"_id":"c","_rev":"3-c","n":3,"_revisions":{"start":3,"ids":["c","b","a"]}}},{"missing":"9-z"}]`)
	s.Want("GET /db/c?open_revs=[]", 200, `{"_id":"c","_rev":"3-c","n":3}`)
	s.Want("GET /db/c?rev=2-b&latest=true", 200, `{"_id":"c","_rev":"3-c","n":3}`)
	s.Fails("GET /db/c?rev=2-b", 404, "not_found", "missing")
	s.Fails("GET /db/nope?open_revs=all", 404, "not_found", "missing")
	s.Want("GET /db/nope?open_revs=%5B%221-a%22%5D", 200, `[{"missing":"1-a"}]`)
	s.Fails("GET /db/c?open_revs=x", 400, "bad_request", "invalid UTF-8 JSON")
	s.Fails("GET /db/c?open_revs=%5B1%5D", 400, "bad_request", "Invalid rev format")
	s.Fails("GET /db/c?rev=x", 400, "bad_request", "Invalid rev format")
	mixed := s.Ask("GET /db/c?open_revs=%5B%223-c%22,%229-z%22%5D", "Accept", "multipart/mixed")
	parts := "--H\r\nContent-Type: application/json\r\n\r\n" + `{"_id":"c","_rev":"3-c","n":3}` +
		"\r\n--H\r\nContent-Type: application/json; error=\"true\"\r\n\r\n" + `{"missing":"9-z"}` + "\r\n--H--"
	if got := s.Text(mixed); mixed.Header.Get("Content-Type")[:25] != `multipart/mixed; boundary` || got != parts {
		t.Errorf("%s %s", mixed.Header.Get("Content-Type"), got)
	}
}

func TestLocalDocument(t *testing.T) {
	s := newSite(t)
	s.Want(`PUT /db/_local/a {"n":1}`, 201, `{"ok":true,"id":"_local/a","rev":"0-1"}`)
	s.Fails(`PUT /db/_local/a {"n":2}`, 409, "conflict", "Document update conflict.")
	s.Want(`PUT /db/_local/a {"n":2,"_rev":"0-1","_revisions":{"start":0,"ids":["1"]}}`, 201,
		`{"ok":true,"id":"_local/a","rev":"0-2"}`)
	s.Want("GET /db/_local%2Fa", 200, `{"_id":"_local/a","_rev":"0-2","n":2}`)
	s.Fails("GET /db/_local/nope", 404, "not_found", "missing")
	s.Want("DELETE /db/_local/a?rev=0-2", 200, `{"ok":true,"id":"_local/a","rev":"0-0"}`)
	s.Fails("DELETE /db/_local/a?rev=0-2", 404, "not_found", "missing")
	s.Fails("GET /db/_local", 400, "bad_request", "Invalid _local document id.")
	s.Fails("PUT /db/_local/a/att x", 400, "bad_request", "_local documents do not accept attachments.")
}

func TestBulk(t *testing.T) {
	s := newSite(t)
	s.Want(`POST /db/_bulk_docs {"docs":[{"_id":"a","n":1},{"_id":"a"},{"_id":"_local/l"},{}]}`, 201,
		`[{"ok":true,"id":"a","rev":"1-*"},{"id":"a","error":"conflict","reason":"Document update conflict."},`+
			`{"ok":true,"id":"_local/l","rev":"0-1"},{"ok":true,"id":"H","rev":"1-*"}]`)
	s.Want(`POST /db/_bulk_docs {"docs":[{"_id":"c","_revisions":{"start":2,"ids":["b","a"]}},`+
		`{"_id":"c","_rev":"2-b"},{"_id":"d","_rev":"1-d","_attachments":{"f":{"stub":true}}}],"new_edits":false}`,
		201, `[{"id":"d","rev":"1-d","error":"missing_stub","reason":"Invalid attachment stub in d for f"}]`)
	s.Want(`POST /db/_bulk_docs {"docs":[]}`, 201, `[]`)
	for body, reason := range map[string]string{
		`{}`: "POST body must include `docs` parameter.", `{"docs":3}`: "`docs` parameter must be an array.",
		`[]`:                          "Request body must be a JSON object",
		`{"docs":[3]}`:                "Document must be a JSON object",
		`{"docs":[{}],"new_edits":3}`: "`new_edits` parameter must be a boolean.", `{"docs":[{}]`: "invalid UTF-8 JSON",
		`{"docs":[{},`: "invalid UTF-8 JSON", ``: "invalid UTF-8 JSON", `{"docs":[{}]} x`: "invalid UTF-8 JSON",
		`{"docs":[{"_id":"x"}],"new_edits":false}`: "When `new_edits: false`, " +
			"the document needs `_rev` or `_revisions` specified",
	} {
		s.Fails("POST /db/_bulk_docs "+body, 400, "bad_request", reason)
	}
	s.Fails(`POST /db/_bulk_docs {"docs":[{"_x":1}]}`, 400, "doc_validation", "Bad special document member: _x")
	s.Fails(`POST /db/_bulk_docs {"docs":[],"all_or_nothing":true}`, 501, "not_implemented",
		"this feature is not yet implemented")
	s.Want(`POST /db/_bulk_docs {"all_or_nothing":false,"docs":[],"w":1}`, 201, `[]`)
	s.Fails(`POST /db/_bulk_docs {"docs":[]}`, 415, "bad_content_type", "Content-Type must be application/json",
		"Content-Type", "text/plain")

	found := `{"id":"c","docs":[{"ok":{"_id":"c","_rev":"2-b","_revisions":{"start":2,"ids":["b","a"]}}}]},`
	s.Want(`POST /db/_bulk_get?revs=true&latest=true {"docs":[{"id":"c"},{"id":"c","rev":"1-a","atts_since":[]},`+
		`{"id":"c","rev":"1-z"},{"id":"nope"},{"id":"c","rev":"x"},{"rev":"1-a"}]}`, 200, `{"results":[`+found+found+
		`{"id":"c","docs":[{"error":{"id":"c","rev":"1-z","error":"not_found","reason":"missing"}}]},`+
		`{"id":"nope","docs":[{"error":{"id":"nope","rev":"undefined","error":"not_found","reason":"missing"}}]},`+
		`{"id":"c","docs":[{"error":{"id":"c","rev":"x","error":"bad_request","reason":"Invalid rev format"}}]},`+
		`{"id":"","docs":[{"error":{"id":"","rev":"undefined",`+
		`"error":"bad_request","reason":"document id missed"}}]}]}`)
	s.Want(`POST /db/_bulk_get {"docs":[]}`, 200, `{"results":[]}`)
	s.Fails(`POST /db/_bulk_get {}`, 400, "bad_request", "Missing JSON list of 'docs'.")
	s.Fails(`POST /db/_bulk_get?rev=1-a {"docs":[]}`, 400, "bad_request", `\"rev\" query parameter is not acceptable`)
	s.Fails(`POST /db/_bulk_get {"docs":[{"id":3}]}`, 400, "bad_request",
		"an element of `docs` must have the strings id and rev and the array atts_since")

	s.Want(`POST /db/_revs_diff {"c":["2-b","3-x"],"a":[],"q":["1-z","2-y"]}`, 200,
		`{"c":{"missing":["3-x"],"possible_ancestors":["2-b"]},"q":{"missing":["1-z","2-y"]}}`)
	s.Want(`POST /db/_revs_diff {}`, 200, `{}`)
	s.Fails(`POST /db/_revs_diff {"c":["x"]}`, 400, "bad_request", "Invalid rev format")
	s.Fails(`POST /db/_revs_diff {"c":"x"}`, 400, "bad_request",
		"the revisions of a document must be an array of strings")
}

func TestAllDocs(t *testing.T) {
	s := newSite(t)
	s.Want(`POST /db/_bulk_docs {"new_edits":false,"docs":[{"_id":"a","_rev":"1-a","n":1},{"_id":"b","_rev":"1-b"},`+
		`{"_id":"c","_rev":"1-c"},{"_id":"x","_rev":"1-x","_deleted":true}]}`, 201, `[]`)
	row := func(ids ...string) string {
		var rows []string
		for _, id := range ids {
			rows = append(rows, `{"id":"`+id+`","key":"`+id+`","value":{"rev":"1-`+id+`"}}`)
		}
		return strings.Join(rows, ",\r\n")
	}
	for query, want := range map[string]string{
		"":                                 `"offset":0,"rows":[` + "\n" + row("a", "b", "c"),
		"?limit=2&skip=1":                  `"offset":1,"rows":[` + "\n" + row("b", "c"),
		"?limit=0":                         `"offset":0,"rows":[` + "\n",
		"?skip=9":                          `"offset":3,"rows":[` + "\n",
		"?descending=true&limit=1":         `"offset":0,"rows":[` + "\n" + row("c"),
		"?start_key=%22b%22":               `"offset":null,"rows":[` + "\n" + row("b", "c"),
		"?startkey=%22a%22&endkey=%22b%22": `"offset":null,"rows":[` + "\n" + row("a", "b"),
		"?end_key=%22b%22&inclusive_end=false&include_docs=false": `"offset":0,"rows":[` + "\n" + row("a"),
		"?key=%22b%22":    `"offset":null,"rows":[` + "\n" + row("b"),
		"?key=3":          `"offset":null,"rows":[` + "\n",
		"?start_key=3":    `"offset":0,"rows":[` + "\n" + row("a", "b", "c"),
		"?end_key=%7B%7D": `"offset":null,"rows":[` + "\n",
		"?descending=true&start_key=%22b%22&end_key=%22a%22&inclusive_end=false": `"offset":null,"rows":[` +
			"\n" + row("b"),
		"?include_docs=true&limit=1": `"offset":0,"rows":[` + "\n" + strings.TrimSuffix(row("a"),
			"}") + `,"doc":{"_id":"a","_rev":"1-a","n":1}}`,
		"?include_docs=true&limit=1&skip=1": `"offset":1,"rows":[` + "\n" + strings.TrimSuffix(row("b"),
			"}") + `,"doc":{"_id":"b","_rev":"1-b"}}`,
		"?keys=%5B%22c%22,%22nope%22,3,%22x%22%5D": `"offset":null,"rows":[` + "\n" + row("c") + ",\r\n" +
			`{"key":"nope","error":"not_found"},` + "\r\n" + `{"key":3,"error":"not_found"},` + "\r\n" +
			`{"id":"x","key":"x","value":{"rev":"1-x","deleted":true}}`,
		"?keys=%5B%22x%22%5D&skip=2": `"offset":null,"rows":[` + "\n",
		"?keys=%5B%22x%22,%22b%22%5D&include_docs=true&skip=0&limit=1": `"offset":null,"rows":[` + "\n" +
			`{"id":"x","key":"x","value":{"rev":"1-x","deleted":true},"doc":null}`,
	} {
		want = `{"total_rows":3,` + want + "\n]}"
		s.Want("GET /db/_all_docs"+query, 200, want)
		s.Want("POST /db/_all_docs"+query+" {}", 200, want)
	}
	s.Want(`POST /db/_all_docs {"keys":["b"],"include_docs":false}`, 200,
		`{"total_rows":3,"offset":null,"rows":[`+"\n"+row("b")+"\n]}")
	s.Want(`POST /db/_all_docs {"start_key":"b","limit":1}`, 200,
		`{"total_rows":3,"offset":null,"rows":[`+"\n"+row("b")+"\n]}")
	s.Fails(`POST /db/_all_docs {"keys":3}`, 400, "bad_request", "`keys` parameter must be an array.")
	s.Fails("GET /db/_all_docs?limit=-1", 400, "query_parse_error", "limit not in range of [0,infinity]")
	s.Fails("GET /db/_all_docs?key=x", 400, "bad_request", "key must be JSON: the id of a document in double quotes")
}

// TestManyDocuments asks for more than one transaction reads.
func TestManyDocuments(t *testing.T) {
	s := newSite(t)
	many(s, 450)
	var ids, get, diff []string
	for i := range 450 {
		ids = append(ids, fmt.Sprintf(`"%d"`, i))
		get = append(get, fmt.Sprintf(`{"id":"%d"}`, i))
		diff = append(diff, fmt.Sprintf(`"%d":["1-x","1-y"]`, i))
	}
	for request, mark := range map[string]string{
		`POST /db/_all_docs {"keys":[` + strings.Join(ids, ",") + `]}`:           `"value":{"rev":"1-x"}`,
		`POST /db/_bulk_get {"docs":[` + strings.Join(get, ",") + `]}`:           `{"ok":{"_id":`,
		`POST /db/_revs_diff {` + strings.Join(diff, ",") + `}`:                  `{"missing":["1-y"]}`,
		`GET /db/_all_docs?include_docs=true`:                                    `"doc":{"_id":`,
		`GET /db/_changes?include_docs=true`:                                     `"doc":{"_id":`,
		`GET /db/_all_docs?include_docs=true&skip=1&limit=450&start_key=%220%22`: `"doc":{"_id":`,
		`GET /db/_all_docs?include_docs=true&skip=150&limit=200&descending=true`: `"doc":{"_id":`,
	} {
		want := 450
		if strings.Contains(request, "skip=150") {
			want = 200
		} else if strings.Contains(request, "skip=1&") {
			want = 449
		}
		if n := strings.Count(s.Text(s.Ask(request)), mark); n != want {
			t.Errorf("%.60s: %d, want %d", request, n, want)
		}
	}
}

// TestManyDatabases lists more names than one transaction reads.
func TestManyDatabases(t *testing.T) {
	var o Options
	s := newSite(t, func(opts *Options) { o = *opts })
	err := kv.Do(t.Context(), o.Store, func(tx kv.Tx) error {
		for i := range 1500 {
			if err := o.Docs.Create(tx, fmt.Sprintf("n%d", i), tuple.UUID{byte(i), byte(i >> 8), 1}, 1); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(s.Text(s.Ask("GET /_all_dbs")), `"n`); n != 1500 {
		t.Errorf("%d names", n)
	}
}
