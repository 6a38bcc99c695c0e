// Package conformance tests an implementation of core/kv against every sentence of its contract. All
// stores run it: the one in memory, the one on disk, and FoundationDB itself, so it assumes nothing
// beyond the contract and FoundationDB's documented behaviour.
package conformance

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/kv"
)

// Store is an implementation under test.
type Store struct {
	DB kv.Database
	// Prefix is the prefix of the keys that the tests write. None of them exists, and no other client writes
	// them.
	Prefix []byte
	// Advance moves the store's clock. When it is nil, the tests of the five-second rule are skipped.
	Advance func(time.Duration)
	// Exact reports that the store fails only where the contract gives a cause. FoundationDB may also fail on its
	// own account, with errors that another attempt may not meet.
	Exact bool
	Rows
}

// Rows is how the rows of a store are less than the contract's. The zero value is all of it.
type Rows struct {
	MaxValue int // bytes of the longest value; 0 for kv.MaxValueSize
	// NoOperands leaves out the tests that compute with stored values: those of Add and Max.
	NoOperands bool
}

func (r Rows) maxValue() int { return cmp.Or(r.MaxValue, kv.MaxValueSize) }

// Run runs the suite. It calls open for every test, which returns an empty store or an unused prefix.
func Run(t *testing.T, open func(t testing.TB) Store) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Read", reads}, {"OwnWrites", ownWrites}, {"Atomic", atomics}, {"Isolation", isolation},
		{"Conflict", conflictTests()},
		{"Prefetch", prefetches}, {"Versionstamp", versionstamps}, {"Limit", limits}, {"Life", lives}, {"Age", ages},
		{"Retry", retries}, {"Watch", watches},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.tests {
				t.Run(c.name, func(t *testing.T) { c.play(t, open) })
			}
		})
	}
	t.Run("Model", func(t *testing.T) { runModel(t, open(t)) })
	t.Run("History", func(t *testing.T) { runHistory(newEnv(t, open(t))) })
}

type test struct {
	name string
	run  func(e *env)
}

// attempts is how often a test begins anew whose store fails without a cause.
const attempts = 300

// play runs a test until its store has not failed without a cause. What the test found wrong before the store
// failed counts, so another attempt forgives nothing.
func (c test) play(t *testing.T, open func(t testing.TB) Store) {
	for range attempts {
		e := newEnv(t, open(t))
		if !e.Exact {
			e.DB = candid{e.DB}
		}
		if e.NoOperands {
			e.DB = operandless{e.DB}
		}
		if c.finishes(e) {
			return
		}
	}
	t.Errorf("the store fails without a cause in each of %d attempts", attempts)
}

// finishes runs a test once, and reports whether it came to its end.
func (c test) finishes(e *env) (ended bool) {
	defer func() {
		if cause := recover(); cause != nil {
			if cause == errOperand {
				e.Skip(cause)
			}
			if _, ok := cause.(unfinished); !ok {
				panic(cause)
			}
		}
	}()
	c.run(e)
	return true
}

// unfinished is the panic that ends an attempt at a test.
type unfinished struct{ cause error }

// excused reports whether a store may fail with err where the contract gives no cause for it.
func (s Store) excused(err error) bool { return !s.Exact && kv.Retryable(err) }

// excuse ends the attempt at the test if the store failed without a cause.
func (e *env) excuse(err error) {
	if e.excused(err) {
		panic(unfinished{err})
	}
}

// candid is a store under which no test goes on after a commit whose result is unknown: kv.Run would repeat it,
// and most tests are not idempotent.
type candid struct{ kv.Database }

func (db candid) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return candidly{db.Database.Begin(ctx, o)}
}

type candidly struct{ kv.Transaction }

func (tx candidly) Commit() error {
	err := tx.Transaction.Commit()
	if kv.CodeOf(err) == kv.CommitUnknownResult {
		panic(unfinished{err})
	}
	return err
}

// operandless is a store whose rows are no operands: a test that computes with one is skipped.
type operandless struct{ kv.Database }

var errOperand = errors.New("the rows of this store are no operands")

func (db operandless) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return plainly{db.Database.Begin(ctx, o)}
}

type plainly struct{ kv.Transaction }

func (plainly) Add([]byte, int64)  { panic(errOperand) }
func (plainly) Max([]byte, uint64) { panic(errOperand) }

// env is one test with its store.
type env struct {
	*testing.T
	Store
	ctx context.Context
}

// patience bounds every wait of the suite; nothing that works comes near it.
const patience = 10 * time.Second

func newEnv(t *testing.T, s Store) *env {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return &env{T: t, Store: s, ctx: ctx}
}

// key is a key of this test.
func (e *env) key(name string) []byte { return append(bytes.Clone(e.Prefix), name...) }

// span is the range between two keys of this test.
func (e *env) span(from, to string) kv.Range { return kv.Range{Begin: e.key(from), End: e.key(to)} }

// all is the range of all keys of this test.
func (e *env) all() kv.Range { return kv.PrefixRange(e.Prefix) }

func (e *env) begin() kv.Transaction {
	tx := e.DB.Begin(e.ctx, kv.Options{})
	e.Cleanup(tx.Cancel)
	return tx
}

// do commits fn.
func (e *env) do(fn func(tx kv.Tx)) {
	e.Helper()
	e.must(kv.Do(e.ctx, e.DB, func(tx kv.Tx) error { fn(tx); return nil }))
}

// put commits pairs given as key, value, key, value...
func (e *env) put(pairs ...string) {
	e.Helper()
	e.do(func(tx kv.Tx) {
		for i := 0; i < len(pairs); i += 2 {
			tx.Set(e.key(pairs[i]), []byte(pairs[i+1]))
		}
	})
}

// commit commits a transaction, which must succeed.
func (e *env) commit(tx kv.Transaction) {
	e.Helper()
	e.must(tx.Commit())
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.excuse(err)
		e.Fatal(err)
	}
}

// code checks for an error of the store.
func (e *env) code(err error, want kv.Code) {
	e.Helper()
	if kv.CodeOf(err) != want {
		e.excuse(err)
		e.Errorf("got error %v, want code %d", err, want)
	}
}

// is checks for an error in a chain.
func (e *env) is(err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.excuse(err)
		e.Errorf("got error %v, want %v", err, want)
	}
}

// value checks what a reader gets; "<none>" stands for no value.
func (e *env) value(r kv.Reader, name, want string) {
	e.Helper()
	v, err := r.Get(e.key(name))
	e.must(err)
	if got := show(v); got != want {
		e.Errorf("%s is %s, want %s", name, got, want)
	}
}

const none = "<none>"

func show(v []byte) string {
	if v == nil {
		return none
	}
	return string(v)
}

// pairs checks what a range read returns, each pair as key=value.
func (e *env) pairs(r kv.Reader, in kv.Range, o kv.RangeOptions, want ...string) {
	e.Helper()
	got, err := r.GetRange(in, o)
	e.must(err)
	if s := e.render(got); !slices.Equal(s, want) {
		e.Errorf("range with %+v is %q, want %q", o, s, want)
	}
}

func (e *env) render(pairs []kv.KeyValue) []string {
	var s []string
	for _, p := range pairs {
		s = append(s, fmt.Sprintf("%s=%s", bytes.TrimPrefix(p.Key, e.Prefix), p.Value))
	}
	return s
}

// contents checks everything that is stored.
func (e *env) contents(want ...string) {
	e.Helper()
	e.pairs(e.begin(), e.all(), kv.RangeOptions{}, want...)
}
