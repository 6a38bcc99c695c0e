package couchdb

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"
)

// TestBulkBesideOthers: many documents are written although others write some of them all the time, as nodes do that
// take the jobs of replication documents.
func TestBulkBesideOthers(t *testing.T) {
	const all, room = 200, 4 // a transaction that writes more than room documents always meets another writer
	store, rounds, most := fakefdb.New(), 0, 0
	s := newSite(t, func(o *Options) {
		o.Store = store
		o.Write = func(q *web.Request, tx kv.Tx, db *docs.Database, edits []docs.Edit) ([]docs.Written, error) {
			written, err := db.Update(edits)
			if rounds++; rounds > 2*all {
				t.Fatalf("%d transactions did not write %d documents", rounds, all)
			}
			if most = max(most, len(edits)); err != nil || len(edits) <= room {
				return written, err
			}
			_, err = kv.Run(context.Background(), store, func(other kv.Tx) (struct{}, error) {
				db, err := o.Docs.Open(other, "db")
				if err != nil {
					return struct{}{}, err
				}
				rev := revtree.Rev{Gen: 1, ID: fmt.Sprint("b", rounds)}
				rival := docs.Document{ID: edits[0].ID, Rev: rev, Body: []byte("{}")}
				_, err = db.Update([]docs.Edit{{Document: rival, Replicated: true}})
				return struct{}{}, err
			})
			return written, err
		}
	})
	var texts []string
	for i := range all {
		texts = append(texts, fmt.Sprintf(`{"_id":"%d","_rev":"1-a"}`, i))
	}
	s.Want(`POST /db/_bulk_docs {"new_edits":false,"docs":[`+strings.Join(texts, ",")+`]}`, 201, `[]`)
	if most != all {
		t.Errorf("the first transaction tries %d documents", most)
	}
	for _, id := range []string{"0", "199"} {
		s.Want("GET /db/"+id+"?rev=1-a", 200, `{"_id":"`+id+`","_rev":"1-a"}`)
	}
}
