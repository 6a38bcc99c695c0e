package check_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"couchrelay/core/check"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"
)

var (
	root  = tuple.Subspace(tuple.Pack("root"))
	pairs = root.Sub("pair") // each has two twins and two echoes with the same value, and one color
	twin  = root.Sub("twin")
	echo  = root.Sub("echo")
	color = root.Sub("color")
	sum   = root.Pack("sum") // of pairs
)

// bench is a store of pairs.
type bench struct {
	t  *testing.T
	db *fakefdb.Database
	n  int // pairs
}

func newBench(t *testing.T, n, size int) *bench {
	b := &bench{t, fakefdb.New(), n}
	for from := 0; from < n; from += 20 {
		b.do(func(tx kv.Tx) {
			for i := from; i < min(n, from+20); i++ {
				value := make([]byte, size)
				binary.BigEndian.PutUint32(value, uint32(i))
				tx.Set(pairs.Pack(i), value)
				for n := range 2 {
					tx.Set(twin.Pack(i, n), value)
					tx.Set(echo.Pack(i, n), value)
				}
				tx.Set(color.Pack(i, "red"), nil)
				tx.Add(sum, 1)
			}
		})
	}
	return b
}

func (b *bench) do(f func(kv.Tx)) {
	b.t.Helper()
	if err := kv.Do(b.t.Context(), b.db, func(tx kv.Tx) error { f(tx); return nil }); err != nil {
		b.t.Fatal(err)
	}
}

// options compare pairs with what belongs to them.
func options(atOnce bool) check.Options {
	counted := int64(0)
	none := func(*check.Page, []byte, []byte) {}
	return check.Options{Root: root, AtOnce: atOnce, Sections: []check.Section{
		{Space: pairs, Row: func(p *check.Page, key, value []byte) {
			if judge(p, key, value) {
				p.Later(func() { counted++ })
			}
		}},
		{Space: twin, Row: none}, {Space: echo, Row: none}, {Space: color, Row: none},
		{Space: tuple.Subspace(sum), Row: func(p *check.Page, key, value []byte) {
			p.Sum(key, int64(binary.LittleEndian.Uint64(value)), counted, "is not the number of pairs")
		}},
	}}
}

func judge(p *check.Page, key, value []byte) bool {
	var i int64
	if pairs.Scan(key, &i) != nil {
		p.Report(key, "is no pair")
		return false
	}
	same := func(name string, at []byte, n int, now []byte) {
		if string(now) != string(value) {
			put := []kv.KeyValue{{Key: at, Value: value}}
			p.Mend(key, fmt.Sprintf("%s %d differs", name, n), check.Mend{What: "copy it", Set: put})
		}
	}
	var last []byte
	for n := range 2 {
		last = p.Get(twin.Pack(i, n))
		same("twin", twin.Pack(i, n), n, last)
	}
	for n := 0; n < 2 && last != nil; n++ { // only the second twin can be heard
		same("echo", echo.Pack(i, n), n, p.Look(echo.Pack(i, n)))
	}
	if len(p.Range(color.Sub(i).Range(), 2)) > 1 {
		p.Mend(key, "has two colors", check.Mend{What: "bleach it", Clear: [][]byte{color.Pack(i, "blue")}})
	}
	return true
}

// all looks at all rows. Its reader may be another for each step.
func (b *bench) all(c *check.Checker, reader func() kv.Reader) (found []check.Finding) {
	b.t.Helper()
	for steps := 0; ; steps++ {
		some, done, err := c.Step(reader())
		if err != nil || steps > b.n+20 {
			b.t.Fatal(steps, err)
		}
		if found = append(found, some...); done {
			if more, still, err := c.Step(reader()); len(more) > 0 || !still || err != nil {
				b.t.Errorf("a step after the last: %d findings, done %v, %v", len(more), still, err)
			}
			return found
		}
	}
}

func (b *bench) found(atOnce bool) (c *check.Checker, found []check.Finding) {
	c = check.New(options(atOnce))
	present := b.db.Present()
	return c, b.all(c, func() kv.Reader { return present })
}

