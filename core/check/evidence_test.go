package check_test

import (
	"errors"
	"testing"

	"couchrelay/core/check"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"
)

// all looks at a store at once, and returns what is found.
func all(t *testing.T, db *fakefdb.Database, sections ...check.Section) (list []check.Finding) {
	t.Helper()
	c := check.New(check.Options{Root: root, AtOnce: true, Sections: sections})
	for done := false; !done; {
		var found []check.Finding
		var err error
		if found, done, err = c.Step(db.Present()); err != nil {
			t.Fatal(err)
		}
		list = append(list, found...)
	}
	return list
}

// TestEvidence: a repair is made if nothing has changed from which its finding follows, whatever else has.
func TestEvidence(t *testing.T) {
	rows, spans, other := root.Sub("row"), root.Sub("span"), root.Sub("other")
	one, two, absent := rows.Pack(1), rows.Pack(2), other.Pack()
	mend := func(p *check.Page) {
		p.Mend(one, "is wrong", check.Mend{What: "clear both", Clear: [][]byte{one, two}})
	}
	at := func(row []byte, f func(p *check.Page)) check.Section {
		return check.Section{Space: rows, Row: func(p *check.Page, key, _ []byte) {
			if string(key) == string(row) {
				f(p)
			}
		}}
	}
	none := func(*check.Page, []byte, []byte) {}
	set := func(key []byte, value string) func(kv.Tx) { return func(tx kv.Tx) { tx.Set(key, []byte(value)) } }
	span := func(limit int) check.Section {
		return at(one, func(p *check.Page) { p.Range(spans.Range(), limit); mend(p) })
	}
	for _, c := range []struct {
		name    string
		section check.Section
		change  func(kv.Tx)
		mended  bool
	}{
		{"at the end", check.Section{Space: rows, Row: none, End: mend}, set(two, "x"), true},
		{"later", at(two, func(p *check.Page) { p.Later(func() { mend(p) }) }), set(two, "x"), true},
		{"of a row", at(two, mend), set(two, "x"), false},
		{"of a row, when another has changed", at(two, mend), set(one, "x"), true},
		{"of rows", span(9), set(spans.Pack(1), "x"), false},
		{"of rows, when another has changed", span(2), set(spans.Pack(3), "x"), true},
		{"of no more rows", span(9), set(spans.Pack(4), ""), false},
		{"of no rows", at(one, func(p *check.Page) { p.Range(other.Range(), 9); mend(p) }), set(other.Pack(1), ""),
			false},
		{"of no row", at(one, func(p *check.Page) { p.Get(absent); mend(p) }), set(absent, ""), false},
	} {
		db := fakefdb.New()
		do := func(f func(kv.Tx)) {
			if err := kv.Do(t.Context(), db, func(tx kv.Tx) error { f(tx); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		do(func(tx kv.Tx) {
			for _, key := range [][]byte{one, two, spans.Pack(1), spans.Pack(2), spans.Pack(3)} {
				tx.Set(key, nil)
			}
		})
		found := all(t, db, c.section, check.Section{Space: spans, Row: none}, check.Section{Space: other, Row: none})
		if len(found) != 1 {
			t.Fatalf("%s: %d findings", c.name, len(found))
		}
		do(c.change)
		do(func(tx kv.Tx) {
			if mended, err := check.Mended(tx, &found[0], 0); mended != c.mended || err != nil {
				t.Errorf("%s: mended %t, %v", c.name, mended, err)
			}
		})
		left, err := db.Present().GetRange(rows.Range(), kv.RangeOptions{})
		if err != nil || len(left) > 0 == c.mended {
			t.Errorf("%s: %d rows are left, %v", c.name, len(left), err)
		}
	}
}

// TestLaterAtTheEnd: what the rows and the end of a section leave for later is done once.
func TestLaterAtTheEnd(t *testing.T) {
	b := newBench(t, 3, 4)
	judged := 0
	found := all(t, b.db, check.Section{
		Space: pairs,
		Row:   func(p *check.Page, _, _ []byte) { p.Later(func() { judged++ }) },
		End:   func(p *check.Page) { p.Later(func() { p.Report(sum, "is odd") }) },
	})
	odd := 0
	for _, f := range found {
		if f.What == "is odd" {
			odd++
		}
	}
	if judged != 3 || odd != 1 {
		t.Errorf("%d rows and %d ends are judged", judged, odd)
	}
}

// failing is a reader of which no single row can be read.
type failing struct{ kv.Reader }

func (failing) Get([]byte) ([]byte, error) { return nil, errors.New("disk") }

// TestNothingLaterAfterAnError: a page of which something could not be read changes nothing of what is remembered.
func TestNothingLaterAfterAnError(t *testing.T) {
	b := newBench(t, 3, 4)
	judged := 0
	c := check.New(check.Options{Root: root, AtOnce: true, Sections: []check.Section{
		{Space: pairs, Row: func(p *check.Page, _, _ []byte) { p.Get(sum); p.Later(func() { judged++ }) }},
	}})
	if _, _, err := c.Step(failing{b.db.Present()}); err == nil || judged != 0 {
		t.Errorf("%d rows are judged: %v", judged, err)
	}
	if _, _, err := c.Step(b.db.Present()); err != nil || judged != 3 {
		t.Errorf("when it is repeated %d rows are judged: %v", judged, err)
	}
}

// TestRowsOfNobody: rows between, before and behind those of the service are found.
func TestRowsOfNobody(t *testing.T) {
	b := newBench(t, 0, 4)
	for _, name := range []string{"a", "q", "zz"} {
		b.do(func(tx kv.Tx) { tx.Set(root.Pack(name), nil) })
	}
	found := all(t, b.db, check.Section{Space: pairs, Row: func(*check.Page, []byte, []byte) {}})
	if len(found) != 3 || found[0].Key != "a" || found[1].Key != "q" || found[2].Key != "zz" {
		t.Errorf("found are %+v", found)
	}
}

// TestReadableKeys: keys as people read them.
func TestReadableKeys(t *testing.T) {
	for want, key := range map[string][]byte{
		`a/""/7`: root.Pack("a", "", 7), `"a/b"`: root.Pack("a/b"), "bytes ff": append(root.Pack(), 0xff),
		"61626364656667686970.5": root.Pack(tuple.Versionstamp{Transaction: [10]byte([]byte("abcdefghip")), User: 5}),
	} {
		if got := check.Readable(root, key); got != want {
			t.Errorf("%x is %s, want %s", key, got, want)
		}
	}
}

// large is a store whose rows below far have a megabyte each.
type large struct {
	kv.Reader
	far  tuple.Subspace
	gets int
}

func (l *large) Get(key []byte) ([]byte, error) {
	if !l.far.Contains(key) {
		return l.Reader.Get(key)
	}
	l.gets++
	return make([]byte, 1<<20), nil
}

// TestKeptRows: a page keeps 16 MiB of what its rows ask for, and reads the rest again.
func TestKeptRows(t *testing.T) {
	rows, far := root.Sub("row"), root.Sub("far")
	db := fakefdb.New()
	if err := kv.Do(t.Context(), db, func(tx kv.Tx) error { tx.Set(rows.Pack(1), nil); return nil }); err != nil {
		t.Fatal(err)
	}
	c := check.New(check.Options{Root: root, AtOnce: true, Sections: []check.Section{{Space: rows,
		Row: func(p *check.Page, _, _ []byte) {
			for i := range 40 {
				p.Look(far.Pack(i % 20))
			}
		}}}})
	l := &large{Reader: db.Present(), far: far}
	if _, _, err := c.Step(l); err != nil || l.gets != 20+4 {
		t.Errorf("read %d rows of 20 that are asked for twice: %v", l.gets, err)
	}
}
