// Package programs runs one random program of interleaved transactions on several implementations of
// core/kv and compares everything that they answer: results, conflicts, errors, and what is stored in
// the end. The conformance suite says what a store must do; this finds where two stores that pass it
// still do different things.
package programs

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"couchrelay/core/kv"

	"pgregory.net/rapid"
)

// Step is one operation of one transaction.
type Step struct {
	Tx       int // the number of the transaction, which is begun by the first step that names it
	Op       string
	Key, To  string // without the prefix; To is the end of ranges
	Value    string
	N        uint64
	Limit    int
	Reverse  bool
	Snapshot bool
}

func (s Step) String() string {
	return fmt.Sprintf("t%d %s %.20q %.20q value %.20q n %d limit %d reverse %v snapshot %v", s.Tx, s.Op, s.Key, s.To,
		s.Value, s.N, s.Limit, s.Reverse, s.Snapshot)
}

// Program is a list of steps, taken one after the other by one caller.
type Program []Step

const transactions = 3

var (
	keys = []string{"", "a", "a\x00", "b", "bb", "c", "\xff", "d" + strings.Repeat("x", kv.MaxKeySize-1000),
		"e" + strings.Repeat("x", kv.MaxKeySize)}
	ops = []string{
		"get", "get", "get stamped", "get all", "range", "range", "prefetch", "set", "set", "clear", "clear range",
		"add", "max", "stamped key", "stamped value",
		"read conflict", "write conflict", "version", "commit", "commit", "commit", "cancel", "retry",
	}
	values = []string{"", "1", "\x01\x02\x03", "12345678", "123456789012", strings.Repeat("v", kv.MaxValueSize),
		strings.Repeat("v", kv.MaxValueSize+1)}
)

// Draw makes up a program. Most keys and values are small; the others are at the limits.
func Draw(t *rapid.T) Program {
	key := rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 30).Draw(t, "rare key") == 0 {
			return rapid.SampledFrom(keys).Draw(t, "key")
		}
		return rapid.SampledFrom(keys[1:6]).Draw(t, "key")
	})
	value := rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 30).Draw(t, "rare value") == 0 {
			return rapid.SampledFrom(values).Draw(t, "value")
		}
		return rapid.SampledFrom(values[:5]).Draw(t, "value")
	})
	step := rapid.Custom(func(t *rapid.T) Step {
		return Step{
			Tx: rapid.IntRange(0, transactions-1).Draw(t, "tx"), Op: rapid.SampledFrom(ops).Draw(t, "op"),
			Key: key.Draw(t, "key"), To: key.Draw(t, "to"), Value: value.Draw(t, "value"),
			N: rapid.Uint64Range(0, 3).Draw(t, "n"), Limit: rapid.IntRange(0, 3).Draw(t, "limit"),
			Reverse: rapid.Bool().Draw(t, "reverse"), Snapshot: rapid.Bool().Draw(t, "snapshot"),
		}
	})
	return rapid.SliceOfN(step, 12, 60).Draw(t, "program")
}

// machine runs a program on one store.
type machine struct {
	ctx    context.Context
	db     kv.Database
	prefix []byte
	txs    [transactions]*attempt
	stamps [][10]byte // of the commits, in order
}

// attempt is a transaction with what a fair comparison needs to know of it.
type attempt struct {
	kv.Transaction
	faults int // writes that break a rule, whose errors may come at the next read or at the commit
}

// Line is what one step answered.
type Line struct {
	Text   string
	Faults int // see attempt
}

// Run runs a program below a prefix where nothing is stored, and returns what each step answered and,
// as the last line, all that is stored then.
func (p Program) Run(ctx context.Context, db kv.Database, prefix []byte) []Line {
	m := &machine{ctx: ctx, db: db, prefix: prefix}
	var lines []Line
	for _, s := range p {
		if m.txs[s.Tx] == nil {
			m.txs[s.Tx] = &attempt{Transaction: db.Begin(ctx, kv.Options{})}
			_, _ = m.txs[s.Tx].ReadVersion() // the snapshot is of now, in every store
		}
		faults := m.txs[s.Tx].faults
		lines = append(lines, Line{m.name(m.step(m.txs[s.Tx], s)), faults})
	}
	for _, tx := range m.txs {
		if tx != nil {
			tx.Cancel()
		}
	}
	pairs, err := kv.Run(ctx, db,
		func(tx kv.Tx) ([]kv.KeyValue, error) { return tx.GetRange(kv.PrefixRange(prefix), kv.RangeOptions{}) })
	return append(lines, Line{m.name(m.show(pairs, err)), 0})
}

func (m *machine) key(name string) []byte { return append(bytes.Clone(m.prefix), name...) }

func (m *machine) span(s Step) kv.Range { return kv.Range{Begin: m.key(s.Key), End: m.key(s.To)} }

// stampedAt is the key of a versionstamped value: none that arithmetic is done on, whose results would
// differ between stores.
func (m *machine) stampedAt(s Step) []byte { return m.key(s.Key + "\x01") }

