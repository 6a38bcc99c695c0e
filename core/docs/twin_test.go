package docs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/docs/revtree"

	"pgregory.net/rapid"
)

// twin is a database as the definition has it, without a thought for cost: every revision that ever was
// with its parent and body, and the order of the last changes.
type twin struct {
	docs  map[string]map[revtree.Rev]twinRev
	order []string // ids by their last change
}

type twinRev struct {
	parent  revtree.Rev
	body    string
	deleted bool
	files   map[string]string // attachments
}

func (w *twin) leaves(id string) []revtree.Rev {
	inner := map[revtree.Rev]bool{}
	for _, r := range w.docs[id] {
		inner[r.parent] = true
	}
	var leaves []revtree.Rev
	for rev := range w.docs[id] {
		if !inner[rev] {
			leaves = append(leaves, rev)
		}
	}
	slices.SortFunc(leaves, func(a, b revtree.Rev) int {
		if x, y := w.docs[id][a].deleted, w.docs[id][b].deleted; x != y {
			return map[bool]int{false: -1, true: 1}[x]
		}
		return b.Compare(a)
	})
	return leaves
}

func (w *twin) deleted(id string) bool {
	leaves := w.leaves(id)
	return len(leaves) == 0 || w.docs[id][leaves[0]].deleted
}

func (w *twin) path(id string, rev revtree.Rev) []string {
	var ids []string
	for !rev.IsZero() {
		ids = append(ids, rev.ID)
		rev = w.docs[id][rev].parent
	}
	return ids
}

func (w *twin) add(id string, rev revtree.Rev, r twinRev) {
	if w.docs[id] == nil {
		w.docs[id] = map[revtree.Rev]twinRev{}
	}
	w.docs[id][rev] = r
	w.order = append(slices.DeleteFunc(w.order, func(s string) bool { return s == id }), id)
}

// accepts says whether a new edit is to be accepted, and which revision it replaces.
func (w *twin) accepts(id string, rev revtree.Rev, deleted bool) (parent revtree.Rev, ok bool) {
	leaves := w.leaves(id)
	switch {
	case len(leaves) == 0:
		return revtree.Rev{}, rev.IsZero()
	case w.deleted(id) && rev.IsZero():
		return leaves[0], !deleted
	}
	return rev, slices.Contains(leaves, rev)
}

// machine drives a database and its twin.
type machine struct {
	*world
	twin
	seqs []Seq // where feeds were, with how many changes there had been
	at   []map[string]revtree.Rev
	// trouble says that transactions are run again, whose last run may have nothing to change.
	trouble bool
}

var twinIDs = []string{"a", "b", "c/d", "_design/e", "é"}

func (m *machine) drawRev(t *rapid.T, id string) revtree.Rev {
	revs := append(m.leaves(id), revtree.Rev{}, rev("1-nope"))
	for r := range maps.Keys(m.docs[id]) {
		revs = append(revs, r)
	}
	slices.SortFunc(revs, func(a, b revtree.Rev) int { return strings.Compare(a.String(), b.String()) })
	return rapid.SampledFrom(revs).Draw(t, "rev")
}

// Edit makes new edits, in one batch, and repeats the transaction now and then.
func (m *machine) Edit(t *rapid.T) {
	var edits []Edit
	for range rapid.IntRange(1, 3).Draw(t, "edits") {
		id := rapid.SampledFrom(twinIDs).Draw(t, "id")
		m.tokens++
		e := Edit{Document: Document{ID: id, Rev: m.drawRev(t, id),
			Deleted: rapid.IntRange(0, 3).Draw(t, "deleted") == 0,
			Body:    fmt.Appendf(nil, `{"n":%d}`, rapid.IntRange(0, 2).Draw(t, "n"))}, Token: m.tokens}
		for _, name := range rapid.SampledFrom([][]string{nil, {"x"}, {"y"}, {"x", "y"}}).Draw(t, "files") {
			a := Attachment{Name: name, Type: "text/plain", Content: Stub}
			if rapid.Bool().Draw(t, "new") {
				a.Content, a.Data = Inline, []byte(rapid.SampledFrom([]string{"one", "two"}).Draw(t, "data"))
			}
			e.Attachments = append(e.Attachments, a)
		}
		edits = append(edits, e)
	}
	results := m.update(t, edits...)
	for i, e := range edits {
		m.check(t, e, results[i])
	}
	if rapid.Bool().Draw(t, "repeat") {
		before := m.info(t)
		for i, r := range m.update(t, edits...) {
			if results[i].Err == nil && (r.Err != nil || r.Rev != results[i].Rev || r.Changed) ||
				results[i].Err != nil && r.Err == nil {
				t.Fatalf("repeated %+v: %+v, first %+v", edits[i].Document, r, results[i])
			}
		}
		if m.info(t) != before {
			t.Fatalf("a repetition changed %+v to %+v", before, m.info(t))
		}
	}
}

