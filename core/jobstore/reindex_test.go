package jobstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// newAgedBench has a store that an earlier release wrote, with the jobs of some documents, and no index yet.
func newAgedBench(t *testing.T, ids ...string) *bench {
	b := newBench(t)
	for _, id := range ids {
		b.put(id, strings.Replace(simple, "h/b", "h/"+id, 1), admin)
	}
	b.age()
	return b
}

// reindex indexes some jobs, and reports whether that is all.
func (b *bench) reindex(limit int) (done bool) {
	b.t.Helper()
	b.do1(func(tx kv.Tx) (err error) { done, err = Reindex(tx, b.s, limit); return err })
	return done
}

// TestReindexBesideChanges: a job that is not indexed when it is changed, and is by the time that this commits, is
// changed again: its labels would be those of before. Changes of others go on.
func TestReindexBesideChanges(t *testing.T) {
	for _, c := range []struct {
		name      string
		before    int // pages of one job
		limit     int
		doc       string
		conflicts bool
	}{
		{"the last job of a page", 0, 1, "a", true},
		{"a job within a page", 0, 2, "a", true},
		{"a job behind a page", 0, 1, "b", false},
		{"a job of the last page", 0, 9, "c", true},
		{"a job of an earlier page", 1, 1, "a", false},
		{"a job before the last page", 1, 9, "a", false},
	} {
		b := newAgedBench(t, "a", "b", "c")
		for range c.before {
			b.reindex(1)
		}
		change := b.db.Begin(t.Context(), kv.Options{})
		if done, err := b.by(change).Pause(jobID(c.doc), ""); !done || err != nil {
			t.Fatal(done, err)
		}
		b.reindex(c.limit)
		if err := change.Commit(); (kv.CodeOf(err) == kv.NotCommitted) != c.conflicts {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestChangesWhileReindexing: whichever jobs change while a store is being indexed, the index tells what they are; and
// no earlier release starts on it any more.
func TestChangesWhileReindexing(t *testing.T) {
	for _, doc := range []string{"a", "b", "c"} {
		b := newAgedBench(t, "a", "b", "c")
		if b.reindex(2) {
			t.Fatal("all is indexed at once")
		}
		_, schema, err := Identity(b.db.Present(), b.s.Keys)
		if schema != schemaVersion || err != nil {
			t.Errorf("the schema is %d (%v)", schema, err)
		}
		b.pause(jobID(doc))
		for !b.reindex(1) {
			b.do1(func(tx kv.Tx) error { return b.s.Audit(tx) })
		}
		b.do1(func(tx kv.Tx) error { return errors.Join(b.s.Jobs.Audit(tx), b.s.Audit(tx)) })
		got := b.pages(Listing{Filter: Filter{States: []State{Paused}}, Limit: 9})
		if !slices.Equal(got, []string{jobID(doc)}) {
			t.Errorf("%s is paused, and listed are %q", doc, got)
		}
	}
}

// TestDescendingWhileReindexing: a descending list needs the index, and says so while that is being made.
func TestDescendingWhileReindexing(t *testing.T) {
	b := newAgedBench(t, "a")
	_, err := Lists{Store: b.s, Reader: b.db.Present()}.Page(Listing{Limit: 5, Descending: true})
	if !errors.Is(err, ErrReindexing) {
		t.Errorf("it ends with %v", err)
	}
}

// TestReindexOfLongRecords: a transaction indexes no more jobs than it can read in its time.
func TestReindexOfLongRecords(t *testing.T) {
	b := newAgedBench(t)
	rec := Record{Database: "_replicator", Instance: instancePrefix(tuple.UUID{1}), State: Failed}
	rec.Reason = strings.Repeat("x", reindexBytes/dropPage)
	for page := range 3 {
		b.do1(func(tx kv.Tx) error {
			for i := range dropPage {
				if err := b.s.Jobs.AddFinished(tx, jobID(fmt.Sprint(page, "-", i)), rec.encode()); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for n, want := range []bool{false, false, false, true} {
		if done := b.reindex(1000); done != want {
			t.Fatalf("transaction %d ends the work: %v", n+1, done)
		}
	}
}

// TestCheckOfFirstLayout: a store that an earlier release wrote is sound before this one has started on it, as when its
// backup is restored, and has nothing to repair: the index is made after the start.
func TestCheckOfFirstLayout(t *testing.T) {
	b := newAgedBench(t, "a", "b")
	b.do1(func(tx kv.Tx) error { tx.Clear(b.s.Keys.Reindex); return nil })
	for _, f := range b.findings() {
		t.Errorf("%s: %s", f.Key, f.What)
		b.mend(&f)
	}
	b.do1(func(tx kv.Tx) error { _, _, err := Init(tx, testRoot, "uuid"); return err })
	for !b.reindex(1) {
	}
	for _, f := range b.findings() {
		t.Errorf("after the start: %s: %s", f.Key, f.What)
	}
}
