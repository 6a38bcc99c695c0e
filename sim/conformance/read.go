package conformance

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"couchrelay/core/kv"
)

var reads = []test{
	{"absent is nil and empty is not", func(e *env) {
		e.put("empty", "")
		tx := e.begin()
		e.value(tx, "absent", none)
		e.value(tx, "empty", "")
	}},
	{"all bytes", func(e *env) {
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		e.put(string(every), string(every))
		e.value(e.begin(), string(every), string(every))
	}},
	{"several keys at once", func(e *env) {
		e.put("a", "1", "b", "")
		got, err := e.begin().GetAll([][]byte{e.key("b"), e.key("x"), e.key("a"), e.key("a")})
		e.must(err)
		if len(got) != 4 || show(got[0]) != "" || got[1] != nil || show(got[2]) != "1" || show(got[3]) != "1" {
			e.Errorf("got %q", got)
		}
		if got, err := e.begin().GetAll(nil); len(got) != 0 || err != nil {
			e.Errorf("no keys: %q, %v", got, err)
		}
	}},
	{"ranges", func(e *env) {
		e.put("a", "1", "b", "2", "b\x00", "3", "c", "4", "d", "5")
		tx := e.begin()
		e.pairs(tx, e.all(), kv.RangeOptions{}, "a=1", "b=2", "b\x00=3", "c=4", "d=5")
		e.pairs(tx, e.span("b", "d"), kv.RangeOptions{}, "b=2", "b\x00=3", "c=4")
		e.pairs(tx, e.span("aa", "dd"), kv.RangeOptions{Limit: 2}, "b=2", "b\x00=3")
		e.pairs(tx, e.span("a", "d"), kv.RangeOptions{Limit: 2, Reverse: true}, "c=4", "b\x00=3")
		e.pairs(tx, e.span("a", "d"), kv.RangeOptions{Reverse: true}, "c=4", "b\x00=3", "b=2", "a=1")
		e.pairs(tx, e.span("b", "b\x00"), kv.RangeOptions{}, "b=2")
		e.pairs(tx, e.span("b", "b"), kv.RangeOptions{})
		e.pairs(tx, e.span("x", "z"), kv.RangeOptions{Reverse: true})
		e.pairs(tx.Snapshot(), e.span("b", "c"), kv.RangeOptions{Limit: 9}, "b=2", "b\x00=3")
	}},
	{"limits beyond all pairs", func(e *env) {
		e.put("a", "1", "b", "2")
		for _, limit := range []int{math.MaxInt32, math.MaxInt32 + 1, 1 << 32, math.MaxInt} {
			e.pairs(e.begin(), e.all(), kv.RangeOptions{Limit: limit}, "a=1", "b=2")
			e.pairs(e.begin().Snapshot(), e.all(), kv.RangeOptions{Limit: limit, Reverse: true}, "b=2", "a=1")
		}
	}},
	{"inverted range", func(e *env) {
		e.put("a", "1", "b", "2")
		e.pairs(e.begin(), e.span("c", "a"), kv.RangeOptions{})
		e.pairs(e.begin(), e.span("c", "a"), kv.RangeOptions{Limit: 1, Reverse: true})
	}},
	{"long range", func(e *env) {
		const n = 3000
		e.do(func(tx kv.Tx) {
			for i := range n {
				tx.Set(e.key(fmt.Sprintf("%06d", i)), make([]byte, 100))
			}
		})
		for _, o := range []kv.RangeOptions{{}, {Reverse: true}, {Limit: n + 1}} {
			got, err := e.begin().GetRange(e.all(), o)
			e.must(err)
			for i, p := range got {
				if o.Reverse {
					i = n - 1 - i
				}
				if want := string(e.key(fmt.Sprintf("%06d", i))); string(p.Key) != want || len(p.Value) != 100 {
					e.Fatalf("%+v: got %q, want %q", o, p.Key, want)
				}
			}
			if len(got) != n {
				e.Errorf("%+v: %d pairs, want %d", o, len(got), n)
			}
		}
	}},
	{"results can be appended to", func(e *env) {
		e.put("a", "1", "b", "2")
		tx := e.begin()
		v, err := tx.Get(e.key("a"))
		e.must(err)
		first, second := append(v, "x"...), append(v, "y"...)
		if string(first) != "1x" || string(second) != "1y" {
			e.Errorf("%s and %s", first, second)
		}
		got, err := tx.GetRange(e.all(), kv.RangeOptions{})
		e.must(err)
		_ = append(got[0].Key, "overwrites"...)
		_ = append(got[0].Value, "overwrites"...)
		e.pairs(tx, e.all(), kv.RangeOptions{}, "a=1", "b=2")
		if s := e.render(got); s[1] != "b=2" {
			e.Errorf("neighbour became %s", s[1])
		}
	}},
	{"results stay as they were", func(e *env) {
		e.put("a", "1")
		tx := e.begin()
		tx.Set(e.key("b"), []byte("1"))
		var values [][]byte
		for _, key := range []string{"a", "b"} {
			v, err := tx.Get(e.key(key))
			e.must(err)
			tx.Add(e.key(key), 1)
			values = append(values, v)
		}
		e.commit(tx)
		e.put("a", "3", "b", "3")
		if v := string(bytes.Join(values, nil)); v != "11" {
			e.Errorf("became %s", v)
		}
	}},
	{"arguments belong to the caller", func(e *env) {
		tx := e.begin()
		buf := e.key("a")
		last := len(buf) - 1
		tx.Set(buf, buf[last:])
		buf[last] = 'b'
		_, err := tx.Get(buf)
		e.must(err)
		buf[last] = 'c'
		e.put("c", "3")
		e.commit(tx)
		e.contents("a=a", "c=3")
	}},
}

