package docs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

func (w *world) drop(t failer, instance byte) {
	t.Helper()
	drop := func(tx kv.Tx) error { return w.Delete(tx, w.name, tuple.UUID{instance}) }
	if err := kv.Do(t.(*testing.T).Context(), w, drop); err != nil {
		t.Fatalf("delete: %v", err)
	}
}

func TestValidName(t *testing.T) {
	for _, name := range []string{
		"a", "z", "a0_$()+-/", "a/b", "_replicator", "_users", "_global_changes", "x/_replicator",
		"x/y/_replicator", strings.Repeat("a", 238),
	} {
		if err := ValidName(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{
		"", "A", "0a", "_a", "a.b", "a b", "é", "aé", "a\x00", "/_replicator", "X/_replicator",
		"_replicator/_replicator", "_replicator2", "a?b", "a%2f", strings.Repeat("a", 239), "../a",
	} {
		if err := ValidName(name); err == nil {
			t.Errorf("%s is no valid name", name)
		}
	}
}

// TestDatabases creates, repeats, deletes and re-creates.
func TestDatabases(t *testing.T) {
	w := newWorld(t)
	create := func(name string, instance byte) error {
		return kv.Do(t.Context(), w, func(tx kv.Tx) error {
			return w.Create(tx, name, tuple.UUID{instance}, instant.Seconds(int64(instance)))
		})
	}
	if err := create("db", 1); err != nil {
		t.Errorf("repeated creation: %v", err)
	}
	if err := create("db", 2); !errors.Is(err, ErrExists) {
		t.Errorf("second creation: %v", err)
	}
	if refusal := (*Error)(nil); !errors.As(create("Bad", 3), &refusal) || refusal.Name != "illegal_database_name" {
		t.Errorf("bad name: %v", refusal)
	}
	if err := kv.Do(t.Context(), w, func(tx kv.Tx) error {
		_, err := w.Open(tx, strings.Repeat("x", kv.MaxKeySize)) // no store has such a key
		return err
	}); !errors.Is(err, ErrNoDatabase) {
		t.Errorf("opened by a long name: %v", err)
	}
	first := w.put(t, `{"_id":"a"}`)
	for _, name := range []string{"c", "b/_replicator", "_users"} {
		if err := create(name, name[0]); err != nil {
			t.Error(err)
		}
	}
	names := func(start string, limit int) string {
		names, err := kv.Run(t.Context(), w, func(tx kv.Tx) ([]string, error) { return w.Names(tx, start, limit) })
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(names)
	}
	if all, some := names("", 10), names("b/_replicator", 2); all != "[_users b/_replicator c db]" ||
		some != "[b/_replicator c]" {
		t.Errorf("names %s, %s", all, some)
	}
	w.drop(t, 9) // another instance
	if got := w.get(t, "a", Want{}, Format{}); !strings.Contains(got, first) {
		t.Errorf("after the deletion of another instance: %s", got)
	}
	w.drop(t, 1)
	w.drop(t, 1)
	if _, err := in(w, func(db *Database) (int, error) { return 0, nil }); !errors.Is(err, ErrNoDatabase) {
		t.Errorf("after deletion: %v", err)
	}
	w.create(t, "db", 2)
	if info := w.info(t); info.Docs != 0 || w.get(t, "a", Want{}, Format{}) != "missing" {
		t.Errorf("the new database has something of the old: %+v", info)
	}
	times := must(t, w, func(db *Database) (string, error) { return db.StartTime(), nil })
	if times != "2000000" {
		t.Errorf("instance start time %s", times)
	}
	soon := &Database{Created: instant.Seconds(2) + 1} // within the second
	if soon.StartTime() == times {
		t.Errorf("another database also has instance start time %s", times)
	}
	// Nothing else is left in the store.
	left, err := kv.Run(t.Context(), w, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(tuple.Subspace("root").Range(), kv.RangeOptions{})
	})
	if err != nil || len(left) != 8 { // four names, four sequences
		t.Errorf("%d keys left, %v", len(left), err)
	}
}

// TestLongestName: a database may have a name as long as CouchDB allows, and is opened by that.
func TestLongestName(t *testing.T) {
	w := newWorld(t)
	w.name = strings.Repeat("x", maxNameSize)
	w.create(t, w.name, 2)
	if _, err := in(w, func(db *Database) (int, error) { return 0, nil }); err != nil {
		t.Error(err)
	}
}

// TestMirrorIsNoted: a database tells what it mirrors, and whether that is trusted, also once its settings change.
func TestMirrorIsNoted(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		w := newWorld(t)
		must(t, w, func(db *Database) (int, error) { Mirror(db, "http://h/a/", trusted); return 0, nil })
		must(t, w, func(db *Database) (int, error) { return 0, db.SetRevsLimit(7) })
		db := must(t, w, func(db *Database) (*Database, error) { return db, nil })
		if db.Follows != "http://h/a/" || db.Trusted != trusted || db.RevsLimit != 7 {
			t.Errorf("the database is %+v, trusted %t", db, trusted)
		}
	}
}

