package couchdb

import (
	"strings"
	"testing"
)

// TestCopy: answers are those of CouchDB 3.5.
func TestCopy(t *testing.T) {
	s := newSite(t)
	s.Want(`PUT /db/a {"n":1}`, 201, `{"ok":true,"id":"a","rev":"1-*"}`)
	copies := func(path, to, id, rev string) {
		t.Helper()
		s.Want("COPY /db/"+path, 201, `{"ok":true,"id":"`+id+`","rev":"`+rev+`"}`, "Destination", to)
	}
	fails := func(path, to string, status int, name, reason string) {
		t.Helper()
		s.Fails("COPY /db/"+path, status, name, reason, "Destination", to)
	}
	copies("a", "b", "b", "1-*")
	s.Want("GET /db/b", 200, `{"_id":"b","_rev":"1-*","n":1}`)
	fails("a", "b", 409, "conflict", "Document update conflict.")
	fails("a", "b?rev=1-ff", 409, "conflict", "Document update conflict.")
	s.Want("GET /db/b", 200, `{"_id":"b","_rev":"1-*","n":1}`)
	copies("a", "b?rev="+s.Rev, "b", "2-*")
	copies("a", "c%20d", "c d", "1-*")
	copies("a", "e+f%2Bg", "e f+g", "1-*")
	copies("a", "../x", "../x", "1-*")
	copies("a", "_design/d", "_design/d", "1-*")
	copies("a", "_local/l", "_local/l", "0-1")
	copies("_local/l", "_local/m", "_local/m", "0-1")
	copies("_local/l", "from-local", "from-local", "1-*")
	fails("nope", "x", 404, "not_found", "missing")
	fails("a?rev=1-aa", "x", 404, "not_found", "missing")
	fails("a?rev=x", "x", 400, "bad_request", "Invalid rev format")
	fails("a", "b?rev=x", 400, "bad_request", "Invalid rev format")
	fails("a", "b?rev=", 400, "bad_request", "Invalid rev format")
	fails("a", "b?x=1", 400, "bad_request", "Destination may have ?rev=REVISION and no other parameter")
	fails("a", "%zz", 400, "bad_request", "Destination has a malformed escape")
	fails("a", "http://h/db/x", 400, "bad_request", "Destination URL must be relative.")
	fails("a", "_x", 400, "illegal_docid", "Only reserved document ids may start with underscore.")
	s.Fails("COPY /db/a", 400, "bad_request", "Destination header is mandatory for COPY.")
	answer := s.Ask("COPY /db/a", "Destination", "e/f")
	if place := answer.Header.Get("Location"); !strings.HasSuffix(place, "/db/e%2Ff") ||
		answer.Header.Get("ETag") == "" {
		t.Error(answer.Header)
	}
}

// TestCopyAttachments: the copy has the bytes, and keeps them when the first document goes.
func TestCopyAttachments(t *testing.T) {
	s := newSite(t)
	long := strings.Repeat("long ", 60_000)
	s.Want("PUT /db/a/long "+long, 201, `{"ok":true,"id":"a","rev":"1-*"}`)
	s.Want("PUT /db/a/short?rev="+s.Rev+" x", 201, `{"ok":true,"id":"a","rev":"2-*"}`)
	rev := s.Rev
	s.Want("COPY /db/a", 201, `{"ok":true,"id":"b","rev":"1-*"}`, "Destination", "b")
	s.Want("DELETE /db/a?rev="+rev, 200, `{"ok":true,"id":"a","rev":"3-*"}`)
	s.Want("GET /db/b/long", 200, long)
	s.Want("GET /db/b/short", 200, "x")
	s.Fails("COPY /db/b", 400, "bad_request", "_local documents do not accept attachments.", "Destination", "_local/x")
}

// TestMaintenance: what administrators and older clients ask of every database.
func TestMaintenance(t *testing.T) {
	s := newSite(t)
	s.Want(`PUT /db/a {"n":1}`, 201, `{"ok":true,"id":"a","rev":"1-*"}`)
	s.Want(`PUT /db/_design/d {}`, 201, `{"ok":true,"id":"_design/d","rev":"1-*"}`)
	for _, path := range []string{"/db/_compact", "/db/_compact/d", "/db/_view_cleanup"} {
		s.Want("POST "+path, 202, `{"ok":true}`)
		s.Fails("GET "+path, 405, "method_not_allowed", "Only POST allowed")
		s.Fails("POST "+strings.Replace(path, "db", "gone", 1), 404, "not_found", "Database does not exist.")
	}
	s.Fails("POST /db/_compact", 415, "bad_content_type", "Content-Type must be application/json", "Content-Type",
		"text/plain")
	s.Fails("POST /db/_compact/none", 404, "not_found", "missing")
	s.Want(`POST /db/_missing_revs {"a":["1-aa","2-bb"],"x":["1-cc"],"y":[]}`, 200,
		`{"missing_revs":{"a":["1-aa","2-bb"],"x":["1-cc"]}}`)
	s.Want(`POST /db/_missing_revs {}`, 200, `{"missing_revs":{}}`)
	s.Fails(`POST /db/_missing_revs {"a":"x"}`, 400, "bad_request",
		"the revisions of a document must be an array of strings")
	s.Fails(`POST /db/_missing_revs {"a":["x"]}`, 400, "bad_request", "Invalid rev format")
	s.Fails(`POST /db/_temp_view {}`, 410, "gone", "Temporary views are not supported in CouchDB")
	s.Fails(`GET /db/_partition/x`, 400, "bad_request", "database is not partitioned")
	s.Want("GET /db/_purged_infos", 200, `{"purged_infos":[]}`)
	if text := s.Text(s.Ask(`POST /db/_purge {"a":["1-aa"]}`)); !strings.Contains(text, "not_implemented") ||
		!strings.Contains(text, "cannot be purged") {
		t.Error(text)
	}
}

// TestDatabasesInfo: databases by range and by name.
func TestDatabasesInfo(t *testing.T) {
	s := newSite(t)
	s.Want("PUT /other", 201, `{"ok":true}`)
	info := func(name string) string {
		return `{"key":"` + name + `","info":` + s.Text(s.Ask("GET /"+name)) + `}`
	}
	db, other := info("db"), info("other")
	for query, want := range map[string]string{
		"": db + "," + other, "?limit=1": db, "?skip=1": other, "?descending=true": other + "," + db,
		"?start_key=%22e%22": other, "?key=%22db%22": db, "?limit=0": "",
	} {
		s.Want("GET /_dbs_info"+query, 200, "["+want+"]")
	}
	s.Want(`POST /_dbs_info {"keys":["other","nope",1,"db"]}`, 200,
		"["+other+`,{"key":"nope","error":"not_found"},{"key":1,"error":"not_found"},`+db+"]")
	s.Fails("POST /_dbs_info {}", 400, "bad_request", "`keys` member must exist.")
	s.Fails(`POST /_dbs_info {"keys":"x"}`, 400, "bad_request", "`keys` member must be an array.")
	s.Fails("POST /_dbs_info []", 400, "bad_request", "Request body must be a JSON object")
	s.Fails(`POST /_dbs_info {"keys":[`+strings.Repeat("1,", 100)+`1]}`, 400, "bad_request",
		"`keys` may have 100 names of databases")
	s.Fails("GET /_dbs_info?limit=x", 400, "query_parse_error", "limit must be an integer")
	s.Fails("GET /_dbs_info?keys=1", 400, "query_parse_error", "keys must be in the body of a POST")
	s.Fails("PUT /_dbs_info", 405, "method_not_allowed", "Only GET,HEAD,POST allowed")
}