var ownWrites = []test{
	{"single keys", func(e *env) {
		e.put("a", "1", "b", "2")
		tx := e.begin()
		tx.Set(e.key("b"), []byte("own"))
		tx.Set(e.key("c"), nil)
		tx.Clear(e.key("a"))
		for _, r := range []kv.Reader{tx, tx.Snapshot()} {
			e.value(r, "a", none)
			e.value(r, "b", "own")
			e.value(r, "c", "")
			got, err := r.GetAll([][]byte{e.key("a"), e.key("b")})
			e.must(err)
			if got[0] != nil || string(got[1]) != "own" {
				e.Errorf("got %q", got)
			}
		}
		e.commit(tx)
		e.contents("b=own", "c=")
	}},
	{"ranges", func(e *env) {
		e.put("a", "1", "c", "3", "e", "5", "g", "7")
		tx := e.begin()
		tx.Set(e.key("b"), []byte("2"))
		tx.Set(e.key("c"), []byte("own"))
		tx.Clear(e.key("e"))
		tx.Set(e.key("z"), []byte("26"))
		e.pairs(tx, e.all(), kv.RangeOptions{}, "a=1", "b=2", "c=own", "g=7", "z=26")
		e.pairs(tx, e.all(), kv.RangeOptions{Reverse: true}, "z=26", "g=7", "c=own", "b=2", "a=1")
		e.pairs(tx, e.all(), kv.RangeOptions{Limit: 2}, "a=1", "b=2")
		e.pairs(tx, e.span("d", "zz"), kv.RangeOptions{Limit: 1}, "g=7")
		e.pairs(tx.Snapshot(), e.span("a", "g"), kv.RangeOptions{Limit: 2, Reverse: true}, "c=own", "b=2")
	}},
	{"cleared ranges", func(e *env) {
		e.put("a", "1", "b", "2", "c", "3", "d", "4")
		tx := e.begin()
		tx.Set(e.key("bb"), []byte("gone"))
		tx.ClearRange(e.span("b", "d"))
		tx.Set(e.key("c"), []byte("again"))
		tx.ClearRange(e.span("x", "x"))
		e.value(tx, "b", none)
		e.value(tx, "bb", none)
		e.pairs(tx, e.all(), kv.RangeOptions{}, "a=1", "c=again", "d=4")
		e.pairs(tx, e.all(), kv.RangeOptions{Reverse: true, Limit: 2}, "d=4", "c=again")
		e.commit(tx)
		e.contents("a=1", "c=again", "d=4")
	}},
	{"last write wins", func(e *env) {
		e.put("a", "1")
		tx := e.begin()
		tx.Set(e.key("a"), []byte("2"))
		tx.Clear(e.key("a"))
		tx.Set(e.key("a"), []byte("3"))
		tx.Set(e.key("b"), []byte("4"))
		tx.ClearRange(e.span("b", "c"))
		e.commit(tx)
		e.contents("a=3")
	}},
}