// TestFindings: what is wrong is told once, under the key that people read, and counted by what can be done about it.
func TestFindings(t *testing.T) {
	b := newBench(t, 600, 4)
	b.do(func(tx kv.Tx) {
		tx.Clear(twin.Pack(3, 0))
		tx.Set(twin.Pack(256, 1), []byte("z"))
		tx.Set(color.Pack(599, "blue"), nil)
		tx.Set(root.Pack("alien"), nil)
		tx.Set(root.Pack([]byte{1, 0xab}), nil)
		tx.Set(root.Pack("repairs"), []byte("2"))
		tx.Set(pairs.Pack("x y"), nil)
		tx.Add(sum, -1)
	})
	for _, atOnce := range []bool{true, false} {
		c, found := b.found(atOnce)
		var texts []string
		for _, f := range found {
			texts = append(texts, f.Key+": "+f.What)
			summed := f.Key == "sum"
			if f.Mends() != (f.Repair != "") || f.Doubtful != (summed && !atOnce) || f.OfSum() != summed {
				t.Errorf("%+v", f)
			}
		}
		slices.Sort(texts)
		want := []string{
			"01ab: no row of the service has such a key",
			"alien: no row of the service has such a key", `pair/"x y": is no pair`, "pair/256: twin 1 differs",
			"pair/3: twin 0 differs", "pair/599: has two colors",
			"repairs: a number has 8 bytes", "sum: is not the number of pairs",
		}
		if !slices.Equal(texts, want) {
			t.Errorf("found %q", texts)
		}
		sums := check.Summary{Rows: 6*600 + 5, Findings: 8, Mendable: 4}
		if !atOnce {
			sums.Findings, sums.Mendable, sums.Unsure = 7, 3, 1
		}
		if c.Summary != sums {
			t.Errorf("counted %+v", c.Summary)
		}
	}
}

// TestRepairAsFound: a repair is made while all is as it was found, and not once any row is another from which the
// finding follows, or which the repair writes. Findings of one row do not get into each other's way.
func TestRepairAsFound(t *testing.T) {
	set := func(key []byte) func(kv.Tx) { return func(tx kv.Tx) { tx.Set(key, []byte("new")) } }
	changes := map[string]func(kv.Tx){
		"pair": set(pairs.Pack(1)), "another pair": set(pairs.Pack(2)), "nothing": func(kv.Tx) {},
		"twin 0": set(twin.Pack(1, 0)), "twin 1": set(twin.Pack(1, 1)),
		"echo 0": set(echo.Pack(1, 0)), "echo 1": set(echo.Pack(1, 1)),
		"color": func(tx kv.Tx) { tx.Clear(color.Pack(1, "red")) },
	}
	for what, follows := range map[string][]string{
		"twin 0 differs": {"pair", "twin 0"},
		"twin 1 differs": {"pair", "twin 0", "twin 1"},
		"echo 0 differs": {"pair", "twin 0", "twin 1", "echo 0"},
		"echo 1 differs": {"pair", "twin 0", "twin 1", "echo 1"},
		"has two colors": {"pair", "twin 0", "twin 1", "color"},
	} {
		for name, change := range changes {
			b := newBench(t, 3, 4)
			b.do(func(tx kv.Tx) {
				tx.Clear(twin.Pack(1, 0))
				tx.Set(twin.Pack(1, 1), []byte("z"))
				tx.Clear(echo.Pack(1, 0))
				tx.Set(echo.Pack(1, 1), []byte("z"))
				tx.Set(color.Pack(1, "blue"), nil)
			})
			_, found := b.found(false)
			f := found[slices.IndexFunc(found, func(f check.Finding) bool { return f.What == what })]
			b.do(change)
			mended, err := kv.Run(t.Context(), b.db, func(tx kv.Tx) (bool, error) { return check.Mended(tx, &f, 0) })
			if err != nil || mended == slices.Contains(follows, name) {
				t.Errorf("%s, %s has changed: mended %v, %v", what, name, mended, err)
			}
			_, found = b.found(true)
			still := func(f check.Finding) bool { return f.Key == "pair/1" && f.What == what }
			if mended && slices.ContainsFunc(found, still) {
				t.Errorf("%s still, after a repair", what)
			}
		}
	}
}

