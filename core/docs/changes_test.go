package docs

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
)

func TestChangesQueries(t *testing.T) {
	w := conflicted(t)
	w.replicate(t, `{"_id":"_design/d","_rev":"1-d"}`)
	w.replicate(t, `{"_id":"b","_rev":"1-b","n":2}`)
	w.replicate(t, `{"_id":"c","_rev":"2-c","_deleted":true}`)
	two := func(d *Document) bool { return bytes.Contains(d.Body, []byte(`"n":2`)) }
	for name, c := range map[string]struct {
		q    Query
		want string
	}{
		"plain":        {Query{}, "a 3-c, _design/d 1-d, b 1-b, c! 2-c"},
		"all leaves":   {Query{AllDocs: true}, "a 3-c 2-x 3-y, _design/d 1-d, b 1-b, c! 2-c"},
		"descending":   {Query{Descending: true, Limit: 3}, "c! 2-c, b 1-b, _design/d 1-d"},
		"limit":        {Query{Limit: 2}, "a 3-c, _design/d 1-d"},
		"documents":    {Query{Docs: true, Limit: 1}, `a 3-c {"n":3}`},
		"by id":        {Query{ID: IDs([]string{"c", "nope", "a"})}, "a 3-c, c! 2-c"},
		"by id, one":   {Query{ID: IDs([]string{"c"}), Limit: 1}, "c! 2-c"},
		"matching":     {Query{Match: two}, "b 1-b"},
		"matching any": {Query{Match: two, AllDocs: true}, "a 2-x, b 1-b"},
		"both":         {Query{Match: two, AllDocs: true, ID: IDs([]string{"b", "c"}), Docs: true}, `b 1-b {"n":2}`},
		"matching one": {Query{Match: two, AllDocs: true, Limit: 1}, "a 2-x"},
		"deleted":      {Query{ID: IDs([]string{"c"}), Docs: true}, "c! 2-c {}"},
	} {
		if got := w.changes(t, c.q); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	// A place in the feed, and an end to it.
	rows := w.feed(t, Query{})
	if got := w.changes(t, Query{Since: rows[1].Seq, Until: rows[2].Seq}); got != "b 1-b" {
		t.Errorf("between: %s", got)
	}
	read := func(q Query) Page {
		return must(t, w, func(db *Database) (Page, error) { return db.Changes(q) })
	}
	if page := read(Query{Since: rows[1].Seq}); len(page.Rows) != 0 || !page.More || page.Last != rows[1].Seq {
		t.Errorf("limit 0: %+v", page)
	}
	if page := read(Query{Since: rows[3].Seq, Until: rows[1].Seq, Limit: 5}); len(page.Rows) != 0 || page.More ||
		page.Last != rows[3].Seq {
		t.Errorf("nothing between: %+v", page)
	}
	if page := read(Query{Limit: 100, ID: IDs(nil)}); page.Last != rows[3].Seq || page.More {
		t.Errorf("nothing selected: %+v", page)
	}
}

// TestChangesPages reads feeds that are longer than a transaction reads, with and without documents.
func TestChangesPages(t *testing.T) {
	w := newWorld(t)
	var edits []Edit
	for i := range 2500 {
		body := []byte("{}")
		if i%500 == 0 {
			body = []byte(`{"t":"` + strings.Repeat("x", 40*chunkSize) + `"}`)
		}
		doc := Document{ID: fmt.Sprintf("d%04d", i), Rev: rev("1-a"), Body: body, Deleted: i%7 == 3}
		edits = append(edits, Edit{Document: doc, Replicated: true})
	}
	w.update(t, edits...)
	all := func(d *Document) bool { return true }
	for name, q := range map[string]Query{
		"rows": {}, "documents": {Docs: true}, "matching": {Match: all}, "descending": {Descending: true},
		"pages": {Limit: 2500},
	} {
		rows := w.feed(t, q)
		for i, c := range rows {
			at := i
			if q.Descending {
				at = len(rows) - i - 1
			}
			if c.ID != edits[at].ID || q.Docs && !bytes.Equal(c.Doc.Body, edits[at].Body) {
				t.Fatalf("%s: row %d is %s", name, i, c.ID)
			}
		}
		if len(rows) != len(edits) {
			t.Errorf("%s: %d rows", name, len(rows))
		}
	}
	rows := w.feed(t, Query{})
	for at, exact := range map[int]bool{
		0: true, 900: true, 999: true, 1250: false, 1499: true, 1500: true, 2499: true,
	} {
		pending := must(t, w, func(db *Database) (int64, error) { return db.Pending(rows[at].Seq) })
		want := int64(len(rows) - at - 1)
		if exact && pending != want || pending <= 0 && want > 0 || pending <= 1000 && !exact || pending >= 1500 &&
			!exact {
			t.Errorf("pending after row %d: %d, want %d", at, pending, want)
		}
	}
	if pending := must(t, w, func(db *Database) (int64, error) { return db.Pending(Seq{}) }); pending != 2500 {
		t.Errorf("pending in all: %d", pending)
	}
}

// TestFeedOfAnotherInstance: a place in the feed of a deleted database is before everything in the
// database that has its name now.
func TestFeedOfAnotherInstance(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.put(t, fmt.Sprintf(`{"_id":"old%d"}`, i))
	}
	since := w.info(t).UpdateSeq
	w.drop(t, 1)
	w.create(t, "db", 2)
	created := w.info(t).UpdateSeq
	if created.Compare(since) <= 0 {
		t.Errorf("a database that is created after %s begins at %s", since, created)
	}
	w.put(t, `{"_id":"new"}`)
	if got := w.changes(t, Query{Since: since}); !strings.HasPrefix(got, "new ") {
		t.Errorf("feed %s", got)
	}
	if got := w.changes(t, Query{Since: created}); !strings.HasPrefix(got, "new ") {
		t.Errorf("feed since the creation %s", got)
	}
}

