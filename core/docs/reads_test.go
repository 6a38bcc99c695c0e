package docs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/fakefdb/damaged"
)

// lastRead is a world in which one read of a transaction fails: the one after left others.
type lastRead struct {
	trouble
	left int
}

func (w *lastRead) Decide(op fakefdb.Op) (out fakefdb.Outcome) {
	if op.Kind == fakefdb.Read {
		if w.left--; w.left == -1 {
			out.Fault = fakefdb.TooOldEarly
		}
	}
	return out
}

// TestReadsTellFailures: whichever read of the store fails, the reader of a database returns the store's error. The
// caller then repeats the transaction, and does not take the rows that were read for all rows.
func TestReadsTellFailures(t *testing.T) {
	failing := &lastRead{left: 1 << 40}
	w := fullWorld(t, fakefdb.New(fakefdb.InWorld(failing)))
	for name, read := range readers {
		reads := 0
		for ; ; reads++ {
			failing.left = reads
			_, err := w.once(t, read)
			if failing.left >= 0 {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				break
			}
			if kv.CodeOf(err) != kv.TransactionTooOld {
				t.Errorf("%s: read %d fails, and the outcome is %v", name, reads, err)
			}
		}
		if reads == 0 {
			t.Errorf("%s: nothing is read", name)
		}
		failing.left = 1 << 40
	}
}

