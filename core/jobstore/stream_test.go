package jobstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"

	"pgregory.net/rapid"
)

// counting is a reader that counts ranges that were read, and their rows.
type counting struct {
	kv.Reader
	reads, rows int
	most        int // rows of one read
}

func (c *counting) GetRange(at kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	list, err := c.Reader.GetRange(at, o)
	c.reads, c.rows, c.most = c.reads+1, c.rows+len(list), max(c.most, len(list))
	return list, err
}

// TestRowsAtOnce: a list reads the rows of its page at once, and those of many pages by a few reads. It reads few that
// it does not need where it needs one here and there. It never reads more than maxChunk at once.
func TestRowsAtOnce(t *testing.T) {
	const all = 5000
	space, db := tuple.Subspace(tuple.Pack("i")), fakefdb.New()
	if err := kv.Do(t.Context(), db, func(tx kv.Tx) error {
		for i := range all {
			tx.Set(space.Pack(fmt.Sprintf("%05d", i)), nil)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ chunk, step, found, reads, rows int }{
		{chunk: 1, step: 1, found: 8, reads: 1, rows: minChunk},
		{chunk: 101, step: 1, found: 101, reads: 1, rows: 101},
		{chunk: maxChunk, step: 1, found: maxChunk, reads: 1, rows: maxChunk},
		{chunk: 1, step: 1, found: all, reads: 17, rows: all}, // 8 to 256 rows, and then 512 at most
		{chunk: 101, step: 1, found: all, reads: 13, rows: all},
		{chunk: 1, step: 3, found: all / 3, reads: all / minChunk, rows: all},
		{chunk: 101, step: 100, found: all / 100, reads: all / 100, rows: 101 + all/100*minChunk},
		{chunk: maxChunk, step: 300, found: all / 300, reads: all / 300, rows: maxChunk + all/300*minChunk},
	} {
		for _, d := range []direction{{}, {descending: true}} {
			r := &counting{Reader: db.Present()}
			s := &rows{direction: d, r: r, space: space, chunk: c.chunk}
			for i := range c.found {
				want := fmt.Sprintf("%05d", i*c.step)
				if d.descending {
					want = fmt.Sprintf("%05d", all-1-i*c.step)
				}
				if f, err := s.seek(Position{ID: want}); err != nil || f != (found{id: want}) {
					t.Fatalf("%+v, %+v: found %+v (%v), want %s", c, d, f, err, want)
				}
			}
			if r.reads > c.reads || r.rows > c.rows {
				t.Errorf("%+v, %+v: %d reads, %d rows", c, d, r.reads, r.rows)
			}
		}
	}
}

// hesitant is a stream that gives up before some ids, once each.
type hesitant struct {
	direction
	of  stream
	ids []string // in the order of the list
}

func (h *hesitant) seek(p Position) (found, error) {
	f, err := h.of.seek(p)
	for len(h.ids) > 0 {
		id := h.ids[0]
		if f.none || !h.before(id, f.id) {
			break
		}
		if h.ids = h.ids[1:]; h.reaches(id, p) && id != p.ID {
			return found{id: id, unsure: true}, nil
		}
	}
	return f, err
}

// TestStreamsModel: whatever streams are put together, in either direction, and also where some of them give up a
// search, the whole has the ids that sets put together likewise have, in order, each once.
func TestStreamsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := streams{t, direction{rapid.Bool().Draw(t, "descending")}}
		s, want := m.draw(3)
		var got []string
		for p, n := (Position{}), 0; ; n++ {
			f, err := s.seek(p)
			if err != nil || n > 1000 {
				t.Fatalf("at %+v: %+v, %v", p, f, err)
			}
			if f.none {
				break
			}
			if p = (Position{ID: f.id}); !f.unsure {
				got, p.Past = append(got, f.id), true
			}
			if f.unsure && rapid.IntRange(0, 3).Draw(t, "skip") == 0 {
				p.Past = true
				want = slices.DeleteFunc(want, func(id string) bool { return id == f.id })
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("the stream has %q, want %q", got, want)
		}
	})
}

// streams draws streams of ids, with what they have.
type streams struct {
	t *rapid.T
	direction
}

func (m streams) id(name string) string {
	instance := tuple.UUID{byte(rapid.IntRange(1, 3).Draw(m.t, "database of "+name))}
	return DocumentJobs(instance) + rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(m.t, name)
}

func (m streams) ids(name string) (list []string) {
	for range rapid.IntRange(0, 9).Draw(m.t, "number of "+name) {
		list = append(list, m.id(name))
	}
	slices.Sort(list)
	if list = slices.Compact(list); m.descending {
		slices.Reverse(list)
	}
	return list
}

