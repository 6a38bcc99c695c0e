package seal_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/embedded"
	"couchrelay/adapters/seal"
	"couchrelay/core/kv"
	"couchrelay/sim/conformance"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/programs"

	"github.com/benbjohnson/clock"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// sealed returns a database around db that seals the rows for which in is true.
func sealed(db kv.Database, in func(key []byte) bool) *seal.Database {
	s := seal.New(db, seal.Rows{Root: []byte("te"), Sealed: in})
	s.Ring.Set("test.key", []seal.Key{seal.NewKey()}, true)
	return s
}

func every([]byte) bool { return true }
func none([]byte) bool  { return false }

func open(t testing.TB, o embedded.Options) *embedded.Database {
	o.FS = vfs.NewMem()
	db, err := embedded.Open("store", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		in   func([]byte) bool
		rows conformance.Rows
	}{
		{"nothing sealed", none, conformance.Rows{}},
		{"everything sealed", every, conformance.Rows{MaxValue: kv.MaxValueSize - seal.Overhead, NoOperands: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conformance.Run(t, func(t testing.TB) conformance.Store {
				now := clock.NewMock()
				now.Set(time.Unix(1_000_000, 0))
				db := sealed(open(t, embedded.Options{Clock: now}), c.in)
				return conformance.Store{DB: db, Prefix: []byte("test/"), Advance: now.Add, Exact: true, Rows: c.rows}
			})
		})
	}
}

// TestPrograms compares a sealed store with a plain one on random programs, without arithmetic on values, which sealed
// rows do not have, and without values at the limit, which is another one.
func TestPrograms(t *testing.T) {
	plain, db := fakefdb.New(), sealed(open(t, embedded.Options{}), every)
	report := programs.Report{Allowed: map[programs.Allowed]int{}}
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		p := slices.DeleteFunc(programs.Draw(rt), func(s programs.Step) bool {
			return s.Op == "add" || s.Op == "max" || len(s.Value) > 1000
		})
		prefix := []byte("test/" + strings.Repeat("x", round%7) + string(rune('A'+round)) + "/")
		want, got := p.Run(context.Background(), plain, prefix), p.Run(context.Background(), db, prefix)
		if difference := report.Compare(p, want, got, true); difference != "" {
			rt.Fatal(difference)
		}
	})
}

// TestErrorOfAnOpenFailsTheCommit is promise 5 of the contract for values that do not open.
func TestErrorOfAnOpenFailsTheCommit(t *testing.T) {
	below := open(t, embedded.Options{})
	db, ctx := sealed(below, every), context.Background()
	err := kv.Do(ctx, below, func(tx kv.Tx) error { tx.Set([]byte("test/a"), []byte("\xffcrs\x01")); return nil })
	if err != nil {
		t.Fatal(err)
	}
	tx := db.Begin(ctx, kv.Options{})
	if _, err := tx.Get([]byte("test/a")); !errors.Is(err, seal.ErrForged) {
		t.Fatalf("the read gives %v", err)
	}
	tx.Set([]byte("test/b"), []byte("1"))
	if err := tx.Commit(); !errors.Is(err, seal.ErrForged) {
		t.Errorf("the commit gives %v", err)
	}
	if err := tx.OnError(kv.NewError(kv.NotCommitted)); err != nil {
		t.Fatal(err)
	}
	tx.Set([]byte("test/c"), []byte("1"))
	if err := tx.Commit(); err != nil {
		t.Errorf("the next attempt gives %v", err)
	}
	err = kv.Do(ctx, db, func(tx kv.Tx) error { _, err := tx.Get([]byte("test/a")); return err })
	if !errors.Is(err, seal.ErrForged) {
		t.Errorf("Do gives %v", err)
	}
}
