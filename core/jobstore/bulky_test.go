package jobstore

import (
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
)

const joes = `{"owner":"joe","source":"http://s/a","target":"http://t/b"}`

// grow adds branches to a document, as its owner may, until one is refused.
func (b *bench) grow(id string, more func(i int) docs.Document) (branches int, refusal *docs.Error) {
	b.t.Helper()
	for ; branches < 1100; branches++ {
		d := more(branches)
		d.ID = id
		written := get(b, func(tx kv.Tx) ([]docs.Written, error) {
			db, err := b.s.Docs.Open(tx, "_replicator")
			if err != nil {
				return nil, err
			}
			return b.s.WriteDocs(tx, db, []docs.Edit{{Document: d, Replicated: true}}, Writer{Name: "joe"}, b.now)
		})
		if refusal = written[0].Err; refusal != nil {
			return branches, refusal
		}
	}
	return branches, nil
}

// TestBulkyDocument: nothing that a document's owner writes keeps its job from its end, or the document from its
// deletion.
func TestBulkyDocument(t *testing.T) {
	history := func(i int) docs.Document {
		d := docs.Document{Rev: revtree.Rev{Gen: 1001, ID: fmt.Sprint(i)}, Deleted: true, Body: []byte(joes)}
		for j := range 1000 {
			d.Ancestors = append(d.Ancestors, fmt.Sprintf("%d-%d-%s", i, j, strings.Repeat("x", 240)))
		}
		return d
	}
	for _, c := range []struct {
		name  string
		bytes int // of the owner's comment
		more  func(i int) docs.Document
	}{
		{"long histories", 7_000_000, history},
		{"many branches", 500_000, func(i int) docs.Document {
			return docs.Document{Rev: revtree.Rev{Gen: 1, ID: fmt.Sprint(i)}, Body: []byte(joes)}
		}},
		{"large branches", 7_000_000, func(i int) docs.Document {
			body := fmt.Sprintf(`{"owner":"joe","comment":"%s"}`, strings.Repeat("x", 7_000_000))
			return docs.Document{Rev: revtree.Rev{Gen: 1, ID: fmt.Sprint(i)}, Deleted: true, Body: []byte(body)}
		}},
	} {
		b := newBench(t)
		mine := strings.Replace(joes, "{", `{"comment":"`+strings.Repeat("x", c.bytes)+`",`, 1)
		if refusal := b.put("r", mine, Writer{Name: "joe"}); refusal != nil {
			t.Fatal(refusal)
		}
		w := b.accept()
		n, refusal := b.grow("r", c.more)
		if refusal == nil || refusal.Kind != docs.TooLarge {
			t.Errorf("%s: after %d branches: %v", c.name, n, refusal)
		}
		b.do1(func(tx kv.Tx) error { return b.s.Owned(tx, w.JobID, w.Lock, b.now).Complete(crash, Turn{}) })
		b.wantState(w.JobID, Completed)
	}
}

// TestCancelManyBranches: a job whose document has as many branches as can be is cancelled in one transaction, which
// makes no jobs of the others.
func TestCancelManyBranches(t *testing.T) {
	b := newBench(t)
	b.put("r", joes, Writer{Name: "joe"})
	b.grow("r", func(i int) docs.Document {
		d := docs.Document{Rev: revtree.Rev{Gen: 1, ID: fmt.Sprint(i)}, Body: []byte(joes)}
		for j := range 10 {
			d.Rev.Gen, d.Ancestors = 11, append(d.Ancestors, fmt.Sprintf("%d-%d", i, j))
		}
		return d
	})
	before := b.db.Stats().Reads
	b.give(func(o Operator) (bool, error) { return o.Cancel(jobID("r")) })
	if b.wantState(jobID("r"), "absent"); b.db.Stats().Reads-before > 4000 {
		t.Errorf("%d reads", b.db.Stats().Reads-before)
	}
}
