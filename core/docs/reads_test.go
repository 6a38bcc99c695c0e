package docs

import (
	"fmt"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"
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
	w := &world{Database: fakefdb.New(fakefdb.InWorld(failing)), Store: New(tuple.Subspace("root")), name: "db"}
	w.create(t, "db", 1)
	first := w.put(t, `{"_id":"a","x":1}`)
	w.put(t, `{"_id":"a","_rev":"`+first+`","x":2}`)
	w.put(t, `{"_id":"c","_attachments":{"f":{"data":"b25l"}}}`)
	w.replicate(t, `{"_id":"a","_revisions":{"start":3,"ids":["z","y","`+first[2:]+`"]},"x":3}`)
	w.put(t, fmt.Sprintf(`{"_id":"b","x":"%0*d"}`, 2*chunkSize, 0))
	w.put(t, `{"_id":"_design/d"}`)
	w.put(t, `{"_id":"_local/l"}`)
	must(t, w, func(db *Database) (int, error) { return 0, db.SetSecurity([]byte(`{}`)) })
	match := func(*Document) bool { return true }
	wanted := []Wanted{{ID: "a"}, {ID: "b"}}
	for name, read := range map[string]func(db *Database) error{
		"document": func(db *Database) error {
			_, err := db.Read("a", Want{Conflicts: true, DeletedConflicts: true, RevsInfo: true, LocalSeq: true})
			return err
		},
		"long document": func(db *Database) error { _, err := db.Read("b", Want{}); return err },
		"local document": func(db *Database) error {
			_, err := db.Read("_local/l", Want{})
			return err
		},
		"leaves": func(db *Database) error {
			_, err := db.OpenRevs(wanted, true)
			return err
		},
		"missing": func(db *Database) error { _, _, err := db.Diff(wanted); return err },
		"changes": func(db *Database) error {
			_, err := db.Changes(Query{Limit: 9, AllDocs: true})
			return err
		},
		"their documents": func(db *Database) error {
			_, err := db.Changes(Query{Limit: 9, Docs: true, Conflicts: true})
			return err
		},
		"selected changes": func(db *Database) error {
			_, err := db.Changes(Query{Limit: 9, Match: match})
			return err
		},
		"pending": func(db *Database) error { _, err := db.Pending(Seq{}); return err },
		"list": func(db *Database) error {
			_, _, err := db.List(Listing{Limit: 9, Docs: true, Conflicts: true})
			return err
		},
		"named": func(db *Database) error {
			_, err := db.ListIDs([]string{"a", "none"}, Listing{Docs: true, Conflicts: true})
			return err
		},
		"designs": func(db *Database) error { _, err := Designs(db); return err },
		"their number": func(db *Database) error {
			_, _, err := CountDesigns(db, "_design/d")
			return err
		},
		"local ones": func(db *Database) error {
			_, _, _, err := Locals(db, Listing{Limit: 9, Docs: true})
			return err
		},
		"local by id": func(db *Database) error {
			_, err := LocalsByID(db, []string{"_local/l"})
			return err
		},
		"security": func(db *Database) error { _, err := db.Security(); return err },
		"info":     func(db *Database) error { _, err := db.Info(); return err },
		"attachment": func(db *Database) error {
			d, err := db.Read("c", Want{})
			if err == nil {
				_, err = db.ReadAttachment(&d.Attachments[0], 0, 9)
			}
			return err
		},
		"databases": func(db *Database) error { _, err := w.Names(db.tx, "", 9); return err },
	} {
		reads := 0
		for ; ; reads++ {
			failing.left = reads
			err := w.once(t, read)
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

// once reads the database in a transaction that is not repeated.
func (w *world) once(t *testing.T, read func(db *Database) error) error {
	tx := w.Begin(t.Context(), kv.Options{})
	defer tx.Cancel()
	db, err := w.Open(tx, w.name)
	if err != nil {
		return err
	}
	return read(db)
}
