//go:build fdb && fdbctest

package fdb_test

import (
	"context"
	"testing"

	"couchrelay/adapters/fdb"
	"couchrelay/core/kv"
)

// tagged begins transactions that the cluster tells from those of the monitor.
type tagged struct{ kv.Database }

func (db tagged) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	o.Tag = "counted"
	return db.Database.Begin(ctx, o)
}

// TestRoundTrips counts how often a transaction waits for the cluster.
func TestRoundTrips(t *testing.T) {
	key := func(name string) []byte { return []byte("test/" + name) }
	span := func(from, to string) kv.Range { return kv.Range{Begin: key(from), End: key(to)} }
	get := func(r kv.Reader, names ...string) {
		for _, name := range names {
			if _, err := r.Get(key(name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	scan := func(r kv.Reader, in kv.Range, o kv.RangeOptions) {
		if _, err := r.GetRange(in, o); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		do   func(tx kv.Tx)
		want int // the read version among them
	}{
		{"nothing", func(tx kv.Tx) {}, 0},
		{"a write", func(tx kv.Tx) { tx.Set(key("x"), nil) }, 1},
		{"a read", func(tx kv.Tx) { get(tx, "a") }, 2},
		{"reads, one after the other", func(tx kv.Tx) { get(tx, "a", "b", "c") }, 4},
		{"reads and a write", func(tx kv.Tx) { get(tx, "a", "b"); tx.Set(key("x"), nil) }, 4},
		{"a read, again", func(tx kv.Tx) { get(tx, "a", "a"); get(tx.Snapshot(), "a") }, 2},
		{"own writes", func(tx kv.Tx) {
			tx.Set(key("x"), nil)
			tx.ClearRange(span("y", "z"))
			get(tx, "x", "y", "yy")
		}, 1},
		{"a sum on a value that is not known", func(tx kv.Tx) { tx.Add(key("x"), 1); get(tx, "x") }, 3},
		{"a range", func(tx kv.Tx) { scan(tx, span("a", "z"), kv.RangeOptions{}); get(tx, "a", "nothing", "y") }, 2},
		{"a range with a limit", func(tx kv.Tx) {
			scan(tx, span("a", "z"), kv.RangeOptions{Limit: 2})
			get(tx, "a", "aa", "b")
			get(tx, "c")
		}, 3},
		{"ranges", func(tx kv.Tx) {
			scan(tx, span("b", "z"), kv.RangeOptions{})
			scan(tx, span("a", "b"), kv.RangeOptions{})
			scan(tx, span("a", "z"), kv.RangeOptions{Reverse: true})
		}, 3},
		{"several keys", func(tx kv.Tx) {
			if _, err := tx.GetAll([][]byte{key("a"), key("b"), key("c")}); err != nil {
				t.Fatal(err)
			}
			get(tx, "c", "b", "a")
		}, 2},
		{"a prefetch", func(tx kv.Tx) {
			tx.Prefetch([][]byte{key("a"), key("nothing")}, []kv.Range{span("b", "d"), span("x", "z")})
			get(tx, "a", "nothing", "b", "cc", "y")
			get(tx.Snapshot(), "b")
			scan(tx, span("b", "c"), kv.RangeOptions{})
			scan(tx, span("b", "d"), kv.RangeOptions{Limit: 1, Reverse: true})
			tx.Set(key("b"), nil)
			scan(tx, span("b", "d"), kv.RangeOptions{})
		}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster, db := openCluster(t, fdb.Options{})
			if err := kv.Do(bg, db, func(tx kv.Tx) error {
				for _, name := range []string{"a", "b", "c", "d"} {
					tx.Set(key(name), nil)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if err := kv.Do(bg, tagged{db}, func(tx kv.Tx) error { c.do(tx); return nil }); err != nil {
				t.Fatal(err)
			}
			if got := cluster.RoundTrips("counted"); got != c.want {
				t.Errorf("%d round trips, want %d", got, c.want)
			}
		})
	}
}
