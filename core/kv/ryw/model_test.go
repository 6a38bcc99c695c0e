package ryw

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/kv/resolver"

	"pgregory.net/rapid"
)

// store is a Source over a plain map.
type store struct {
	data    map[string]string
	version int64
}

func (s store) KnownVersion() int64 { return s.version }

func (s store) Values(keys, values [][]byte) error {
	for i, k := range keys {
		if v, ok := s.data[string(k)]; ok {
			values[i] = []byte(v)
		}
	}
	return nil
}

func (s store) Scan(r kv.Range, reverse bool, yield func(key, value []byte) bool) error {
	keys := slices.Sorted(maps.Keys(s.data))
	if reverse {
		slices.Reverse(keys)
	}
	for _, k := range keys {
		if r.Contains([]byte(k)) && !yield([]byte(k), []byte(s.data[k])) {
			break
		}
	}
	return nil
}

// stampedAt is a key among the versionstamped ones with template "s".
func stampedAt(version int64) string {
	stamp := Versionstamp(version, 0)
	return "s" + string(stamp[:])
}

const (
	readVersion   = 7
	commitVersion = 50
)

var highestStamped = "s" + strings.Repeat("\xff", 10)

// used is every key that the tests use, both ends of what may be unreadable among them.
var used = func() []string {
	keys := []string{"", "a", "a\x00", "b", "c", "d", "r", highestStamped, highestStamped + "\x00", "z"}
	for _, v := range []int64{0, 3, readVersion + 1, commitVersion, 90} {
		keys = append(keys, stampedAt(v))
	}
	return keys
}()

// universe is the keys used and one in every gap between them, in order.
var universe = func() []string {
	keys := slices.Clone(used)
	for _, k := range used {
		keys = append(keys, k+"\x00\x01")
	}
	slices.Sort(keys)
	return keys
}()

// model is the dumb twin: every key with the list of what was done to it, and sets of keys.
type model struct {
	base    map[string]string
	done    map[string][]Mutation // since the last clear
	cleared map[string]bool       // by this transaction, whatever was done later
	pending []string              // values of stamped keys to come
	hidden  map[string]bool       // may be a stamped key
	read    map[string]bool
	lost    bool // a read has failed
	known   int64
}

// value is what key holds after all that was done to it; stamps read as the commit's.
func (m *model) value(key string) (value string, present, dependent, unreadable bool) {
	value, present = m.base[key]
	dependent = true
	if m.cleared[key] {
		value, present, dependent = "", false, false
	}
	for _, op := range m.done[key] {
		switch op.Kind {
		case Set:
			value, dependent = string(op.Value), false
		case SetStampedValue:
			value, dependent, unreadable = string(fillIn(bytes.Clone(op.Value), Versionstamp(commitVersion, 0))),
				false, true
		default:
			value = string(Apply(op.Kind, []byte(value), op.Value))
		}
		present = true
	}
	return value, present, dependent, unreadable || m.hidden[key]
}

func (m *model) clear(in func(string) bool) {
	for _, k := range universe {
		if in(k) {
			m.done[k], m.cleared[k], m.hidden[k] = nil, true, false
		}
	}
	if in(m.lowest()) {
		m.pending = nil
	}
}

// lowest is the lowest key that a versionstamp may give.
func (m *model) lowest() string {
	if m.known > 0 {
		return stampedAt(m.known + 1)
	}
	return stampedAt(0)
}

func (m *model) readRange(from, to string, o kv.RangeOptions, conflict bool) (pairs []string, code kv.Code) {
	keys := slices.Clone(universe)
	if o.Reverse {
		slices.Reverse(keys)
	}
	var seen []string
	for _, k := range keys {
		if k < from || k >= to {
			continue
		}
		if o.Limit > 0 && len(pairs) == o.Limit {
			break
		}
		value, present, dependent, unreadable := m.value(k)
		if unreadable {
			return nil, kv.AccessedUnreadable
		}
		if dependent {
			seen = append(seen, k)
		}
		if present {
			pairs = append(pairs, k+"="+value)
		}
	}
	for _, k := range seen {
		m.read[k] = m.read[k] || conflict
	}
	return pairs, 0
}

