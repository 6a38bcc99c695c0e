package docs

import (
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"
)

// rowCount is a transaction that counts the rows that are read.
type rowCount struct {
	kv.Tx
	rows *int
}

func (c rowCount) Get(key []byte) ([]byte, error) { *c.rows++; return c.Tx.Get(key) }

func (c rowCount) GetAll(keys [][]byte) ([][]byte, error) {
	*c.rows += len(keys)
	return c.Tx.GetAll(keys)
}

func (c rowCount) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	rows, err := c.Tx.GetRange(r, o)
	*c.rows += len(rows)
	return rows, err
}

// TestRowsAreBounded: a transaction reads the rows that its page needs, and not the whole database: it has five
// seconds, and other databases have millions of rows.
func TestRowsAreBounded(t *testing.T) {
	w := newWorld(t)
	const many = scanRows + 500
	var edits []Edit
	for i := range many {
		edits = append(edits, replicated(t, fmt.Sprintf(`{"_id":"d%04d","_rev":"1-a"}`, i)))
	}
	for i := range 2 * localsAtOnce {
		edits = append(edits, w.edit(t, fmt.Sprintf(`{"_id":"_local/%03d"}`, i)))
	}
	w.update(t, edits...)
	all, last := wantedOf(edits[:many]), "e"
	feed := func(q Query) func(db *Database) (int, error) {
		return func(db *Database) (int, error) { page, err := db.Changes(q); return len(page.Rows), err }
	}
	list := func(l Listing, more bool) func(db *Database) (int, error) {
		return func(db *Database) (int, error) {
			rows, goesOn, err := db.List(l)
			if goesOn != more {
				t.Errorf("%+v goes on: %t", l, goesOn)
			}
			return len(rows), err
		}
	}
	for name, c := range map[string]struct {
		read        func(db *Database) (int, error)
		found, most int
	}{
		"feed":                {feed(Query{Limit: 3}), 3, 4},
		"newest of the feed":  {feed(Query{Limit: 3, Descending: true}), 3, 4},
		"feed of none":        {feed(Query{Limit: 3, ID: IDs(nil)}), 0, scanRows},
		"feed of leaves":      {feed(Query{Limit: 3, AllDocs: true}), 3, 4}, // each row tells the only leaf
		"feed with documents": {feed(Query{Limit: many, Docs: true}), scanDocs, 2 * scanDocs},
		"list":                {list(Listing{Limit: 3}, true), 3, 3},
		"list of none":        {list(Listing{}, false), 0, 0},
		"list behind all":     {list(Listing{From: &last, Limit: 3}, false), 0, 0},
		"long list":           {list(Listing{Limit: many}, true), scanRows, scanRows},
		"listed documents":    {list(Listing{Limit: many, Docs: true}, true), scanDocs, 2 * scanDocs},
		"by id": {func(db *Database) (int, error) {
			rows, err := db.ListIDs(ids(edits), Listing{})
			return len(rows), err
		}, scanDocs, scanDocs},
		"opened": {func(db *Database) (int, error) {
			answers, err := db.OpenRevs(all, false)
			return len(answers), err
		}, readChunks, readChunks},
		"compared": {func(db *Database) (int, error) { _, n, err := db.Diff(all); return n, err }, diffDocs, diffDocs},
		"local documents": {func(db *Database) (int, error) {
			rows, _, _, err := Locals(db, Listing{Limit: many})
			return len(rows), err
		}, localsAtOnce, 2 * localsAtOnce},
		"local documents by id": {func(db *Database) (int, error) {
			rows, err := LocalsByID(db, ids(edits[many:]))
			return len(rows), err
		}, localsAtOnce, localsAtOnce},
		"databases": {func(db *Database) (int, error) {
			names, err := w.Names(db.tx, "", 1)
			return len(names), err
		}, 1, 1},
	} {
		read := 0
		found, err := kv.Run(t.Context(), w, func(tx kv.Tx) (int, error) {
			db, err := w.Open(rowCount{tx, &read}, w.name)
			if err != nil {
				return 0, err
			}
			read = 0
			return c.read(db)
		})
		if err != nil || found != c.found || read > c.most {
			t.Errorf("%s: %d found of %d rows, want %d of %d at most: %v", name, found, read, c.found, c.most, err)
		}
	}
}

// TestRoundTripsOfUpdate: to replace a revision that a validation sees takes a few round trips, also where the edit has
// it as an ancestor.
func TestRoundTripsOfUpdate(t *testing.T) {
	w := newWorld(t)
	first := w.put(t, `{"_id":"a","x":1}`)
	for _, e := range []Edit{
		w.edit(t, `{"_id":"a","_rev":"`+first+`","x":2}`),
		replicated(t, `{"_id":"a","_revisions":{"start":2,"ids":["b","`+first[2:]+`"]},"x":2}`),
	} {
		_, err := w.once(t, func(db *Database) (any, error) {
			db.Validate = func(_, prev *Document, _ bool) error {
				if prev == nil || prev.Rev.String() != first {
					t.Errorf("replicated %t: replaces %v", e.Replicated, prev)
				}
				return nil
			}
			before := fakefdb.TripsOf(db.tx)
			_, err := db.Update([]Edit{e})
			if n := fakefdb.TripsOf(db.tx) - before; n != 1 {
				t.Errorf("replicated %t: %d round trips", e.Replicated, n)
			}
			return nil, err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestLongLocals: of long local documents as many are read at once as have the bodies of a transaction, one at least.
func TestLongLocals(t *testing.T) {
	w := newWorld(t)
	long := `"` + strings.Repeat("x", readChunks/2*chunkSize) + `"`
	var edits []Edit
	for i := range 3 {
		edits = append(edits, w.edit(t, fmt.Sprintf(`{"_id":"_local/%d","x":%s}`, i, long)))
	}
	w.update(t, edits...)
	for name, read := range map[string]func(db *Database) ([]Listed, error){
		"by id": func(db *Database) ([]Listed, error) { return LocalsByID(db, ids(edits)) },
		"listed": func(db *Database) ([]Listed, error) {
			rows, _, _, err := Locals(db, Listing{Limit: 9})
			return rows, err
		},
	} {
		if rows := must(t, w, read); len(rows) != 2 {
			t.Errorf("%s: %d documents at once", name, len(rows))
		}
	}
}

// TestChunks: a value takes as many rows as it fills.
func TestChunks(t *testing.T) {
	for size, want := range map[int]int{0: 1, 1: 1, chunkSize: 1, chunkSize + 1: 2, 2 * chunkSize: 2} {
		if got := chunksOf(make([]byte, size)); got != want {
			t.Errorf("%d bytes take %d rows, want %d", size, got, want)
		}
	}
}
