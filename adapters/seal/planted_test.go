package seal_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"couchrelay/adapters/embedded"
	"couchrelay/adapters/seal"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/json"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/peer"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// planted begins every secret of these tests.
const planted = "hunter2"

var secretDocs = []string{
	`{"_id":"url","source":"http://u:hunter2url@s1/a","target":"http://t/a"}`,
	`{"_id":"basic","source":{"url":"http://s2/a","auth":{"basic":{"username":"u","password":"hunter2basic"}}},
		"target":"http://t/b"}`,
	`{"_id":"bearer","source":"http://s3/a","target":{"url":"http://t/c",
		"headers":{"Authorization":"Bearer hunter2bearer"}},"continuous":true}`,
	`{"_id":"query","source":"http://s4/a?token=hunter2query","target":"http://t/d"}`,
	`{"_id":"proxy","source":"http://s5/a","target":"http://t/e","source_proxy":"http://u:hunter2proxy@p/"}`,
	`{"_id":"deleted","_deleted":true,"source":"http://u:hunter2deleted@s6/a","target":"http://t/f"}`,
	`{"_id":"over","source":"http://u:hunter2over@s7/a","target":"http://t/g","_replication_state":"failed",
		"_replication_state_reason":"hunter2reason"}`,
	`{"_id":"_design/d","any":"hunter2design"}`,
	`{"_id":"_local/l","any":"hunter2local"}`,
	`{"_id":"large","source":"http://u:hunter2large@s8/a","target":"http://t/h",
		"comment":"` + strings.Repeat("hunter2comment ", 20_000) + `"}`,
	`{"_id":"attached","source":"http://s9/a","target":"http://t/i","_attachments":{"key.pem":{"data":"` +
		base64.StdEncoding.EncodeToString([]byte("hunter2attached")) + `"}}}`,
}

// place is a store with a replicator database.
type place struct {
	t     *testing.T
	db    kv.Database
	store *jobstore.Store
	now   instant.Time
}

var root = tuple.Subspace(tuple.Pack("couchrelay"))

func newPlace(t *testing.T, db kv.Database) *place {
	store := jobstore.New(root, jobstore.DefaultConfig(repid.Server{UUID: "uuid"}))
	p := &place{t: t, db: db, store: store, now: instant.Seconds(1_700_000_000)}
	p.do(func(tx kv.Tx) error { return p.store.Docs.Create(tx, "_replicator", tuple.UUID{1}, p.now) })
	p.do(func(tx kv.Tx) error { return p.store.Jobs.Register(tx, "w", nil) })
	return p
}

func (p *place) do(f func(kv.Tx) error) {
	p.t.Helper()
	if err := kv.Do(context.Background(), p.db, f); err != nil {
		p.t.Fatal(err)
	}
}

// write writes a document; a replicated one is a conflict of what is there.
func (p *place) write(body string, replicated bool) {
	p.t.Helper()
	p.do(func(tx kv.Tx) error {
		db, err := p.store.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		doc, err := docs.ParseDocument([]byte(body), docs.ReplicationMembers...)
		if err != nil {
			return err
		}
		edits := []docs.Edit{{Document: *doc, Replicated: replicated}}
		written, err := p.store.WriteDocs(tx, db, edits, jobstore.Writer{Name: "adm", Admin: true}, p.now)
		if err == nil && written[0].Err != nil {
			err = written[0].Err
		}
		return err
	})
}

// plant writes secrets wherever users and servers can.
func (p *place) plant() {
	p.t.Helper()
	for _, body := range secretDocs {
		p.write(body, false)
	}
	p.write(`{"_id":"url","_rev":"1-0123456789abcdef0123456789abcdef",
		"source":"http://u:hunter2conflict@s1/a","target":"http://t/a"}`, true)
	p.do(func(tx kv.Tx) error {
		db, err := p.store.Docs.Open(tx, "_replicator")
		if err == nil {
			err = db.SetSecurity([]byte(`{"note":"hunter2security"}`))
		}
		return err
	})
	p.do(func(tx kv.Tx) error {
		body := `{"source":"http://u:hunter2request@r/a","target":"http://t/r"}`
		rep, err := spec.ParseRequest([]byte(body), p.store.Config.Parse)
		if err == nil {
			_, err = p.store.Replicate(tx, rep, "adm", p.now)
		}
		return err
	})
	p.do(func(tx kv.Tx) error { tx.Set(p.store.Keys.Secret, []byte("hunter2cookies")); return nil })
	p.run()
}

