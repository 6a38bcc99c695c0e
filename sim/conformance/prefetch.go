package conformance

import "couchrelay/core/kv"

// prefetch prefetches everything, twice over.
func prefetch(e *env, tx kv.Tx) {
	tx.Prefetch([][]byte{e.key("a"), e.key("x")}, []kv.Range{e.span("a", "d"), e.all(), e.span("b", "b")})
	tx.Snapshot().Prefetch([][]byte{e.key("c")}, []kv.Range{e.span("d", "c")})
}

var prefetches = []test{
	{"values", func(e *env) {
		e.put("a", "1", "b", "", "c", "3", "e", "5")
		tx := e.begin()
		prefetch(e, tx)
		e.value(tx, "a", "1")
		e.value(tx.Snapshot(), "b", "")
		e.value(tx, "x", none)
		e.pairs(tx, e.all(), kv.RangeOptions{}, "a=1", "b=", "c=3", "e=5")
		e.pairs(tx, e.all(), kv.RangeOptions{Limit: 2}, "a=1", "b=")
		e.pairs(tx.Snapshot(), e.span("a", "e"), kv.RangeOptions{Limit: 2, Reverse: true}, "c=3", "b=")
	}},
	{"of nothing", func(e *env) {
		tx := e.begin()
		tx.Prefetch(nil, nil)
		e.value(tx, "a", none)
	}},
	{"own writes", func(e *env) {
		e.put("a", "1", "b", "2", "c", number(3), "d", "4", "e", "5")
		tx := e.begin()
		tx.Set(e.key("a"), []byte("own"))
		tx.ClearRange(e.span("d", "e"))
		tx.Add(e.key("c"), 1)
		prefetch(e, tx)
		tx.Clear(e.key("b"))
		tx.Add(e.key("c"), 1)
		tx.Set(e.key("f"), []byte("6"))
		for _, r := range []kv.Reader{tx, tx.Snapshot()} {
			e.value(r, "b", none)
			e.value(r, "c", number(5))
			e.pairs(r, e.all(), kv.RangeOptions{}, "a=own", "c="+number(5), "e=5", "f=6")
		}
		e.commit(tx)
		e.contents("a=own", "c="+number(5), "e=5", "f=6")
	}},
	{"the snapshot", func(e *env) {
		e.put("a", "1", "b", "1")
		tx := e.begin()
		_, err := tx.ReadVersion()
		e.must(err)
		e.put("a", "2")
		prefetch(e, tx)
		e.put("b", "2")
		e.value(tx, "a", "1")
		e.pairs(tx, e.all(), kv.RangeOptions{}, "a=1", "b=1")
	}},
	{"pending versionstamps", func(e *env) {
		tx := e.begin()
		tx.SetVersionstampedValue(e.key("a"), stampTemplate("own"))
		tx.Prefetch([][]byte{e.key("a")}, []kv.Range{e.all()})
		e.value(tx, "b", none)
		e.commit(tx)
	}},
	{"in an attempt after another", func(e *env) {
		e.put("a", "1")
		tx := e.begin()
		prefetch(e, tx)
		e.put("a", "2")
		e.must(tx.OnError(kv.NewError(kv.NotCommitted)))
		prefetch(e, tx)
		e.value(tx, "a", "2")
	}},
	{"of a transaction that is over", func(e *env) {
		tx := e.begin()
		tx.Cancel()
		prefetch(e, tx)
		_, err := tx.Get(e.key("a"))
		e.code(err, kv.TransactionCancelled)
	}},
}