func keyGen() *rapid.Generator[string] { return rapid.SampledFrom(used) }

// TestModel runs random programs on a Buffer and on the model and compares every read, the conflicts
// and the outcome. An attempt leaves nothing to the next one.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.MapOfN(keyGen(),
			rapid.SampledFrom([]string{"", "x", "\x01\x02", "\xff\xff\xff\xff\xff\xff\xff\xff"}), 0, 8).Draw(t, "base")
		known := rapid.SampledFrom([]int64{0, readVersion}).Draw(t, "known version")
		b := New(store{base, known})
		var m *model
		for attempt := range rapid.IntRange(1, 2).Draw(t, "attempts") {
			if attempt > 0 {
				b.Reset()
			}
			m = &model{
				base: base, done: map[string][]Mutation{}, cleared: map[string]bool{}, hidden: map[string]bool{},
				read: map[string]bool{}, known: known,
			}
			for range rapid.IntRange(1, 25).Draw(t, "steps") {
				if rapid.Bool().Draw(t, "write") {
					drawWrite(t, b, m)
				} else {
					drawRead(t, b, m)
				}
			}
		}
		checkOutcome(t, b, m)
	})
}

func drawWrite(t *rapid.T, b *Buffer, m *model) {
	key := keyGen().Draw(t, "key")
	note := func(kind Kind, value []byte) { m.done[key] = append(m.done[key], Mutation{kind, []byte(key), value}) }
	stamp := "v" + strings.Repeat("\x00", 10) + "w" + "\x01\x00\x00\x00"
	switch rapid.IntRange(0, 7).Draw(t, "op") {
	case 0, 1:
		value := rapid.SampledFrom([]string{"", "p", "qqqqqqqqqq"}).Draw(t, "value")
		b.Set([]byte(key), []byte(value))
		note(Set, []byte(value))
	case 2:
		b.Clear([]byte(key))
		m.clear(func(k string) bool { return k == key })
	case 3:
		to := keyGen().Draw(t, "to")
		from := min(key, to)
		to = max(key, to)
		b.ClearRange(kv.Range{Begin: []byte(from), End: []byte(to)})
		m.clear(func(k string) bool { return from <= k && k < to })
	case 4:
		delta := rapid.SampledFrom([]int64{1, -1, 1 << 40}).Draw(t, "delta")
		b.Add([]byte(key), delta)
		note(Add, binary.LittleEndian.AppendUint64(nil, uint64(delta)))
	case 5:
		v := rapid.SampledFrom([]uint64{0, 300, 1 << 63}).Draw(t, "v")
		b.Max([]byte(key), v)
		note(Max, binary.LittleEndian.AppendUint64(nil, v))
	case 6:
		b.SetVersionstampedValue([]byte(key), []byte(stamp))
		if _, _, _, unreadable := m.value(key); !unreadable {
			m.done[key] = nil
		}
		note(SetStampedValue, []byte(stamp))
	case 7:
		b.SetVersionstampedKey([]byte("s"+strings.Repeat("\x00", 10)+"\x01\x00\x00\x00"), []byte(key))
		m.pending = append(m.pending, key)
		for _, k := range universe {
			if m.lowest() <= k && k <= highestStamped {
				m.hidden[k] = true
			}
		}
	}
}