// stamped is text with room for a versionstamp behind it.
func stamped(text []byte) []byte {
	b := append(bytes.Clone(text), make([]byte, 10)...)
	return binary.LittleEndian.AppendUint32(b, uint32(len(text)))
}

// step takes a step and says what it answered.
func (m *machine) step(tx *attempt, s Step) string {
	var r kv.Reader = tx
	if s.Snapshot {
		r = tx.Snapshot()
	}
	switch s.Op {
	case "get":
		v, err := r.Get(m.key(s.Key))
		return m.show(v, err)
	case "get stamped":
		v, err := r.Get(m.stampedAt(s))
		return m.show(v, err)
	case "get all":
		v, err := r.GetAll([][]byte{m.key(s.Key), m.key(s.To)})
		return m.show(v, err)
	case "range":
		if s.Key > s.To {
			s.Key, s.To = s.To, s.Key
		}
		v, err := r.GetRange(m.span(s), kv.RangeOptions{Limit: s.Limit, Reverse: s.Reverse})
		return m.show(v, err)
	case "prefetch":
		r.Prefetch([][]byte{m.key(s.Key), m.stampedAt(s)}, []kv.Range{m.span(s)})
		return ""
	case "version":
		_, err := tx.ReadVersion()
		return m.show(nil, err)
	case "commit":
		return m.commit(tx, s)
	case "cancel":
		tx.Cancel()
		m.txs[s.Tx] = nil
		return ""
	case "retry":
		err := tx.OnError(kv.NewError(kv.NotCommitted))
		tx.faults = 0
		if _, again := tx.ReadVersion(); err == nil {
			err = again
		}
		return m.show(nil, err)
	}
	if m.write(tx, s) {
		tx.faults++
	}
	return ""
}

// write makes a write and reports whether it breaks a rule of the contract.
func (m *machine) write(tx kv.Tx, s Step) (faulty bool) {
	switch s.Op {
	case "set":
		tx.Set(m.key(s.Key), []byte(s.Value))
		return len(m.key(s.Key)) > kv.MaxKeySize || len(s.Value) > kv.MaxValueSize
	case "clear":
		tx.Clear(m.key(s.Key))
	case "clear range":
		tx.ClearRange(m.span(s))
		return s.Key > s.To
	case "add":
		tx.Add(m.key(s.Key), int64(s.N)-1)
		return len(m.key(s.Key)) > kv.MaxKeySize
	case "max":
		tx.Max(m.key(s.Key), s.N)
		return len(m.key(s.Key)) > kv.MaxKeySize
	case "stamped key":
		key := m.key(s.Key + "t") // possible keys begin at the read version, so nothing else lies near them
		tx.SetVersionstampedKey(stamped(key), []byte(s.Value))
		return len(key)+10 > kv.MaxKeySize || len(s.Value) > kv.MaxValueSize
	case "stamped value":
		tx.SetVersionstampedValue(m.stampedAt(s), stamped([]byte(s.Value)))
		return len(m.stampedAt(s)) > kv.MaxKeySize || len(s.Value)+10 > kv.MaxValueSize
	case "read conflict":
		tx.AddReadConflict(m.span(s))
		return s.Key > s.To
	case "write conflict":
		tx.AddWriteConflict(m.span(s))
		return s.Key > s.To
	}
	return false
}

// commit commits, and the transaction is over.
func (m *machine) commit(tx *attempt, s Step) string {
	defer tx.Cancel()
	m.txs[s.Tx] = nil
	if err := tx.Commit(); err != nil {
		return m.show(nil, err)
	}
	stamp, err := tx.Versionstamp()
	if err != nil {
		return "committed, nothing written"
	}
	m.stamps = append(m.stamps, stamp)
	return "committed"
}

// show is an answer as text.
func (m *machine) show(v any, err error) string {
	switch v := v.(type) {
	case nil:
	case []kv.KeyValue:
		if err == nil {
			var b strings.Builder
			for _, p := range v {
				fmt.Fprintf(&b, "%s=%s;", short(bytes.TrimPrefix(p.Key, m.prefix)), short(p.Value))
			}
			return b.String()
		}
	case [][]byte:
		if err == nil {
			return short(v[0]) + ";" + short(v[1])
		}
	case []byte:
		if err == nil {
			return short(v)
		}
	}
	switch code := kv.CodeOf(err); {
	case code != 0:
		return fmt.Sprintf("error %d", code)
	case err != nil:
		return "error " + err.Error()
	}
	return "ok"
}

// short returns a value or key as text. A long one is given by its beginning and its length.
func short(b []byte) string {
	switch {
	case b == nil:
		return "none"
	case len(b) > 100:
		return fmt.Sprintf("%s...%d", b[:8], len(b))
	}
	return string(b)
}

// name replaces versionstamps, which differ between stores, by the numbers of their commits.
func (m *machine) name(text string) string {
	for i, s := range m.stamps {
		text = strings.ReplaceAll(text, string(s[:]), fmt.Sprintf("<stamp %d>", i))
	}
	return text
}