func (m streams) draw(depth int) (s stream, ids []string) {
	kind := "fixed"
	if depth > 0 {
		kinds := []string{"fixed", "union", "intersection", "hesitant", "within", "without"}
		kind = rapid.SampledFrom(kinds).Draw(m.t, "kind")
	}
	switch kind {
	case "fixed":
		ids = m.ids("ids")
		return &fixed{m.direction, slices.Clone(ids)}, ids
	case "union", "intersection":
		return m.several(kind == "union", depth-1)
	}
	s, ids = m.draw(depth - 1)
	switch kind {
	case "hesitant":
		s = &hesitant{m.direction, s, m.ids("doubts")}
	case "within":
		w := &within{direction: m.direction, of: s}
		if rapid.Bool().Draw(m.t, "has a first") {
			w.from = m.id("first")
		}
		if rapid.Bool().Draw(m.t, "has a last") {
			w.to = m.id("last")
		}
		s, ids = w, slices.DeleteFunc(ids, func(id string) bool {
			return w.from != "" && m.before(id, w.from) || w.to != "" && m.before(w.to, id)
		})
	case "without":
		dropped := Dropped{DocumentJobs(tuple.UUID{byte(rapid.IntRange(1, 4).Draw(m.t, "dropped"))})}
		s, ids = &without{m.direction, s, dropped}, slices.DeleteFunc(ids, dropped.Has)
	}
	return s, ids
}

// several puts two or three streams together.
func (m streams) several(anyOf bool, depth int) (stream, []string) {
	var parts []stream
	count, n := map[string]int{}, rapid.IntRange(2, 3).Draw(m.t, "parts")
	for range n {
		part, ids := m.draw(depth)
		parts = append(parts, part)
		for _, id := range ids {
			count[id]++
		}
	}
	var ids []string
	for id, has := range count { // order does not matter: sorted below
		if has == n || anyOf {
			ids = append(ids, id)
		}
	}
	if slices.Sort(ids); m.descending {
		slices.Reverse(ids)
	}
	if anyOf {
		return &union{direction: m.direction, parts: parts}, ids
	}
	return &intersection{parts}, ids
}

// TestLongSearches: a list that finds few jobs among many tells where to go on before it has read all, whether by two
// indexes or, while there is none, job by job; in pages it has them all.
func TestLongSearches(t *testing.T) {
	const each = 3 * maxRounds / 2 // of two users, in turn
	b := newBench(t)
	var edits []docs.Edit
	for i := range 2 * each {
		to := []string{"one", "two"}[i%2]
		if i == 2*each-1 {
			to = "one"
		}
		id, body := fmt.Sprintf("d%05d", i), fmt.Sprintf(`{"source":"http://h/%d","target":"http://%s/b"}`, i, to)
		body = fmt.Sprintf(`%s,"owner":"u%d"}`, body[:len(body)-1], i%2)
		token++
		edits = append(edits, docs.Edit{Document: docs.Document{ID: id, Body: []byte(body)}, Token: token})
	}
	for len(edits) > 0 {
		b.do1(func(tx kv.Tx) error {
			db, err := b.s.Docs.Open(tx, "_replicator")
			if err != nil {
				return err
			}
			written, err := b.s.WriteDocs(tx, db, edits, admin, b.now)
			edits = edits[len(written):]
			return err
		})
	}
	last := fmt.Sprintf("d%05d", 2*each-1)
	for _, indexed := range []bool{true, false} {
		if !indexed {
			b.age()
		}
		l := Listing{Filter: Filter{Server: "one:80", User: "u1"}, Limit: 9}
		r := &counting{Reader: b.db.Present()}
		page, err := Lists{Store: b.s, Reader: r}.Page(l)
		if err != nil || page.Next == nil || len(page.Jobs) > 0 || r.rows > 3*each {
			t.Errorf("indexed %v: %+v, %v, after %d rows", indexed, page, err, r.rows)
		}
		if got := b.pages(l); !slices.Equal(got, []string{jobID(last)}) {
			t.Errorf("indexed %v: %q", indexed, got)
		}
		n, more, err := Lists{Store: b.s, Reader: b.db.Present()}.Count(l.Filter, 9)
		if n != 0 || !more || err != nil {
			t.Errorf("indexed %v: counted %d, more %v, %v", indexed, n, more, err)
		}
	}
}

// TestSearchEndsAtMatch: a search by two indexes that ends for now at a job that has both labels goes on with that job.
func TestSearchEndsAtMatch(t *testing.T) {
	b := newBench(t)
	b.put("z", `{"source":"http://h/a","target":"http://one/b","owner":"u"}`, admin)
	index := func(i int, l label) {
		id := jobID(fmt.Sprintf("d%05d", i))
		b.do1(func(tx kv.Tx) error { tx.Set(b.s.Keys.labelRow(0, l, id), nil); return nil })
	}
	server, user := label{byServer, "one:80"}, label{byUser, "u"}
	for i := range 2 * maxRounds { // rows of an index are enough, since no job but those that match is read
		index(i, []label{server, user}[i%2])
	}
	l := Listing{Filter: Filter{Server: server.value, User: user.value}, Limit: 9}
	page, err := Lists{Store: b.s, Reader: b.db.Present()}.Page(l)
	if err != nil || page.Next == nil || page.Next.ID >= jobID("z") {
		t.Fatalf("%+v, %v", page, err)
	}
	there := strings.TrimPrefix(page.Next.ID, jobID(""))
	b.do1(func(tx kv.Tx) error {
		for _, l := range []label{server, user} {
			tx.Clear(b.s.Keys.labelRow(0, l, page.Next.ID))
		}
		return nil
	})
	body := `{"source":"http://h/b","target":"http://one/b","owner":"u"}`
	if err := b.writeTo("_replicator", there, body, admin); err != nil {
		t.Fatal(err)
	}
	if got, want := b.pages(l), []string{jobID(there), jobID("z")}; !slices.Equal(got, want) {
		t.Errorf("listed are %q, want %q", got, want)
	}
}

