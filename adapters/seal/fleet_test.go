package seal_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"couchrelay/adapters/embedded"
	"couchrelay/adapters/seal"
	"couchrelay/core/kv"
)

// TestRekeyOfAFleet: the file is the operators'. Two processes follow it, one after the other.
func TestRekeyOfAFleet(t *testing.T) {
	below, o, ctx := open(t, embedded.Options{}), keyFile(t), context.Background()
	o.Create, o.Exclusive = false, false
	first, second := seal.NewKey(), seal.NewKey()
	file := func(keys ...seal.Key) {
		if err := seal.WriteFile(o.File, keys); err != nil {
			t.Fatal(err)
		}
	}
	file(first)
	a, b := started(t, below, o), started(t, below, o)
	newPlace(t, a.db).plant()
	want := leaks(rows(t, a.db))
	if err := a.Rekey(ctx); !errors.Is(err, seal.ErrShared) || len(keys(a.file())) != 1 {
		t.Fatalf("Rekey: %v", err)
	}
	for _, list := range [][]seal.Key{{first, second}, {second, first}} {
		file(list...)
		for _, h := range []*home{a, b} {
			if err := h.Reload(ctx); err != nil {
				t.Fatal(err)
			}
			for _, db := range []kv.Database{a.db, b.db} {
				if got := leaks(rows(t, db)); !slices.Equal(got, want) {
					t.Fatal("a process cannot read what another one wrote")
				}
			}
			h.finish()
		}
	}
	dropped, needed, err := b.Drop(ctx)
	if len(dropped) != 1 || len(needed) != 0 || err != nil || len(keys(b.file())) != 2 {
		t.Errorf("dropped %v, needed %v, %v", dropped, needed, err)
	}
	file(second)
	if got := leaks(rows(t, started(t, below, o).db)); !slices.Equal(got, want) {
		t.Error("without the old key rows cannot be read")
	}
}

// TestDroppedWhileInUse: one process of a fleet was not told of the new key, and goes on sealing with the old one after
// another has dropped that. The old key is needed again, also where the file changes once more.
func TestDroppedWhileInUse(t *testing.T) {
	o, ctx := keyFile(t), context.Background()
	o.Create, o.Exclusive = false, false
	late := o
	late.File += "2"
	first, second := seal.NewKey(), seal.NewKey()
	file := func(o seal.Options, keys ...seal.Key) {
		if err := seal.WriteFile(o.File, keys); err != nil {
			t.Fatal(err)
		}
	}
	for _, affirmed := range []bool{true, false} {
		below := open(t, embedded.Options{})
		file(o, first, second)
		file(late, first, second)
		a, b := started(t, below, o), started(t, below, late)
		file(o, second, first)
		if err := a.Reload(ctx); err != nil {
			t.Fatal(err)
		}
		a.finish()
		if dropped, _, err := a.Drop(ctx); len(dropped) != 1 || err != nil {
			t.Fatalf("dropped %v, %v", dropped, err)
		}
		newPlace(t, b.db).plant()
		file(late, second)
		if affirmed {
			if err := b.Affirm(ctx); err != nil {
				t.Fatal(err)
			}
		} else if err := b.Reload(ctx); !errors.Is(err, seal.ErrUnknownKey) {
			t.Errorf("a reload without the key of what was sealed here: %v", err)
		}
		if _, err := start(t, below, late); !errors.Is(err, seal.ErrUnknownKey) {
			t.Errorf("a start without the key of what was sealed here: %v", err)
		}
		if _, needed, err := a.Drop(ctx); len(needed) != 1 || err != nil {
			t.Errorf("needed are %v, %v", needed, err)
		}
	}
}

// TestDropWaitsForAFleet: where other processes use the store, the keys of one of them may just have changed.
func TestDropWaitsForAFleet(t *testing.T) {
	o := keyFile(t)
	o.Exclusive = false
	h := started(t, open(t, embedded.Options{}), o)
	newPlace(t, h.db).plant()
	began := time.Now()
	seal.LateCommits = 200 * time.Millisecond
	defer func() { seal.LateCommits = 0 }()
	for time.Since(began) < seal.LateCommits { // what this process sealed before is committed
		h.finish()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := h.Drop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a drop that did not wait: %v", err)
	}
}

// TestRekeyPassesRowsOfALostKey: a row that was sealed with a key that is lost keeps no other one from being sealed
// with the new key, and that key counts as needed, in case that it is found.
func TestRekeyPassesRowsOfALostKey(t *testing.T) {
	below, o, ctx := open(t, embedded.Options{}), keyFile(t), context.Background()
	h := started(t, below, o)
	newPlace(t, h.db).plant()
	h.finish()
	key := rows(t, below)[slices.IndexFunc(rows(t, below), func(row kv.KeyValue) bool {
		return seal.ServiceRows(root).Sealed(row.Key)
	})].Key
	other, lost := seal.New(below, seal.ServiceRows(root)), seal.NewKey()
	other.Ring.Set("", []seal.Key{lost}, true)
	if err := kv.Do(ctx, other, func(tx kv.Tx) error { tx.Set(key, []byte("{}")); return nil }); err != nil {
		t.Fatal(err)
	}
	sealed := h.status().Keys[0].Rows
	if err := h.Rekey(ctx); err != nil {
		t.Fatal(err)
	}
	h.finish()
	s := h.status()
	if sealed < 2 || !s.Done || len(s.Keys) != 3 || s.Keys[0].Rows != sealed || s.Keys[1].Rows != 0 ||
		s.Keys[2] != (seal.KeyStatus{ID: lost.ID().String(), Rows: 1}) {
		t.Errorf("of %d rows beside one of a lost key: %+v", sealed, s)
	}
	dropped, needed, err := h.Drop(ctx)
	if len(dropped) != 1 || !slices.Equal(needed, []seal.ID{lost.ID()}) || err != nil {
		t.Errorf("dropped %v, needed %v, %v", dropped, needed, err)
	}
}
