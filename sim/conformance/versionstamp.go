package conformance

import (
	"bytes"
	"encoding/binary"
	"strings"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// stampTemplate is text followed by room for ten bytes, with the offset of these.
func stampTemplate(text string) []byte {
	b := append([]byte(text), make([]byte, 10)...)
	return binary.LittleEndian.AppendUint32(b, uint32(len(text)))
}

// stamped is a template for versionstamped keys of this test.
func (e *env) stamped(name string) []byte { return stampTemplate(string(e.key(name))) }

// stamps lists what is stored under name as the ten bytes after it and the value.
func (e *env) stamps(name string) (list []string) {
	e.Helper()
	got, err := e.begin().GetRange(kv.PrefixRange(e.key(name)), kv.RangeOptions{})
	e.must(err)
	for _, p := range got {
		list = append(list, strings.TrimPrefix(string(p.Key), string(e.key(name)))+string(p.Value))
	}
	return list
}

var versionstamps = []test{
	{"keys in the order of commits", func(e *env) {
		var want []string
		for i := range 10 {
			tx := e.begin()
			value := []byte{byte('a' + i)}
			tx.SetVersionstampedKey(e.stamped("s"), value)
			e.commit(tx)
			stamp, err := tx.Versionstamp()
			e.must(err)
			want = append(want, string(stamp[:])+string(value))
		}
		got := e.stamps("s")
		if len(got) != 10 {
			e.Fatalf("%d keys, want 10", len(got))
		}
		for i := range got {
			if got[i] != want[i] {
				e.Errorf("key %d is %q, want %q", i, got[i], want[i])
			}
		}
	}},
	{"between read versions", func(e *env) {
		before, err := e.begin().ReadVersion()
		e.must(err)
		tx := e.begin()
		e.value(tx, "a", none)
		tx.Set(e.key("a"), []byte("1"))
		e.commit(tx)
		stamp, err := tx.Versionstamp()
		e.must(err)
		after, err := e.begin().ReadVersion()
		e.must(err)
		if v := int64(binary.BigEndian.Uint64(stamp[:8])); v <= before || v > after {
			e.Errorf("commit version %d between read versions %d and %d", v, before, after)
		}
	}},
	{"several in one transaction", func(e *env) {
		s := tuple.Subspace(e.Prefix)
		tx := e.begin()
		for _, user := range []uint16{300, 2, 1} {
			tx.SetVersionstampedKey(s.PackVersionstamped("log", tuple.Incomplete(user), "x"), []byte{byte(user)})
		}
		e.commit(tx)
		stamp, err := tx.Versionstamp()
		e.must(err)
		got, err := e.begin().GetRange(s.Sub("log").Range(), kv.RangeOptions{})
		e.must(err)
		for i, user := range []uint16{1, 2, 300} {
			var v tuple.Versionstamp
			var text string
			e.must(s.Sub("log").Scan(got[i].Key, &v, &text))
			if v.Transaction != stamp || v.User != user || text != "x" {
				e.Errorf("key %d is %v %q", i, v, text)
			}
		}
	}},
	{"values", func(e *env) {
		tx := e.begin()
		tx.SetVersionstampedValue(e.key("a"), stampTemplate("at "))
		tx.SetVersionstampedValue(e.key("b"), append(make([]byte, 10), "rest\x00\x00\x00\x00"...))
		e.commit(tx)
		stamp, err := tx.Versionstamp()
		e.must(err)
		e.contents("a=at "+string(stamp[:]), "b="+string(stamp[:])+"rest")
	}},
	{"unreadable until the commit", func(e *env) {
		e.put("b", "2")
		begin := func() kv.Transaction {
			tx := e.begin()
			tx.SetVersionstampedKey(e.stamped("s"), nil)
			tx.SetVersionstampedValue(e.key("a"), stampTemplate(""))
			return tx
		}
		tx := begin()
		for _, r := range []kv.Reader{tx, tx.Snapshot()} {
			_, err := r.Get(e.key("a"))
			e.code(err, kv.AccessedUnreadable)
			_, err = r.GetAll([][]byte{e.key("b"), e.key("a")})
			e.code(err, kv.AccessedUnreadable)
			_, err = r.GetRange(e.span("a", "c"), kv.RangeOptions{})
			e.code(err, kv.AccessedUnreadable)
			_, err = r.GetRange(e.all(), kv.RangeOptions{Limit: 1, Reverse: true})
			e.code(err, kv.AccessedUnreadable)
			_, err = r.Get(append(e.key("s"), bytes.Repeat([]byte{0xfe}, 10)...))
			e.code(err, kv.AccessedUnreadable)
			e.value(r, "b", "2")
			e.pairs(r, e.span("b", "s"), kv.RangeOptions{}, "b=2")
			e.pairs(r, e.span("t", "z"), kv.RangeOptions{})
			e.pairs(r, e.span("b", "z"), kv.RangeOptions{Limit: 1}, "b=2") // ends before it
		}
		e.code(tx.Commit(), kv.AccessedUnreadable)
		e.contents("b=2")
		tx = begin()
		e.commit(tx)
		stamp, err := tx.Versionstamp()
		e.must(err)
		e.contents("a="+string(stamp[:]), "b=2", "s"+string(stamp[:])+"=")
	}},
	{"written over", func(e *env) {
		tx := e.begin()
		tx.Set(e.key("a"), []byte("before"))
		tx.SetVersionstampedValue(e.key("a"), stampTemplate(""))
		tx.SetVersionstampedValue(e.key("b"), stampTemplate(""))
		tx.Set(e.key("b"), []byte("after"))
		e.commit(tx)
		stamp, err := tx.Versionstamp()
		e.must(err)
		e.contents("a="+string(stamp[:]), "b=after")
	}},
	{"none without writes", func(e *env) {
		tx := e.begin()
		if _, err := tx.Versionstamp(); err == nil {
			e.Error("a versionstamp before the commit")
		}
		e.value(tx, "a", none)
		e.commit(tx)
		if _, err := tx.Versionstamp(); err == nil {
			e.Error("a versionstamp without writes")
		}
	}},
	{"unique", func(e *env) {
		seen := map[[10]byte]bool{}
		for range 20 {
			tx := e.begin()
			tx.Set(e.key("a"), nil)
			e.commit(tx)
			stamp, err := tx.Versionstamp()
			e.must(err)
			if seen[stamp] {
				e.Errorf("%x twice", stamp)
			}
			seen[stamp] = true
		}
	}},
}
