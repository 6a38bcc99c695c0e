// Package check compares the rows of a store with each other: whether each row has the others that belong to it, and
// each counter the number of what it counts. The packages that write rows say what belongs to them (Section); this
// one goes through the store in pages, keeps the findings, and mends what follows from other rows.
//
// A Checker is stepped: each Step looks at a page of rows, with all reads from one reader. Where all steps read the
// store as of one moment (Options.AtOnce), everything is compared. Where each step has a transaction of its own and
// the store is in use, rows are compared within a page; what is wrong by what was summed up over pages is doubtful
// (Finding.Doubtful), since it may have changed in between.
//
// What a Checker keeps is a page of rows, some numbers for each account and each database, the name of each attachment,
// and the findings of the last step.
package check

import (
	"bytes"
	"slices"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Section is the rows below a prefix, and what they have to be.
type Section struct {
	Space tuple.Subspace
	// Row judges a row. It may be called again for the same row when a step is repeated, so all that it remembers is
	// changed by Page.Later.
	Row func(p *Page, key, value []byte)
	// End, if set, judges what the rows came to. It is called once after the last one.
	End func(p *Page)
}

// Options say what a Checker reads.
type Options struct {
	Root     tuple.Subspace // all rows of the store are below it
	Sections []Section      // in the order in which they are looked at; none is within another
	// Open returns what a value was before it was sealed. The error of one that cannot be opened is a finding.
	Open func(key, value []byte) ([]byte, error)
	// AtOnce reports whether all steps read the store as of one moment.
	AtOnce bool
}

// Checker goes through a store once.
type Checker struct {
	Options
	Summary
	gaps  []kv.Range // of the root, in no section
	part  int        // index of the section that is looked at; those behind are the gaps
	at    []byte     // the first key of the part that was not looked at; nil at its beginning
	limit int        // rows of the next page
}

// Summary is what a Checker has seen so far.
type Summary struct {
	Rows     int64 `json:"rows"`
	Findings int64 `json:"findings"`
	Mendable int64 `json:"mendable"` // of the findings
	// Unsure is the number of doubtful findings, which are not among the others.
	Unsure int64 `json:"unsure"`
}

// Bounds of a page. One of large rows is followed by shorter ones.
const (
	maxRows   = 256
	minRows   = 8
	pageBytes = 2 << 20
	maxKnown  = 16 * maxRows // rows of a page, and of others that these ask for, which are kept
	maxKept   = 16 << 20     // bytes of the others, above which they are read again where they are asked for again
)

// New returns a Checker that has seen nothing.
func New(o Options) *Checker {
	own := Section{Space: repairsBelow(o.Root), Row: func(p *Page, key, value []byte) {
		if len(value) != 8 {
			p.Report(key, "a number has 8 bytes")
		}
	}}
	o.Sections = append(slices.Clip(o.Sections), own)
	c := &Checker{Options: o, limit: maxRows}
	spaces := make([]kv.Range, len(o.Sections))
	for i, s := range o.Sections {
		spaces[i] = kv.PrefixRange(s.Space)
	}
	slices.SortFunc(spaces, func(a, b kv.Range) int { return bytes.Compare(a.Begin, b.Begin) })
	all := kv.PrefixRange(o.Root)
	for _, s := range spaces {
		c.gaps = append(c.gaps, kv.Range{Begin: all.Begin, End: s.Begin})
		all.Begin = s.End
	}
	c.gaps = append(c.gaps, all)
	return c
}

// Step looks at the next rows. It returns what it found, and whether nothing is left. After an error nothing has
// happened, and the step can be repeated, with another reader unless the Checker reads at once. It looks at fewer rows
// then: what these rows ask for may have been more than a transaction can read in its time. A step without an error
// counts, though its transaction may fail after it; one after the last finds nothing.
func (c *Checker) Step(r kv.Reader) (found []Finding, done bool, err error) {
	if c.part == len(c.Sections)+len(c.gaps) {
		return nil, true, nil
	}
	p := &Page{Checker: c, r: r, values: map[string][]byte{}}
	at, row := c.current()
	if c.at != nil {
		at.Begin = c.at
	}
	rows, err := r.GetRange(at, kv.RangeOptions{Limit: c.limit})
	if err != nil {
		c.limit = max(1, c.limit/2)
		return nil, false, err
	}
	size := 0
	for _, pair := range rows {
		size += len(pair.Key) + len(pair.Value)
		p.values[string(pair.Key)] = pair.Value
	}
	if !c.AtOnce {
		p.foresee(rows, row)
	}
	for _, pair := range rows {
		p.begin(pair)
		row(p, pair.Key, pair.Value)
	}
	last := len(rows) < c.limit
	if p.run(); last && c.part < len(c.Sections) && c.Sections[c.part].End != nil {
		p.begin(kv.KeyValue{})
		c.Sections[c.part].End(p)
		p.run()
	}
	if p.err != nil {
		c.limit = max(1, c.limit/2)
		return nil, false, p.err
	}
	c.count(p, int64(len(rows)), size)
	if c.at = nil; last {
		c.part++
	} else {
		c.at = kv.KeyAfter(rows[len(rows)-1].Key)
	}
	return p.found, c.part == len(c.Sections)+len(c.gaps), nil
}

// current is the part that is looked at.
func (c *Checker) current() (kv.Range, func(p *Page, key, value []byte)) {
	if c.part < len(c.Sections) {
		s := c.Sections[c.part]
		return kv.PrefixRange(s.Space), s.Row
	}
	return c.gaps[c.part-len(c.Sections)], func(p *Page, key, _ []byte) {
		p.Report(key, "no row of the service has such a key")
	}
}

func (c *Checker) count(p *Page, rows int64, size int) {
	c.Rows += rows
	for i := range p.found {
		c.Summary.Add(&p.found[i])
	}
	if size > pageBytes {
		c.limit = max(minRows, c.limit/2)
	} else {
		c.limit = min(maxRows, 2*c.limit)
	}
}

// Add counts a finding.
func (s *Summary) Add(f *Finding) {
	switch {
	case f.Doubtful:
		s.Unsure++
		return
	case f.Mends():
		s.Mendable++
	}
	s.Findings++
}

// Page is the look at some rows.
type Page struct {
	*Checker
	r      kv.Reader
	err    error // of the first read that failed; what was found is worth nothing then
	values map[string][]byte
	kept   int // bytes of the values that were read one by one
	later  []func()
	found  []Finding
	seen   evidence // of the row that is judged
	wanted *wanted  // if not nil, nothing is judged, and what is not known is noted here
}

// wanted is what rows ask for.
type wanted struct {
	keys   [][]byte
	ranges []kv.Range
	known  map[string]bool
}

// foresights is how often a page's rows are asked what they will read: what a row asks for may depend on what it has
// read.
const foresights = 3

// foresee reads what a page's rows will ask for in few round trips, instead of one for each. It judges the rows as if
// all that is not known were not there, and forgets the result.
func (p *Page) foresee(rows []kv.KeyValue, row func(p *Page, key, value []byte)) {
	w := &wanted{known: map[string]bool{}}
	for range foresights {
		w.keys, w.ranges = nil, nil
		trial := &Page{Checker: p.Checker, r: p.r, values: p.values, wanted: w}
		for _, pair := range rows {
			trial.begin(pair)
			row(trial, pair.Key, pair.Value)
		}
		if len(w.keys)+len(w.ranges) == 0 {
			return
		}
		p.r.Prefetch(w.keys, w.ranges)
		values, err := p.r.GetAll(w.keys)
		if err != nil {
			return // the reads that count meet it, too
		}
		for i, key := range w.keys {
			p.values[string(key)] = values[i]
		}
	}
}

func (w *wanted) key(key []byte) {
	if !w.known[string(key)] && len(w.known) < maxKnown {
		w.known[string(key)], w.keys = true, append(w.keys, key)
	}
}

func (w *wanted) span(at kv.Range) {
	if id := string(at.Begin) + "\x00" + string(at.End); !w.known[id] {
		w.known[id], w.ranges = true, append(w.ranges, at)
	}
}

// begin is called before a row is judged.
func (p *Page) begin(row kv.KeyValue) {
	p.seen = evidence{}
	if row.Key != nil {
		p.seen.rows = append(p.seen.rows, row)
	}
}

// run does what was left for later.
func (p *Page) run() {
	if p.err == nil {
		for _, f := range p.later {
			p.begin(kv.KeyValue{})
			f()
		}
	}
	p.later = nil
}

// Later has f called once the page is done without an error, in the order of the calls. f may report, but not read.
func (p *Page) Later(f func()) { p.later = append(p.later, f) }

// Prefetch names rows that will be read.
func (p *Page) Prefetch(keys [][]byte, ranges []kv.Range) {
	if p.wanted == nil {
		p.r.Prefetch(keys, ranges)
	}
}

// Get reads a row as it is stored, nil if there is none.
func (p *Page) Get(key []byte) []byte {
	value := p.Look(key)
	p.seen.rows = append(p.seen.rows, kv.KeyValue{Key: key, Value: value})
	return value
}

// Look is Get of a row from which nothing follows for others: a repair of other rows does not ask whether it has
// changed.
func (p *Page) Look(key []byte) []byte {
	value, known := p.values[string(key)]
	switch {
	case known:
	case p.wanted != nil:
		p.wanted.key(key)
	case p.err == nil:
		if value, p.err = p.r.Get(key); len(p.values) < maxKnown && p.kept < maxKept {
			p.values[string(key)] = value
			p.kept += len(value)
		}
	}
	return value
}

// Has reports whether there is a row.
func (p *Page) Has(key []byte) bool { return p.Get(key) != nil }

// Range reads up to limit rows as they are stored.
func (p *Page) Range(at kv.Range, limit int) []kv.KeyValue {
	if p.wanted != nil {
		p.wanted.span(at)
	}
	if p.wanted != nil || p.err != nil {
		return nil
	}
	var rows []kv.KeyValue
	if rows, p.err = p.r.GetRange(at, kv.RangeOptions{Limit: limit}); p.err != nil {
		return nil
	}
	p.seen.ranges = append(p.seen.ranges, span{at, limit, rows})
	return rows
}

// Plain returns the value of a row before it was sealed. ok is false if it does not open, which is reported where the
// row itself is judged.
func (p *Page) Plain(key, value []byte) (plain []byte, ok bool) {
	if p.Open == nil || value == nil {
		return value, value != nil
	}
	plain, err := p.Open(key, value)
	return plain, err == nil
}

// Opens reports a row whose value does not open, and returns the value if it does.
func (p *Page) Opens(key, value []byte) (plain []byte, ok bool) {
	if p.Open == nil {
		return value, true
	}
	plain, err := p.Open(key, value)
	if err != nil {
		p.Report(key, "the value cannot be read: "+err.Error())
	}
	return plain, err == nil
}

// Report notes that something is wrong with a row which does not follow from others. It stays as it is.
func (p *Page) Report(key []byte, what string) { p.Mend(key, what, Mend{}) }

// Mend notes that something is wrong with a row, and what puts it right as long as all rows that were read for the row
// that is judged are as they were.
func (p *Page) Mend(key []byte, what string, m Mend) {
	seen := p.seen
	seen.rows = slices.Clone(seen.rows) // more is read for the row
	for _, row := range m.Set {
		seen.rows = append(seen.rows, kv.KeyValue{Key: row.Key, Value: p.Look(row.Key)})
	}
	p.found = append(p.found, Finding{
		Key: Readable(p.Root, key), What: what, Repair: m.What, key: key, mend: m, seen: seen,
	})
}

// Doubt notes that something is wrong with a row by what was read in other pages: unless everything is read at once it
// may have changed in between.
func (p *Page) Doubt(key []byte, what string, m Mend) {
	p.Mend(key, what, m)
	p.found[len(p.found)-1].Doubtful = !p.AtOnce
}

// Sum reports a row whose number is not what was counted, and puts the difference right.
func (p *Page) Sum(key []byte, got, want int64, what string) {
	if got != want {
		p.Doubt(key, what, Mend{
			What: "add the difference", Add: want - got, Sum: key, repairs: repairsBelow(p.Root),
		})
	}
}
