package docs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
)

// TestLongHistory stems, splits the record over several keys, and shrinks it again.
func TestLongHistory(t *testing.T) {
	w := newWorld(t)
	ids := make([]string, 9000)
	for i := range ids {
		ids[i] = fmt.Sprintf(`"%032x"`, len(ids)-i)
	}
	must(t, w, func(db *Database) (int, error) { return 0, db.SetRevsLimit(8000) })
	got := w.replicate(t, `{"_id":"a","_revisions":{"start":9000,"ids":[`+strings.Join(ids, ",")+`]}}`)
	if d := w.doc(t, "a"); d.Rev.String() != got || len(d.Ancestors) != 7999 {
		t.Errorf("%s with %d ancestors", d.Rev, len(d.Ancestors))
	}
	if got := w.keys(t, keyRecord); got != "[2]" {
		t.Errorf("record takes %s keys", got)
	}
	must(t, w, func(db *Database) (int, error) { return 0, db.SetRevsLimit(3) })
	w.put(t, `{"_id":"a","_rev":"`+got+`"}`)
	if got := w.keys(t, keyRecord); got != "[1]" {
		t.Errorf("record takes %s keys after stemming", got)
	}
	if d := must(t, w, func(db *Database) (*Document, error) { return db.Read("a", Want{}) }); len(d.Ancestors) != 2 {
		t.Errorf("%d ancestors", len(d.Ancestors))
	}
}

// TestLearnedHistory: a known revision comes with more of its past, in which there is another leaf.
func TestLearnedHistory(t *testing.T) {
	w := newWorld(t)
	w.replicate(t, `{"_id":"a","_rev":"4-d"}`)
	w.replicate(t, `{"_id":"a","_revisions":{"start":2,"ids":["b","a"]},"n":2}`)
	if got := w.changes(t, Query{AllDocs: true}); got != "a 4-d 2-b" {
		t.Errorf("feed %s", got)
	}
	w.replicate(t, `{"_id":"a","_revisions":{"start":4,"ids":["d","c","b","a"]}}`)
	if got := w.changes(t, Query{AllDocs: true}); got != "a 4-d" || w.keys(t, keyBody) != "[0]" {
		t.Errorf("feed %s, bodies %s", got, w.keys(t, keyBody))
	}
}

// TestVeryLongHistory: a history as long as a request may be is merged in a time that grows with its length, not
// with the square of that.
func TestVeryLongHistory(t *testing.T) {
	w := newWorld(t)
	long := func(start int) string {
		ids := strings.Repeat(`"a",`, start-1) + `"a"`
		return fmt.Sprintf(`{"_id":"long","_revisions":{"start":%d,"ids":[%s]}}`, start, ids)
	}
	const many = 1_000_000
	for _, start := range []int{many, many + 1} {
		e := replicated(t, long(start))
		got := must(t, w, func(db *Database) ([]Written, error) { return db.Update([]Edit{e}) })
		if got[0].Err != nil || !got[0].Changed {
			t.Errorf("%+v", got[0])
		}
	}
	d := must(t, w, func(db *Database) (*Document, error) { return db.Read("long", Want{Conflicts: true}) })
	if d.Rev.Gen != many+1 || len(d.Ancestors) != DefaultRevsLimit-1 || len(d.Meta.Conflicts) > 0 {
		t.Errorf("%s with %d ancestors and conflicts %v", d.Rev, len(d.Ancestors), d.Meta.Conflicts)
	}
}

// TestHighestGeneration: a revision of the highest generation that may be brought can be followed by others, and lists
// and the feed can be read with them.
func TestHighestGeneration(t *testing.T) {
	w := newWorld(t)
	const highest = "1000000000000000-x"
	if got := w.replicate(t, `{"_id":"a","_rev":"1000000000000001-x"}`); got != "bad_request" {
		t.Errorf("one that is higher: %s", got)
	}
	if got := w.replicate(t, `{"_id":"a","_rev":"`+highest+`"}`); got != highest {
		t.Fatalf("the highest one: %s", got)
	}
	must(t, w, func(db *Database) (int, error) { return 0, db.SetRevsLimit(1) }) // its history begins behind it
	second := w.put(t, `{"_id":"a","_rev":"`+highest+`"}`)
	if got := w.changes(t, Query{}); got != "a "+second {
		t.Errorf("the feed has %s, and not %s", got, second)
	}
	rows := must(t, w, func(db *Database) ([]Listed, error) {
		rows, _, err := db.List(Listing{Limit: 10})
		return rows, err
	})
	if len(rows) != 1 || rows[0].Rev.String() != second {
		t.Errorf("the list has %v", rows)
	}
	if got := w.replicate(t, `{"_id":"a","_rev":"`+second+`"}`); got != second {
		t.Errorf("brought again, as it is: %s", got)
	}
	got := w.put(t, `{"_id":"a","_rev":"`+second+`","_deleted":true}`)
	if !strings.HasPrefix(got, "1000000000000002-") {
		t.Errorf("the deletion: %s", got)
	}
}

// TestForgedName: an edit that would have the name of a revision which is there, as that of another parent, is refused:
// it would write its body over the other's.
func TestForgedName(t *testing.T) {
	w := newWorld(t)
	first := w.put(t, `{"_id":"b"}`)
	second := w.put(t, `{"_id":"b","_rev":"`+first+`","n":1}`)
	w.put(t, `{"_id":"a"}`)
	_, name, _ := strings.Cut(second, "-")
	w.replicate(t, `{"_id":"a","_revisions":{"start":2,"ids":["`+name+`","x"]},"forged":true}`)
	if got := w.put(t, `{"_id":"a","_rev":"`+first+`","n":1}`); got != "conflict" {
		t.Errorf("the edit: %s", got)
	}
	if got := w.get(t, "a", Want{}, Format{}); !strings.Contains(got, `"forged":true`) {
		t.Errorf("the revision is %s", got)
	}
	if got := w.changes(t, Query{AllDocs: true}); !strings.HasSuffix(got, "a "+second+" "+first) {
		t.Errorf("the feed has %s", got)
	}
}

// TestNameIsNoText: a revision whose name is no UTF-8, as a URL may have it, is refused: answers are JSON, and would
// give it another name, by which it is not found.
func TestNameIsNoText(t *testing.T) {
	w := newWorld(t)
	e := replicated(t, `{"_id":"a","_rev":"1-x"}`)
	e.Rev.ID = "\xff"
	if got := outcome(w.update(t, e)[0]); got != "bad_request" {
		t.Errorf("it is %q", got)
	}
	if got := w.changes(t, Query{}); got != "" {
		t.Errorf("the feed has %q", got)
	}
}

// TestCutRecords: a record that is cut anywhere is told of as one that cannot be read.
func TestCutRecords(t *testing.T) {
	r := record{marks: []mark{{5, revtree.Rev{Gen: 300, ID: strings.Repeat("ab", 16)}}}}
	r.tree.Insert(revtree.Rev{Gen: 1, ID: strings.Repeat("cd", 16)}, nil, revtree.Leaf{})
	whole := r.append(nil, 7)
	for n := range len(whole) {
		if err := new(record).decode(slices.Clip(whole[:n])); !errors.Is(err, kv.ErrUnreadable) {
			t.Errorf("of %d bytes of %d: %v", n, len(whole), err)
		}
	}
}
