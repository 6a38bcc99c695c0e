package fakefdb

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Misreading is an attempt of a transaction that was given a row of which nothing can be made, or of which the last
// read failed, when the function that reads has come to its end.
type Misreading struct {
	Row    *Row  // the first one; nil if none was given
	Failed error // the store's error of the last read; nil if it did not fail
	// Err is the error of the function; nil if it wants to commit.
	Err error
}

// Row is a row of which nothing can be made.
type Row struct {
	Key []byte
	// Behind is set for a row whose key cannot be read: Key is then that of the row before it. Otherwise the value of
	// the row with Key cannot be read.
	Behind bool
}

// NamedIn reports whether a text says which row it is about: it has the row's key, or the last name in that.
func (r Row) NamedIn(text string) bool {
	return strings.Contains(text, hex.EncodeToString(r.Key)) || r.Name() != "" && strings.Contains(text, r.Name())
}

// Name is the last text among the elements of the row's key, empty if there is none. The key may begin with something
// else than elements.
func (r Row) Name() string {
	for i := range r.Key {
		elements, err := tuple.Unpack(r.Key[i:])
		if err != nil {
			continue
		}
		for _, e := range slices.Backward(elements) {
			if name, is := e.(string); is {
				return name
			}
		}
		break
	}
	return ""
}

// OnMisread has f called for every such attempt, before it commits or its error is looked at. spared reports which
// rows Misread leaves as they are, since they mean something whatever bytes they have; nil spares all. Neither may call
// the store.
func OnMisread(spared func(Row) bool, f func(Misreading)) Option {
	return func(db *Database) { db.spared, db.onMisread = spared, f }
}

// misread is what the faults of reads have done to an attempt.
type misread struct {
	next   bool // the read under way brings a row of which nothing can be made
	pick   uint64
	seen   map[string]bool // keys of rows that were given as they are, or that the attempt has written
	had    *Row            // as Misreading.Row: this and all later reads of the attempt give it so
	failed error           // as Misreading.Failed
}

// Unreadable is a value that nothing can be made of. It may also stand for one of several rows of a record, within a
// text, so it has a byte that no text in JSON may have: zero.
const Unreadable = "\xff\x00"

// UnreadableKey is a key behind another one and before all others. What it has more than that one begins no element of
// a tuple.
func UnreadableKey(key []byte) []byte { return append(bytes.Clone(key), 0xfd) }

// sound notes the error of a read, and reports whether the read brings what it has as it is.
func (t *transaction) sound(err error) bool {
	t.misread.failed = nil
	if kv.CodeOf(err) != 0 {
		t.misread.failed = err
	}
	return err != nil || t.db.spared == nil
}

// spoil returns the row of the attempt of which nothing can be made, if a read has brought it; else nil. The fault
// chooses that row among those that the attempt has neither read before, so that all its reads of a row agree, nor
// written: the client has these, so that no store can spoil them.
func (t *transaction) spoil(rows []Row) *Row {
	m := &t.misread
	if m.next && m.had == nil {
		fresh := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool {
			return m.seen[string(r.Key)] || t.db.spared(r)
		})
		if len(fresh) > 0 {
			m.had = &fresh[m.pick%uint64(len(fresh))]
		}
	}
	m.next = false
	for _, r := range rows {
		m.saw(r.Key)
	}
	same := func(r Row) bool { return r.Behind == m.had.Behind && bytes.Equal(r.Key, m.had.Key) }
	if m.had == nil || !slices.ContainsFunc(rows, same) {
		return nil
	}
	return m.had
}

// saw notes a row that is not to be spoilt any more.
func (m *misread) saw(key []byte) {
	if m.seen == nil {
		m.seen = map[string]bool{}
	}
	m.seen[string(key)] = true
}

// Set is kv.Tx's.
func (t *transaction) Set(key, value []byte) {
	if t.db.spared != nil {
		t.misread.saw(key)
	}
	t.Buffer.Set(key, value)
}

// end tells of an attempt that the faults have met.
func (m *misread) end(db *Database, err error) {
	if (m.had != nil || m.failed != nil) && db.onMisread != nil {
		db.onMisread(Misreading{m.had, m.failed, err})
	}
	*m = misread{}
}

// Get is kv.Reader's.
func (t *transaction) Get(key []byte) ([]byte, error) { return t.got(t.Buffer, key) }

// GetAll is kv.Reader's.
func (t *transaction) GetAll(keys [][]byte) ([][]byte, error) { return t.gotAll(t.Buffer, keys) }

// GetRange is kv.Reader's.
func (t *transaction) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return t.gotRange(t.Buffer, r, o)
}

// Snapshot is kv.Tx's.
func (t *transaction) Snapshot() kv.Reader { return (*snapshot)(t) }

// snapshot reads without read conflicts.
type snapshot transaction

func (s *snapshot) Get(key []byte) ([]byte, error) {
	return (*transaction)(s).got(s.Buffer.Snapshot(), key)
}

func (s *snapshot) GetAll(keys [][]byte) ([][]byte, error) {
	return (*transaction)(s).gotAll(s.Buffer.Snapshot(), keys)
}

func (s *snapshot) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return (*transaction)(s).gotRange(s.Buffer.Snapshot(), r, o)
}

func (t *transaction) got(r kv.Reader, key []byte) ([]byte, error) {
	value, err := r.Get(key)
	if t.sound(err) {
		return value, err
	}
	if t.spoil(valued(nil, key, value)) != nil {
		value = []byte(Unreadable)
	}
	return value, nil
}

func (t *transaction) gotAll(r kv.Reader, keys [][]byte) ([][]byte, error) {
	values, err := r.GetAll(keys)
	if t.sound(err) {
		return values, err
	}
	var rows []Row
	for i, key := range keys {
		rows = valued(rows, key, values[i])
	}
	if row := t.spoil(rows); row != nil {
		values[slices.IndexFunc(keys, func(key []byte) bool { return bytes.Equal(key, row.Key) })] = []byte(Unreadable)
	}
	return values, nil
}

func (t *transaction) gotRange(r kv.Reader, in kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	pairs, err := r.GetRange(in, o)
	if t.sound(err) {
		return pairs, err
	}
	var rows []Row
	for i, p := range pairs {
		rows = valued(rows, p.Key, p.Value)
		cutOff := !o.Reverse && o.Limit == i+1
		if in.Contains(UnreadableKey(p.Key)) && !cutOff {
			rows = append(rows, Row{bytes.Clone(p.Key), true})
		}
	}
	if row := t.spoil(rows); row != nil {
		pairs = row.spoil(pairs, o)
	}
	return pairs, nil
}

// spoil returns the rows of a range in which nothing can be made of this row.
func (r *Row) spoil(pairs []kv.KeyValue, o kv.RangeOptions) []kv.KeyValue {
	i := slices.IndexFunc(pairs, func(p kv.KeyValue) bool { return bytes.Equal(p.Key, r.Key) })
	if !r.Behind {
		pairs[i].Value = []byte(Unreadable)
		return pairs
	}
	more := kv.KeyValue{Key: UnreadableKey(r.Key), Value: pairs[i].Value}
	if !o.Reverse {
		i++
	}
	pairs = slices.Insert(pairs, i, more)
	if o.Limit > 0 {
		pairs = pairs[:min(len(pairs), o.Limit)]
	}
	return pairs
}

// valued appends the row of a key to those whose value can be spoilt. An empty value says nothing.
func valued(rows []Row, key, value []byte) []Row {
	if len(value) == 0 {
		return rows
	}
	return append(rows, Row{bytes.Clone(key), false})
}