func (m *machine) check(t *rapid.T, e Edit, got Written) {
	parent, ok := m.accepts(e.ID, e.Rev, e.Deleted)
	files := map[string]string{}
	for _, a := range e.Attachments {
		data, have := m.docs[e.ID][e.Rev].files[a.Name]
		if a.Content == Inline {
			data, have = string(a.Data), true
		}
		files[a.Name] = data
		if ok && !have {
			if got.Err == nil || got.Err.Name != "missing_stub" &&
				!m.trouble { // a repetition remembers the refusal only
				t.Fatalf("%+v: %+v, want missing_stub", e.Document, got)
			}
			return
		}
	}
	if ok != (got.Err == nil) || !ok && *got.Err != *ErrConflict {
		t.Fatalf("%+v: %+v, want success %v", e.Document, got, ok)
	}
	if ok {
		m.add(e.ID, got.Rev, twinRev{parent, string(e.Body), e.Deleted, files})
	}
}

// Merge adds a revision as replication does, a known one too.
func (m *machine) Merge(t *rapid.T) {
	id := rapid.SampledFrom(twinIDs).Draw(t, "id")
	parent := m.drawRev(t, id)
	if _, known := m.docs[id][parent]; !known {
		parent = revtree.Rev{}
	}
	name := rapid.SampledFrom([]string{"p", "q", "r!"}).Draw(t, "name")
	r := revtree.Rev{Gen: parent.Gen + 1, ID: name + parent.String()}
	e := Edit{Document: Document{ID: id, Rev: r, Ancestors: m.path(id, parent), Deleted: name == "r!",
		Body: []byte(`{"m":0}`)}, Replicated: true}
	got := m.update(t, e)[0]
	_, known := m.docs[id][r]
	if got.Err != nil || got.Changed && known || !got.Changed && !known && !m.trouble {
		t.Fatalf("merge %+v: %+v, known %v", e.Document, got, known)
	}
	if !known {
		m.add(id, r, twinRev{parent: parent, body: `{"m":0}`, deleted: e.Deleted})
	}
}

// Remember notes a place in the feed and what the database is there.
func (m *machine) Remember(t *rapid.T) {
	winners := map[string]revtree.Rev{}
	for _, id := range m.order {
		winners[id] = m.leaves(id)[0]
	}
	m.seqs, m.at = append(m.seqs, m.info(t).UpdateSeq), append(m.at, winners)
}

// Check compares everything that can be read.
func (m *machine) Check(t *rapid.T) {
	m.checkFeed(t)
	m.checkList(t)
	for _, id := range twinIDs {
		m.checkDoc(t, id)
	}
	kinds := m.keys(t, keyRecord, keyAlive, keyDeleted, keyChanges)
	info := m.info(t)
	all := info.Docs + info.Deleted
	if want := fmt.Sprint([]int64{all, info.Docs, info.Deleted, all}); kinds != want {
		t.Fatalf("keys %s, want %s", kinds, want)
	}
}