// TestEndOfFeed: a page says whether the feed goes on behind it, also one that ends where the feed does.
func TestEndOfFeed(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"a", "b", "c"} {
		w.replicate(t, `{"_id":"`+id+`","_rev":"1-a"}`)
	}
	for limit, want := range map[int]bool{1: true, 2: true, 3: false, 4: false} {
		for _, q := range []Query{{}, {Docs: true}, {Descending: true}, {AllDocs: true}} {
			q.Limit = limit
			page := must(t, w, func(db *Database) (Page, error) { return db.Changes(q) })
			if len(page.Rows) != min(limit, 3) || page.More != want {
				t.Errorf("%+v: %d rows, more %t", q, len(page.Rows), page.More)
			}
		}
	}
}

// TestFewAmongMany: a page of a feed that selects few documents looks at many rows for them, whatever its limit.
func TestFewAmongMany(t *testing.T) {
	w := newWorld(t)
	var edits []Edit
	for i := range scanDocs - 1 {
		edits = append(edits, replicated(t, fmt.Sprintf(`{"_id":"d%04d","_rev":"1-a","n":%d}`, i, i)))
	}
	w.update(t, edits...)
	last := edits[len(edits)-1].ID
	for name, q := range map[string]Query{
		"by id":    {ID: IDs([]string{last})},
		"matching": {Match: func(d *Document) bool { return d.ID == last }},
	} {
		q.Limit = 1
		page := must(t, w, func(db *Database) (Page, error) { return db.Changes(q) })
		if len(page.Rows) != 1 || page.Rows[0].ID != last || page.More {
			t.Errorf("%s: %+v", name, page)
		}
	}
}

