package relay

import (
	"bufio"
	"net/http/httptest"
	"strings"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// TestSelectorsSeeWhatReadersSee: a selector finds no secret out by whether a document comes.
func TestSelectorsSeeWhatReadersSee(t *testing.T) {
	s := newSite(t)
	for selector, sees := range map[string]string{
		`{"source.headers.X-Key":"planted"}`:      "ODA",
		`{"source.headers.X-Key":{"$gt":"pl"}}`:   "ODA",
		`{"target":{"$regex":"planted"}}`:         "ODA",
		`{"target":{"$regex":"^http://h/b$"}}`:    "MX",
		`{"source.headers":{"$exists":false}}`:    "MX",
		`{"target":"http://h/y","owner":"oth"}`:   "", // another document
		`{"source.url":"http://h/a","_id":"doc"}`: "MX",
	} {
		for _, who := range "MXODA" {
			w := s.ask(who, "POST", "/team%2F_replicator/_changes?filter=_selector", `{"selector":`+selector+`}`)
			found := strings.Contains(w.Body.String(), `"id":"doc"`)
			if found != strings.ContainsRune(sees, who) || w.Code != 200 {
				t.Errorf("%c %s: %d %s", who, selector, w.Code, w.Body)
			}
		}
	}
}

// TestOwnerless: a document without an owner, as one without admins has it, is nobody's: not even a client's without a
// login, where a database is open to all.
func TestOwnerless(t *testing.T) {
	s := newSite(t)
	err := kv.Do(t.Context(), s.service.DB, func(tx kv.Tx) error {
		db, err := s.service.Store.Docs.Open(tx, "team/_replicator")
		if err != nil {
			return err
		}
		edit := docs.Edit{Document: docs.Document{ID: "nobodys", Body: []byte(planted + "}")}}
		written, err := s.service.Store.WriteDocs(tx, db, []docs.Edit{edit}, jobstore.Writer{Admin: true}, 1)
		if err == nil && written[0].Err != nil {
			err = written[0].Err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.must('A', "PUT", "/team%2F_replicator/_security", `{"admins":{"names":["dba"]}}`)
	for _, who := range walkers {
		w := s.ask(who, "GET", "/team%2F_replicator/nobodys", "")
		told := strings.Contains(w.Body.String(), "planted")
		if w.Code != 200 || told != strings.ContainsRune("DA", who) {
			t.Errorf("%c: %d %s", who, w.Code, w.Body)
		}
		job := strings.ReplaceAll(strings.TrimSuffix(s.jobs[0], "doc")+"nobodys", "|", "%7C")
		w = s.ask(who, "GET", "/_scheduler/jobs/"+job+"/explain", "")
		if looks := w.Code == 200; looks != strings.ContainsRune("DA", who) {
			t.Errorf("%c explain: %d %s", who, w.Code, w.Body)
		}
	}
}

// TestFeedOfFormerAdmin: who was an admin of the database sees the rest of a feed as the member that it is now.
func TestFeedOfFormerAdmin(t *testing.T) {
	s := newSite(t)
	server := httptest.NewServer(s.handler)
	defer server.Close()
	const query = "?feed=continuous&include_docs=true&timeout=60000"
	q := s.request('D', "GET", server.URL+"/team%2F_replicator/_changes"+query, "")
	q.RequestURI = ""
	answer, err := server.Client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for range 2 {
		if !lines.Scan() || strings.Contains(lines.Text(), `"doc"`) && !strings.Contains(lines.Text(), "X-Key") &&
			strings.Contains(lines.Text(), `"id":"doc"`) {
			t.Fatal(lines.Text())
		}
	}
	s.must('A', "PUT", "/team%2F_replicator/_security", `{"members":{"names":["dba"],"roles":["team"]}}`)
	s.must('O', "PUT", "/team%2F_replicator/later", planted+"}")
	if !lines.Scan() || !strings.Contains(lines.Text(), `"id":"later"`) || strings.Contains(lines.Text(), "planted") {
		t.Errorf("a former admin: %s", lines.Text())
	}
	if w := s.ask('D', "GET", "/team%2F_replicator/later", ""); strings.Contains(w.Body.String(), "planted") {
		t.Errorf("%s", w.Body)
	}
}
