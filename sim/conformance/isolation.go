package conformance

import (
	"slices"

	"couchrelay/core/kv"
)

var isolation = []test{
	{"one snapshot", func(e *env) {
		e.put("a", "1", "b", "1", "c", "1")
		tx := e.begin()
		e.value(tx, "a", "1") // fixes the snapshot
		e.put("b", "2", "d", "2")
		e.do(func(tx kv.Tx) { tx.Clear(e.key("c")) })
		e.value(tx, "b", "1")
		e.value(tx.Snapshot(), "c", "1")
		e.pairs(tx, e.all(), kv.RangeOptions{}, "a=1", "b=1", "c=1")
		e.pairs(tx, e.all(), kv.RangeOptions{Reverse: true}, "c=1", "b=1", "a=1")
		got, err := tx.GetAll([][]byte{e.key("b"), e.key("d")})
		e.must(err)
		if show(got[0]) != "1" || got[1] != nil {
			e.Errorf("got %q", got)
		}
	}},
	{"chosen by the first read", func(e *env) {
		tx := e.begin()
		e.put("a", "1")
		e.value(tx, "a", "1")
	}},
	{"cleared ranges stay in old snapshots", func(e *env) {
		e.put("a", "1", "b", "2", "c", "3")
		tx := e.begin()
		_, err := tx.ReadVersion()
		e.must(err)
		e.do(func(tx kv.Tx) { tx.ClearRange(e.all()) })
		e.put("b", "new")
		e.pairs(tx, e.all(), kv.RangeOptions{}, "a=1", "b=2", "c=3")
		e.contents("b=new")
	}},
	{"nothing is seen before the commit", func(e *env) {
		tx := e.begin()
		tx.Set(e.key("a"), []byte("1"))
		e.contents()
		e.commit(tx)
		e.contents("a=1")
	}},
	{"committed means visible", func(e *env) {
		for range 20 {
			before, err := kv.Run(e.ctx, e.DB, func(tx kv.Tx) (int64, error) {
				tx.Add(e.key("n"), 1)
				return tx.ReadVersion()
			})
			e.must(err)
			tx := e.begin()
			after, err := tx.ReadVersion()
			e.must(err)
			if after <= before {
				e.Errorf("read version went from %d to %d across a commit", before, after)
			}
		}
		e.contents("n=" + number(20))
	}},
	{"read versions never fall", func(e *env) {
		last := int64(0)
		for range 20 {
			v, err := e.begin().ReadVersion()
			e.must(err)
			if v < last || v <= 0 {
				e.Errorf("read version %d after %d", v, last)
			}
			last = v
		}
	}},
	{"read version is that of the reads", func(e *env) {
		e.put("a", "1")
		tx := e.begin()
		v, err := tx.ReadVersion()
		e.must(err)
		e.put("a", "2")
		e.value(tx, "a", "1")
		if again, err := tx.ReadVersion(); again != v || err != nil {
			e.Errorf("read version went from %d to %d, %v", v, again, err)
		}
	}},
	{"cancelled is never seen", func(e *env) {
		tx := e.begin()
		tx.Set(e.key("a"), []byte("1"))
		tx.Cancel()
		e.code(tx.Commit(), kv.TransactionCancelled)
		e.contents()
	}},
	{"conflict leaves nothing behind", func(e *env) {
		tx := e.begin()
		e.value(tx, "a", none)
		tx.Set(e.key("b"), []byte("lost"))
		tx.ClearRange(e.span("x", "z"))
		tx.Add(e.key("n"), 1)
		e.put("a", "1", "y", "1")
		e.code(tx.Commit(), kv.NotCommitted)
		e.contents("a=1", "y=1")
	}},
	{"write skew is prevented", func(e *env) {
		e.put("a", "on", "b", "on")
		one, two := e.begin(), e.begin()
		e.value(one, "b", "on")
		e.value(two, "a", "on")
		one.Set(e.key("a"), []byte("off"))
		two.Set(e.key("b"), []byte("off"))
		e.commit(one)
		e.code(two.Commit(), kv.NotCommitted)
		e.contents("a=off", "b=on")
	}},
	{"phantoms are prevented", func(e *env) {
		one, two := e.begin(), e.begin()
		e.pairs(one, e.all(), kv.RangeOptions{})
		e.pairs(two, e.all(), kv.RangeOptions{})
		one.Set(e.key("a"), nil)
		two.Set(e.key("b"), nil)
		e.commit(one)
		e.code(two.Commit(), kv.NotCommitted)
		e.contents("a=")
	}},
}