// TestConflictsInFeed: documents of a feed name their own other leaves that are not deleted.
func TestConflictsInFeed(t *testing.T) {
	w := conflicted(t)
	w.replicate(t, `{"_id":"b","_rev":"1-b"}`)
	w.replicate(t, `{"_id":"c","_rev":"2-c"}`)
	w.replicate(t, `{"_id":"c","_rev":"1-d"}`)
	for _, q := range []Query{{Docs: true}, {Docs: true, AllDocs: true}, {Docs: true, AllDocs: true, Leaves: true}} {
		var got []string
		q.Conflicts = true
		for _, c := range w.feed(t, q) {
			got = append(got, fmt.Sprint(c.ID, c.Doc.Meta.Conflicts, c.Doc.Meta.DeletedConflicts))
		}
		if want := "[a[2-x] [] b[] [] c[1-d] []]"; fmt.Sprint(got) != want {
			t.Errorf("%+v: conflicts %v, want %s", q, got, want)
		}
	}
}

func TestParseSeq(t *testing.T) {
	for _, s := range []string{
		"x", "1", "-", "1-", "1-00", "1-0000000000000000x", "1-000000000000000", "-1-0000000000000000",
		"1.5-0000000000000000", "99999999999999999999-0000000000000000", "now", "{}", `"0"`, "1-0000000000000000-",
	} {
		if seq, err := ParseSeq(s); err != error(ErrSeq) {
			t.Errorf("%s: %v, %v", s, seq, err)
		}
	}
	for _, s := range []string{"0", "1-0000000000000000", "18446744073709551615-ffffffffffffffff"} {
		if seq, err := ParseSeq(s); err != nil || seq.String() != s {
			t.Errorf("%s: %v, %v", s, seq, err)
		}
	}
}

