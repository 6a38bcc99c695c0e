package conformance

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"

	"couchrelay/core/kv"

	"pgregory.net/rapid"
)

// modelKeys has every key of the model test, in order. The keys with an x stand for the gaps between the
// others: no operation names them, but ranges cover them.
var modelKeys = []string{"a", "ax", "b", "bx", "c", "cx", "d", "dx", "e", "ex"}

func namedKey() *rapid.Generator[string] {
	return rapid.Map(rapid.IntRange(0, len(modelKeys)/2-1), func(i int) string { return modelKeys[2*i] })
}

// model is a deliberately dumb store: every transaction has a copy of everything.
type model struct {
	data    map[string]string
	commits []map[string]bool // the keys that each commit wrote
	tried   int               // commits with writes, also those that failed
}

// modelTx runs beside a real transaction.
type modelTx struct {
	tx     kv.Transaction
	view   map[string]string // what it sees
	begun  int               // commits before its snapshot
	own    map[string]bool   // keys whose value does not depend on the store
	read   map[string]bool
	wrote  map[string]bool
	writes []func(map[string]string)
}

func runModel(t *testing.T, s Store) {
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		e := newEnv(t, s)
		e.Prefix = append(e.key(""), fmt.Sprintf("%08d/", round)...)
		m := &model{data: map[string]string{}}
		slots := make([]*modelTx, 3)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			i := rapid.IntRange(0, len(slots)-1).Draw(rt, "slot")
			switch op := rapid.IntRange(0, 9).Draw(rt, "op"); {
			case slots[i] == nil:
				slots[i] = m.begin(rt, e)
			case op == 0:
				m.commit(rt, e, slots[i])
				slots[i] = nil
			case op < 6:
				slots[i].drawWrite(rt, e)
			default:
				if err := slots[i].drawRead(rt, e); e.excused(err) {
					slots[i].tx.Cancel()
					slots[i] = nil
				} else if err != nil {
					rt.Fatal(err)
				}
			}
		}
		for _, tx := range slots {
			if tx != nil {
				m.commit(rt, e, tx)
			}
		}
		if err := kv.Do(e.ctx, e.DB, func(tx kv.Tx) error {
			last := &modelTx{view: m.data}
			return last.compareRange(rt, e, tx, "a", "z", kv.RangeOptions{}, false)
		}); err != nil {
			rt.Fatal(err)
		}
	})
}

func (m *model) begin(t *rapid.T, e *env) *modelTx {
	tx := e.DB.Begin(e.ctx, kv.Options{})
	for _, err := tx.ReadVersion(); err != nil; _, err = tx.ReadVersion() {
		if !e.excused(err) || tx.OnError(err) != nil {
			t.Fatal(err)
		}
	}
	return &modelTx{tx: tx, view: maps.Clone(m.data), begun: len(m.commits),
		own: map[string]bool{}, read: map[string]bool{}, wrote: map[string]bool{}}
}

func (m *model) commit(t *rapid.T, e *env, x *modelTx) {
	conflict := false
	for _, wrote := range m.commits[x.begun:] {
		for k := range x.read {
			conflict = conflict || wrote[k]
		}
	}
	conflict = conflict && len(x.wrote) > 0
	m.tried++
	trace := e.key(fmt.Sprintf("~%08d", m.tried)) // tells whether a commit took effect whose result is unknown
	if len(x.wrote) > 0 {
		x.tx.Set(trace, nil)
	}
	err := x.tx.Commit()
	x.tx.Cancel()
	if kv.CodeOf(err) == kv.CommitUnknownResult && e.excused(err) {
		found, failed := kv.Run(e.ctx, e.DB, func(tx kv.Tx) ([]byte, error) { return tx.Get(trace) })
		if failed != nil || found != nil {
			err = failed
		}
	}
	switch {
	case conflict && kv.CodeOf(err) != kv.NotCommitted && !e.excused(err):
		t.Fatalf("commit gives %v, want a conflict", err)
	case conflict || e.excused(err):
		return
	case err != nil:
		t.Fatal(err)
	}
	m.commits = append(m.commits, x.wrote)
	for _, w := range x.writes {
		w(m.data)
	}
}

// write notes a change of the keys for which in is true. independent reports that their new values do not
// depend on the store.
func (x *modelTx) write(in func(string) bool, independent bool, change func(data map[string]string)) {
	for _, k := range modelKeys {
		if in(k) {
			x.wrote[k] = true
			x.own[k] = x.own[k] || independent
		}
	}
	change(x.view)
	x.writes = append(x.writes, change)
}