// TestBoundedReads: a list that may be long reads no more rows at once than others do.
func TestBoundedReads(t *testing.T) {
	b := newBench(t)
	b.do1(func(tx kv.Tx) error {
		for i := range 2 * maxChunk {
			tx.Set(b.s.Keys.labelRow(0, label{byState, string(Pending)}, jobID(fmt.Sprintf("d%05d", i))), nil)
		}
		return nil
	})
	r := &counting{Reader: b.db.Present()}
	_, err := Lists{Store: b.s, Reader: r}.Page(Listing{Skip: 2 * maxChunk, Limit: 3 * maxChunk})
	if err != nil || r.most > maxChunk {
		t.Errorf("%d rows are read at once: %v", r.most, err)
	}
}

// TestDatabaseBesideRequests: a list of the jobs of a database reads nothing of jobs of requests.
func TestDatabaseBesideRequests(t *testing.T) {
	b := newBench(t)
	b.put("a", simple, admin)
	read := func() int {
		r := &counting{Reader: b.db.Present()}
		page, err := Lists{Store: b.s, Reader: r}.Page(Listing{Filter: Filter{Instance: jobID("")}, Limit: 9})
		if err != nil || len(page.Jobs) != 1 {
			t.Errorf("%+v, %v", page, err)
		}
		return r.rows
	}
	before := read()
	b.replicate("joe")
	if got := read(); got != before {
		t.Errorf("%d rows are read, and %d before there was a request", got, before)
	}
}

// TestJobBetweenPages: a job that is made between two pages of a list, and stands there in the list, is on the second.
func TestJobBetweenPages(t *testing.T) {
	b := newBench(t)
	b.put("a", simple, admin)
	b.put("c", simple, admin)
	l := Listing{Limit: 1}
	page := func() Listed {
		return get(b, func(tx kv.Tx) (Listed, error) { return Lists{Store: b.s, Reader: tx.Snapshot()}.Page(l) })
	}
	l.At = *page().Next
	b.put("b", simple, admin)
	if got := page().Jobs; len(got) != 1 || got[0].ID != jobID("b") {
		t.Errorf("the second page has %+v", got)
	}
}

// TestLongSkip: a list that skips more jobs than one transaction does begins behind all of them.
func TestLongSkip(t *testing.T) {
	b := newBench(t)
	b.put("z", simple, admin)
	const more = 3
	b.do1(func(tx kv.Tx) error {
		for i := range skipAtOnce + more {
			tx.Set(b.s.Keys.labelRow(0, label{byState, string(Pending)}, jobID(fmt.Sprintf("d%05d", i))), nil)
		}
		return nil
	})
	if got := b.pages(Listing{Skip: skipAtOnce + more, Limit: 9}); !slices.Equal(got, []string{jobID("z")}) {
		t.Errorf("listed are %q", got)
	}
}

// TestListsWithUnreadable: a list names a job that cannot be read, and goes on without it, by an index or job by job.
func TestListsWithUnreadable(t *testing.T) {
	for _, indexed := range []bool{true, false} {
		b := newBench(t)
		for _, id := range []string{"a", "b", "c"} {
			b.put(id, simple, admin)
		}
		if !indexed {
			b.age()
		}
		b.do1(func(tx kv.Tx) error {
			rows, err := tx.GetRange(b.s.Keys.Jobs.Job.Sub(jobID("b")).Range(), kv.RangeOptions{})
			for _, row := range rows {
				tx.Set(row.Key, []byte(fakefdb.Unreadable))
			}
			return err
		})
		lists := Lists{Store: b.s, Reader: b.db.Present()}
		_, err := lists.Page(Listing{Limit: 9})
		unreadable := (*jobs.UnreadableError)(nil)
		if !errors.As(err, &unreadable) || unreadable.Job != jobID("b") {
			t.Fatalf("indexed %t: %v", indexed, err)
		}
		lists.Without = []string{unreadable.Job}
		page, err := lists.Page(Listing{Limit: 9})
		if err != nil || len(page.Jobs) != 3 || page.Jobs[1].Record.State != Unreadable {
			t.Errorf("indexed %t: %+v, %v", indexed, page, err)
		}
	}
}