func (m *machine) checkFeed(t *rapid.T) {
	var want []string
	for _, id := range m.order {
		text := id
		if m.deleted(id) {
			text += "!"
		}
		for _, r := range m.leaves(id) {
			text += " " + r.String()
		}
		want = append(want, text)
	}
	all := strings.Join(want, ", ")
	if got := m.changes(t, Query{AllDocs: true}); got != all {
		t.Fatalf("feed %s, want %s", got, all)
	}
	slices.Reverse(want)
	if got := m.changes(t, Query{AllDocs: true, Descending: true}); got != strings.Join(want, ", ") {
		t.Fatalf("descending feed %s, want %s", got, want)
	}
	feed := m.feed(t, Query{})
	for i, c := range feed {
		pending := must(t, m.world, func(db *Database) (int64, error) { return db.Pending(c.Seq) })
		if pending != int64(len(feed)-i-1) {
			t.Fatalf("pending %d after row %d of %d", pending, i, len(feed))
		}
		if parsed, err := ParseSeq(c.Seq.String()); err != nil || parsed != c.Seq || i > 0 &&
			c.Seq.Compare(feed[i-1].Seq) <= 0 {
			t.Fatalf("sequence %v after %v: %v, %v", c.Seq, feed[max(i-1, 0)].Seq, parsed, err)
		}
	}
	if n := len(feed); n > 0 && feed[n-1].Seq != m.info(t).UpdateSeq {
		t.Fatalf("update_seq %v, last row %v", m.info(t).UpdateSeq, feed[n-1].Seq)
	}
	// Since a remembered place, there is exactly what changed since then.
	for i, seq := range m.seqs {
		winners := maps.Clone(m.at[i])
		for _, c := range m.feed(t, Query{Since: seq, Limit: 3}) {
			winners[c.ID] = c.Revs[0]
		}
		for _, c := range m.feed(t, Query{Since: seq}) {
			winners[c.ID] = c.Revs[0]
		}
		for _, id := range m.order {
			if winners[id] != m.leaves(id)[0] {
				t.Fatalf("since %v: %s is %v, want %v", seq, id, winners[id], m.leaves(id)[0])
			}
		}
	}
}

func (m *machine) checkList(t *rapid.T) {
	var want, got []string
	alive, dead := int64(0), int64(0)
	for _, id := range m.order {
		if m.deleted(id) {
			dead++
			continue
		}
		alive++
		want = append(want, id+" "+m.leaves(id)[0].String())
	}
	slices.Sort(want)
	rows := must(t, m.world, func(db *Database) ([]Listed, error) {
		rows, _, err := db.List(Listing{Limit: 100, Docs: true})
		return rows, err
	})
	for _, r := range rows {
		got = append(got, r.ID+" "+r.Rev.String())
		if r.Doc == nil || string(r.Doc.Body) != m.docs[r.ID][r.Rev].body {
			t.Fatalf("listed document %+v", r.Doc)
		}
	}
	if info := m.info(t); !slices.Equal(got, want) || info.Docs != alive || info.Deleted != dead {
		t.Fatalf("list %v, want %v; counters %+v, want %d and %d", got, want, info, alive, dead)
	}
}

func (m *machine) checkDoc(t *rapid.T, id string) {
	leaves := m.leaves(id)
	opened := must(t, m.world,
		func(db *Database) ([][]Opened, error) { return db.OpenRevs([]Wanted{{ID: id}}, false) })[0]
	if len(opened) != len(leaves) {
		t.Fatalf("%d leaves of %s, want %v", len(opened), id, leaves)
	}
	for i, o := range opened {
		want := m.docs[id][leaves[i]]
		path := append([]string{o.Doc.Rev.ID}, o.Doc.Ancestors...)
		if o.Doc.Rev != leaves[i] || !slices.Equal(path, m.path(id, leaves[i])) || string(o.Doc.Body) != want.body ||
			o.Doc.Deleted != want.deleted {
			t.Fatalf("leaf %+v, want %v %+v", o.Doc, leaves[i], want)
		}
		if len(o.Doc.Attachments) != len(want.files) {
			t.Fatalf("attachments %+v, want %v", o.Doc.Attachments, want.files)
		}
		for _, a := range o.Doc.Attachments {
			data := must(t, m.world, func(db *Database) ([]byte, error) { return db.ReadAttachment(&a, 0, 100) })
			if string(data) != want.files[a.Name] {
				t.Fatalf("attachment %s of %s: %q, want %q", a.Name, id, data, want.files[a.Name])
			}
		}
	}
	for r := range m.docs[id] {
		d, err := in(m.world, func(db *Database) (*Document, error) { return db.Read(id, Want{Rev: r}) })
		if isLeaf := slices.Contains(leaves, r); isLeaf != (err == nil) {
			t.Fatalf("read %s %v: %+v, %v", id, r, d, err)
		}
	}
}

// TestMachine compares databases and their twins after random edits.
func TestMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{world: newWorld(t), twin: twin{docs: map[string]map[revtree.Rev]twinRev{}}}
		t.Repeat(map[string]func(*rapid.T){"Edit": m.Edit, "Merge": m.Merge, "Remember": m.Remember, "": m.Check})
	})
}

