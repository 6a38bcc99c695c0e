package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"couchrelay/core/kv"
)

// tooMuch is a write that breaks a limit, and the code that says so.
var tooMuch = []struct {
	name string
	do   func(e *env, tx kv.Tx)
	want kv.Code
}{
	{"key", func(e *env, tx kv.Tx) { tx.Set(e.longKey(kv.MaxKeySize+1), nil) }, kv.KeyTooLarge},
	{"value", func(e *env, tx kv.Tx) { tx.Set(e.key("a"), make([]byte, e.maxValue()+1)) }, kv.ValueTooLarge},
	{"add key", func(e *env, tx kv.Tx) { tx.Add(e.longKey(kv.MaxKeySize+1), 1) }, kv.KeyTooLarge},
	{"system key", func(_ *env, tx kv.Tx) { tx.Set([]byte("\xffa"), nil) }, kv.KeyOutsideLegalRange},
	{"clear of an inverted range", func(e *env, tx kv.Tx) { tx.ClearRange(e.span("b", "a")) }, kv.InvertedRange},
	{"inverted read conflict", func(e *env, tx kv.Tx) { tx.AddReadConflict(e.span("b", "a")) }, kv.InvertedRange},
	{"inverted write conflict", func(e *env, tx kv.Tx) { tx.AddWriteConflict(e.span("b", "a")) }, kv.InvertedRange},
	{"versionstamp offset",
		func(e *env, tx kv.Tx) { tx.SetVersionstampedKey(append(e.key("0123456789"), 0xff, 0, 0, 0), nil) },
		kv.BadVersionstamp},
	{"versionstamp without offset", func(e *env, tx kv.Tx) { tx.SetVersionstampedValue(e.key("a"), []byte("abc")) },
		kv.BadVersionstamp},
}

func (e *env) longKey(n int) []byte {
	return append(e.key(""), bytes.Repeat([]byte{'k'}, n-len(e.Prefix))...)
}

var limits = []test{
	{"codes, reported by the next read or the commit", func(e *env) {
		for _, c := range tooMuch {
			tx := e.begin()
			c.do(e, tx)
			tx.Set(e.key("b"), nil)
			if _, err := tx.Get(e.key("other")); err != nil {
				e.code(err, c.want)
			}
			err := tx.Commit()
			if e.code(err, c.want); kv.CodeOf(err) != c.want {
				e.Errorf("that was %s", c.name)
			} else if err := tx.OnError(err); kv.CodeOf(err) != c.want {
				e.Errorf("%s: OnError gives %v, want code %d", c.name, err, c.want)
			}
		}
		e.contents()
	}},
	{"largest key and value", func(e *env) {
		key, value := e.longKey(kv.MaxKeySize), bytes.Repeat([]byte{'v'}, e.maxValue())
		e.do(func(tx kv.Tx) { tx.Set(key, value) })
		got, err := e.begin().Get(key)
		e.must(err)
		if !bytes.Equal(got, value) {
			e.Errorf("%d bytes came back", len(got))
		}
		e.do(func(tx kv.Tx) { tx.ClearRange(kv.KeyRange(key)) })
		e.contents()
	}},
	{"longer keys are not there", func(e *env) {
		tx := e.begin()
		v, err := tx.Get(e.longKey(kv.MaxKeySize + 1))
		e.must(err)
		if v != nil {
			e.Errorf("got %d bytes", len(v))
		}
	}},
	{"transaction size, values", func(e *env) {
		tx := e.begin()
		for i := range 101 {
			tx.Set(e.key(fmt.Sprint(i)), make([]byte, e.maxValue()))
		}
		e.code(tx.Commit(), kv.TransactionTooLarge)
		e.contents()
	}},
	{"transaction size, conflict ranges", func(e *env) {
		tx := e.begin()
		long := e.longKey(kv.MaxKeySize - 10)
		for i := range 600 { // two ends of 10 kB each
			tx.AddReadConflict(kv.KeyRange(append(long, fmt.Sprintf("%06d", i)...)))
		}
		tx.Set(e.key("a"), nil)
		e.code(tx.Commit(), kv.TransactionTooLarge)
	}},
	{"transaction size, below the limit", func(e *env) {
		tx := e.begin()
		for i := range 90 {
			tx.Set(e.key(fmt.Sprint(i)), make([]byte, e.maxValue()))
		}
		e.commit(tx)
		e.do(func(tx kv.Tx) { tx.ClearRange(e.all()) })
	}},
	{"size limit of the options", func(e *env) {
		for _, c := range []struct {
			limit, size int
			want        kv.Code
		}{{10_000, 1000, 0}, {10_000, 20_000, kv.TransactionTooLarge}, {1, 100, kv.TransactionTooLarge},
			{2 * kv.MaxTxSize, 1000, 0}} {
			tx := e.DB.Begin(e.ctx, kv.Options{SizeLimit: c.limit})
			tx.Set(e.key("a"), make([]byte, c.size))
			e.code(tx.Commit(), c.want)
			tx.Cancel()
		}
	}},
}

