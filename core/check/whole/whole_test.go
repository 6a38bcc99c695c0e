package whole

import (
	"context"
	"errors"
	"testing"

	"couchrelay/core/check"
	"couchrelay/core/docs"
	"couchrelay/core/follow"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/fakefdb/damaged"
)

var root = tuple.Subspace(tuple.Pack("test"))

// followed is a store in which a database is followed.
func followed(t *testing.T) (*fakefdb.Database, *follow.Store) {
	t.Helper()
	db := fakefdb.New()
	s := follow.NewStore(root, jobstore.New(root, jobstore.DefaultConfig(repid.Server{UUID: "uuid"})))
	write(t, db, func(tx kv.Tx) error {
		if _, _, err := jobstore.Init(tx, root, "uuid"); err != nil {
			return err
		}
		data := []byte(`{"Section":"couch","Name":"_replicator","URL":"http://h/_replicator","Epoch":0}`)
		tx.Set(s.Keys.Rows.Pack(id, "doc", "d"), tuple.Pack("1-a", "x", "-", "", "", 0, ""))
		tx.Set(s.Keys.Rows.Pack(id, "due", "d"), nil)
		return s.Queue.Add(tx, id, jobs.Schedule{Priority: tuple.Pack(0)}, data)
	})
	return db, s
}

const id = "couch/_replicator/_replicator"

func write(t *testing.T, db kv.Database, f func(kv.Tx) error) {
	t.Helper()
	if err := kv.Do(context.Background(), db, f); err != nil {
		t.Fatal(err)
	}
}

func findings(t *testing.T, c *check.Checker, r kv.Reader) (all []check.Finding) {
	t.Helper()
	for done := false; !done; {
		found, last, err := c.Step(r)
		if err != nil {
			t.Fatal(err)
		}
		all, done = append(all, found...), last
	}
	return all
}

// TestFollowed: what is damaged of a followed database is found, and repaired where other rows say how it was.
func TestFollowed(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(tx kv.Tx, k follow.Keys)
		mends  bool
	}{
		"nothing": {func(kv.Tx, follow.Keys) {}, true},
		"place in the queue": {func(tx kv.Tx, k follow.Keys) {
			tx.ClearRange(k.Jobs.Ready.Range())
		}, true},
		"counter": {func(tx kv.Tx, k follow.Keys) { tx.Add(k.Jobs.Count.Pack("ready", 3), 1) }, false},
		"what it follows": {func(tx kv.Tx, k follow.Keys) {
			tx.Set(k.Jobs.Job.Pack(id, 0), []byte("{}"))
		}, false},
		"part behind a gap": {func(tx kv.Tx, k follow.Keys) {
			tx.Set(k.Jobs.Job.Pack(id, 2), []byte("x"))
		}, false},
		"document": {func(tx kv.Tx, k follow.Keys) {
			tx.Set(k.Rows.Pack(id, "doc", "d"), []byte("x"))
		}, false},
		"row of no job":     {func(tx kv.Tx, k follow.Keys) { tx.Set(k.Rows.Pack("gone", "due", "d"), nil) }, true},
		"row of a new kind": {func(tx kv.Tx, k follow.Keys) { tx.Set(k.Rows.Pack(id, "new", "d"), nil) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			db, s := followed(t)
			before := db.Hash()
			write(t, db, func(tx kv.Tx) error { c.damage(tx, s.Keys); return nil })
			found := findings(t, New(root, nil, true), db.Present())
			if (len(found) == 0) != (name == "nothing") {
				t.Errorf("found %+v", found)
			}
			for i := range found {
				write(t, db, func(tx kv.Tx) error { _, err := check.Mended(tx, &found[i], 0); return err })
			}
			if c.mends && db.Hash() != before {
				t.Errorf("the store is another: %+v", findings(t, New(root, nil, true), db.Present()))
			}
		})
	}
}

// failing is a reader that fails now and then.
type failing struct {
	kv.Reader
	left *int
}

var errRead = errors.New("no answer")