// TestDamagedRowsAreTold: whichever row of the store has a value that nothing can be made of, or stands before one
// whose key cannot be read, a reader of the database returns what it returned before, since it does not need the row,
// or fails. It leaves nothing out in silence. Rows that mean something whatever bytes they have are left out:
// counters, and the further chunks of a long document.
func TestDamagedRowsAreTold(t *testing.T) {
	store := fakefdb.New()
	w := fullWorld(t, store)
	damage := func(do func(kv.Tx)) {
		if err := kv.Do(t.Context(), w, func(tx kv.Tx) error { do(tx); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for name, read := range readers {
		want, err := w.once(t, read)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range store.Pairs() {
			if len(row.Value) > 0 && !bytes.Contains(row.Value, []byte("0000")) && !isCounter(w, row.Key) {
				damage(func(tx kv.Tx) { tx.Set(row.Key, []byte{0xff}) })
				if got, err := w.once(t, read); err == nil && !reflect.DeepEqual(got, want) {
					t.Errorf("%s with a damaged %q: %v, want %v", name, row.Key, got, want)
				}
				damage(func(tx kv.Tx) { tx.Set(row.Key, row.Value) })
			}
			behind := append(bytes.Clone(row.Key), 0xfd) // begins no element
			damage(func(tx kv.Tx) { tx.Set(behind, row.Value) })
			got, err := w.once(t, read)
			if err == nil && !reflect.DeepEqual(got, want) && name != "pending" { // which counts rows
				t.Errorf("%s with a row behind %q: %v, want %v", name, row.Key, got, want)
			}
			damage(func(tx kv.Tx) { tx.Clear(behind) })
		}
	}
}

// TestLostParts: of a value that takes several rows none is left out in silence, whichever is lost.
func TestLostParts(t *testing.T) {
	store := fakefdb.New()
	w := &world{Database: store, Store: New(tuple.Subspace("root")), name: "db"}
	w.create(t, "db", 1)
	long := strings.Repeat("x", 3*chunkSize)
	w.replicate(t, `{"_id":"a","_rev":"1-a","text":"`+long+`"}`)
	read := func(db *Database) (any, error) { return db.Read("a", Want{}) }
	if _, err := w.once(t, read); err != nil {
		t.Fatal(err)
	}
	for _, row := range store.Pairs() {
		if !bytes.Contains(row.Value, []byte("xxx")) {
			continue
		}
		w.change(t, kv.KeyValue{Key: row.Key})
		if _, err := w.once(t, read); !errors.Is(err, kv.ErrUnreadable) {
			t.Errorf("a document without %q: %v", row.Key, err)
		}
		w.change(t, row)
	}
}

// TestDamagedRowsStopWrites: whichever row that a write reads has a value that nothing can be made of, or stands
// before one whose key cannot be read, the write fails. It writes nothing over what it has not understood.
func TestDamagedRowsStopWrites(t *testing.T) {
	store := fakefdb.New()
	w := fullWorld(t, store)
	update := func(change func(rev string) Edit) func(db *Database) error {
		return func(db *Database) error {
			d, err := db.Read("c", Want{})
			if err != nil {
				return err
			}
			_, err = db.Update([]Edit{change(d.Rev.String())})
			return err
		}
	}
	for name, write := range map[string]func(db *Database) error{
		"edit": update(func(rev string) Edit { return w.edit(t, `{"_id":"c","_rev":"`+rev+`","x":1}`) }),
		"deletion": update(func(rev string) Edit {
			return w.edit(t, `{"_id":"c","_rev":"`+rev+`","_deleted":true}`)
		}),
		"merge": update(func(rev string) Edit {
			return replicated(t, `{"_id":"c","_revisions":{"start":2,"ids":["z","`+rev[2:]+`"]},"x":3}`)
		}),
		"stub of another leaf": update(func(string) Edit {
			return replicated(t, `{"_id":"c","_revisions":{"start":2,"ids":["y","z"]},"_attachments":`+
				`{"f":{"stub":true,"digest":"md5-+XxdKZQb+xsv2rCHSQargg=="}}}`)
		}),
		"end of another leaf": func(db *Database) error {
			d, err := db.Read("a", Want{Conflicts: true})
			if err != nil {
				return err
			}
			db.Validate = func(_, _ *Document, _ bool) error { return nil }
			_, err = db.Update([]Edit{replicated(t, `{"_id":"a","_revisions":{"start":4,"ids":["q","z","`+
				d.Meta.Conflicts[0].ID+`"]}}`)})
			return err
		},
		"local":    update(func(string) Edit { return w.edit(t, `{"_id":"_local/l","_rev":"0-1","x":1}`) }),
		"security": func(db *Database) error { return db.SetSecurity([]byte(`{"a":1}`)) },
		"limit":    func(db *Database) error { return db.SetRevsLimit(5) },
		"delete":   func(db *Database) error { return db.store.Delete(db.tx, db.Name, db.Instance) },
	} {
		op := func(tx kv.Tx) error {
			db, err := w.Open(tx, w.name)
			if err != nil {
				return err
			}
			return write(db)
		}
		err := damaged.Each(t.Context(), store, op, func(row damaged.Row, err error) {
			if err == nil {
				t.Errorf("%s goes on past a damaged %q (behind: %v)", name, row.Key, row.Behind)
			}
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCutRows: a row that has lost its end is not taken for one with less in it, as far as its own form tells.
func TestCutRows(t *testing.T) {
	w := fullWorld(t, fakefdb.New())
	db := must(t, w, func(db *Database) (*Database, error) { return db, nil })
	for name, c := range map[string]struct {
		key    []byte
		most   int // bytes that are too few; 0 for all but the whole value
		reader string
	}{
		"record":         {db.idKey(keyRecord, "a"), 0, "document"},
		"entry":          {db.entryKey("a", true), seqSize + 2, "list"},
		"local document": {db.idKey(keyLocal, "_local/l"), 1 + 1 + 8, "local document"},
	} {
		value := must(t, w, func(db *Database) ([]byte, error) { return db.tx.Get(c.key) })
		for cut := range cmp.Or(c.most, len(value)) {
			w.change(t, kv.KeyValue{Key: c.key, Value: value[:cut:cut]})
			if got, err := w.once(t, readers[c.reader]); err == nil || errors.Is(err, ErrMissing) {
				t.Errorf("%s of %d bytes is read as %v, %v", name, cut, got, err)
			}
		}
		w.change(t, kv.KeyValue{Key: c.key, Value: value})
	}
}

// TestDamagedListOfAttachments: a document is not read without its attachments where their list cannot be read.
func TestDamagedListOfAttachments(t *testing.T) {
	store := fakefdb.New()
	w := fullWorld(t, store)
	damaged := 0
	for _, row := range store.Pairs() {
		if list := bytes.Replace(row.Value, []byte(`[{"name"`), []byte(`({"name"`), 1); !bytes.Equal(list, row.Value) {
			err := kv.Do(t.Context(), w, func(tx kv.Tx) error { tx.Set(row.Key, list); return nil })
			if err != nil {
				t.Fatal(err)
			}
			damaged++
		}
	}
	d, err := w.once(t, func(db *Database) (any, error) { return db.Read("c", Want{}) })
	if err == nil || damaged != 2 {
		t.Errorf("with %d damaged lists: %+v", damaged, d)
	}
}

// TestUnreadableLocalRow: a list does not pass over a row whose key cannot be read.
func TestUnreadableLocalRow(t *testing.T) {
	w := newWorld(t)
	db := must(t, w, func(db *Database) (*Database, error) { return db, nil })
	w.change(t, kv.KeyValue{Key: append(db.idKey(keyLocal, "_local/x"), 0xfd), Value: []byte("x")})
	if rows, err := w.once(t, readers["local ones"]); err == nil {
		t.Errorf("the list is %v", rows)
	}
}

// TestUnreadableNameAndUpload: a database is not taken for created, nor an upload for swept or gone, where its row
// cannot be read.
func TestUnreadableNameAndUpload(t *testing.T) {
	store := fakefdb.New()
	w := fullWorld(t, store)
	up := w.upload(t, 1, make([]byte, pieceSize), 1000)
	for name, op := range map[string]func(tx kv.Tx) error{
		"create": func(tx kv.Tx) error {
			if err := w.Create(tx, w.name, tuple.UUID{2}, 1); !errors.Is(err, ErrExists) {
				return err
			}
			return nil
		},
		"sweep": func(tx kv.Tx) error { _, err := w.SweepUploads(tx, instant.Seconds(1000), 9); return err },
		"another piece": func(tx kv.Tx) error {
			db, err := w.Open(tx, w.name)
			if err != nil {
				return err
			}
			return db.StoreUpload(up, instant.Seconds(200))
		},
		"its document": func(tx kv.Tx) error {
			db, err := w.Open(tx, w.name)
			if err != nil {
				return err
			}
			e := w.edit(t, `{"_id":"u"}`)
			e.Attachments = []Attachment{{Name: "f", Content: Uploaded, Upload: up}}
			_, err = db.Update([]Edit{e})
			return err
		},
	} {
		err := damaged.Each(t.Context(), store, op, func(row damaged.Row, err error) {
			if err == nil && (name == "create" || row.Behind) {
				t.Errorf("%s goes on past a damaged %q (behind: %v)", name, row.Key, row.Behind)
			}
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func isCounter(w *world, key []byte) bool {
	e, err := w.instances.Unpack(key)
	return err == nil && len(e) == 2 && (e[1] == int64(keyDocCount) || e[1] == int64(keyDelCount))
}

// fullWorld has a database with all kinds of rows.
func fullWorld(t *testing.T, store kv.Database) *world {
	w := &world{Database: store, Store: New(tuple.Subspace("root")), name: "db"}
	w.create(t, "db", 1)
	first := w.put(t, `{"_id":"a","x":1}`)
	w.put(t, `{"_id":"a","_rev":"`+first+`","x":2}`)
	w.put(t, `{"_id":"c","_attachments":{"f":{"data":"b25l"}}}`)
	w.replicate(t, `{"_id":"c","_revisions":{"start":1,"ids":["z"]},"_attachments":{"g":{"data":"dHdv"}}}`)
	w.replicate(t, `{"_id":"a","_revisions":{"start":3,"ids":["z","y","`+first[2:]+`"]},"x":3}`)
	w.put(t, fmt.Sprintf(`{"_id":"b","x":"%0*d"}`, 2*chunkSize, 0))
	w.put(t, `{"_id":"_design/d"}`)
	w.put(t, `{"_id":"_local/l"}`)
	must(t, w, func(db *Database) (int, error) { return 0, db.SetSecurity([]byte(`{}`)) })
	return w
}

// readers are all ways to read a database.
var readers = map[string]func(db *Database) (any, error){
	"document": func(db *Database) (any, error) {
		return db.Read("a", Want{Conflicts: true, DeletedConflicts: true, RevsInfo: true, LocalSeq: true})
	},
	"long document":  func(db *Database) (any, error) { return db.Read("b", Want{}) },
	"local document": func(db *Database) (any, error) { return db.Read("_local/l", Want{}) },
	"leaves":         func(db *Database) (any, error) { return db.OpenRevs(wanted, true) },
	"missing":        func(db *Database) (any, error) { m, asked, err := db.Diff(wanted); return all(m, asked), err },
	"changes":        func(db *Database) (any, error) { return db.Changes(Query{Limit: 9, AllDocs: true}) },
	"their documents": func(db *Database) (any, error) {
		return db.Changes(Query{Limit: 9, Docs: true, Conflicts: true})
	},
	"selected changes": func(db *Database) (any, error) {
		return db.Changes(Query{Limit: 9, Match: func(*Document) bool { return true }})
	},
	"pending": func(db *Database) (any, error) { return db.Pending(Seq{}) },
	"list": func(db *Database) (any, error) {
		rows, more, err := db.List(Listing{Limit: 9, Docs: true, Conflicts: true})
		return all(rows, more), err
	},
	"named": func(db *Database) (any, error) {
		return db.ListIDs([]string{"a", "none"}, Listing{Docs: true, Conflicts: true})
	},
	"designs": func(db *Database) (any, error) { return Designs(db) },
	"their number": func(db *Database) (any, error) {
		n, before, err := CountDesigns(db, "_design/d")
		return all(n, before), err
	},
	"local ones": func(db *Database) (any, error) {
		rows, n, more, err := Locals(db, Listing{Limit: 9, Docs: true})
		return all(rows, n, more), err
	},
	"local by id": func(db *Database) (any, error) { return LocalsByID(db, []string{"_local/l"}) },
	"security":    func(db *Database) (any, error) { return db.Security() },
	"info":        func(db *Database) (any, error) { return db.Info() },
	"attachment": func(db *Database) (any, error) {
		d, err := db.Read("c", Want{})
		if err != nil {
			return nil, err
		}
		return db.ReadAttachment(&d.Attachments[0], 0, 9)
	},
	"databases": func(db *Database) (any, error) { return db.store.Names(db.tx, "", 9) },
}

var wanted = []Wanted{{ID: "a"}, {ID: "b"}}

func all(results ...any) any { return results }

// once reads the database in a transaction that is not repeated.
func (w *world) once(t *testing.T, read func(db *Database) (any, error)) (any, error) {
	tx := w.Begin(t.Context(), kv.Options{})
	defer tx.Cancel()
	db, err := w.Open(tx, w.name)
	if err != nil {
		return nil, err
	}
	return read(db)
}
