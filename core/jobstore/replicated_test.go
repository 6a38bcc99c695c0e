package jobstore

import (
	"strings"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/kv"
)

// replicated writes a revision as it is (new_edits=false), and returns why it was refused.
func (b *bench) replicated(id, rev, body string, by Writer) (refusal *docs.Error) {
	b.t.Helper()
	raw := `{"_id":"` + id + `","_rev":"` + rev + `",` + body[1:]
	doc, err := docs.ParseDocument([]byte(raw), docs.ReplicationMembers...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.do(func(tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		written, err := b.s.WriteDocs(tx, db, []docs.Edit{{Document: *doc, Replicated: true}}, by, b.now)
		if err == nil {
			refusal = written[0].Err
		}
		return err
	})
	return refusal
}

// invalid has members of documents that ask for no valid replication, and why.
var invalid = map[string][2]string{
	"text":      {`"use_checkpoints":"false"`, "parameter `use_checkpoints` must be a boolean"},
	"zero":      {`"checkpoint_interval":0`, "parameter `checkpoint_interval` must be an integer from 1"},
	"negative":  {`"retries_per_request":-1`, "parameter `retries_per_request` must be an integer from 0"},
	"many":      {`"worker_processes":5000`, "parameter `worker_processes` must be an integer from 1 to 1000"},
	"cancel":    {`"cancel":true`, "parameter `cancel` has no effect in a document"},
	"exclusive": {`"doc_ids":["a"],"selector":{}`, "`doc_ids`,`filter`,`selector` are mutually exclusive"},
	"masked":    {`"proxy":"http://u:*****@proxy"`, "`proxy`: ***** stands for a secret that is not known"},
}

// TestReplicatedInvalid: a replicated document arrives though it asks for no valid replication, and says why its job
// failed; written by a user it is refused.
func TestReplicatedInvalid(t *testing.T) {
	b := newBench(t)
	for id, c := range invalid {
		body := `{"source":"http://u:secret@h/a","target":{"url":"http://h/b?x=1"},` + c[0] + `}`
		if refusal := b.put(id, body, admin); refusal == nil || !strings.HasPrefix(refusal.Reason, c[1]) {
			t.Errorf("%s: a user's write is refused as %v", id, refusal)
		}
		if refusal := b.replicated(id, "1-abc", body, admin); refusal != nil {
			t.Errorf("%s: %v", id, refusal)
			continue
		}
		if doc := b.doc(id); !strings.Contains(doc, `"_replication_state":"failed"`) || !strings.Contains(doc, c[0]) ||
			!strings.Contains(doc, `"_replication_state_reason":"`+c[1]) || !strings.Contains(doc, `"owner":"adm"`) {
			t.Errorf("%s: document %s", id, doc)
		}
		v := b.record(jobID(id)).View()
		if v.State != Failed || !strings.HasPrefix(v.Problem, c[1]) || v.Source != "http://h/a/" ||
			v.Target != "http://h/b?x=1" || v.Database != "_replicator" || v.DocID != id {
			t.Errorf("%s: job %+v", id, v)
		}
	}
	b.none()
	page := get(b, func(tx kv.Tx) (Listed, error) {
		l := Listing{Filter: Filter{Documents: true, States: []State{Failed}, Server: "h:80", Error: "parse_error"}}
		l.Limit = 100
		return Lists{Store: b.s, Reader: tx}.Page(l)
	})
	if len(page.Jobs) != len(invalid) {
		t.Errorf("%d jobs are listed as failed", len(page.Jobs))
	}
}

// none fails the test if there is a job to run.
func (b *bench) none() {
	b.t.Helper()
	b.do(func(tx kv.Tx) error {
		head, err := b.s.Jobs.Head(tx, 1, false)
		if len(head) > 0 {
			b.t.Error("there is a job to run")
		}
		return err
	})
}

// TestReplicatedStory: of a document that becomes invalid and valid again; a repeated write changes nothing.
func TestReplicatedStory(t *testing.T) {
	b := newBench(t)
	bad := `{"source":"http://h/a","target":"http://h/b","continuous":1}`
	b.replicated("r", "1-a", simple, admin)
	b.wantState(jobID("r"), Pending)
	b.replicated("r", "1-b", bad, admin) // wins
	b.wantState(jobID("r"), Failed)
	b.none()
	before, at := b.doc("r"), b.record(jobID("r")).Created
	b.now++
	b.replicated("r", "1-b", bad, admin)
	if b.doc("r") != before || b.record(jobID("r")).Created != at {
		t.Errorf("a repeated write makes %s of %s", b.doc("r"), before)
	}
	b.put("r", simple, admin)
	b.wantState(jobID("r"), Pending)
	if doc := b.doc("r"); strings.Contains(doc, "_replication") {
		t.Error(doc)
	}
}

// TestReplicatedEnds: documents that arrive with a terminal state stay as they are, and do not run.
func TestReplicatedEnds(t *testing.T) {
	b := newBench(t)
	for id, c := range invalid {
		if id == "masked" {
			continue // the revision of a reader without rights
		}
		for _, state := range []string{"completed", "failed"} {
			body := `{"source":"http://h/a","target":"http://h/b",` + c[0] + `,"_replication_state":"` + state + `",` +
				`"_replication_state_reason":"why","_replication_stats":{"docs_written":3},"owner":null}`
			if refusal := b.replicated(id+state, "7-abc", body, Writer{}); refusal != nil {
				t.Error(id, refusal)
			} else if doc := b.doc(id + state); doc != body {
				t.Errorf("%s became %s", body, doc)
			}
			r := b.record(jobID(id + state))
			if r.State != State(state) || r.Source != "http://h/a/" || r.Stats.DocsWritten != 3 {
				t.Errorf("job %+v", r)
			}
		}
	}
	b.none()
}

// TestReplicatedRights: a replicated write gives no rights that another write does not give.
func TestReplicatedRights(t *testing.T) {
	b := newBench(t)
	eve := Writer{Name: "eve"}
	b.put("adms", simple, admin)
	secret := `{"source":{"url":"http://h/a","headers":{"X":{"secret":"s"}}},"target":"http://h/b"`
	basic := `{"source":"http://h/b","target":{"url":"http://h/a",
		"auth":{"basic":{"username":"u","password":{"secret":"s"}}}}`
	for id, body := range map[string]string{
		"adms": simple, "forged": simple[:len(simple)-1] + `,"owner":"adm"}`, "secret": secret + "}",
		"basic":  basic + "}",
		"bearer": `{"source":{"url":"http://h/a","auth":{"bearer":{"secret":"s"}}},"target":"http://h/b"}`,
		"bad":    secret + `,"continuous":1}`, "failed": secret + `,"_replication_state":"failed"}`,
	} {
		if refusal := b.replicated(id, "9-abc", body, eve); refusal == nil || refusal.Kind != docs.Denied {
			t.Errorf("%s: %v", id, refusal)
		}
	}
	// An order to run it again would be given as the service itself.
	if refusal := b.put("retried", secret+`,"_replication_state":"failed"}`, eve); refusal == nil {
		t.Error("eve names a secret in a document that failed")
	}
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	if refusal := b.replicated("deep", "1-a", `{"a":`+deep+"}", admin); refusal == nil {
		t.Error("a document that is nested too deep is written")
	}
	large := strings.Repeat("x", docs.MaxBody)
	if refusal := b.replicated("large", "1-a", `{"a":"`+large+`"}`, admin); refusal == nil {
		t.Error("a document that is too large is written")
	}
	refusal := b.replicated("mine", "1-a", `{"source":5}`, eve)
	if refusal != nil || !strings.Contains(b.doc("mine"), `"owner":"eve"`) {
		t.Error(refusal, b.doc("mine"))
	}
}

// TestReplicatedBesideOthers: of two documents with one body that are written at once, the one that is replicated
// arrives though it asks for no valid replication, and the other one is refused.
func TestReplicatedBesideOthers(t *testing.T) {
	b := newBench(t)
	var edits []docs.Edit
	for _, raw := range []string{`{"_id":"user",`, `{"_id":"other","_rev":"1-a",`} {
		doc, err := docs.ParseDocument([]byte(raw + `"source":"http://h/a","target":"http://h/b","use_checkpoints":7}`))
		if err != nil {
			t.Fatal(err)
		}
		edits = append(edits, docs.Edit{Document: *doc, Replicated: doc.ID == "other"})
	}
	written := get(b, func(tx kv.Tx) ([]docs.Written, error) {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return nil, err
		}
		return b.s.WriteDocs(tx, db, edits, admin, b.now)
	})
	if written[0].Err == nil || written[1].Err != nil {
		t.Errorf("the user's is refused as %v, the replicated one as %v", written[0].Err, written[1].Err)
	}
}
