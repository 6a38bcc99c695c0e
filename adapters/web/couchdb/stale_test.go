package couchdb

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"
)

// behind is a store as a node sees it that has not heard of what others wrote since a version.
type behind struct {
	kv.Database
	version int64 // of stale transactions; 0 for the newest
}

func (b *behind) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	tx := b.Database.Begin(ctx, o)
	if o.Stale && b.version > 0 {
		tx.(interface{ SetReadVersion(int64) }).SetReadVersion(b.version)
	}
	return tx
}

// TestWriteBehindOthers: what another node did a moment ago is neither refused nor taken for granted.
func TestWriteBehindOthers(t *testing.T) {
	store := &behind{Database: fakefdb.New()}
	s := newSite(t, func(o *Options) { o.Store = store })
	write := func(request string) (rev string) {
		var answer struct{ Rev, Error string }
		reply := s.Ask(request)
		defer reply.Body.Close()
		if err := json.NewDecoder(reply.Body).Decode(&answer); err != nil || answer.Rev == "" {
			t.Fatalf("%s: %+v, %v", request, answer, err)
		}
		return answer.Rev
	}
	elsewhere := func(do func()) { // what it does is not known here
		version, err := kv.Run(context.Background(), store.Database, kv.Tx.ReadVersion)
		if err != nil {
			t.Fatal(err)
		}
		store.version = 0
		do()
		store.version = version
	}
	var rev string
	elsewhere(func() { rev = write(`PUT /db/a {"n":1}`) })
	rev = write(fmt.Sprintf(`PUT /db/a {"n":2,"_rev":%q}`, rev))
	elsewhere(func() { write("DELETE /db/a?rev=" + rev) })
	write(`PUT /db/a {"n":3}`)

	const copied = `POST /db/_bulk_docs {"new_edits":false,"docs":[{"_id":"b","_rev":"1-aa"}]}`
	s.Want(copied, 201, `[]`)
	elsewhere(func() {
		s.Want("DELETE /db", 200, `{"ok":true}`)
		s.Want("PUT /db", 201, `{"ok":true}`)
	})
	s.Want(copied, 201, `[]`)
	store.version = 0
	s.Want("GET /db/b", 200, `{"_id":"b","_rev":"1-aa"}`)
}
