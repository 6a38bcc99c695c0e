package whole

import (
	"slices"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/repid"
)

// TestOddKeys: whatever stands in the place of one element of a key, a check goes on to its end.
func TestOddKeys(t *testing.T) {
	db, _ := followed(t)
	s := jobstore.New(root, jobstore.DefaultConfig(repid.Server{UUID: "uuid"}))
	write(t, db, func(tx kv.Tx) error { return s.Docs.Create(tx, "_replicator", tuple.UUID{1}, 0) })
	for _, raw := range []string{
		`{"_id":"a","source":"http://s/a","target":"http://t/a","_attachments":{"f":{"data":"b25l"}}}`,
		`{"_id":"b","source":"http://s/b","target":"http://t/b"}`,
		`{"_id":"c","source":"http://s/b","target":"http://t/b"}`, `{"_id":"bad"}`, `{"_id":"_local/l"}`,
	} {
		doc, err := docs.ParseDocument([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		write(t, db, func(tx kv.Tx) error {
			to, err := s.Docs.Open(tx, "_replicator")
			if err == nil {
				_, err = s.WriteDocs(tx, to, []docs.Edit{{Document: *doc}}, jobstore.Writer{Admin: true}, 1)
			}
			return err
		})
	}
	write(t, db, func(tx kv.Tx) error {
		if err := s.Jobs.Register(tx, "w", []byte("{}")); err != nil {
			return err
		}
		_, err := s.Accept(tx, "w", "n", jobs.Demand{Batch: 1, Max: 1}, 1)
		return err
	})
	if found := findings(t, New(root, nil, true), db.Present()); len(found) > 0 {
		t.Fatalf("found %+v", found)
	}
	for _, row := range db.Pairs() {
		elems, err := root.Unpack(row.Key)
		if err != nil {
			t.Fatal(err)
		}
		for i := range elems {
			for _, odd := range []any{nil, "odd", -1, 1 << 40, []byte{1}, tuple.UUID{9}} {
				other := slices.Clone(elems)
				other[i] = odd
				var was []byte
				write(t, db, func(tx kv.Tx) (err error) {
					was, err = tx.Get(root.Pack(other...))
					tx.Set(root.Pack(other...), row.Value)
					return err
				})
				findings(t, New(root, nil, true), db.Present())
				write(t, db, func(tx kv.Tx) error {
					if tx.Set(root.Pack(other...), was); was == nil {
						tx.Clear(root.Pack(other...))
					}
					return nil
				})
			}
		}
	}
}
