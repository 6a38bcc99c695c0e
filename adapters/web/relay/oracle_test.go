package relay

import (
	"net/http/httptest"
	"strings"
	"testing"

	"couchrelay/adapters/javascript"
)

// TestNoOracle: what looks into documents on behalf of a user sees what the user may see. Whatever functions and
// selectors ask for, the answer to a member is the same as for a document without secrets, and an owner finds its own.
func TestNoOracle(t *testing.T) {
	s := newSite(t)
	o := s.service.Options
	o.Functions = javascript.New()
	s.handler = New(o)
	const db = "/team%2F_replicator"
	s.must('D', "PUT", db+"/_design/d", `{"filters":{
		"key":"function(doc) { var s = doc.source; return s && s.headers && s.headers['X-Key'] == 'plan' + 'ted' }",
		"any":"function(doc) { return JSON.stringify(doc).indexOf('plan' + 'ted') >= 0 }",
		"tells":"function(doc) { if (doc._id == 'doc') { throw({told: JSON.stringify(doc)}) } }",
		"rev":"function(doc) { return doc._rev == '`+s.rev+`' || JSON.stringify(doc).indexOf('`+
		strings.TrimPrefix(s.rev, "1-")+`') >= 0 }"},
		"views":{"key":{"map":"function(doc) { if (JSON.stringify(doc).indexOf('plan' + 'ted') >= 0) { emit(1) } }"}}}`)
	for _, request := range []string{
		"GET " + db + "/_changes?filter=d/key",
		"GET " + db + "/_changes?filter=d/any&include_docs=true",
		"GET " + db + "/_changes?filter=d/any&style=all_docs",
		"GET " + db + "/_changes?filter=d/rev",
		"GET " + db + "/_changes?filter=d/tells",
		"GET " + db + "/_changes?filter=_view&view=d/key",
		"GET " + db + "/_changes?filter=d/any&feed=eventsource&timeout=1",
		"POST " + db + `/_changes?filter=_selector {"selector":{"source.headers.X-Key":"planted"}}`,
		"POST " + db + `/_changes?filter=_selector {"selector":{"source.url":{"$regex":"planted"}}}`,
		"POST " + db + `/_changes?filter=_selector {"selector":{"_rev":"` + s.rev + `"}}`,
		"POST " + db + `/_find {"selector":{"source.headers.X-Key":"planted"},"fields":["_id"]}`,
		"POST " + db + `/_find {"selector":{"source.url":{"$regex":"planted"}},"execution_stats":true}`,
		"POST " + db + `/_find {"selector":{"$not":{"source.auth":{"$exists":false}}}}`,
		"POST " + db + `/_find {"selector":{"_id":"doc","source.auth.basic.password":{"$gt":"plan"}}}`,
		"POST " + db + `/_find {"selector":{"_rev":"` + s.rev + `"},"fields":["_id"]}`,
	} {
		method, rest, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(rest, " ")
		for _, who := range walkers {
			w := s.ask(who, method, path, body)
			found := finds(w)
			s.tellsNothing(who, request, w)
			if strings.ContainsRune("NUMX", who) && found {
				t.Errorf("%c %s: %d %s", who, request, w.Code, w.Body)
			}
			if strings.ContainsRune("ODA", who) && !found {
				t.Errorf("%c %s does not find what it may: %d %s", who, request, w.Code, w.Body)
			}
		}
	}
}

// TestFoundWithoutSecrets: members find documents, and see of them what they may see.
func TestFoundWithoutSecrets(t *testing.T) {
	s := newSite(t)
	const db = "/team%2F_replicator"
	for _, body := range []string{
		`{"selector":{"_id":"doc"}}`, `{"selector":{},"conflicts":true}`,
		`{"selector":{"_id":{"$gt":null}},"sort":["_id"],"fields":["source","target","_rev","_id"]}`,
		`{"selector":{"source.url":{"$exists":true}}}`,
	} {
		for _, who := range walkers {
			w := s.ask(who, "POST", db+"/_find", body)
			s.tellsNothing(who, body, w)
			if strings.Contains(w.Body.String(), `"_id":"doc"`) != strings.ContainsRune("MOXDA", who) {
				t.Errorf("%c %s: %d %s", who, body, w.Code, w.Body)
			}
			if strings.ContainsRune("MX", who) && strings.Contains(w.Body.String(), s.rev) {
				t.Errorf("%c sees the name of a revision that it does not see: %s", who, w.Body)
			}
		}
	}
}

// TestCopiesOfOthers: a copy is made of what the copier sees, and a document of another owner stays its own.
func TestCopiesOfOthers(t *testing.T) {
	s := newSite(t)
	const db = "/team%2F_replicator"
	for who, status := range map[rune]int{'N': 401, 'U': 403, 'M': 403, 'X': 403, 'O': 201, 'D': 201, 'A': 201} {
		id := "copy-" + string(who)
		q := s.request(who, "COPY", db+"/doc", "")
		q.Header.Set("Destination", id)
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, q)
		if s.tellsNothing(who, id, w); w.Code != status {
			t.Errorf("%c: %d %s", who, w.Code, w.Body)
		}
		if w := s.ask('A', "GET", db+"/"+id, ""); (w.Code == 200) != (status == 201) ||
			status == 201 && !strings.Contains(w.Body.String(), "planted") {
			t.Errorf("%c: %d %s", who, w.Code, w.Body)
		}
		s.tellsNothing('M', id, s.ask('M', "GET", db+"/"+id, ""))
	}
}

// finds reports whether an answer has the document with secrets.
func finds(w *httptest.ResponseRecorder) bool {
	text := w.Body.String()
	return strings.Contains(text, `"id":"doc"`) || strings.Contains(text, `"_id":"doc"`) ||
		strings.Contains(text, "planted")
}
