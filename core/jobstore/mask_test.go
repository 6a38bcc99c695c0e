package jobstore

import (
	"strings"
	"testing"

	"couchrelay/core/docs"
)

// TestRedactedDocumentIsWrittenBack: what was read without its password keeps it, as long as it goes to the same
// server.
func TestRedactedDocumentIsWrittenBack(t *testing.T) {
	b := newBench(t)
	b.put("r", simple, admin)
	w := b.accept()
	redacted := strings.Replace(b.doc("r"), "u:p@", "u:*****@", 1)
	if redacted == b.doc("r") {
		t.Fatal("nothing is redacted")
	}
	for _, shown := range []string{redacted, strings.Replace(redacted, ":*****", "", 1)} {
		if refusal := b.put("r", strings.Replace(shown, "{", `{"comment":"x",`, 1), admin); refusal != nil {
			t.Fatal(refusal)
		}
		if doc := b.doc("r"); !strings.Contains(doc, "u:p@h") || !strings.Contains(doc, `"comment":"x"`) {
			t.Errorf("%s is stored as %s", shown, doc)
		}
	}
	b.wantState(w.JobID, Running) // it is the same work
	before := b.doc("r")
	for _, moved := range []string{
		strings.Replace(redacted, "@h/", "@evil/", 1), strings.Replace(redacted, "u:*", "eve:*", 1),
		strings.NewReplacer("@h/", "@evil/", `{"source"`, `{"_replication_state":"failed","source"`).Replace(redacted),
	} {
		refusal := b.put("r", moved, admin)
		if refusal == nil || refusal.Kind != docs.Denied || !strings.Contains(refusal.Reason, "`source`: *****") {
			t.Errorf("%s: %v", moved, refusal)
		}
	}
	if b.doc("r") != before {
		t.Errorf("refused, and stored as %s", b.doc("r"))
	}
	if refusal := b.put("new", `{"source":"http://u:*****@h/a","target":"http://h/b"}`, admin); refusal == nil {
		t.Error("a new document with a mask is taken")
	}
}

func TestOnlyAdminsNameSecrets(t *testing.T) {
	const body = `{"source":{"url":"http://h/a","auth":{"basic":{"username":"u","password":{"secret":"s"}}}},` +
		`"target":"http://h/b"}`
	b := newBench(t)
	others := []Writer{{Name: "joe"}, {Name: "joe", Admin: true}} // the second is an admin of the database
	for _, by := range others {
		refusal := b.put("r", body, by)
		if refusal == nil || refusal.Kind != docs.Denied || !strings.Contains(refusal.Reason, "`s`") {
			t.Errorf("%+v: %v", by, refusal)
		}
	}
	if refusal := b.put("r", body, admin); refusal != nil {
		t.Fatal(refusal)
	}
	for _, moved := range []string{body, strings.Replace(body, `{"secret":"s"}`, `"*****"`, 1)} {
		moved = strings.Replace(moved, "http://h/b", "http://h/c", 1)
		if refusal := b.put("r", moved, others[1]); refusal == nil || refusal.Kind != docs.Denied {
			t.Errorf("%s: %v", moved, refusal)
		}
	}
	source := b.accept().Replication.Source
	if source.Credentials.Password.Reference() != "s" || !strings.Contains(b.doc("r"), `{"secret":"s"}`) {
		t.Errorf("runs with %+v, document %s", source, b.doc("r"))
	}
}