// run has jobs crash, complete, fail and be refused with texts that quote secrets, as servers' answers may.
func (p *place) run() {
	var work []jobstore.Work
	p.do(func(tx kv.Tx) error {
		taken, err := p.store.Accept(tx, "w", "node", jobs.Demand{Batch: 1, Max: 100}, p.now)
		work = taken.Work
		return err
	})
	if len(work) < 8 {
		p.t.Fatalf("only %d jobs run", len(work))
	}
	trouble := replication.Trouble{Error: "unauthorized", Reason: "no hunter2answer"}
	for i, w := range work {
		p.do(func(tx kv.Tx) error {
			h := p.store.Owned(tx, w.JobID, w.Lock, p.now)
			if i == 0 {
				return h.Crash(trouble, nil, jobstore.Turn{}, 1)
			}
			refusal := peer.Refusal{ID: "doc", Rev: "1-a", Error: "forbidden", Reason: "no hunter2refused"}
			return h.StoreRefused("w/1/1", []replication.Finding{{Refusal: refusal}})
		})
	}
	owned := func(tx kv.Tx, i int) jobstore.Owned { return p.store.Owned(tx, work[i].JobID, work[i].Lock, p.now) }
	p.do(func(tx kv.Tx) error { return owned(tx, 1).Fail(trouble, jobstore.Turn{}) })
	end := replication.End{Result: json.Raw(`{"history":["hunter2history"]}`)}
	p.do(func(tx kv.Tx) error { return owned(tx, 2).Complete(end, jobstore.Turn{}) })
}

// rows returns all rows of a store as they are.
func rows(t *testing.T, db kv.Database) []kv.KeyValue {
	t.Helper()
	all, err := kv.Run(context.Background(), db, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(kv.Range{Begin: []byte{}, End: []byte{0xff}}, kv.RangeOptions{})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// leaks returns the rows that show a secret, in clear or in base64.
func leaks(all []kv.KeyValue) (found []string) {
	for _, row := range all {
		if shows(row.Key) || shows(row.Value) {
			found = append(found, string(row.Key))
		}
	}
	return found
}

func shows(text []byte) bool {
	for shift := range 3 { // what base64 makes of it depends on where it stands
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + planted + "xxx"))
		if bytes.Contains(text, []byte(encoded[4:10])) {
			return true
		}
	}
	return bytes.Contains(text, []byte(planted))
}

func TestNoRowShowsASecret(t *testing.T) {
	plain := open(t, embedded.Options{})
	newPlace(t, plain).plant()
	shown := leaks(rows(t, plain))
	kinds := len(shown)
	k := jobstore.KeysBelow(root)
	for name, space := range map[string]tuple.Subspace{
		"docs": k.Docs, "secret": k.Secret, "job": k.Jobs.Job, "spec": k.Spec, "refused": k.Refused,
	} {
		if !slices.ContainsFunc(shown, func(row string) bool { return space.Contains([]byte(row)) }) {
			t.Errorf("no row of %s shows what was planted, without a seal", name)
		}
	}
	if kinds < 25 {
		t.Fatalf("only %d rows show what was planted, without a seal", kinds)
	}
	below := open(t, embedded.Options{})
	db := seal.New(below, seal.ServiceRows(root))
	db.Ring.Set("test.key", []seal.Key{seal.NewKey()}, true)
	newPlace(t, db).plant()
	if found := leaks(rows(t, below)); len(found) > 0 {
		t.Errorf("%d of %d rows show a secret: %q", len(found), kinds, found)
	}
	if got := len(leaks(rows(t, db))); got != kinds {
		t.Errorf("opened, %d rows show what was planted, of %d", got, kinds)
	}
}

// TestNoFileShowsASecret looks for secrets as strings(1) and grep would, in all files of a store.
func TestNoFileShowsASecret(t *testing.T) {
	for _, keys := range [][]seal.Key{nil, {seal.NewKey()}} {
		dir := t.TempDir()
		below, err := embedded.Open(dir, embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		db := seal.New(below, seal.ServiceRows(root))
		db.Ring.Set("test.key", keys, true)
		newPlace(t, db).plant()
		found := filesThatShow(t, dir) // the log of writes
		if err := below.Close(); err != nil {
			t.Fatal(err)
		}
		if found = append(found, filesThatShow(t, dir)...); (len(found) > 0) != (len(keys) == 0) {
			t.Errorf("with %d keys these files show a secret: %s", len(keys), found)
		}
	}
}

func filesThatShow(t *testing.T, dir string) (found []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && shows(text) {
			found = append(found, filepath.Base(name))
		}
	}
	return found
}