// conflict is a test of two transactions. The first one does first, the second one does second and commits,
// and then the first one, which also writes a key of its own, commits: with a conflict if want is set.
type conflict struct {
	name          string
	first, second func(e *env, tx kv.Tx)
	want          bool
}

// conflictTests runs the table above the pairs a=1, c=3, e=5, g=7.
func conflictTests() (tests []test) {
	all := slices.Clone(conflicts)
	for _, c := range conflicts {
		all = append(all, conflict{"prefetched: " + c.name, both(prefetch, c.first), c.second, c.want})
	}
	for _, c := range append(all, conflict{"prefetch alone", prefetch, clearRange("a", "z"), false}) {
		tests = append(tests, test{c.name, func(e *env) {
			e.put("a", "1", "c", "3", "e", "5", "g", "7")
			tx := e.begin()
			_, err := tx.ReadVersion()
			e.must(err)
			c.first(e, tx)
			e.do(func(tx kv.Tx) { c.second(e, tx) })
			tx.Set(e.key("own"), nil)
			if err := tx.Commit(); c.want {
				e.code(err, kv.NotCommitted)
			} else {
				e.must(err)
			}
		}})
	}
	return tests
}

func get(name string) func(*env, kv.Tx) {
	return func(e *env, tx kv.Tx) { _, err := tx.Get(e.key(name)); e.must(err) }
}

func set(name string) func(*env, kv.Tx) {
	return func(e *env, tx kv.Tx) { tx.Set(e.key(name), []byte("set")) }
}

func clearKey(name string) func(*env, kv.Tx) {
	return func(e *env, tx kv.Tx) { tx.Clear(e.key(name)) }
}

func clearRange(from, to string) func(*env, kv.Tx) {
	return func(e *env, tx kv.Tx) { tx.ClearRange(e.span(from, to)) }
}

func scan(from, to string, o kv.RangeOptions) func(*env, kv.Tx) {
	return func(e *env, tx kv.Tx) { _, err := tx.GetRange(e.span(from, to), o); e.must(err) }
}

func both(a, b func(*env, kv.Tx)) func(*env, kv.Tx) {
	return func(e *env, tx kv.Tx) { a(e, tx); b(e, tx) }
}

func snapshotReads(e *env, tx kv.Tx) {
	s := tx.Snapshot()
	_, err := s.Get(e.key("a"))
	e.must(err)
	_, err = s.GetAll([][]byte{e.key("c"), e.key("x")})
	e.must(err)
	_, err = s.GetRange(e.all(), kv.RangeOptions{})
	e.must(err)
}

func getAll(e *env, tx kv.Tx) {
	_, err := tx.GetAll([][]byte{e.key("a"), e.key("x"), e.key("e")})
	e.must(err)
}

var (
	two     = kv.RangeOptions{Limit: 2}
	lastTwo = kv.RangeOptions{Limit: 2, Reverse: true}
)

