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

// finds reports whether an answer has the document with secrets.
func finds(w *httptest.ResponseRecorder) bool {
	text := w.Body.String()
	return strings.Contains(text, `"id":"doc"`) || strings.Contains(text, `"_id":"doc"`) ||
		strings.Contains(text, "planted")
}
