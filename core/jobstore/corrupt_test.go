package jobstore

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/schedule"
	"couchrelay/core/spec"
)

// TestCorruptRowsAreTold: what comes past a row that cannot be read fails and says so, and writes nothing. It neither
// passes over the row nor takes it for one that is not there.
func TestCorruptRowsAreTold(t *testing.T) {
	const malformed = "malformed"
	keys, _ := newBench(t).s.Docs.Reads(tuple.UUID{1}, "r")
	revisions, entry := keys[0], keys[1]
	write := func(b *bench, tx kv.Tx) error {
		db, err := b.s.Docs.Open(tx, "_replicator")
		if err == nil {
			_, err = b.s.WriteDocs(tx, db, []docs.Edit{{Document: docs.Document{ID: "r"}}}, admin, b.now)
		}
		return err
	}
	list := func(b *bench, tx kv.Tx) error {
		_, err := Lists{Store: b.s, Reader: tx}.Page(Listing{Limit: 5, Filter: Filter{Workers: []string{"w"}}})
		return err
	}
	retry := func(b *bench, tx kv.Tx) error { _, err := b.by(tx).Retry(jobID("r"), ""); return err }
	cancel := func(b *bench, tx kv.Tx) error { _, err := b.by(tx).Cancel(jobID("r")); return err }
	servers := func(b *bench, tx kv.Tx) error {
		_, _, err := Lists{Store: b.s, Reader: tx}.Servers("", 5)
		return err
	}
	audit := func(b *bench, tx kv.Tx) error { return b.s.Audit(tx) }
	promote := func(b *bench, tx kv.Tx) error { _, _, err := b.s.Promote(tx, b.now, 5); return err }
	demands := func(b *bench, tx kv.Tx) error { _, _, err := Demands(tx, b.s, 5); return err }
	reindex := func(b *bench, tx kv.Tx) error { _, err := Reindex(tx, b.s, 5); return err }
	request := func(b *bench, tx kv.Tx) error {
		rep, err := spec.ParseRequest([]byte(`{"source":"http://h/x","target":"http://h/y"}`), b.s.Config.Parse)
		if err == nil {
			_, err = b.s.Replicate(tx, rep, "joe", b.now)
		}
		return err
	}
	database := func(k Keys) []byte { return append(docs.Named(k.Docs).Begin, tuple.Pack("_replicator")...) }
	held := func(k Keys) []byte { return k.Jobs.Owned.Pack("w", "x") }
	tally := func(k Keys) []byte { return k.Tally.Pack("", 0, byServer, 5) }
	ofDropped := func(k Keys) []byte { return k.Tally.Pack(instancePrefix(tuple.UUID{2}), 0, byServer, "h:80", 5) }
	lifted := func(k Keys) []byte { return k.Lifted.Pack(5) }
	account := func(k Keys) []byte { return k.Count.Pack(5) }
	place := func(k Keys) []byte { return append(bytes.Clone(k.Jobs.Ready), tuple.Pack(0, "x")...) }
	job := func(k Keys) []byte { return k.Jobs.Job.Pack(jobID("r"), 0) }
	asItIs, old := func(*bench) {}, (*bench).age // a store of a release without index
	tags := func(b *bench) { b.share(func(c *Sharing) { c.Policy = schedule.Tags }) }
	failed := func(b *bench) { b.end(b.accept(), func(h Owned) error { return h.Fail(crash.Trouble, Turn{}) }) }
	dropping := func(b *bench) {
		b.put("s", `{"source":"http://z/a","target":"http://z/b"}`, admin)
		b.do1(func(tx kv.Tx) error { b.s.Drop(tx, tuple.UUID{2}); return nil })
	}
	for name, c := range map[string]struct {
		begin func(b *bench)
		key   func(k Keys) []byte
		do    func(b *bench, tx kv.Tx) error
		want  string
	}{
		"revisions, write":             {asItIs, func(Keys) []byte { return revisions }, write, malformed},
		"entry, retry":                 {failed, func(Keys) []byte { return entry }, retry, malformed},
		"database, cancel":             {asItIs, database, cancel, malformed},
		"held job, list":               {asItIs, held, list, malformed},
		"held job, list without index": {old, held, list, malformed},
		"tally":                        {asItIs, tally, servers, malformed},
		"tally of a deleted database":  {dropping, ofDropped, servers, malformed},
		"account":                      {asItIs, account, demands, malformed},
		"account, audit":               {asItIs, account, audit, malformed},
		"lifted hold":                  {asItIs, lifted, promote, malformed},
		"place in the queue":           {tags, place, request, "priority"},
		"job":                          {old, job, reindex, "record of job"},
	} {
		b := newBench(t)
		b.put("r", simple, admin)
		c.begin(b)
		b.do1(func(tx kv.Tx) error { tx.Set(c.key(b.s.Keys), []byte{0xff}); return nil })
		before := b.db.Hash()
		err := kv.Do(context.Background(), b.db, func(tx kv.Tx) error { return c.do(b, tx) })
		if err == nil || !strings.Contains(err.Error(), c.want) || b.db.Hash() != before {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnreadableRefusal: the error of a refused document that cannot be read names its job, the document and revision.
func TestUnreadableRefusal(t *testing.T) {
	b := newFullBench(t)
	id := jobID("run")
	b.do1(func(tx kv.Tx) error { tx.Set(b.s.Keys.Refused.Pack(id, "b", "1-x"), []byte("[")); return nil })
	b.do1(func(tx kv.Tx) error {
		_, err := b.s.Keys.Refusals(tx, id, "a", "", 9)
		if text := fmt.Sprint(err); !strings.Contains(text, `document "b", revision "1-x", of job "`+id+`"`) {
			t.Error(err)
		}
		return nil
	})
}
