package seal_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/embedded"
	"couchrelay/adapters/seal"
	"couchrelay/core/kv"
)

func init() { seal.LateCommits = 0 }

// home is a store with a key file, as the service has one.
type home struct {
	t     *testing.T
	below kv.Database
	db    *seal.Database
	*seal.Keeper
}

// start opens the store as a process does that starts. It does not fail the test.
func start(t *testing.T, below kv.Database, o seal.Options) (*home, error) {
	h := &home{t: t, below: below, db: seal.New(below, seal.ServiceRows(root))}
	h.Keeper = seal.NewKeeper(h.db, o)
	if err := h.Check(context.Background()); err != nil {
		return nil, err
	}
	return h, h.Register(context.Background(), func(kv.Tx) {})
}

func started(t *testing.T, below kv.Database, o seal.Options) *home {
	t.Helper()
	h, err := start(t, below, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// keyFile is the options of an embedded store whose key file is to be made.
func keyFile(t *testing.T) seal.Options {
	return seal.Options{File: filepath.Join(t.TempDir(), "secret.key"), Encrypt: true, Create: true, Exclusive: true}
}

// finish rewrites until nothing is left.
func (h *home) finish() {
	h.t.Helper()
	for range 1000 {
		done, err := h.Step(context.Background())
		if err != nil {
			h.t.Fatal(err)
		}
		if done {
			return
		}
	}
	h.t.Fatal("the rewriting does not end")
}

func (h *home) status() seal.Status {
	h.t.Helper()
	s, err := h.Status(context.Background())
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *home) file() string {
	h.t.Helper()
	text, err := os.ReadFile(h.File)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

// keys are the lines of a key file that are keys.
func keys(text string) []string {
	return slices.DeleteFunc(strings.Fields(text), func(word string) bool { return len(word) != 2*seal.KeySize })
}

func TestKeyFileIsMade(t *testing.T) {
	below, o := open(t, embedded.Options{}), keyFile(t)
	h := started(t, below, o)
	newPlace(t, h.db).plant()
	info, err := os.Stat(o.File)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("key file %v, %v", info, err)
	}
	if n := len(leaks(rows(t, below))); n > 0 {
		t.Errorf("%d rows show a secret", n)
	}
	want := leaks(rows(t, h.db))
	if got := leaks(rows(t, started(t, below, o).db)); !slices.Equal(got, want) {
		t.Error("the next process does not read what this one wrote")
	}
}

// TestStoreStaysClosed: what a process must not start with, and what it says then.
func TestStoreStaysClosed(t *testing.T) {
	good := seal.NewKey()
	for name, c := range map[string]struct {
		damage func(path string) error
		want   []string
	}{
		"missing": {os.Remove, []string{"secret.key", "put the file back"}},
		"another key": {func(p string) error { return seal.WriteFile(p, []seal.Key{good}) },
			[]string{"secret.key", good.ID().String(), "is missing"}},
		"others read it": {func(p string) error { return os.Chmod(p, 0o644) },
			[]string{"secret.key", "0644", "chmod 600"}},
		"group writes": {func(p string) error { return os.Chmod(p, 0o660) }, []string{"secret.key", "0660"}},
		"short key": {func(p string) error { return os.WriteFile(p, []byte("# k\nabcd\n"), 0o600) },
			[]string{"secret.key, line 2", "32 bytes", "2 bytes"}},
		"no key": {func(p string) error { return os.WriteFile(p, []byte("# k\n"), 0o600) },
			[]string{"secret.key", "no key", "64 hexadecimal"}},
		"a directory": {func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) },
			[]string{"secret.key", "must be a file"}},
	} {
		t.Run(name, func(t *testing.T) {
			below, o := open(t, embedded.Options{}), keyFile(t)
			h := started(t, below, o)
			newPlace(t, h.db).plant()
			before, key := rows(t, below), keys(h.file())[0]
			if err := c.damage(o.File); err != nil {
				t.Fatal(err)
			}
			_, err := start(t, below, o)
			if err == nil {
				t.Fatal("it starts")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if strings.Contains(err.Error(), key) {
				t.Errorf("%q shows the key", err)
			}
			if err := h.Reload(context.Background()); err == nil {
				t.Error("a running process takes it over")
			}
			if len(leaks(rows(t, h.db))) == 0 || len(rows(t, below)) != len(before) {
				t.Error("the running process cannot read any more, or the store was changed")
			}
		})
	}
}

func TestWithoutFile(t *testing.T) {
	below := open(t, embedded.Options{})
	if _, err := start(t, below, seal.Options{Encrypt: true}); !errors.Is(err, seal.ErrNoKeys) {
		t.Errorf("a new shared store starts with %v", err)
	}
	h := started(t, below, seal.Options{})
	newPlace(t, h.db).plant()
	h = started(t, below, seal.Options{Encrypt: true}) // a fleet that is older than keys
	if len(leaks(rows(t, below))) == 0 {
		t.Error("without a key file something is sealed")
	}
	if err := h.Rekey(context.Background()); !errors.Is(err, seal.ErrNoFile) {
		t.Errorf("Rekey: %v", err)
	}
	o := keyFile(t)
	o.Create = false
	if _, err := start(t, below, o); err == nil || !strings.Contains(err.Error(), "openssl rand -hex 32") {
		t.Errorf("with a file that is not there: %v", err)
	}
}

// TestOldStoreIsSealed: what an earlier release wrote is read at once, sealed in the background, and opened again
// after encryption is switched off.
func TestOldStoreIsSealed(t *testing.T) {
	below := open(t, embedded.Options{})
	newPlace(t, below).plant()
	want := rows(t, below)
	same := func(db kv.Database) {
		t.Helper()
		got := slices.DeleteFunc(rows(t, db), func(row kv.KeyValue) bool { return root.Sub("seal").Contains(row.Key) })
		if !slices.EqualFunc(got, want, func(a, b kv.KeyValue) bool {
			return string(a.Key) == string(b.Key) && string(a.Value) == string(b.Value)
		}) {
			t.Error("rows have changed")
		}
	}
	o := keyFile(t)
	h := started(t, below, o)
	same(h.db)
	if s := h.status(); s.Plain == 0 || s.Done {
		t.Errorf("before: %+v", s)
	}
	h.finish()
	same(h.db)
	if s := h.status(); s.Plain != 0 || !s.Done || s.Keys[0].Rows == 0 || s.Rewritten != s.Keys[0].Rows {
		t.Errorf("after: %+v", s)
	}
	if found := leaks(rows(t, below)); len(found) > 0 {
		t.Errorf("%q show a secret", found)
	}
	o.Encrypt = false
	h = started(t, below, o)
	same(h.db)
	h.finish()
	same(below)
	if dropped, needed, err := h.Drop(context.Background()); len(dropped) != 1 || len(needed) != 0 || err != nil {
		t.Errorf("dropped %v, needed %v, %v", dropped, needed, err)
	}
	if err := os.Remove(o.File); err != nil {
		t.Fatal(err)
	}
	same(started(t, below, o).db)
}

func TestRekey(t *testing.T) {
	below, o, ctx := open(t, embedded.Options{}), keyFile(t), context.Background()
	h := started(t, below, o)
	newPlace(t, h.db).plant()
	h.finish()
	want, old := leaks(rows(t, h.db)), h.status().Keys[0]
	if err := h.Rekey(ctx); err != nil {
		t.Fatal(err)
	}
	s := h.status()
	was := old
	if was.Seals = false; len(s.Keys) != 2 || !s.Keys[0].Seals || s.Keys[1] != was || s.Done {
		t.Errorf("after Rekey: %+v", s)
	}
	if dropped, needed, err := h.Drop(ctx); len(dropped) != 0 || len(needed) != 1 || err != nil {
		t.Errorf("too early: dropped %v, needed %v, %v", dropped, needed, err)
	}
	h.finish()
	if s = h.status(); s.Keys[1].Rows != 0 || s.Keys[0].Rows != old.Rows || !s.Done || !s.Keys[1].Needed {
		t.Errorf("rewritten: %+v", s)
	}
	if dropped, needed, err := h.Drop(ctx); len(dropped) != 1 || len(needed) != 0 || err != nil {
		t.Errorf("dropped %v, needed %v, %v", dropped, needed, err)
	}
	if s = h.status(); len(s.Keys) != 1 || len(keys(h.file())) != 1 {
		t.Errorf("after the drop: %+v, file %q", s, h.file())
	}
	for _, db := range []kv.Database{h.db, started(t, below, o).db} {
		if got := leaks(rows(t, db)); !slices.Equal(got, want) {
			t.Error("rows cannot be read any more")
		}
	}
}

// TestRekeyOften: a new key is refused once the file has as many as are read, and the next process still starts.
func TestRekeyOften(t *testing.T) {
	below, o := open(t, embedded.Options{}), keyFile(t)
	h := started(t, below, o)
	ctx := context.Background()
	var err error
	for range 200 {
		if err = h.Rekey(ctx); err != nil {
			break
		}
	}
	if !errors.Is(err, seal.ErrManyKeys) {
		t.Errorf("after %d keys: %v", len(keys(h.file())), err)
	}
	h = started(t, below, o)
	h.finish()
	if _, _, err := h.Drop(ctx); err != nil || len(keys(h.file())) != 1 {
		t.Errorf("%d keys are left, %v", len(keys(h.file())), err)
	}
	if err := h.Rekey(ctx); err != nil {
		t.Error(err)
	}
}

// TestRekeyPassesDamagedRows: a row that does not open keeps no other one from being sealed with the new key. Its own
// key stays.
func TestRekeyPassesDamagedRows(t *testing.T) {
	below, o, ctx := open(t, embedded.Options{}), keyFile(t), context.Background()
	h := started(t, below, o)
	newPlace(t, h.db).plant()
	h.finish()
	sealed := h.status().Keys[0].Rows
	for _, row := range rows(t, below) {
		if bytes.HasPrefix(row.Value, []byte("\xffcrs\x01")) && !bytes.Contains(row.Key, []byte("seal")) {
			row.Value[len(row.Value)-1] ^= 1
			err := kv.Do(ctx, below, func(tx kv.Tx) error { tx.Set(row.Key, row.Value); return nil })
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if err := h.Rekey(ctx); err != nil {
		t.Fatal(err)
	}
	h.finish()
	if s := h.status(); sealed < 2 || !s.Done || s.Keys[0].Rows != sealed-1 || s.Keys[1].Rows != 1 {
		t.Errorf("of %d rows, one of them damaged: %+v", sealed, s)
	}
	if dropped, needed, err := h.Drop(ctx); len(dropped) != 0 || len(needed) != 1 || err != nil {
		t.Errorf("dropped %v, needed %v, %v", dropped, needed, err)
	}
}

// TestDropWaits: a key is not dropped while a transaction may still commit that seals with it, nor while the only row
// that was sealed with it is not rewritten.
func TestDropWaits(t *testing.T) {
	h := started(t, open(t, embedded.Options{}), keyFile(t))
	place := newPlace(t, h.db)
	h.finish()
	place.write(`{"_id":"d","source":{"url":"http://a/x","headers":{"X-Key":"s3cr3t"}},"target":"http://b/y"}`, false)
	for _, row := range rows(t, h.below) { // but one
		sealed := bytes.HasPrefix(row.Value, []byte("\xffcrs\x01")) && !bytes.Contains(row.Key, []byte("key"))
		if sealed && h.status().Keys[0].Rows > 1 {
			place.do(func(tx kv.Tx) error {
				tx.Clear(row.Key)
				return nil
			})
		}
	}
	sealed := h.status().Keys[0].Rows
	if err := h.Rekey(context.Background()); err != nil {
		t.Fatal(err)
	}
	seal.LateCommits = time.Hour
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	dropped, _, err := h.Drop(ctx)
	cancel()
	if seal.LateCommits = 0; !errors.Is(err, context.DeadlineExceeded) || len(dropped) > 0 {
		t.Errorf("dropped %v, %v", dropped, err)
	}
	dropped, needed, err := h.Drop(context.Background())
	if len(dropped) > 0 || len(needed) != 1 || err != nil || sealed != 1 {
		t.Errorf("with %d rows: dropped %v, needed %v, %v", sealed, dropped, needed, err)
	}
}

// TestRegisteredBeforeUse: the store asks for a new key before anything is sealed with it.
func TestRegisteredBeforeUse(t *testing.T) {
	below, o := open(t, embedded.Options{}), keyFile(t)
	h := started(t, below, o)
	if err := h.Rekey(context.Background()); err != nil {
		t.Fatal(err)
	}
	old := strings.Fields(keys(h.file())[1])
	if err := os.WriteFile(o.File, []byte(old[0]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := start(t, below, o); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("a service without the new key: %v", err)
	}
}

// TestDropReadsTheFile: a key that was written into the file since it was read last is registered before it seals.
func TestDropReadsTheFile(t *testing.T) {
	h := started(t, open(t, embedded.Options{}), keyFile(t))
	newPlace(t, h.db).plant()
	if err := h.Rekey(context.Background()); err != nil {
		t.Fatal(err)
	}
	h.finish()
	another := strings.Repeat("0a", seal.KeySize) + "\n"
	if err := os.WriteFile(h.File, []byte(another+h.file()), 0o600); err != nil {
		t.Fatal(err)
	}
	if dropped, needed, err := h.Drop(context.Background()); len(dropped) != 1 || len(needed) != 0 || err != nil {
		t.Fatalf("dropped %v, needed %v, %v", dropped, needed, err)
	}
	for _, k := range h.status().Keys {
		if !k.InFile || !k.Needed {
			t.Errorf("a key of the store and its file is %+v", k)
		}
	}
}

// killed is a store whose process dies: from a moment on nothing more reaches it, and the last commit may have.
type killed struct {
	kv.Database
	commits int // that are still to succeed
	lands   bool
}

var errKilled = errors.New("killed")

func (db *killed) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return dying{db.Database.Begin(ctx, o), db}
}

type dying struct {
	kv.Transaction
	db *killed
}

func (tx dying) Commit() error {
	if tx.db.commits--; tx.db.commits >= 0 {
		return tx.Transaction.Commit()
	}
	if tx.db.commits == -1 && tx.db.lands {
		_ = tx.Transaction.Commit()
	}
	return errKilled
}

// TestKilledWhileStarting ends a process at each commit of its start. If the start reports no error, the process's key
// is registered in the store: values that are sealed with another key could become unreadable.
func TestKilledWhileStarting(t *testing.T) {
	for n := 0; ; n++ {
		below, o := open(t, embedded.Options{}), keyFile(t)
		_, err := start(t, &killed{Database: below, commits: n}, o)
		if err != nil {
			if !errors.Is(err, errKilled) {
				t.Fatalf("killed at commit %d: %v", n, err)
			}
			continue
		}
		later := seal.NewKeeper(seal.New(below, seal.ServiceRows(root)), o)
		if s, err := later.Status(context.Background()); err != nil || len(s.Keys) != 1 || !s.Keys[0].Needed {
			t.Errorf("killed at commit %d: started with %+v, %v", n, s, err)
		}
		return
	}
}

// TestKilledWhileRekeying ends a process at every commit of a change of keys, from the new key to the drop of the old
// one, and starts another that reads everything and brings the change to its end.
func TestKilledWhileRekeying(t *testing.T) {
	ctx := context.Background()
	for _, lands := range []bool{false, true} {
		for n := 0; ; n++ {
			below, o := open(t, embedded.Options{}), keyFile(t)
			newPlace(t, started(t, below, o).db).plant()
			mortal := &killed{Database: below, commits: 1 << 30, lands: lands}
			h := started(t, mortal, o)
			want := leaks(rows(t, h.db))
			mortal.commits = n
			err := rekeyed(ctx, h)
			next := started(t, below, o)
			if got := leaks(rows(t, next.db)); !slices.Equal(got, want) {
				t.Fatalf("killed at commit %d: rows cannot be read any more", n)
			}
			next.finish()
			if _, needed, err := next.Drop(ctx); err != nil || len(needed) > 0 {
				t.Fatalf("killed at commit %d: needed %v, %v", n, needed, err)
			}
			if s := next.status(); !s.Done || s.Plain != 0 || len(s.Keys) != 1 {
				t.Fatalf("killed at commit %d: %+v", n, s)
			}
			if got := leaks(rows(t, started(t, below, o).db)); !slices.Equal(got, want) {
				t.Fatalf("killed at commit %d: rows cannot be read after the drop", n)
			}
			if err == nil {
				break
			}
		}
	}
}

// rekeyed changes the key, rewrites everything and drops the old key.
func rekeyed(ctx context.Context, h *home) error {
	if err := h.Rekey(ctx); err != nil {
		return err
	}
	for {
		done, err := h.Step(ctx)
		if err != nil {
			return err
		}
		if done {
			_, _, err := h.Drop(ctx)
			return err
		}
	}
}