func TestSettings(t *testing.T) {
	w := newWorld(t)
	read := func() string {
		return must(t, w, func(db *Database) (string, error) {
			security, err := db.Security()
			return fmt.Sprint(db.RevsLimit, " ", string(security)), err
		})
	}
	if got := read(); got != "1000 {}" {
		t.Errorf("at first: %s", got)
	}
	long := `{"admins":{"names":["` + strings.Repeat("x", 150_000) + `"]}}`
	for _, security := range []string{long, `{ "members" : {} }`} {
		must(t, w, func(db *Database) (int, error) {
			return 0, errors.Join(db.SetRevsLimit(7), db.SetSecurity([]byte(security)))
		})
		if got, want := read(), "7 "+strings.ReplaceAll(security, " ", ""); got != want {
			t.Errorf("got %.50s, want %.50s", got, want)
		}
	}
	if got := w.keys(t, keySecurity); got != "[1]" {
		t.Errorf("security object takes %s keys", got)
	}
	for _, bad := range []string{"", "[]", "1", `{"a":`, `{"admins":["joe"]}`, `{"members":{"names":"joe"}}`} {
		if _, err := in(w, func(db *Database) (int, error) { return 0, db.SetSecurity([]byte(bad)) }); err == nil {
			t.Errorf("%q is no security object", bad)
		}
	}
	for _, bad := range []int{0, -1} {
		if _, err := in(w, func(db *Database) (int, error) { return 0, db.SetRevsLimit(bad) }); err == nil {
			t.Errorf("%d is no limit", bad)
		}
	}
}

func TestList(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"a", "b", "c", "d", "é", "_design/x"} {
		w.replicate(t, `{"_id":"`+id+`","_rev":"1-`+id+`","of":"`+id+`"}`)
	}
	w.replicate(t, `{"_id":"b","_revisions":{"start":2,"ids":["gone","b"]},"_deleted":true}`)
	at := func(s string) *string { return &s }
	for _, c := range []struct {
		l    Listing
		want string
	}{
		{Listing{}, "_design/x a c d é"},
		{Listing{Descending: true}, "é d c a _design/x"},
		{Listing{From: at("b")}, "c d é"},
		{Listing{From: at("c")}, "c d é"},
		{Listing{From: at("c"), After: true}, "d é"},
		{Listing{To: at("c")}, "_design/x a c"},
		{Listing{To: at("c"), Before: true}, "_design/x a"},
		{Listing{From: at("c"), To: at("a"), Descending: true}, "c a"},
		{Listing{From: at("c"), To: at("a"), Descending: true, After: true, Before: true}, ""},
		{Listing{From: at("a"), To: at("d"), After: true, Before: true}, "c"},
		{Listing{From: at("d"), To: at("a")}, ""},
		{Listing{Docs: true, From: at("c")}, `c{"of":"c"} d{"of":"d"} é{"of":"é"}`},
	} {
		for _, limit := range []int{1, 2, 100} {
			var got []string
			l := c.l
			for l.Limit = limit; ; {
				rows, more := []Listed(nil), false
				must(t, w, func(db *Database) (_ int, err error) { rows, more, err = db.List(l); return 0, err })
				for _, r := range rows {
					text := r.ID
					if r.Doc != nil {
						text += string(r.Doc.Body)
					}
					got = append(got, text)
				}
				if !more {
					break
				}
				l.From, l.After = &rows[len(rows)-1].ID, true
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%+v: %v, want %s", l, got, c.want)
			}
		}
	}
	rows := must(t, w, func(db *Database) ([]Listed, error) {
		return db.ListIDs([]string{"c", "b", "nope", "c", ""}, Listing{Docs: true})
	})
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprint(r.ID, " ", r.Rev, " ", r.Deleted, " ", r.Doc != nil))
	}
	want := "c 1-c false true, b 2-gone true false, nope 0- false false, c 1-c false true,  0- false false"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("by id: %s", text)
	}
}

