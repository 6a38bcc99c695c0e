package main

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"couchrelay/adapters/config"
	"couchrelay/core/kv"
)

// faulty is a store of which one operation, a read or a commit, fails with an error.
type faulty struct {
	store
	countdown int // the operation that fails, counted down to 0
	read      kv.Code
	commit    kv.Code // the commit happens all the same
}

// strikes reports whether the operation is the one that fails.
func (f *faulty) strikes() bool {
	f.countdown--
	return f.countdown == 0
}

type faultyTx struct {
	kv.Transaction
	f *faulty
}

func (f *faulty) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return faultyTx{f.store.Begin(ctx, o), f}
}

func (tx faultyTx) Get(key []byte) ([]byte, error) {
	if tx.f.strikes() {
		return nil, kv.NewError(tx.f.read)
	}
	return tx.Transaction.Get(key)
}

func (tx faultyTx) GetAll(keys [][]byte) ([][]byte, error) {
	if tx.f.strikes() {
		return nil, kv.NewError(tx.f.read)
	}
	return tx.Transaction.GetAll(keys)
}

func (tx faultyTx) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	if tx.f.strikes() {
		return nil, kv.NewError(tx.f.read)
	}
	return tx.Transaction.GetRange(r, o)
}

func (tx faultyTx) Commit() error {
	strikes := tx.f.strikes()
	err := tx.Transaction.Commit()
	if strikes && err == nil {
		err = kv.NewError(tx.f.commit)
	}
	return err
}

// TestStartSurvivesErrors: no error that passes ends a start, whichever operation it hits, on a new store and
// on one that exists.
func TestStartSurvivesErrors(t *testing.T) {
	open, prefix := newStore(t)
	c := config.Default()
	for i, codes := range [][2]kv.Code{{kv.TransactionTooOld, kv.CommitUnknownResult}} {
		for n, struck := 1, true; struck; n++ {
			db := &faulty{store: open(), countdown: n, read: codes[0], commit: codes[1]}
			c.KeyPrefix = fmt.Sprint(prefix, i, n/2) // each is started twice
			if _, err := newService(t.Context(), db, c, "test", nil, slog.New(slog.DiscardHandler)); err != nil {
				t.Errorf("%v at operation %d: %v", codes, n, err)
			}
			struck = db.countdown <= 0
			_ = db.Close()
		}
	}
}
