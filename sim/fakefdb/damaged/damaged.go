// Package damaged tries operations on a store of which one row cannot be understood, or one read fails.
package damaged

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"
)

// Row is what is wrong with a store.
type Row = fakefdb.Row

// readError is the error of a read that fails, by how many came before it.
type readError int

func (e readError) Error() string { return fmt.Sprintf("the read after %d others fails", int(e)) }

// Each damages the rows that an operation reads, one at a time, and tells of each what the operation then returns. It
// leaves values that are empty as they are. The operation's transactions are not committed. An error that does not say
// which row is damaged, by its key or the last name in that, is an error of Each.
//
// Before that it has reads fail; see Unread.
func Each(
	ctx context.Context, db *fakefdb.Database, op func(kv.Tx) error, tell func(Row, error), passed ...[]byte,
) error {
	rows := map[string]bool{}
	try := func() error {
		tx := db.Begin(ctx, kv.Options{})
		defer tx.Cancel()
		return op(noted{tx, rows})
	}
	if err := try(); err != nil {
		return err
	}
	if err := Unread(ctx, db, op, passed...); err != nil {
		return err
	}
	var vague error
	told := func(r Row, err error) {
		if err != nil && !isNamed(r, err.Error()) {
			vague = errors.Join(vague,
				fmt.Errorf("a damaged %q (behind: %v) is told only as: %w", r.Key, r.Behind, err))
		}
		tell(r, err)
	}
	set := func(key, value []byte) error {
		return kv.Do(ctx, db, func(tx kv.Tx) error { tx.Set(key, value); return nil })
	}
	for _, row := range db.Pairs() {
		if !rows[string(row.Key)] {
			continue
		}
		if len(row.Value) > 0 {
			if err := set(row.Key, []byte(fakefdb.Unreadable)); err != nil {
				return err
			}
			told(Row{Key: row.Key}, try())
			if err := set(row.Key, row.Value); err != nil {
				return err
			}
		}
		behind := fakefdb.UnreadableKey(row.Key)
		if err := set(behind, row.Value); err != nil {
			return err
		}
		if err := try(); rows[string(behind)] {
			told(Row{Key: row.Key, Behind: true}, err)
		}
		if err := kv.Do(ctx, db, func(tx kv.Tx) error { tx.Clear(behind); return nil }); err != nil {
			return err
		}
	}
	return vague
}

// isNamed reports whether a text says which row it is about, which it may also do by the digits of a name, or by what
// the damaged value is taken for.
func isNamed(r Row, text string) bool {
	digits := hex.EncodeToString([]byte(r.Name()))
	return r.NamedIn(text) || digits != "" && strings.Contains(text, digits) ||
		strings.Contains(text, strconv.Quote(fakefdb.Unreadable))
}

// Unread has each read of an operation fail, with all behind it, and says so if the operation does not end with the
// error of that read: what was not read must not count as not there, and the store's error tells whether another
// attempt may succeed. A failed read of a key in passed may be passed over. Nothing is committed.
func Unread(ctx context.Context, db *fakefdb.Database, op func(kv.Tx) error, passed ...[]byte) error {
	for reads := 0; ; reads++ {
		tx, f := db.Begin(ctx, kv.Options{}), &failure{reads: reads}
		err := op(failing{tx, f})
		tx.Cancel()
		told, is := errors.AsType[readError](err)
		passes := slices.ContainsFunc(passed, func(key []byte) bool { return bytes.Equal(key, f.key) })
		switch {
		case f.made <= reads:
			return err
		case passes && (err == nil || is):
		case !is || told != readError(reads):
			end := cmp.Or(err, errors.New("nothing"))
			return fmt.Errorf("after %d reads the next one failed, and the operation ends with: %w", reads, end)
		}
	}
}

// failure is what reads of a transaction come to.
type failure struct {
	reads, made int    // how many do not fail, and were made
	key         []byte // of the first that failed; nil if it has several
}

// failing is a transaction whose reads fail at some point.
type failing struct {
	kv.Tx
	*failure
}

func (f failing) Get(key []byte) ([]byte, error)         { return f.reader(f.Tx).Get(key) }
func (f failing) GetAll(keys [][]byte) ([][]byte, error) { return f.reader(f.Tx).GetAll(keys) }
func (f failing) Snapshot() kv.Reader                    { return f.reader(f.Tx.Snapshot()) }
func (f failing) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return f.reader(f.Tx).GetRange(r, o)
}

func (f failing) reader(r kv.Reader) failingReader { return failingReader{r, f.failure} }

type failingReader struct {
	kv.Reader
	*failure
}

func (f *failure) read(key []byte) error {
	if f.made++; f.made <= f.reads {
		return nil
	}
	if f.made == f.reads+1 {
		f.key = key
	}
	return readError(f.made - 1)
}

func (r failingReader) Get(key []byte) ([]byte, error) {
	if err := r.read(key); err != nil {
		return nil, err
	}
	return r.Reader.Get(key)
}

func (r failingReader) GetAll(keys [][]byte) ([][]byte, error) {
	if err := r.read(nil); err != nil {
		return nil, err
	}
	return r.Reader.GetAll(keys)
}

func (r failingReader) GetRange(in kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	if err := r.read(nil); err != nil {
		return nil, err
	}
	return r.Reader.GetRange(in, o)
}

// noted is a transaction that notes the keys of the rows that it reads.
type noted struct {
	kv.Tx
	rows map[string]bool
}

func (n noted) Get(key []byte) ([]byte, error)         { return n.reader(n.Tx).Get(key) }
func (n noted) GetAll(keys [][]byte) ([][]byte, error) { return n.reader(n.Tx).GetAll(keys) }
func (n noted) Snapshot() kv.Reader                    { return n.reader(n.Tx.Snapshot()) }
func (n noted) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return n.reader(n.Tx).GetRange(r, o)
}

func (n noted) reader(r kv.Reader) reader { return reader{r, n.rows} }

type reader struct {
	kv.Reader
	rows map[string]bool
}

func (r reader) Get(key []byte) ([]byte, error) {
	r.rows[string(key)] = true
	return r.Reader.Get(key)
}

func (r reader) GetAll(keys [][]byte) ([][]byte, error) {
	for _, key := range keys {
		r.rows[string(key)] = true
	}
	return r.Reader.GetAll(keys)
}

func (r reader) GetRange(in kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	pairs, err := r.Reader.GetRange(in, o)
	for _, p := range pairs {
		r.rows[string(p.Key)] = true
	}
	return pairs, err
}
