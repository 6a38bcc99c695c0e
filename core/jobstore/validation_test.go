package jobstore

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/ejson"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
)

// words is an engine whose functions are words: a document with one of the words of a function is refused.
type words struct{ asked []Asked }

func (w *words) Validate(a Asked) *docs.Error {
	w.asked = append(w.asked, a)
	body, err := ejson.Parse(a.Design)
	if err != nil {
		return docs.ErrJSON
	}
	function, _ := body.Get("validate_doc_update")
	for word := range strings.FieldsSeq(function.Text) {
		if strings.Contains(string(a.New), word) {
			return docs.Forbidden(word)
		}
	}
	return nil
}

func validating(t *testing.T) (*bench, *words) {
	b, w := newBench(t), &words{}
	b.s.Functions = w
	return b, w
}

func (b *bench) wantRefusal(refusal *docs.Error, want string) {
	b.t.Helper()
	if got := fmt.Sprint(refusal); !strings.Contains(got, want) || want == "" && refusal != nil {
		b.t.Errorf("refused as %s, want %q", got, want)
	}
}

// TestValidation: all functions of all design documents are asked, by each write, as long as they are there.
func TestValidation(t *testing.T) {
	b, w := validating(t)
	with := func(text string) string { return simple[:len(simple)-1] + `,"comment":"` + text + `"}` }
	b.put("_design/a", `{"validate_doc_update":"red"}`, admin)
	b.put("_design/b", `{"validate_doc_update":"blue"}`, admin)
	b.put("_design/c", `{"views":{}}`, admin)
	joe := Writer{Name: "joe", Roles: []string{"x"}}
	b.wantRefusal(b.put("r", with("red"), joe), "forbidden: red")
	b.wantRefusal(b.put("r", with("blue"), joe), "forbidden: blue")
	b.wantRefusal(b.replicated("r", "3-abc", with("blue"), joe), "forbidden: blue")
	b.wantState(jobID("r"), "absent")
	b.wantRefusal(b.put("_local/l", with("red"), joe), "")
	b.wantRefusal(b.put("_design/d", with("red"), admin), "")
	b.wantRefusal(b.put("r", with("green"), joe), "")
	b.wantState(jobID("r"), Pending)
	b.put("r", with("yellow"), joe)
	want := `{"_id":"r","source":"http://u:p@h/a","target":"http://h/b","comment":"green","owner":"joe"} null ` +
		`{"db":"_replicator","name":"joe","roles":["x"]} ` + docs.AdminsOnly
	first := w.asked[len(w.asked)-4]
	if got := fmt.Sprintf("%s %s %s %s", first.New, first.Old, first.User, first.Security); got != want {
		t.Errorf("asked\n%s, want\n%s", got, want)
	}
	last := w.asked[len(w.asked)-1]
	if !strings.Contains(string(last.Old), `"comment":"green"`) || !strings.Contains(string(last.Old), `"_rev":"1-`) ||
		!strings.Contains(string(last.New), `"_revisions":{"start":1,`) || last.DesignID != "_design/b" {
		t.Errorf("asked %s %s %s", last.DesignID, last.New, last.Old)
	}
	b.wantRefusal(b.put("q", with("green"), Writer{Name: "sue"}), "")
	if user := string(w.asked[len(w.asked)-1].User); user != `{"db":"_replicator","name":"sue","roles":[]}` {
		t.Error("asked about", user)
	}
	b.wantRefusal(b.put("r", `{"_deleted":true,"why":"red"}`, joe), "forbidden: red")
	b.put("_design/a", `{"_deleted":true}`, admin)
	b.wantRefusal(b.put("r", with("red"), joe), "")
	if security := string(w.asked[len(w.asked)-1].Security); security != docs.AdminsOnly {
		t.Errorf("the only function is shown the security object %q", security)
	}
	b.s.Functions = nil
	b.wantRefusal(b.put("r", with("green"), joe), "unknown_query_language: javascript")
	for _, wrong := range []string{"5", "null", "{}"} {
		b.wantRefusal(b.put("_design/e", `{"validate_doc_update":`+wrong+`}`, admin), "must have string type")
	}
	b = newBench(t)
	const noFunction = `,"validate_doc_update":5}` // neither of a job nor of what is gone
	b.wantRefusal(b.put("r", simple[:len(simple)-1]+noFunction, joe), "")
	b.put("_design/a", `{"views":{}}`, admin)
	b.wantRefusal(b.put("_design/a", `{"_deleted":true`+noFunction, admin), "")
}

