package relay

import (
	"strings"
	"testing"

	"couchrelay/adapters/javascript"
)

// TestUsersAreValidated: functions of design documents of _users are asked about users, once their passwords are keys.
// Answers are those of CouchDB 3.5.
func TestUsersAreValidated(t *testing.T) {
	s := newSite(t)
	s.service.Store.Functions = javascript.New()
	if err := s.service.Login.Configure(map[string]string{"adm": "secret"}, quick()); err != nil {
		t.Fatal(err)
	}
	s.must('A', "PUT", "/_users", "")
	s.must('A', "PUT", "/_users/_security", `{}`)
	s.must('A', "PUT", "/_users/_design/v",
		`{"validate_doc_update":"function(n, o, u, s) { if (n.tells) { throw({forbidden:`+
			` [n.password, typeof n.derived_key, o && o.name, u.db, u.name, toJSON(u.roles)].join()}) }`+
			` if (n.bad) { throw({unauthorized: 'bad'}) } }"}`)
	const path = "/_users/org.couchdb.user:"
	user := func(name, more string) string {
		return `{"type":"user","name":"` + name + `","roles":[],"password":"planted"` + more + `}`
	}
	rev := strings.Trim(s.must('A', "PUT", path+"mem", user("mem", "")).Header().Get("ETag"), `"`)
	for _, c := range []struct {
		who        rune
		path, body string
		status     int
		want       string
	}{
		{'A', path + "a", user("a", `,"tells":true`), 403, `",string,,_users,adm,[\"_admin\"]"`},
		{'M', path + "mem?rev=" + rev, user("mem", `,"tells":true`), 403, `",string,mem,_users,mem,[]"`},
		{'N', path + "new", user("new", `,"tells":true`), 403, `",string,,_users,,[]"`},
		{'A', path + "a", user("a", `,"bad":1`), 401, `"bad"`},
		{'A', path + "a", `{"type":"user","name":"a","bad":1}`, 403, "roles"},
		{'A', path + "a?new_edits=false", user("a", `,"bad":1,"_rev":"1-aa"`), 401, `"bad"`},
		{'A', "/_users/_design/w", `{"validate_doc_update":5}`, 400, "must have string type"},
		{'A', "/_users/_local/x", `{"bad":1}`, 201, ""},
		{'A', "/_users/_design/w", `{"bad":1}`, 201, ""},
		{'M', "/_users/_design/x", `{}`, 404, ""},
		{'A', path + "a", user("a", ""), 201, ""},
	} {
		if w := s.ask(c.who, "PUT", c.path, c.body); w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%c %s %s: %d %s", c.who, c.path, c.body, w.Code, w.Body)
		}
	}
	var many []string
	for _, name := range strings.Split("bcdefghijklmnop", "") {
		more := `,"_id":"org.couchdb.user:` + name + `"`
		if name == "k" {
			more += `,"bad":1`
		}
		many = append(many, strings.ReplaceAll(user(name, more), `"password":"planted",`, ""))
	}
	w := s.must('A', "POST", "/_users/_bulk_docs", `{"docs":[`+strings.Join(many, ",")+`]}`)
	if text := w.Body.String(); strings.Count(text, `"ok":true`) != 14 || strings.Count(text, `"reason":"bad"`) != 1 {
		t.Errorf("%s", text)
	}
	s.service.Store.Functions = nil
	if w := s.ask('A', "PUT", path+"z", user("z", "")); w.Code != 500 ||
		!strings.Contains(w.Body.String(), "unknown_query") {
		t.Errorf("written without asking: %d %s", w.Code, w.Body)
	}
}
