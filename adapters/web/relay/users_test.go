package relay

import (
	"net/http/httptest"
	"strings"
	"testing"

	"couchrelay/adapters/web/webtest"
)

// TestHiddenUsers: no answer tells a user whether there is another one with a name.
func TestHiddenUsers(t *testing.T) {
	s := newSite(t)
	s.must('A', "PUT", "/_users", "")
	s.must('A', "PUT", "/_users/_security", `{}`)
	const path, own = "/_users/org.couchdb.user:", `{"name":"mem","type":"user","roles":[]}`
	s.must('M', "PUT", path+"mem", own)
	s.must('A', "PUT", path+"bob", `{"name":"bob","type":"user","roles":[]}`)
	w := s.ask('A', "GET", path+"bob", "")
	rev := strings.Trim(w.Header().Get("ETag"), `"`)
	const doc = `{"_id":"org.couchdb.user:NAME","name":"NAME","type":"user","roles":[]}`
	for _, request := range []string{
		"GET DOC", "GET DOC?rev=REV", "GET DOC?open_revs=all", `GET DOC?open_revs=["REV"]`, "GET DOC/file",
		`GET DOC?latest=true&open_revs=["1-aa"]`,
		"DELETE DOC", "DELETE DOC?rev=REV", "DELETE DOC/file", "DELETE DOC/file?rev=REV",
		"PUT DOC " + doc, "PUT DOC?rev=REV " + doc, "PUT DOC/file x", "PUT DOC/file?rev=REV x", "POST /_users " + doc,
		`POST /_users/_bulk_docs {"docs":[` + own + "," + doc + "]}",
		`POST /_users/_bulk_docs {"new_edits":false,"docs":[` + strings.Replace(doc, "{", `{"_rev":"REV",`, 1) + "]}",
		`POST /_users/_bulk_get {"docs":[{"id":"org.couchdb.user:NAME"},{"id":"org.couchdb.user:NAME","rev":"REV"}]}`,
		"COPY DOC", "COPY DOC?rev=REV", "COPY /_users/org.couchdb.user:mem",
	} {
		answer := func(name string) string {
			text := strings.NewReplacer("DOC", path+"NAME", "REV", rev).Replace(request)
			method, rest, _ := strings.Cut(strings.ReplaceAll(text, "NAME", name), " ")
			at, body, _ := strings.Cut(rest, " ")
			q := s.request('M', method, strings.ReplaceAll(at, `"`, "%22"), body)
			q.Header.Set("Destination", "org.couchdb.user:"+name)
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, q)
			return strings.ReplaceAll(webtest.Plain(w.Result().Status+" "+w.Body.String()), name, "NAME")
		}
		if there, missing := answer("bob"), answer("eve"); there != missing {
			t.Errorf("%s\n of a user that there is: %s of another: %s", request, there, missing)
		}
	}
}

// TestTooManyPasswords: a refusal says that it is about passwords, and how many, or how long ones, are accepted.
func TestTooManyPasswords(t *testing.T) {
	s := newSite(t)
	if err := s.service.Login.Configure(map[string]string{"adm": "secret"}, quick()); err != nil {
		t.Fatal(err)
	}
	s.must('A', "PUT", "/_users", "")
	user := `{"_id":"org.couchdb.user:a","type":"user","name":"a","roles":[],"password":"p"}`
	many := strings.Repeat(user+",", maxPasswords) + user
	for body, want := range map[string]string{
		many: "a request may have 100 documents with a `password`",
		strings.Replace(user, `"p"`, `"`+strings.Repeat("p", 10_001)+`"`, 1): "a `password` may have 10000 bytes",
	} {
		w := s.ask('A', "POST", "/_users/_bulk_docs", `{"docs":[`+body+`]}`)
		if w.Code != 413 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}
