package docs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/docs/revtree"
	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"
)

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is a store with one database in it, called db.
type world struct {
	kv.Database
	*Store
	name   string
	tokens uint64
}

func newWorld(t failer) *world {
	w := &world{Database: fakefdb.New(), Store: New(tuple.Subspace("root")), name: "db"}
	w.create(t, "db", 1)
	return w
}

func (w *world) create(t failer, name string, instance byte) {
	t.Helper()
	err := kv.Do(context.Background(), w, func(tx kv.Tx) error {
		return w.Create(tx, name, tuple.UUID{instance}, instant.Seconds(int64(instance)))
	})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
}

// in runs fn with the open database in a transaction.
func in[T any](w *world, fn func(db *Database) (T, error)) (T, error) {
	return kv.Run(context.Background(), w, func(tx kv.Tx) (T, error) {
		db, err := w.Open(tx, w.name)
		if err != nil {
			var none T
			return none, err
		}
		return fn(db)
	})
}

// must is in for what cannot fail.
func must[T any](t failer, w *world, fn func(db *Database) (T, error)) T {
	t.Helper()
	v, err := in(w, fn)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return v
}

// edit is a new edit of a document as clients write it.
func (w *world) edit(t failer, raw string) Edit {
	t.Helper()
	w.tokens++
	return Edit{Document: *parse(t, raw), Token: w.tokens}
}

func replicated(t failer, raw string) Edit {
	t.Helper()
	return Edit{Document: *parse(t, raw), Replicated: true}
}

func parse(t failer, raw string) *Document {
	t.Helper()
	d, err := ParseDocument([]byte(raw))
	if err != nil {
		t.Fatalf("parse %s: %v", raw, err)
	}
	return d
}

// update writes all edits, in as many transactions as it takes.
func (w *world) update(t failer, edits ...Edit) []Written {
	t.Helper()
	var all []Written
	before := printed(edits)
	for rest := edits; len(rest) > 0; rest = edits[len(all):] {
		all = append(all, must(t, w, func(db *Database) ([]Written, error) { return db.Update(rest) })...)
	}
	for _, w := range all {
		if w.Err != nil && w.Changed {
			t.Fatalf("the edit of %q is refused, and has changed the document: %v", w.ID, w.Err)
		}
	}
	if after := printed(edits); after != before {
		t.Fatalf("edits, which an attempt of the transaction may need again, were\n%s, and are now\n%s", before, after)
	}
	return all
}

// printed has bodies as text: as lists of numbers, large ones take most of the time of the tests.
func printed(edits []Edit) string {
	var b strings.Builder
	for _, e := range edits {
		body := e.Body
		e.Body = nil
		fmt.Fprintf(&b, "%+v %s\n", e, body)
	}
	return b.String()
}

// put writes one document and returns its revision, or the error's name.
func (w *world) put(t failer, raw string) string {
	t.Helper()
	return outcome(w.update(t, w.edit(t, raw))[0])
}

func (w *world) replicate(t failer, raw string) string {
	t.Helper()
	return outcome(w.update(t, replicated(t, raw))[0])
}

func outcome(w Written) string {
	if w.Err != nil {
		return w.Err.Name
	}
	return w.Rev.String()
}

// get reads a document as JSON, or the error's reason.
func (w *world) get(t failer, id string, want Want, f Format) string {
	t.Helper()
	d, err := in(w, func(db *Database) (*Document, error) { return db.Read(id, want) })
	return shown(t, d, err, f)
}

func shown(t failer, d *Document, err error, f Format) string {
	t.Helper()
	if refusal := (*Error)(nil); errors.As(err, &refusal) {
		return refusal.Reason
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	text := d.AppendJSON(nil, f)
	if !json.Valid(text) {
		t.Fatalf("not JSON: %s", text)
	}
	return string(text)
}

func rev(s string) revtree.Rev {
	r, err := ParseRev(s)
	if err != nil {
		panic(err)
	}
	return r
}

// changes reads the feed to its end and shows it without sequences.
func (w *world) changes(t failer, q Query) string {
	t.Helper()
	var rows []string
	for _, c := range w.feed(t, q) {
		text := c.ID
		if c.Deleted {
			text += "!"
		}
		for _, r := range c.Revs {
			text += " " + r.String()
		}
		if c.Doc != nil {
			text += " " + string(c.Doc.Body)
		}
		rows = append(rows, text)
	}
	return strings.Join(rows, ", ")
}

// feed reads pages until the feed or the limit ends.
func (w *world) feed(t failer, q Query) []Change {
	t.Helper()
	if q.Limit == 0 {
		q.Limit = 1 << 30
	}
	var rows []Change
	for more := true; more && q.Limit > 0; {
		page := must(t, w, func(db *Database) (Page, error) { return db.Changes(q) })
		rows = append(rows, page.Rows...)
		q.Limit -= len(page.Rows)
		q.Since, more = page.Last, page.More
	}
	return rows
}

func (w *world) info(t failer) Info {
	t.Helper()
	return must(t, w, func(db *Database) (Info, error) { return db.Info() })
}

// keys counts what the store holds under the kinds of key, for tests that nothing is left behind.
func (w *world) keys(t failer, kinds ...int) string {
	t.Helper()
	counts := must(t, w, func(db *Database) ([]int, error) {
		var counts []int
		for _, kind := range kinds {
			rows, err := db.tx.GetRange(kv.Range{Begin: db.key(kind), End: append(db.key(kind), 0xff)},
				kv.RangeOptions{})
			if err != nil {
				return nil, err
			}
			counts = append(counts, len(rows))
		}
		return counts, nil
	})
	return fmt.Sprint(counts)
}

var _ failer = (*testing.T)(nil)