// TestRepairOfSum: a counter is raised by what it lacks, whatever was counted meanwhile, and once, whoever else repairs
// what he has found before.
func TestRepairOfSum(t *testing.T) {
	b := newBench(t, 3, 4)
	b.do(func(tx kv.Tx) { tx.Add(sum, 5) })
	_, found := b.found(true)
	b.do(func(tx kv.Tx) { tx.Add(sum, 1); tx.Set(pairs.Pack(9), nil) })
	if len(found) != 1 {
		t.Fatalf("%d findings", len(found))
	}
	for n, want := range []bool{true, false} {
		b.do(func(tx kv.Tx) {
			if mended, err := check.Mended(tx, &found[0], 0); mended != want || err != nil {
				t.Errorf("repair %d: %v, %v", n, mended, err)
			}
		})
	}
	_, found = b.found(true)
	for _, f := range found {
		if f.Key == "sum" || f.Key == "repairs" {
			t.Errorf("after the repair: %s: %s", f.Key, f.What)
		}
	}
}

var errRead = errors.New("this read fails")

// counting counts reads, of which one fails.
type counting struct {
	kv.Reader
	reads, fails int
	gets         int // of the reads
	longest      int // limit of a range
	fetched      []string
}

func (c *counting) read() error {
	if c.reads++; c.reads == c.fails {
		return errRead
	}
	return nil
}

func (c *counting) Get(key []byte) ([]byte, error) {
	c.gets++
	if err := c.read(); err != nil {
		return nil, err
	}
	return c.Reader.Get(key)
}

func (c *counting) GetAll(keys [][]byte) ([][]byte, error) {
	c.gets++
	if err := c.read(); err != nil {
		return nil, err
	}
	return c.Reader.GetAll(keys)
}

func (c *counting) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	if err := c.read(); err != nil {
		return nil, err
	}
	c.longest = max(c.longest, o.Limit)
	return c.Reader.GetRange(r, o)
}

func (c *counting) Prefetch(keys [][]byte, _ []kv.Range) {
	for _, key := range keys {
		c.fetched = append(c.fetched, string(key))
	}
}

// TestPrefetch: where everything is read at once, what a row names is read ahead for it.
func TestPrefetch(t *testing.T) {
	b := newBench(t, 1, 4)
	want := []string{string(twin.Pack(0, 0)), string(twin.Pack(0, 1))}
	row := func(p *check.Page, _, _ []byte) { p.Prefetch([][]byte{twin.Pack(0, 0), twin.Pack(0, 1)}, nil) }
	c := check.New(check.Options{Root: root, AtOnce: true, Sections: []check.Section{{Space: pairs, Row: row}}})
	r := &counting{Reader: b.db.Present()}
	if _, _, err := c.Step(r); err != nil || !slices.Equal(r.fetched, want) {
		t.Errorf("read ahead are %q (%v), want %q", r.fetched, err, want)
	}
}

// TestStepAfterFailure: whichever read fails, the step says so or does without, and the check finds what it would
// have found.
func TestStepAfterFailure(t *testing.T) {
	b := newBench(t, 5, 4)
	b.do(func(tx kv.Tx) { tx.Clear(echo.Pack(3, 1)); tx.Add(sum, 1) })
	for _, atOnce := range []bool{true, false} {
		away := &counting{Reader: b.db.Present(), fails: 1}
		if _, done, err := check.New(options(atOnce)).Step(away); done || !errors.Is(err, errRead) {
			t.Errorf("the rows of a page cannot be read: done %v, %v", done, err)
		}
		for r := (&counting{}); r.reads >= r.fails; {
			r = &counting{Reader: b.db.Present(), fails: r.fails + 1}
			c := check.New(options(atOnce))
			var found []check.Finding
			for done := false; !done; {
				some, last, err := c.Step(r)
				if err != nil && (!errors.Is(err, errRead) || len(some) > 0 || last) {
					t.Fatal(err, some, last)
				}
				found, done = append(found, some...), last
			}
			if len(found) != 2 || c.Rows != 6*5 {
				t.Errorf("read %d fails: %d findings, %+v", r.fails, len(found), c.Summary)
			}
		}
	}
}

// slow reads no page of more rows than one in time; if late, nothing that such a page asks for.
type slow struct {
	kv.Reader
	late bool
	page int // limit of the page that is read
}

func (s *slow) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	if s.page = o.Limit; s.page > 1 && !s.late {
		return nil, errRead
	}
	return s.Reader.GetRange(r, o)
}

func (s *slow) Get(key []byte) ([]byte, error) {
	if s.page > 1 {
		return nil, errRead
	}
	return s.Reader.Get(key)
}