var conflicts = []conflict{
	{"get and set", get("a"), set("a"), true},
	{"get and set of the same value", get("a"), func(e *env, tx kv.Tx) { tx.Set(e.key("a"), []byte("1")) }, true},
	{"get and set of another key", get("a"), set("a\x00"), false},
	{"get and clear", get("a"), clearKey("a"), true},
	{"get and clear of a range", get("c"), clearRange("b", "d"), true},
	{"get and clear of a range up to it", get("c"), clearRange("a", "c"), false},
	{"get and add", get("a"), func(e *env, tx kv.Tx) { tx.Add(e.key("a"), 1) }, true},
	{"get and max", get("a"), func(e *env, tx kv.Tx) { tx.Max(e.key("a"), 1) }, true},
	{"get of nothing and set", get("b"), set("b"), true},
	{"get of nothing and clear of nothing", get("b"), clearKey("b"), true},
	{"get all, first", getAll, set("a"), true},
	{"get all, absent", getAll, set("x"), true},
	{"get all, between", getAll, set("c"), false},
	{"snapshot reads", snapshotReads, clearRange("a", "z"), false},
	{"blind writes", both(set("a"), clearRange("c", "f")), both(set("a"), set("c")), false},
	{"adds", func(e *env, tx kv.Tx) { tx.Add(e.key("a"), 1) }, func(e *env, tx kv.Tx) { tx.Add(e.key("a"), 1) }, false},
	{"max", func(e *env, tx kv.Tx) { tx.Max(e.key("a"), 1) }, set("a"), false},
	{"range and set in it", scan("a", "e", kv.RangeOptions{}), set("b"), true},
	{"range and set at its begin", scan("a", "e", kv.RangeOptions{}), set("a"), true},
	{"range and set at its end", scan("a", "e", kv.RangeOptions{}), set("e"), false},
	{"range and clear of what overlaps", scan("c", "e", kv.RangeOptions{}), clearRange("d", "z"), true},
	{"range and clear of what touches", scan("c", "e", kv.RangeOptions{}), clearRange("e", "z"), false},
	{"empty range and set", scan("h", "k", kv.RangeOptions{}), set("i"), true},
	{"limit and set of the last returned", scan("a", "z", two), set("c"), true},
	{"limit and set before the last returned", scan("a", "z", two), set("b"), true},
	{"limit and set after the last returned", scan("a", "z", two), set("c\x00"), false},
	{"limit not reached and set at the end", scan("e", "z", kv.RangeOptions{Limit: 3}), set("y"), true},
	{"limit just reached and set at the end", scan("e", "z", two), set("y"), false},
	{"reverse limit and set of the last returned", scan("a", "z", lastTwo), set("e"), true},
	{"reverse limit and set at the end", scan("a", "z", lastTwo), set("y"), true},
	{"reverse limit and set before the last returned", scan("a", "z", lastTwo), set("d"), false},
	{"reverse limit not reached and set at the begin", scan("a", "d", kv.RangeOptions{Limit: 3, Reverse: true}),
		set("a"), true},
	{"limit filled by own writes", both(set("b"), scan("a", "z", two)), set("c"), false},
	{"get of an own write", both(set("a"), get("a")), set("a"), false},
	{"get of an own clear", both(clearRange("a", "z"), get("c")), set("c"), false},
	{"range over own writes", both(both(set("c"), clearRange("d", "f")), scan("c", "f", kv.RangeOptions{})),
		both(set("c"), set("e")), false},
	{"range beside own writes", both(set("c"), scan("c", "f", kv.RangeOptions{})), set("d"), true},
	{"get of an own add", both(func(e *env, tx kv.Tx) { tx.Add(e.key("a"), 1) }, get("a")), set("a"), true},
	{"get before an own write", both(get("a"), set("a")), set("a"), true},
	{"read conflict range", func(e *env, tx kv.Tx) { tx.AddReadConflict(e.span("b", "d")) }, set("c"), true},
	{"read conflict range, beside", func(e *env, tx kv.Tx) { tx.AddReadConflict(e.span("b", "d")) }, set("d"), false},
	{"write conflict range", get("c"), func(e *env, tx kv.Tx) { tx.AddWriteConflict(e.span("b", "d")) }, true},
	{"write conflict range, beside", get("a"), func(e *env, tx kv.Tx) { tx.AddWriteConflict(e.span("b", "d")) }, false},
	{"range and versionstamped key in it", scan("a", "z", kv.RangeOptions{}),
		func(e *env, tx kv.Tx) { tx.SetVersionstampedKey(e.stamped("s"), nil) }, true},
	{"get and versionstamped value", get("a"),
		func(e *env, tx kv.Tx) { tx.SetVersionstampedValue(e.key("a"), stampTemplate("")) }, true},
}
