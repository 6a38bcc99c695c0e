package oracle

import (
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/replication"
	"couchrelay/sim/peers"
)

// write has a user write a document into a database of a server.
func (r *rig) write(db *peers.DB, id string) {
	db.Write([]docs.Edit{{Document: docs.Document{ID: id, Body: []byte(`{"a":1}`)}, Token: r.w.NextToken()}})
}

func TestDatabases(t *testing.T) {
	checkDocuments(t, &databaseSubject, []case_{
		{"nothing wrong", func(r *rig) { r.document("doc", nil); r.run(nil); r.atRest() }, ""},
		{"a count that is wrong", func(r *rig) {
			r.document("doc", nil)
			rows, err := r.w.View().Present().GetRange(r.w.View().Store().Keys.Docs.Range(),
				kv.RangeOptions{})
			if err != nil {
				r.t.Fatal(err)
			}
			for _, row := range rows {
				if string(row.Value) == "\x01\x00\x00\x00\x00\x00\x00\x00" { // the counter of documents
					r.set(row.Key, []byte("\x02\x00\x00\x00\x00\x00\x00\x00"))
				}
			}
			r.atRest()
		}, "S15a"},
		{"a value that its reader changed", func(r *rig) {
			r.set([]byte("key"), []byte("value"))
			r.commit(nil, func(tx kv.Tx) error {
				v, err := tx.Get([]byte("key"))
				v[0]++
				return err
			})
			r.atRest()
		}, "P1b"},
		{"a document that its reader changed", func(r *rig) {
			db := r.db("s1", "a1")
			r.write(db, "doc")
			db.Latest("doc").Body[1]++
			r.atRest()
		}, "P1c"},
		{"a selector that was wrong", func(r *rig) {
			r.db("s1", "a1").Misjudged = "a doc"
			r.atRest()
		}, "S30a"},
	})
}

// A run tells of refusals once it has come to the documents that its target refuses.
func TestRefusalsAtRest(t *testing.T) {
	// refused has a run come through documents of which its target refuses one, and tell of so many failures.
	refused := func(failures int64, far, anew bool) func(*rig) {
		return func(r *rig) {
			source := r.db("s1", "a1")
			before := source.Last()
			r.write(source, "doc")
			r.db("s2", "b1").Deny = map[string]*docs.Error{"doc": {}}
			known := r.o.of[r.run(nil)]
			info := replication.Info{ThroughSeq: before}
			if info.DocWriteFailures = failures; far {
				info.ThroughSeq = source.Last()
			}
			if anew {
				known.begin.target = nil
			}
			(&databases{r.o.chronicle}).checkRefusals(known, info)
		}
	}
	check(t, &databaseSubject, []case_{
		{"told", refused(1, true, false), ""},
		{"not told", refused(0, true, false), "S14a"},
		{"not come so far", refused(0, false, false), ""},
		{"made anew since", refused(0, true, true), ""},
	})
}