// failingReads are reads that fail in a transaction that has written the versionstamped value stamped.
var failingReads = []struct {
	do   func(e *env, tx kv.Tx) error
	want kv.Code
}{
	{func(e *env, tx kv.Tx) error { _, err := tx.Get(e.key("stamped")); return err }, kv.AccessedUnreadable},
	{func(e *env, tx kv.Tx) error { _, err := tx.Snapshot().Get(e.key("stamped")); return err }, kv.AccessedUnreadable},
	{func(e *env, tx kv.Tx) error {
		_, err := tx.GetAll([][]byte{e.key("a"), e.key("stamped")})
		return err
	}, kv.AccessedUnreadable},
	{func(e *env, tx kv.Tx) error {
		_, err := tx.Snapshot().GetRange(e.all(), kv.RangeOptions{})
		return err
	}, kv.AccessedUnreadable},
	{func(e *env, tx kv.Tx) error { _, err := tx.Get([]byte("\xffa")); return err }, kv.KeyOutsideLegalRange},
	{func(e *env, tx kv.Tx) error {
		_, err := tx.GetRange(kv.Range{Begin: e.key(""), End: []byte("\xffa")}, kv.RangeOptions{})
		return err
	}, kv.KeyOutsideLegalRange},
}

var lives = []test{
	{"nothing after the commit", func(e *env) {
		tx := e.begin()
		tx.Set(e.key("a"), nil)
		e.commit(tx)
		if _, err := tx.Get(e.key("a")); err == nil {
			e.Error("a read after the commit succeeds")
		}
		if _, err := tx.GetRange(e.all(), kv.RangeOptions{}); err == nil {
			e.Error("a read of a range after the commit succeeds")
		}
		tx.Set(e.key("b"), nil)
		tx.ClearRange(e.all())
		if err := tx.Commit(); err == nil {
			e.Error("a second commit succeeds")
		}
		e.contents("a=")
	}},
	{"cancelled", func(e *env) {
		tx := e.begin()
		tx.Cancel()
		tx.Cancel()
		_, err := tx.Get(e.key("a"))
		e.code(err, kv.TransactionCancelled)
		_, err = tx.ReadVersion()
		e.code(err, kv.TransactionCancelled)
		if err := tx.OnError(kv.NewError(kv.NotCommitted)); err == nil {
			e.Error("a cancelled transaction starts again")
		}
	}},
	{"cancelled after the commit", func(e *env) {
		tx := e.begin()
		tx.Set(e.key("a"), nil)
		e.commit(tx)
		tx.Cancel()
		e.contents("a=")
	}},
	{"context ended before", func(e *env) {
		ctx, cancel := context.WithCancel(e.ctx)
		cancel()
		tx := e.DB.Begin(ctx, kv.Options{})
		defer tx.Cancel()
		_, err := tx.Get(e.key("a"))
		e.is(err, context.Canceled)
		_, err = tx.GetRange(e.all(), kv.RangeOptions{})
		e.is(err, context.Canceled)
		tx.Set(e.key("a"), nil)
		e.is(tx.Commit(), context.Canceled)
		e.is(kv.Do(ctx, e.DB, func(tx kv.Tx) error { tx.Set(e.key("a"), nil); return nil }), context.Canceled)
		e.contents()
	}},
	{"context ended within", func(e *env) {
		ctx, cancel := context.WithCancel(e.ctx)
		tx := e.DB.Begin(ctx, kv.Options{})
		defer tx.Cancel()
		e.value(tx, "a", none)
		tx.Set(e.key("a"), nil)
		cancel()
		_, err := tx.Get(e.key("b"))
		e.is(err, context.Canceled)
		e.is(tx.Commit(), context.Canceled)
		e.is(tx.OnError(kv.NewError(kv.NotCommitted)), context.Canceled)
		e.contents()
	}},
	{"read only commits always", func(e *env) {
		e.put("a", "1")
		tx := e.begin()
		e.value(tx, "a", "1")
		tx.AddReadConflict(e.all())
		e.put("a", "2")
		e.commit(tx)
	}},
	{"no commit after a read that failed", func(e *env) {
		for _, c := range failingReads {
			for _, writes := range []bool{false, true} {
				tx := e.begin()
				if c.want == kv.AccessedUnreadable || writes {
					tx.SetVersionstampedValue(e.key("stamped"), stampTemplate(""))
				}
				e.code(c.do(e, tx), c.want)
				e.value(tx, "a", none) // other reads go on
				_, err := tx.Get([]byte("\xffsecond"))
				e.code(err, kv.KeyOutsideLegalRange)
				tx.ClearRange(e.span("b", "a"))
				e.code(tx.Commit(), c.want)
				e.contents()
			}
		}
	}},
	{"a read that failed is forgotten with its attempt", func(e *env) {
		tx := e.begin()
		_, err := tx.Get([]byte("\xffa"))
		e.code(err, kv.KeyOutsideLegalRange)
		e.must(tx.OnError(kv.NewError(kv.NotCommitted)))
		tx.Set(e.key("a"), nil)
		e.commit(tx)
	}},
	{"a watch that failed fails no commit", func(e *env) {
		tx := e.begin()
		tx.SetVersionstampedValue(e.key("a"), stampTemplate(""))
		w := tx.Watch(e.key("a"))
		e.commit(tx)
		e.code(w.Wait(e.ctx), kv.AccessedUnreadable)
	}},
	{"an empty transaction commits", func(e *env) { e.commit(e.begin()) }},
}