func (r failing) fails() bool { *r.left--; return *r.left == 0 }

func (r failing) Get(key []byte) ([]byte, error) {
	if r.fails() {
		return nil, errRead
	}
	return r.Reader.Get(key)
}

func (r failing) GetRange(at kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	if r.fails() {
		return nil, errRead
	}
	return r.Reader.GetRange(at, o)
}

// TestRepeatedSteps: a step whose read fails has done nothing, and is repeated.
func TestRepeatedSteps(t *testing.T) {
	db, _ := followed(t)
	write(t, db, func(tx kv.Tx) error {
		tx.Add(jobstore.KeysBelow(root).Count.Pack("_replicator"), 1)
		return nil
	})
	whole := New(root, nil, true)
	want := findings(t, whole, db.Present())
	for at := 1; ; at++ {
		left, failed := at, 0
		c := New(root, nil, true)
		var all []check.Finding
		for done := false; !done; {
			found, last, err := c.Step(failing{db.Present(), &left})
			if errors.Is(err, errRead) {
				failed++
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			all, done = append(all, found...), last
		}
		if len(all) != len(want) || c.Summary != whole.Summary {
			t.Fatalf("with a failure at read %d: %+v, %+v; want %+v", at, all, c.Summary, whole.Summary)
		}
		if left > 0 {
			return
		}
		if failed != 1 {
			t.Errorf("read %d failed, and %d steps did", at, failed)
		}
	}
}

// TestMark: a mark stays while nothing changes, and is another one after each change.
func TestMark(t *testing.T) {
	db, s := followed(t)
	docsOf := docs.New(jobstore.KeysBelow(root).Docs)
	instance := tuple.UUID{1}
	change := func(body string) func(kv.Tx) error {
		return func(tx kv.Tx) error {
			open, err := docsOf.Open(tx, "_replicator")
			if err == nil {
				_, err = open.Update([]docs.Edit{{Document: docs.Document{ID: body, Body: []byte(`{}`)}}})
			}
			return err
		}
	}
	marks := map[string]string{}
	for i, f := range []struct {
		what string
		do   func(kv.Tx) error
	}{
		{"nothing", func(kv.Tx) error { return nil }},
		{"a database", func(tx kv.Tx) error { return docsOf.Create(tx, "_replicator", instance, 0) }},
		{"a document", change("a")},
		{"another one", change("b")},
		{"a followed database", func(tx kv.Tx) error {
			return s.Queue.Add(tx, "couch/_replicator/other", jobs.Schedule{Priority: tuple.Pack(0)}, nil)
		}},
	} {
		write(t, db, f.do)
		err := damaged.Unread(t.Context(), db, func(tx kv.Tx) error { _, err := Mark(tx, root); return err })
		if err != nil {
			t.Errorf("after %s: %v", f.what, err)
		}
		mark, err := Mark(db.Look(), root)
		if again, _ := Mark(db.Look(), root); err != nil || mark == "" || again != mark {
			t.Fatalf("%d: %v, %x, then %x", i, err, mark, again)
		}
		if of := marks[mark]; of != "" {
			t.Errorf("%s leaves the mark that it was after %s", f.what, of)
		}
		marks[mark] = f.what
	}
}

// TestNoMark: a store that has no order of changes yet has no mark, nor has one with too many rows to read them all.
func TestNoMark(t *testing.T) {
	large, s := followed(t)
	for _, count := range []tuple.Subspace{s.Keys.Jobs.Count, jobstore.KeysBelow(root).Weights} {
		write(t, large, func(tx kv.Tx) error {
			for i := range maxLook {
				tx.Set(count.Pack(i), nil)
			}
			return nil
		})
		for name, db := range map[string]*fakefdb.Database{"a new store": fakefdb.New(), "a large store": large} {
			if mark, err := Mark(db.Look(), root); mark != "" || err != nil {
				t.Errorf("%s: %x, %v", name, mark, err)
			}
		}
		write(t, large, func(tx kv.Tx) error { tx.ClearRange(count.Range()); return nil })
	}
}