func number(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }

var atomics = []test{
	{"add", func(e *env) {
		e.put("short", "\xff", "long", number(1<<63)+"tail", "empty", "")
		e.do(func(tx kv.Tx) {
			tx.Add(e.key("absent"), -1)
			tx.Add(e.key("short"), 1)
			tx.Add(e.key("long"), 2)
			tx.Add(e.key("empty"), 3)
		})
		e.do(func(tx kv.Tx) { tx.Add(e.key("absent"), 2) }) // wraps around
		tx := e.begin()
		e.value(tx, "absent", number(1))
		e.value(tx, "short", number(0x100))
		e.value(tx, "long", number(1<<63+2))
		e.value(tx, "empty", number(3))
	}},
	{"max", func(e *env) {
		e.put("low", number(5), "high", number(1<<63), "short", "\x09")
		e.do(func(tx kv.Tx) {
			for _, k := range []string{"low", "high", "absent", "short"} {
				tx.Max(e.key(k), 7)
			}
		})
		tx := e.begin()
		e.value(tx, "low", number(7))
		e.value(tx, "high", number(1<<63)) // unsigned
		e.value(tx, "absent", number(7))
		e.value(tx, "short", number(9))
	}},
	{"seen by the transaction", func(e *env) {
		e.put("a", number(10))
		tx := e.begin()
		tx.Add(e.key("a"), 1)
		tx.Add(e.key("a"), 1)
		tx.Max(e.key("a"), 11)
		e.value(tx, "a", number(12))
		tx.Max(e.key("a"), 20)
		tx.Add(e.key("a"), 1)
		tx.Add(e.key("new"), 4)
		e.pairs(tx, e.all(), kv.RangeOptions{}, "a="+number(21), "new="+number(4))
		tx.Clear(e.key("a"))
		tx.Add(e.key("a"), 2)
		e.value(tx, "a", number(2))
		tx.Set(e.key("a"), []byte(number(5)))
		tx.Max(e.key("a"), 3)
		e.commit(tx)
		e.contents("a="+number(5), "new="+number(4))
	}},
	{"above a cleared range", func(e *env) {
		e.put("a", number(10), "b", number(10))
		tx := e.begin()
		tx.ClearRange(e.span("a", "c"))
		tx.Add(e.key("a"), 1)
		tx.Max(e.key("b"), 2)
		e.value(tx, "a", number(1))
		e.pairs(tx, e.all(), kv.RangeOptions{}, "a="+number(1), "b="+number(2))
		e.commit(tx)
		e.contents("a="+number(1), "b="+number(2))
	}},
	{"above what others wrote meanwhile", func(e *env) {
		tx := e.begin()
		_, err := tx.ReadVersion()
		e.must(err)
		tx.Add(e.key("n"), 1)
		tx.Add(e.key("n"), 1)
		tx.Max(e.key("n"), 3)
		e.put("n", number(40))
		e.commit(tx)
		e.contents("n=" + number(42))
	}},
}