// TestWatch fires on a change, on a change of deletion state, and when the database goes.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	watch := func() kv.Watch {
		return must(t, w, func(db *Database) (kv.Watch, error) { return db.Watch(), nil })
	}
	changed, dropped, idle := watch(), kv.Watch(nil), kv.Watch(nil)
	w.put(t, `{"_id":"a"}`)
	if err := changed.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	idle = watch()
	w.put(t, `{"_id":"_local/a"}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := idle.Wait(ctx); err == nil {
		t.Error("a local document woke a feed")
	}
	dropped = watch()
	w.drop(t, 1)
	if err := dropped.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestConflictsBoundPages: large conflicts make short pages of a feed that has them read.
func TestConflictsBoundPages(t *testing.T) {
	w := newWorld(t)
	large := strings.Repeat("x", 10*chunkSize)
	for i := range 15 {
		w.replicate(t, fmt.Sprintf(`{"_id":"d%02d","_rev":"2-b"}`, i))
		w.replicate(t, fmt.Sprintf(`{"_id":"d%02d","_rev":"1-a","t":"%s"}`, i, large))
	}
	page := must(t, w, func(db *Database) (Page, error) {
		return db.Changes(Query{Limit: 99, AllDocs: true, Leaves: true})
	})
	most := readChunks/11 + 1
	if n := len(page.Rows); n == 0 || n > most || !page.More {
		t.Errorf("%d documents at once, want up to %d", n, most)
	}
}

// TestPagesAreBounded: large documents make short pages, whoever reads them, and long histories make
// short batches.
func TestPagesAreBounded(t *testing.T) {
	w := newWorld(t)
	body := []byte(`{"t":"` + strings.Repeat("x", 10*chunkSize) + `"}`)
	var edits []Edit
	for i := range 15 {
		edits = append(edits,
			Edit{Document: Document{ID: fmt.Sprintf("d%02d", i), Rev: rev("1-a"), Body: body}, Replicated: true})
	}
	w.update(t, edits...)
	most := readChunks/11 + 1
	for name, read := range map[string]func(db *Database) (int, error){
		"feed": func(db *Database) (int, error) {
			p, err := db.Changes(Query{Limit: 99, Docs: true})
			return len(p.Rows), err
		},
		"list": func(db *Database) (int, error) {
			rows, more, err := db.List(Listing{Limit: 99, Docs: true})
			if !more {
				t.Error("the list ends with a short page")
			}
			return len(rows), err
		},
		"by id": func(db *Database) (int, error) {
			rows, err := db.ListIDs(ids(edits), Listing{Docs: true})
			return len(rows), err
		},
		"opened": func(db *Database) (int, error) {
			rows, err := db.OpenRevs(wantedOf(edits), false)
			return len(rows), err
		},
		"matching": func(db *Database) (int, error) {
			p, err := db.Changes(Query{Limit: 99, Match: func(*Document) bool { return true }})
			return len(p.Rows), err
		},
	} {
		if n := must(t, w, read); n == 0 || n > most {
			t.Errorf("%s: %d documents at once, want up to %d", name, n, most)
		}
	}
	history := make([]string, 1000)
	for i := range history {
		history[i] = fmt.Sprintf("%032x", i)
	}
	for i := range edits {
		edits[i].Rev, edits[i].Ancestors, edits[i].Body = rev("1001-x"), history, []byte("{}")
	}
	edits = slices.Repeat(edits, 10)
	for i := range edits {
		edits[i].ID = fmt.Sprint("h", i)
	}
	w.update(t, edits...)
	for i := range edits {
		edits[i].Ancestors = append([]string{"x"}, history...)
		edits[i].Rev = rev("1002-y")
	}
	if n := len(must(t, w, func(db *Database) ([]Written, error) { return db.Update(edits) })); n == len(edits) ||
		n < 50 {
		t.Errorf("%d of %d edits at once", n, len(edits))
	}
}

// TestLongHistoriesBoundPages: documents with long histories make short pages, whoever reads them, and no document is
// missed between two.
func TestLongHistoriesBoundPages(t *testing.T) {
	w := newWorld(t)
	history := strings.Repeat(`,"`+strings.Repeat("x", 255)+`"`, 999)
	for i := range 15 {
		w.replicate(t, fmt.Sprintf(`{"_id":"d%02d","_revisions":{"start":1000,"ids":["a"%s]}}`, i, history))
		w.replicate(t, fmt.Sprintf(`{"_id":"d%02d","_revisions":{"start":2,"ids":["b","b"]}}`, i))
		w.replicate(t, fmt.Sprintf(`{"_id":"e%02d","_revisions":{"start":1,"ids":["a"]}}`, i))
	}
	var all []string
	for _, c := range w.feed(t, Query{}) {
		all = append(all, c.ID)
	}
	slices.Sort(all)
	most := readRecords/(999*256) + 1
	feed := func(q Query) func(db *Database, after string) ([]string, error) {
		since := Seq{}
		return func(db *Database, after string) (found []string, err error) {
			q.Since, q.Limit = since, 99
			page, err := db.Changes(q)
			for _, c := range page.Rows {
				found = append(found, c.ID)
			}
			if since = page.Last; page.More != (len(found) > 0 && !strings.HasSuffix(found[len(found)-1], "e14")) {
				t.Errorf("behind %s there are more: %t", found, page.More)
			}
			return found, err
		}
	}
	behind := func(after string) []string {
		i, _ := slices.BinarySearch(all, after+"\x00")
		return all[i:]
	}
	wanted := func(after string) (list []Wanted) {
		for _, id := range behind(after) {
			list = append(list, Wanted{ID: id, Revs: []revtree.Rev{rev("7-z")}})
		}
		return list
	}
	for name, read := range map[string]func(db *Database, after string) ([]string, error){
		"list": func(db *Database, after string) (found []string, err error) {
			rows, _, err := db.List(Listing{Limit: 99, Docs: true, From: &after, After: true})
			for _, r := range rows {
				found = append(found, r.Doc.ID)
			}
			return found, err
		},
		"by id": func(db *Database, after string) (found []string, err error) {
			rows, err := db.ListIDs(behind(after), Listing{})
			for _, r := range rows {
				found = append(found, r.ID)
			}
			return found, err
		},
		"opened": func(db *Database, after string) ([]string, error) {
			answers, err := db.OpenRevs(wanted(after), false)
			return behind(after)[:len(answers)], err
		},
		"compared": func(db *Database, after string) ([]string, error) {
			diffs, n, err := db.Diff(wanted(after))
			if len(diffs) != n {
				t.Errorf("%d documents of %d lack a revision", len(diffs), n)
			}
			return behind(after)[:n], err
		},
		"feed of conflicts": feed(Query{AllDocs: true}), "feed with documents": feed(Query{Docs: true}),
	} {
		var found []string
		for last := ""; len(found) < len(all); last = found[len(found)-1] {
			some := must(t, w, func(db *Database) ([]string, error) { return read(db, last) })
			long := slices.DeleteFunc(slices.Clone(some), func(id string) bool { return id[0] != 'd' })
			if len(some) == 0 || len(long) > most {
				t.Fatalf("%s: at once %s, want up to %d", name, some, most)
			}
			found = append(found, some...)
		}
		if slices.Sort(found); !slices.Equal(found, all) {
			t.Errorf("%s: %s", name, found)
		}
	}
}

func ids(edits []Edit) (ids []string) {
	for _, w := range wantedOf(edits) {
		ids = append(ids, w.ID)
	}
	return ids
}

func wantedOf(edits []Edit) (wanted []Wanted) {
	for i := range edits {
		wanted = append(wanted, Wanted{ID: edits[i].ID})
	}
	return wanted
}

// TestWrittenAgainInOneTransaction: a transaction writes two documents, and then the first once more, as happens when
// its replication turns out to be invalid. A feed that ends at the update sequence has both documents.
func TestWrittenAgainInOneTransaction(t *testing.T) {
	w := newWorld(t)
	edits := []Edit{replicated(t, `{"_id":"a","_rev":"1-a"}`), replicated(t, `{"_id":"b","_rev":"1-b"}`)}
	again := replicated(t, `{"_id":"a","_revisions":{"start":2,"ids":["a2","a"]}}`)
	must(t, w, func(db *Database) ([]Written, error) {
		if _, err := db.Update(edits); err != nil {
			return nil, err
		}
		other, err := db.store.Open(db.tx, db.Name)
		if err != nil {
			return nil, err
		}
		return other.Update([]Edit{again})
	})
	if got := w.changes(t, Query{Until: w.info(t).UpdateSeq}); got != "a 2-a2, b 1-b" {
		t.Errorf("up to the update sequence the feed has %s", got)
	}
}

// TestForgottenHistoryComesAgain: a known revision comes again, with a history of which the database has forgotten all
// but the end, as it does now. That is no change.
func TestForgottenHistoryComesAgain(t *testing.T) {
	w := newWorld(t)
	must(t, w, func(db *Database) (int, error) { return 0, db.SetRevsLimit(2) })
	raw := `{"_id":"a","_revisions":{"start":4,"ids":["d","c","b","a"]}}`
	w.replicate(t, raw)
	before := w.info(t)
	if again := w.update(t, replicated(t, raw))[0]; again.Changed || w.info(t) != before {
		t.Errorf("%+v; the database is %+v, was %+v", again, w.info(t), before)
	}
	want := `{"_id":"a","_rev":"4-d","_revisions":{"start":4,"ids":["d","c"]}}`
	if got := w.get(t, "a", Want{}, Format{Revisions: true}); got != want {
		t.Errorf("the document is %s", got)
	}
}

// TestPagesGoOn: a page of the feed has at least one row, or goes on behind one, however long the leaves of documents
// are.
func TestPagesGoOn(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("x", 5_000_000)
	for _, id := range []string{"a", "b"} {
		for _, rev := range []string{"1-x", "1-y"} {
			w.replicate(t, `{"_id":"`+id+`","_rev":"`+rev+`","text":"`+long+`"}`)
		}
	}
	all := func(*Document) bool { return true }
	for _, q := range []Query{{Leaves: true, AllDocs: true}, {Match: all, AllDocs: true}, {Docs: true}} {
		q.Limit = 10
		var got []string
		for more := true; more; {
			page := must(t, w, func(db *Database) (Page, error) { return db.Changes(q) })
			if page.Last == q.Since {
				t.Fatalf("a page behind %v goes on nowhere, after %v", q.Since, got)
			}
			for _, c := range page.Rows {
				got = append(got, c.ID)
			}
			q.Since, more = page.Last, page.More
		}
		if !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("rows of %v", got)
		}
	}
}