// TestPagesOfOneRow: where a transaction can read no more than one row and what that asks for, the check goes on.
func TestPagesOfOneRow(t *testing.T) {
	b := newBench(t, 5, 4)
	for _, late := range []bool{false, true} {
		r := &slow{Reader: b.db.Present(), late: late}
		row := func(p *check.Page, _, _ []byte) { p.Get(twin.Pack(0, 0)) }
		c := check.New(check.Options{Root: root, AtOnce: true, Sections: []check.Section{{Space: pairs, Row: row}}})
		for step := 0; c.Rows < int64(b.n); step++ {
			if _, _, err := c.Step(r); step > 100 {
				t.Fatalf("late %v: after %d rows: %v", late, c.Rows, err)
			}
		}
	}
}

// TestFailedRepair: whichever read of a repair fails, it says so and writes nothing.
func TestFailedRepair(t *testing.T) {
	b := newBench(t, 5, 4)
	b.do(func(tx kv.Tx) { tx.Set(color.Pack(3, "blue"), nil) })
	_, found := b.found(true)
	for fails := 1; ; fails++ {
		tx := b.db.Begin(t.Context(), kv.Options{})
		r := &counting{Reader: tx, fails: fails}
		mended, err := check.Mended(readingBy{tx, r}, &found[0], 0)
		tx.Cancel()
		if r.reads < fails {
			if err != nil || !mended || fails < 3 {
				t.Errorf("without a failure of %d reads: %v, %v", r.reads, mended, err)
			}
			return
		}
		if mended || !errors.Is(err, errRead) {
			t.Errorf("read %d fails: %v, %v", fails, mended, err)
		}
	}
}

// readingBy is a transaction whose reads are those of a reader.
type readingBy struct {
	kv.Tx
	by kv.Reader
}

func (r readingBy) GetAll(keys [][]byte) ([][]byte, error) { return r.by.GetAll(keys) }
func (r readingBy) GetRange(at kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	return r.by.GetRange(at, o)
}

// TestPages: where each page has a transaction of its own, the rows that its rows ask for are read in a few round
// trips, however many they are. While rows are large, a page has fewer of them.
func TestPages(t *testing.T) {
	for size, want := range map[int]int{4: 256, 30_000: 64, 99_000: 16} {
		b := newBench(t, 300, size)
		c := check.New(options(false))
		most, least, gets := 0, math.MaxInt, 0
		for done := false; !done; {
			r := &counting{Reader: b.db.Present()}
			var err error
			if _, done, err = c.Step(r); err != nil {
				t.Fatal(err)
			}
			most, least, gets = max(most, r.longest), min(least, r.longest), max(gets, r.gets)
		}
		if most != 256 || least != want || gets > 3 {
			t.Errorf("rows of %d bytes: %d to %d on a page, and %d reads for them", size, least, most, gets)
		}
	}
}

// short is a reader that reads no more than some bytes before its transaction is too old.
type short struct {
	kv.Reader
	left int
}

func (s *short) read(n int, err error) error {
	if s.left -= n; err == nil && s.left < 0 {
		return kv.NewError(kv.TransactionTooOld)
	}
	return err
}

func (s *short) Get(key []byte) ([]byte, error) {
	value, err := s.Reader.Get(key)
	return value, s.read(len(value), err)
}

func (s *short) GetAll(keys [][]byte) ([][]byte, error) {
	values, err := s.Reader.GetAll(keys)
	for _, value := range values {
		err = s.read(len(value), err)
	}
	return values, err
}

func (s *short) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	rows, err := s.Reader.GetRange(r, o)
	for _, row := range rows {
		err = s.read(len(row.Value), err)
	}
	return rows, err
}

// TestSlowPages: a check ends though what the first pages ask for cannot be read in the time of a transaction, and
// finds what it would have found.
func TestSlowPages(t *testing.T) {
	b := newBench(t, 100, 30_000)
	b.do(func(tx kv.Tx) { tx.Clear(twin.Pack(77, 1)) })
	for _, atOnce := range []bool{true, false} {
		c := check.New(options(atOnce))
		var found []check.Finding
		for steps, done := 0, false; !done; steps++ {
			some, last, err := c.Step(&short{b.db.Present(), 1_000_000})
			if err != nil && (kv.CodeOf(err) != kv.TransactionTooOld || steps > 500) {
				t.Fatalf("at once %v, step %d: %v", atOnce, steps, err)
			}
			found, done = append(found, some...), last
		}
		if len(found) != 1 || c.Rows != 600 {
			t.Errorf("at once %v: %d findings, %+v", atOnce, len(found), c.Summary)
		}
	}
}
