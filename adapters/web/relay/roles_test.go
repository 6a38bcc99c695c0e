package relay

import (
	"strings"
	"testing"
)

// newUsersSite has an admin, and a database of users that everybody may write to.
func newUsersSite(t *testing.T) *site {
	s := newSite(t)
	if err := s.service.Login.Configure(map[string]string{"adm": "secret"}, quick()); err != nil {
		t.Fatal(err)
	}
	s.must('A', "PUT", "/_users", "")
	s.must('A', "PUT", "/_users/_security", `{}`)
	return s
}

// TestRolesAreNotSpelledAnotherWay: the roles that count are those that are checked when a user writes its document,
// and none that it adds under a name in other letters.
func TestRolesAreNotSpelledAnotherWay(t *testing.T) {
	s := newUsersSite(t)
	const body = `{"type":"user","name":"mem","roles":[],"Roles":["dev","_metrics"],"password":"pw"}`
	s.must('N', "PUT", "/_users/org.couchdb.user:mem", body)
	w := s.must('N', "POST", "/_session", `{"name":"mem","password":"pw"}`)
	if !strings.Contains(w.Body.String(), `{"ok":true,"name":"mem","roles":[]}`) {
		t.Errorf("%s", w.Body)
	}
}

// TestRolesStayAway: a user cannot keep roles that it had in a branch of its document for when an admin takes them
// away, nor fall back on those of a conflict.
func TestRolesStayAway(t *testing.T) {
	s := newUsersSite(t)
	const path, loser = "/_users/org.couchdb.user:mem", "1-00000000000000000000000000000000"
	rev := ""
	write := func(who rune, query, roles, more string, status int) {
		t.Helper()
		w := s.ask(who, "PUT", path+query, `{"type":"user","name":"mem","roles":`+roles+`,"password":"pw"`+more+`}`)
		if w.Code != status {
			t.Errorf("%c %s %s: %d %s", who, query, roles, w.Code, w.Body)
		}
		rev = strings.Trim(w.Header().Get("ETag"), `"`)
	}
	write('A', "", `["dev"]`, "", 201)
	write('M', "?new_edits=false", `["dev"]`, `,"_rev":"`+loser+`"`, 409)
	write('A', "?new_edits=false", `["dev"]`, `,"_rev":"`+loser+`"`, 201)
	w := s.must('A', "GET", path, "")
	write('A', "?rev="+strings.Trim(w.Header().Get("ETag"), `"`), `[]`, "", 201)
	winner := rev
	write('M', "?rev="+loser, `["dev"]`, "", 409)
	if w := s.ask('M', "DELETE", path+"?rev="+winner, ""); w.Code != 403 {
		t.Errorf("the winner is deleted: %d %s", w.Code, w.Body)
	}
	s.must('M', "DELETE", path+"?rev="+loser, "")
	write('M', "?rev="+winner, `[]`, "", 201)
	w = s.must('N', "POST", "/_session", `{"name":"mem","password":"pw"}`)
	if strings.Contains(w.Body.String(), "dev") {
		t.Errorf("%s", w.Body)
	}
	s.must('M', "DELETE", path+"?rev="+rev, "")
}

// TestRolesStayAwayByTwoEdits: a user does not fall back on the roles of a conflict by edits that no one of them
// could be on its own: a tombstone that is a branch of its own before the winner is put behind it, and an edit that
// becomes the winner before another one deletes it.
func TestRolesStayAwayByTwoEdits(t *testing.T) {
	s := newUsersSite(t)
	const path, loser = "/_users/org.couchdb.user:mem", "1-00000000000000000000000000000000"
	const key = `"type":"user","name":"mem","password":"pw"`
	s.must('A', "PUT", path, `{`+key+`,"roles":["dev"]}`)
	s.must('A', "PUT", path+"?new_edits=false", `{`+key+`,"roles":["dev"],"_rev":"`+loser+`"}`)
	w := s.must('A', "GET", path, "")
	w = s.must('A', "PUT", path, `{`+key+`,"roles":[],"_rev":`+w.Header().Get("ETag")+`}`)
	_, winner, _ := strings.Cut(strings.Trim(w.Header().Get("ETag"), `"`), "-")
	write := func(edits ...string) {
		t.Helper()
		body := `{"new_edits":false,"docs":[{"_id":"org.couchdb.user:mem",` +
			strings.Join(edits, `},{"_id":"org.couchdb.user:mem",`) + `}]}`
		s.must('M', "POST", "/_users/_bulk_docs", body)
		w := s.must('N', "POST", "/_session", `{"name":"mem","password":"pw"}`)
		if strings.Contains(w.Body.String(), "dev") {
			t.Errorf("after %s: %s", body, w.Body)
		}
	}
	write(`"_deleted":true,"_rev":"3-d"`)
	write(`"_deleted":true,"_revisions":{"start":3,"ids":["d","` + winner + `"]}`)
	write(`"_deleted":true,"_revisions":{"start":4,"ids":["e","d","` + winner + `"]}`)
	write(key+`,"roles":[],"_revisions":{"start":3,"ids":["a","`+winner+`"]}`,
		`"_deleted":true,"_revisions":{"start":4,"ids":["b","a","`+winner+`"]}`)
}
