package couch

import (
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/peer"
)

// TestManyQuestions: answers about a hundred thousand revisions of one document, in an order of the server's own, and
// with newer revisions in the place of those asked for, are read in no time that others would notice.
func TestManyQuestions(t *testing.T) {
	const many = 100_000
	op := peer.FetchDocs{Budget: 1 << 30}
	var text strings.Builder
	text.WriteString(`{"results":[{"id":"doc","docs":[null`)
	for i := range many {
		op.Docs = append(op.Docs, peer.DocRev{ID: "doc", Rev: fmt.Sprintf("1-%d", i)})
		n := many - 1 - i
		switch n % 3 {
		case 0:
			fmt.Fprintf(&text, `,{"ok":{"_id":"doc","_rev":"1-%d"}}`, n)
		case 1:
			newer := `,{"ok":{"_id":"doc","_rev":"2-x","_revisions":{"start":2,"ids":["x","%d"]}}}`
			fmt.Fprintf(&text, newer, n)
		default:
			fmt.Fprintf(&text, `,{"error":{"id":"doc","rev":"1-%d","error":"not_found","reason":"missing"}}`, n)
		}
	}
	text.WriteString(`]}]}`)
	b := newBulkGet(op, newStream(strings.NewReader(text.String())))
	if err := b.read(); err != nil {
		t.Fatal(err)
	}
	for i, got := range b.got.Docs {
		want := peer.FetchedDoc{Fate: peer.Missing}
		if i%3 < 2 {
			rev := []string{op.Docs[i].Rev, "2-x"}[i%3]
			want = peer.FetchedDoc{Fate: peer.Taken, Rev: rev, Size: len(b.bodies[i])}
		}
		if got != want {
			t.Fatalf("revision %d has %+v, want %+v", i, got, want)
		}
	}
	if b.pending.left != 0 || b.pending.first("doc") >= 0 {
		t.Errorf("%d questions are open", b.pending.left)
	}
}

// TestFirstQuestion: an answer that names no revision is about the first question that is open, and one with a history
// about the first that it has.
func TestFirstQuestion(t *testing.T) {
	q := newQuestions([]peer.DocRev{
		{ID: "a", Rev: "1-a"}, {ID: "a", Rev: "2-b"}, {ID: "b", Rev: "1-a"}, {ID: "a", Rev: "3-c"},
		{ID: "a", Rev: "2-b"},
	})
	newer := newQuestions([]peer.DocRev{{ID: "a", Rev: "2-b"}, {ID: "a", Rev: "1-a"}})
	for step, c := range []struct{ got, want int }{
		{q.find("a", "2-b"), 1}, {q.find("a", "1-b"), -1}, {q.findIn("a", 4, []string{"d", "c", "b"}), 1},
		{q.findIn("b", 3, []string{"c", "b", "a"}), 2}, {q.first("a"), 0}, {q.first("c"), -1},
		{newer.findIn("a", 2, []string{"b", "a"}), 0},
	} {
		if c.got != c.want {
			t.Errorf("step %d: %d, want %d", step, c.got, c.want)
		}
	}
	q.close(1)
	if i := q.find("a", "2-b"); i != 4 {
		t.Errorf("the question that is asked twice is %d", i)
	}
	q.close(0)
	q.close(3)
	if i, in := q.first("a"), q.findIn("a", 3, []string{"c", "b"}); i != 4 || in != 4 || q.left != 2 {
		t.Errorf("first is %d, of the history %d, and %d are left", i, in, q.left)
	}
}