// TestNothingLeft: when all documents are deleted without a body, bodies and attachments are gone.
func TestNothingLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{world: newWorld(t), twin: twin{docs: map[string]map[revtree.Rev]twinRev{}}}
		t.Repeat(map[string]func(*rapid.T){"Edit": m.Edit, "Merge": m.Merge})
		for _, id := range twinIDs {
			for _, leaf := range m.leaves(id) {
				r := revtree.Rev{Gen: leaf.Gen + 1, ID: "end" + leaf.ID}
				m.update(t,
					Edit{Document: Document{ID: id, Rev: r, Ancestors: m.path(id, leaf), Deleted: true,
						Body: []byte("{}")}, Replicated: true})
			}
		}
		if left := m.keys(t, keyBody, keyBlob, keyAlive); left != "[0 0 0]" {
			t.Fatalf("left: %s", left)
		}
	})
}

// TestReplicationConverges copies every leaf of two databases to the other, one at a time and in any
// order, and compares leaves, winners and bodies.
func TestReplicationConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &machine{world: newWorld(t), twin: twin{docs: map[string]map[revtree.Rev]twinRev{}}}
		b := &machine{world: newWorld(t), twin: twin{docs: map[string]map[revtree.Rev]twinRev{}}}
		t.Repeat(map[string]func(*rapid.T){"EditA": a.Edit, "EditB": b.Edit, "MergeA": a.Merge, "MergeB": b.Merge})
		send := func(from, to *machine) (sent []func()) {
			for _, id := range twinIDs {
				for _, leaf := range from.leaves(id) {
					from, e := from.docs[id][leaf],
						Edit{Document: Document{ID: id, Rev: leaf, Ancestors: from.path(id, leaf)[1:]},
							Replicated: true}
					e.Body, e.Deleted = []byte(from.body), from.deleted
					for _, name := range slices.Sorted(maps.Keys(from.files)) {
						e.Attachments = append(e.Attachments,
							Attachment{Name: name, Type: "text/plain", Content: Inline, Data: []byte(from.files[name])})
					}
					sent = append(sent, func() { to.update(t, e) })
				}
			}
			return sent
		}
		for _, copyLeaf := range rapid.Permutation(append(send(a, b), send(b, a)...)).Draw(t, "order") {
			copyLeaf()
		}
		show := func(m *machine) string {
			var docs []string
			for _, id := range twinIDs {
				leaves := must(t, m.world, func(db *Database) ([][]Opened, error) {
					return db.OpenRevs([]Wanted{{ID: id}}, false)
				})
				for _, o := range leaves[0] {
					docs = append(docs, string(o.Doc.AppendJSON(nil, Format{Revisions: true})))
				}
			}
			return strings.Join(docs, "\n")
		}
		if one, two := show(a), show(b); plain(one) != plain(two) {
			t.Fatalf("databases differ:\n%s\n\n%s", one, two)
		}
	})
}

// plain leaves out the ages of attachments, which the twin does not know.
func plain(text string) string {
	for g := range 200 {
		text = strings.ReplaceAll(text, fmt.Sprintf(`"revpos":%d,`, g), "")
	}
	return text
}

// TestFollower reads the feed page by page while others write: at the end it has seen the last state of
// every document, and what it sees once nobody writes is each document once.
func TestFollower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{world: newWorld(t), twin: twin{docs: map[string]map[revtree.Rev]twinRev{}}}
		var since Seq
		seen := map[string]revtree.Rev{}
		read := func(t *rapid.T) {
			q := Query{Since: since, Limit: rapid.IntRange(0, 3).Draw(t, "limit")}
			page := must(t, m.world, func(db *Database) (Page, error) { return db.Changes(q) })
			for _, c := range page.Rows {
				seen[c.ID] = c.Revs[0]
			}
			if since = page.Last; len(page.Rows) > q.Limit {
				t.Fatalf("%d rows, limit %d", len(page.Rows), q.Limit)
			}
		}
		t.Repeat(map[string]func(*rapid.T){"Edit": m.Edit, "Merge": m.Merge, "Read": read})
		for _, c := range m.feed(t, Query{Since: since}) {
			seen[c.ID] = c.Revs[0]
		}
		for _, id := range m.order {
			if seen[id] != m.leaves(id)[0] {
				t.Fatalf("%s is %v, the follower saw %v", id, m.leaves(id)[0], seen[id])
			}
		}
	})
}