// TestLongestID: a document whose id is as long as may be is there once it is written. One that is asked for by an id
// which is too long for a key is missing.
func TestLongestID(t *testing.T) {
	w := newWorld(t)
	read := func(id string) error {
		_, err := in(w, func(db *Database) (*Document, error) { return db.Read(id, Want{}) })
		return err
	}
	longest := strings.Repeat("x", maxIDSize)
	w.put(t, `{"_id":"`+longest+`"}`)
	if err := read(longest); err != nil {
		t.Error(err)
	}
	if err := read(strings.Repeat("x", kv.MaxKeySize)); !errors.Is(err, ErrMissing) {
		t.Errorf("a longer one: %v", err)
	}
}

// TestLocalsInPages lists local documents one by one in both directions, of which one has a further chunk.
func TestLocalsInPages(t *testing.T) {
	w := newWorld(t)
	w.put(t, `{"_id":"_local/a"}`)
	w.put(t, `{"_id":"_local/b","text":"`+strings.Repeat("x", chunkSize)+`"}`)
	w.put(t, `{"_id":"_local/c"}`)
	for _, descending := range []bool{false, true} {
		var ids []string
		l := Listing{Limit: 1, Descending: descending}
		for more := true; more && len(ids) < 4; {
			var rows []Listed
			must(t, w, func(db *Database) (_ int, err error) {
				rows, l, more, err = Locals(db, l)
				return 0, err
			})
			for _, row := range rows {
				if ids = append(ids, row.ID); row.Rev.String() != "0-1" || row.Doc.ID != row.ID {
					t.Errorf("%s has revision %s, and the document of %q", row.ID, row.Rev, row.Doc.ID)
				}
			}
		}
		if got := strings.Join(ids, " "); got != "_local/a _local/b _local/c" && !descending ||
			got != "_local/c _local/b _local/a" && descending {
			t.Errorf("descending %t: %s", descending, got)
		}
	}
	from, to := "_local/c", "_local/a"
	rows := must(t, w, func(db *Database) ([]Listed, error) {
		rows, _, _, err := Locals(db, Listing{From: &from, To: &to, Limit: 9})
		return rows, err
	})
	if len(rows) > 0 {
		t.Errorf("from the last to the first: %+v", rows)
	}
}

// TestIsContent: only rows below an instance are what a client wrote, whatever else looks like one of them.
func TestIsContent(t *testing.T) {
	root, instance := tuple.Subspace(tuple.Pack("test")), tuple.UUID{1}
	instances := root.Sub(keyInstances)
	for _, kind := range []int{keySecurity, keyBody, keyLocal, keyBlob} {
		key := instances.Pack(instance, kind)
		if !IsContent(root, key) || IsContent(root, key[:len(key)-1]) {
			t.Errorf("of kind %d, or of a key that ends before it", kind)
		}
		elsewhere := append(append(root.Pack(keyNames), make([]byte, instanceSize)...), tuple.Pack(kind)...)
		if IsContent(root, elsewhere) {
			t.Errorf("of kind %d, and not below an instance", kind)
		}
	}
	for _, key := range [][]byte{nil, root, instances.Pack(), instances.Pack(instance, keyRecord)} {
		if IsContent(root, key) {
			t.Errorf("%x", key)
		}
	}
}