// TestNewestValidation: a document does not pass by a function that was replaced before the commit.
func TestNewestValidation(t *testing.T) {
	b, _ := validating(t)
	for _, before := range []string{"", `{"validate_doc_update":"blue"}`} {
		if before != "" {
			b.put("_design/a", before, admin)
		}
		tx := b.db.Begin(context.Background(), kv.Options{})
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			t.Fatal(err)
		}
		raw := fmt.Appendf(nil, `{"_id":"r%d","comment":"red",%s`, len(before), simple[1:])
		doc, err := docs.ParseDocument(raw)
		if err != nil {
			t.Fatal(err)
		}
		written, err := b.s.WriteDocs(tx, db, []docs.Edit{{Document: *doc, Token: 1}}, admin, b.now)
		if err != nil || written[0].Err != nil {
			t.Fatal(err, written)
		}
		b.put("_design/a", `{"validate_doc_update":"red"}`, admin)
		if err := tx.Commit(); kv.CodeOf(err) != kv.NotCommitted {
			t.Errorf("%q: a document that the function in force forbids is written: %v", before, err)
		}
		b.put("_design/a", `{"_deleted":true}`, admin)
	}
}

// TestStateForbidden: a function that keeps the state out of a document does not lose it.
func TestStateForbidden(t *testing.T) {
	b, w := validating(t)
	b.put("r", simple, admin)
	b.put("_design/a", `{"validate_doc_update":"_replication_state"}`, admin)
	work := b.accept()
	b.do1(func(tx kv.Tx) error {
		return b.s.Owned(tx, work.JobID, work.Lock, b.now).Complete(replication.End{}, Turn{})
	})
	b.wantState(work.JobID, Completed)
	if doc := b.doc("r"); strings.Contains(doc, "_replication_state") {
		t.Error(doc)
	}
	service := `{"db":"_replicator","name":null,"roles":["_admin","replicator"]}`
	if user := string(w.asked[len(w.asked)-1].User); user != service {
		t.Error(user)
	}
	b.replicated("r", "1-"+strings.Repeat("0", 32), `{"source":"http://h/a","target":"http://h/other"}`, admin)
	b.wantState(work.JobID, Completed) // a revision that loses makes no other job
	b.none()
	b.replicated("bad", "1-abc", `{"source":5}`, admin)
	rec, doc := b.record(jobID("bad")), b.doc("bad")
	if rec.State != Failed || rec.Reason == "" || doc != `{"source":5,"owner":"adm"}` {
		t.Errorf("%+v %s", rec, doc)
	}
}

// TestValidationOfMany: a transaction shows no more documents to functions than it has time for, fewer to two of them,
// and one that writes functions and documents goes by those of before.
func TestValidationOfMany(t *testing.T) {
	b, _ := validating(t)
	edits := func() (list []docs.Edit) {
		token++
		design := docs.Document{ID: "_design/a", Body: []byte(`{"validate_doc_update":"red"}`)}
		list = append(list, docs.Edit{Document: design, Token: token})
		for i := range 30 {
			doc := docs.Document{ID: fmt.Sprint("d", token, "-", i), Body: []byte(`{"source":1}`)}
			doc.Rev.Gen, doc.Rev.ID = 1, "abc"
			list = append(list, docs.Edit{Document: doc, Replicated: true})
		}
		return list
	}
	for n, want := range []int{31, atOnceValidated, atOnceValidated / 2} {
		if n == 2 {
			b.put("_design/b", `{"validate_doc_update":"red"}`, admin)
		}
		list := edits()
		written := get(b, func(tx kv.Tx) ([]docs.Written, error) {
			db, err := b.s.Docs.Open(tx, "_replicator")
			if err != nil {
				return nil, err
			}
			return b.s.WriteDocs(tx, db, list, admin, b.now)
		})
		if len(written) != want {
			t.Errorf("%d are written, want %d", len(written), want)
		}
		b.wantState(jobID(list[2].ID), Failed)
	}
}

// TestShownAttachments: functions see no bytes of attachments, and the document that is written keeps them.
func TestShownAttachments(t *testing.T) {
	b, w := validating(t)
	b.put("_design/a", `{"validate_doc_update":"red"}`, admin)
	next := docs.Document{ID: "d", Body: []byte("{}"), Attachments: []docs.Attachment{
		{Name: "f", Type: "a/b", Content: docs.Inline, Data: []byte("bytes"), Length: 5},
	}}
	b.do1(func(tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		ask, _, err := Validators(b.s, db, admin)
		if err != nil {
			return err
		}
		return ask(&next, nil)
	})
	if a := next.Attachments[0]; a.Content != docs.Inline || string(a.Data) != "bytes" {
		t.Errorf("the document is left with %+v", a)
	}
	if len(w.asked) != 1 || !strings.Contains(string(w.asked[0].New), `"length":5,"stub":true`) {
		t.Errorf("asked %s", w.asked)
	}
}