// tooOld is more than the age that a transaction may reach.
const tooOld = (kv.MaxTxSeconds + 1) * time.Second

var ages = []test{
	{"reads", func(e *env) {
		tx := e.aged()
		_, err := tx.Get(e.key("a"))
		e.code(err, kv.TransactionTooOld)
		_, err = tx.Snapshot().GetRange(e.all(), kv.RangeOptions{})
		e.code(err, kv.TransactionTooOld)
		e.code(tx.Commit(), kv.TransactionTooOld)
		e.must(tx.OnError(err))
		e.value(tx, "a", "1")
	}},
	{"commit", func(e *env) {
		tx := e.aged()
		tx.Set(e.key("b"), nil)
		e.code(tx.Commit(), kv.TransactionTooOld)
		e.contents("a=1")
	}},
	{"read only commit", func(e *env) { e.commit(e.aged()) }},
	{"not from the begin but from the first read", func(e *env) {
		e.put("a", "1")
		e.skipWithoutClock()
		tx := e.begin()
		tx.Set(e.key("b"), nil)
		e.Advance(tooOld)
		e.value(tx, "a", "1")
		e.commit(tx)
	}},
	{"young enough", func(e *env) {
		e.put("a", "1")
		e.skipWithoutClock()
		tx := e.begin()
		e.value(tx, "a", "1")
		e.Advance((kv.MaxTxSeconds - 1) * time.Second)
		e.put("b", "2")
		e.pairs(tx, e.all(), kv.RangeOptions{}, "a=1")
		tx.Set(e.key("c"), nil)
		e.code(tx.Commit(), kv.NotCommitted) // and still knows of b
	}},
	{"blind writes", func(e *env) {
		e.skipWithoutClock()
		tx := e.begin()
		tx.Set(e.key("a"), nil)
		e.Advance(tooOld)
		e.commit(tx)
	}},
}