func (x *modelTx) drawWrite(t *rapid.T, e *env) {
	key, to := namedKey().Draw(t, "key"), namedKey().Draw(t, "to")
	from, to := min(key, to), max(key, to)
	only := func(k string) bool { return k == key }
	between := func(k string) bool { return from <= k && k < to }
	counter := func(data map[string]string) uint64 {
		var buf [8]byte
		copy(buf[:], data[key])
		return binary.LittleEndian.Uint64(buf[:])
	}
	n := rapid.Uint64Range(0, 3).Draw(t, "n")
	kind := rapid.IntRange(0, 6).Draw(t, "write")
	if e.NoOperands && (kind == 4 || kind == 5) {
		kind = 0
	}
	switch kind {
	case 0, 1:
		x.tx.Set(e.key(key), []byte(number(n)))
		x.write(only, true, func(data map[string]string) { data[key] = number(n) })
	case 2:
		x.tx.Clear(e.key(key))
		x.write(only, true, func(data map[string]string) { delete(data, key) })
	case 3:
		x.tx.ClearRange(e.span(from, to))
		x.write(between, true, func(data map[string]string) {
			maps.DeleteFunc(data, func(k, _ string) bool { return between(k) })
		})
	case 4:
		x.tx.Add(e.key(key), int64(n))
		x.write(only, false, func(data map[string]string) { data[key] = number(counter(data) + n) })
	case 5:
		x.tx.Max(e.key(key), n)
		x.write(only, false, func(data map[string]string) { data[key] = number(max(counter(data), n)) })
	case 6:
		x.tx.AddWriteConflict(e.span(from, to))
		x.write(between, false, func(map[string]string) {})
	}
}

func (x *modelTx) drawRead(t *rapid.T, e *env) error {
	key, to := namedKey().Draw(t, "key"), namedKey().Draw(t, "to")
	conflict := rapid.IntRange(0, 3).Draw(t, "snapshot") > 0
	var r kv.Reader = x.tx
	if !conflict {
		r = x.tx.Snapshot()
	}
	switch rapid.IntRange(0, 4).Draw(t, "read") {
	case 0:
		got, err := r.Get(e.key(key))
		if err != nil {
			return err
		}
		x.compare(t, key, got, conflict)
	case 1:
		got, err := r.GetAll([][]byte{e.key(to), e.key(key)})
		if err != nil {
			return err
		}
		x.compare(t, to, got[0], conflict)
		x.compare(t, key, got[1], conflict)
	case 2:
		o := kv.RangeOptions{Limit: rapid.IntRange(0, 3).Draw(t, "limit"), Reverse: rapid.Bool().Draw(t, "reverse")}
		return x.compareRange(t, e, r, min(key, to), max(key, to), o, conflict)
	case 3:
		from, to := min(key, to), max(key, to)
		x.tx.AddReadConflict(e.span(from, to))
		x.noteRead(func(k string) bool { return from <= k && k < to })
	case 4:
		r.Prefetch([][]byte{e.key(key)}, []kv.Range{e.span(min(key, to), max(key, to))})
	}
	return nil
}

func (x *modelTx) noteRead(in func(string) bool) {
	for _, k := range modelKeys {
		if in(k) && !x.own[k] {
			x.read[k] = true
		}
	}
}

func (x *modelTx) compare(t *rapid.T, key string, got []byte, conflict bool) {
	if want, ok := x.view[key]; ok != (got != nil) || string(got) != want {
		t.Fatalf("%s is %q, want %q", key, got, want)
	}
	if conflict {
		x.noteRead(func(k string) bool { return k == key })
	}
}

func (x *modelTx) compareRange(t *rapid.T, e *env, r kv.Reader, from, to string, o kv.RangeOptions,
	conflict bool) error {
	pairs, err := r.GetRange(e.span(from, to), o)
	if err != nil {
		return err
	}
	var want []string
	for _, k := range slices.Sorted(maps.Keys(x.view)) {
		if from <= k && k < to {
			want = append(want, k+"="+x.view[k])
		}
	}
	if o.Reverse {
		slices.Reverse(want)
	}
	if o.Limit > 0 && len(want) >= o.Limit {
		want = want[:o.Limit]
		if last := want[o.Limit-1][:1]; o.Reverse {
			from = last
		} else {
			to = last + "\x00"
		}
	}
	if got := e.render(pairs); !slices.Equal(got, want) {
		t.Fatalf("%s to %s with %+v is %q, want %q", from, to, o, got, want)
	}
	if conflict {
		x.noteRead(func(k string) bool { return from <= k && k < to })
	}
	return nil
}