func drawRead(t *rapid.T, b *Buffer, m *model) {
	key, to := keyGen().Draw(t, "key"), keyGen().Draw(t, "to")
	conflict := rapid.Bool().Draw(t, "conflict")
	var reader kv.Reader = b
	if !conflict {
		reader = b.Snapshot()
	}
	switch rapid.IntRange(0, 3).Draw(t, "op") {
	case 0:
		value, err := reader.Get([]byte(key))
		compareRead(t, m, key, value, err, conflict)
	case 1:
		values, err := reader.GetAll([][]byte{[]byte(key), []byte(to)})
		if err != nil {
			if _, _, _, u := m.value(key); !u {
				key = to // the second must be the one that failed
			}
			compareRead(t, m, key, nil, err, false)
			return
		}
		compareRead(t, m, key, values[0], err, conflict)
		compareRead(t, m, to, values[1], err, conflict)
	case 2:
		o := kv.RangeOptions{Limit: rapid.IntRange(0, 4).Draw(t, "limit"), Reverse: rapid.Bool().Draw(t, "reverse")}
		got, err := reader.GetRange(kv.Range{Begin: []byte(key), End: []byte(to)}, o)
		want, code := m.readRange(key, to, o, conflict)
		var pairs []string
		for _, p := range got {
			pairs = append(pairs, string(p.Key)+"="+string(p.Value))
		}
		m.lost = m.lost || code != 0
		if !slices.Equal(pairs, want) || kv.CodeOf(err) != code {
			t.Fatalf("range %q to %q, %+v: got %q, %v; want %q, %d", key, to, o, pairs, err, want, code)
		}
	case 3:
		if key > to {
			key, to = to, key
		}
		b.AddReadConflict(kv.Range{Begin: []byte(key), End: []byte(to)})
		for _, k := range universe {
			if _, _, dependent, _ := m.value(k); dependent && key <= k && k < to {
				m.read[k] = true
			}
		}
	}
}

func compareRead(t *rapid.T, m *model, key string, got []byte, err error, conflict bool) {
	want, present, dependent, unreadable := m.value(key)
	switch {
	case unreadable:
		m.lost = true
		if kv.CodeOf(err) != kv.AccessedUnreadable {
			t.Fatalf("%q is unreadable, got %q, %v", key, got, err)
		}
	case err != nil || present != (got != nil) || string(got) != want:
		t.Fatalf("%q: got %q, %v; want %q, %v", key, got, err, want, present)
	default:
		m.read[key] = m.read[key] || conflict && dependent
	}
}

func checkOutcome(t *rapid.T, b *Buffer, m *model) {
	readOnly := b.ReadOnly()
	c, err := b.Finish(kv.MaxTxSize)
	if m.lost {
		if kv.CodeOf(err) != kv.AccessedUnreadable {
			t.Fatalf("the outcome is %v after a read that failed", err)
		}
		b.lost = lost{}
		c, err = b.Finish(kv.MaxTxSize)
	}
	if err != nil {
		t.Fatal(err)
	}
	if readOnly != (len(c.Mutations) == 0 && len(c.Writes) == 0) {
		t.Fatalf("read only %v with %v", readOnly, c)
	}
	for _, k := range universe {
		in := slices.ContainsFunc(c.Reads, resolver.Span{Begin: []byte(k)}.Overlaps)
		if in != m.read[k] {
			t.Fatalf("%q: read conflict %v, want %v", k, in, m.read[k])
		}
	}
	c.Stamp(Versionstamp(commitVersion, 0))
	got := apply(m.base, c.Mutations)
	want := map[string]string{}
	for _, k := range universe {
		if value, present, _, _ := m.value(k); present {
			want[k] = value
		}
		wrote := m.cleared[k] || len(m.done[k]) > 0 || len(m.pending) > 0 && k == stampedAt(commitVersion)
		if in := slices.ContainsFunc(c.Writes, resolver.Span{Begin: []byte(k)}.Overlaps); in != wrote {
			t.Fatalf("%q: write conflict %v, want %v", k, in, wrote)
		}
	}
	if n := len(m.pending); n > 0 {
		want[stampedAt(commitVersion)] = m.pending[n-1]
	}
	if !maps.Equal(got, want) {
		t.Fatalf("committed %q, want %q", got, want)
	}
}

func apply(base map[string]string, mutations []Mutation) map[string]string {
	data := maps.Clone(base)
	for _, m := range mutations {
		switch m.Kind {
		case ClearRange:
			maps.DeleteFunc(data, func(k, _ string) bool { return string(m.Key) <= k && k < string(m.Value) })
		case Clear:
			delete(data, string(m.Key))
		default:
			old, ok := data[string(m.Key)]
			base := []byte(old)
			if !ok {
				base = nil
			}
			data[string(m.Key)] = string(Apply(m.Kind, base, m.Value))
		}
	}
	return data
}