func (e *env) skipWithoutClock() {
	if e.Advance == nil {
		e.Skip("the store's clock cannot be moved")
	}
}

// aged is a transaction that has read and become too old.
func (e *env) aged() kv.Transaction {
	e.skipWithoutClock()
	e.put("a", "1")
	tx := e.begin()
	e.value(tx, "a", "1")
	e.Advance(tooOld)
	return tx
}

var errOwn = errors.New("own error")

var retries = []test{
	{"a conflict is repeated", func(e *env) {
		attempts := 0
		got, err := kv.Run(e.ctx, e.DB, func(tx kv.Tx) (int, error) {
			attempts++
			v, err := tx.Get(e.key("a"))
			if attempts == 1 {
				e.put("a", "changed")
			}
			tx.Set(e.key("b"), v)
			return len(v), err
		})
		e.must(err)
		if attempts < 2 || got != len("changed") {
			e.Errorf("%d attempts, result %d", attempts, got)
		}
		e.contents("a=changed", "b=changed")
	}},
	{"attempts share nothing", func(e *env) {
		attempt := 0
		e.must(kv.Do(e.ctx, e.DB, func(tx kv.Tx) error {
			attempt++
			if _, err := tx.Get(e.key("a")); err != nil {
				return err
			}
			e.value(tx, "mine", none)
			if tx.Set(e.key("mine"), nil); attempt == 1 {
				tx.Set(e.key("first"), nil)
				tx.ClearRange(e.span("a", "b"))
				tx.SetVersionstampedKey(e.stamped("s"), nil)
				return kv.NewError(kv.NotCommitted)
			}
			_, err := tx.GetRange(e.all(), kv.RangeOptions{})
			return err
		}))
		e.contents("mine=")
	}},
	{"attempts do not share their reads", func(e *env) {
		tx := e.begin()
		e.value(tx, "a", none)
		tx.AddReadConflict(e.span("b", "c"))
		e.must(tx.OnError(kv.NewError(kv.NotCommitted)))
		e.value(tx, "other", none)
		e.put("a", "1", "b", "1")
		tx.Set(e.key("mine"), nil)
		e.commit(tx)
	}},
	{"attempts have snapshots of their own", func(e *env) {
		tx := e.begin()
		before, err := tx.ReadVersion()
		e.must(err)
		e.put("a", "1")
		e.must(tx.OnError(kv.NewError(kv.TransactionTooOld)))
		after, err := tx.ReadVersion()
		e.must(err)
		if after <= before {
			e.Errorf("read version went from %d to %d across a commit", before, after)
		}
		e.value(tx, "a", "1")
	}},
	{"other errors end it", func(e *env) {
		attempts := 0
		err := kv.Do(e.ctx, e.DB, func(tx kv.Tx) error {
			attempts++
			tx.Set(e.key("a"), nil)
			return fmt.Errorf("wrapped: %w", errOwn)
		})
		e.is(err, errOwn)
		if attempts != 1 {
			e.Errorf("%d attempts", attempts)
		}
		e.contents()
	}},
	{"store errors may be wrapped", func(e *env) {
		attempts := 0
		e.must(kv.Do(e.ctx, e.DB, func(tx kv.Tx) error {
			if attempts++; attempts < 4 {
				return fmt.Errorf("wrapped: %w", kv.NewError(kv.ProcessBehind))
			}
			return nil
		}))
		if attempts != 4 {
			e.Errorf("%d attempts", attempts)
		}
	}},
	{"the end of the context ends it", func(e *env) {
		ctx, cancel := context.WithCancel(e.ctx)
		attempts := 0
		err := kv.Do(ctx, e.DB, func(kv.Tx) error {
			if attempts++; attempts == 2 {
				cancel()
			}
			return kv.NewError(kv.NotCommitted)
		})
		e.is(err, context.Canceled)
		if attempts != 2 {
			e.Errorf("%d attempts", attempts)
		}
	}},
	{"an error for good ends the transaction", func(e *env) {
		tx := e.begin()
		tx.Set(e.key("a"), nil)
		e.is(tx.OnError(errOwn), errOwn)
		if err := tx.Commit(); err == nil {
			e.Error("it commits")
		}
		e.contents()
	}},
}
