package docs

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/kv"
)

// TestEdit goes through CouchDB's rules for new edits, one document each.
func TestEdit(t *testing.T) {
	w := newWorld(t)
	first := w.put(t, `{"_id":"a","n":1}`)
	if !strings.HasPrefix(first, "1-") || len(first) != 34 {
		t.Fatalf("revision %s", first)
	}
	for _, c := range []struct{ name, doc, want string }{
		{"again without revision", `{"_id":"a","n":2}`, "conflict"},
		{"the same again without revision", `{"_id":"a","n":1}`, "conflict"},
		{"wrong revision", `{"_id":"a","_rev":"1-abc","n":2}`, "conflict"},
		{"local revision", `{"_id":"a","_rev":"0-1","n":2}`, "conflict"},
		{"revision of nothing", `{"_id":"b","_rev":"1-abc"}`, "conflict"},
	} {
		if got := w.put(t, c.doc); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	second := w.put(t, `{"_id":"a","_rev":"`+first+`","n":2}`)
	if want := `{"_id":"a","_rev":"` + second + `","n":2}`; w.get(t, "a", Want{}, Format{}) != want {
		t.Errorf("got %s, want %s", w.get(t, "a", Want{}, Format{}), want)
	}
	if got := w.put(t, `{"_id":"a","_rev":"`+first+`","n":2}`); got != "conflict" {
		t.Errorf("an equal edit of the old revision: %s", got)
	}
	gone := w.put(t, `{"_id":"a","_rev":"`+second+`","_deleted":true,"why":"x"}`)
	if got := w.get(t, "a", Want{}, Format{}); got != "deleted" {
		t.Errorf("deleted document: %s", got)
	}
	want := `{"_id":"a","_rev":"` + gone + `","why":"x","_deleted":true}`
	if got := w.get(t, "a", Want{Rev: rev(gone)}, Format{}); got != want {
		t.Errorf("tombstone %s, want %s", got, want)
	}
	for _, doc := range []string{`{"_id":"a","_rev":"` + second + `"}`, `{"_id":"a","_deleted":true}`} {
		if got := w.put(t, doc); got != "conflict" {
			t.Errorf("%s after deletion: %s", doc, got)
		}
	}
	if again := w.put(t, `{"_id":"a","n":4}`); !strings.HasPrefix(again, "4-") {
		t.Errorf("re-created as %s", again)
	}
	if info := w.info(t); info.Docs != 1 || info.Deleted != 0 {
		t.Errorf("info %+v", info)
	}
}

// TestRevisionNames: equal edits have equal names, others have others.
func TestRevisionNames(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	seen := map[string]string{}
	for _, doc := range []string{
		`{"_id":"a","n":1}`, `{"_id":"b","n":1.0}`, `{"_id":"c","m":1}`, `{"_id":"d","n":1,"_deleted":true}`,
		`{"_id":"e","n":1,"_attachments":{"x":{"data":"YQ=="}}}`,
		`{"_id":"f","n":1,"_attachments":{"y":{"data":"YQ=="}}}`,
		`{"_id":"g","n":1,"_attachments":{"x":{"data":"Yg=="}}}`,
		`{"_id":"h","n":1,"_attachments":{"x":{"data":"YQ==","content_type":"t/x"}}}`,
	} {
		name := w.put(t, doc)
		if seen[name] != "" {
			t.Errorf("%s and %s are both %s", doc, seen[name], name)
		}
		seen[name] = doc
		if spaced := strings.ReplaceAll(doc, ",", " , "); other.put(t, spaced) != name {
			t.Errorf("%s has another name elsewhere", doc)
		}
	}
}

// TestRepetition runs transactions again as after an unknown result: nothing changes, the answer stays,
// and an equal edit of somebody else is refused.
func TestRepetition(t *testing.T) {
	w := newWorld(t)
	rev1 := w.put(t, `{"_id":"a"}`)
	local := w.put(t, `{"_id":"_local/c"}`)
	for name, e := range map[string]Edit{
		"create":       w.edit(t, `{"_id":"n","x":1}`),
		"update":       w.edit(t, `{"_id":"a","_rev":"`+rev1+`","x":1}`),
		"attach":       w.edit(t, `{"_id":"z","_attachments":{"x":{"data":"YQ=="}}}`),
		"replicate":    replicated(t, `{"_id":"r","_rev":"3-c","_revisions":{"start":3,"ids":["c","b","a"]}}`),
		"local":        w.edit(t, `{"_id":"_local/n"}`),
		"local update": w.edit(t, `{"_id":"_local/c","_rev":"`+local+`","x":1}`),
	} {
		first := w.update(t, e)[0]
		before := w.info(t)
		again := w.update(t, e)[0]
		if first.Err != nil || again.Err != nil || again.Rev != first.Rev || again.Changed || w.info(t) != before {
			t.Errorf("%s: first %+v, again %+v", name, first, again)
		}
		if e.Token++; e.Replicated {
			continue
		}
		if other := w.update(t, e)[0]; other.Err == nil {
			t.Errorf("%s: an equal edit of another request was accepted", name)
		}
	}
	gone := w.edit(t, `{"_id":"_local/n","_rev":"0-1","_deleted":true}`)
	for range 2 {
		if got := outcome(w.update(t, gone)[0]); got != "0-0" {
			t.Errorf("deletion of a local document: %s", got)
		}
	}
}

// TestRefusedInRepeatedBatch: an edit that was refused beside another one stays so when the batch is repeated, though
// it would be written by then.
func TestRefusedInRepeatedBatch(t *testing.T) {
	w := newWorld(t)
	edits := []Edit{w.edit(t, `{"_id":"a","n":1}`), w.edit(t, `{"_id":"a","n":2}`)}
	first := w.update(t, edits...)
	if first[0].Err != nil || first[1].Err != ErrConflict {
		t.Fatalf("%+v", first)
	}
	w.put(t, `{"_id":"a","_rev":"`+first[0].Rev.String()+`","_deleted":true}`)
	again := w.update(t, edits...)
	if again[0].Err != nil || again[0].Changed || again[0].Rev != first[0].Rev || again[1].Err != ErrConflict {
		t.Errorf("repeated: %+v", again)
	}
}

// TestRepetitionAfterOthers: the repetition comes when others have edited the document further.
func TestRepetitionAfterOthers(t *testing.T) {
	w := newWorld(t)
	mine := w.edit(t, `{"_id":"a"}`)
	made := w.update(t, mine)[0].Rev
	latest := made.String()
	for range maxMarks - 1 {
		latest = w.put(t, `{"_id":"a","_rev":"`+latest+`"}`)
	}
	if got := outcome(w.update(t, mine)[0]); got != made.String() {
		t.Errorf("repetition: %s, want %s", got, made)
	}
}

// TestRecordsStayShort: a document that is edited again and again takes no more space for that.
func TestRecordsStayShort(t *testing.T) {
	w := newWorld(t)
	must(t, w, func(db *Database) (struct{}, error) { return struct{}{}, db.SetRevsLimit(1) })
	latest, most := w.put(t, `{"_id":"a"}`), 0
	for n := range 300 {
		latest = w.put(t, `{"_id":"a","_rev":"`+latest+`"}`)
		size := len(must(t, w, func(db *Database) ([]byte, error) { return db.tx.Get(db.idKey(keyRecord, "a")) }))
		if n < 2*maxMarks {
			most = size + 2*maxMarks // generations become longer
		} else if size > most {
			t.Fatalf("%d bytes after %d edits", size, n)
		}
	}
}

// TestBatch: several edits of one document in one batch, with refusals among them.
func TestBatch(t *testing.T) {
	w := newWorld(t)
	edits := []Edit{
		w.edit(t, `{"_id":"a","n":1}`), w.edit(t, `{"_id":"a","n":2}`), w.edit(t, `{"_id":"b"}`),
		replicated(t, `{"_id":"a","_revisions":{"start":2,"ids":["x","y"]}}`),
		{Document: Document{ID: "_bad", Body: []byte("{}")}},
		w.edit(t, `{"_id":"_local/l"}`), replicated(t, `{"_id":"c"}`),
		w.edit(t, `{"_id":"b","_attachments":{"x":{"stub":true}}}`),
	}
	results := must(t, w, func(db *Database) ([]Written, error) { return db.Update(edits) })
	var names []string
	for _, r := range results {
		name := outcome(r)
		if len(name) > 32 {
			name = "made"
		}
		names = append(names, name)
	}
	if got := fmt.Sprint(names); got != "[made conflict made 2-x illegal_docid 0-1 bad_request conflict]" {
		t.Errorf("results %s", got)
	}
	if got := w.changes(t, Query{AllDocs: true}); !strings.HasPrefix(got, "b 1-") ||
		!strings.Contains(got, ", a 2-x 1-") {
		t.Errorf("feed %s", got)
	}
	if info := w.info(t); info.Docs != 2 {
		t.Errorf("info %+v", info)
	}
}

// TestTwoHandles writes through two handles in one transaction, as parts of the service do, the same
// document through both.
func TestTwoHandles(t *testing.T) {
	w := newWorld(t)
	first := w.edit(t, `{"_id":"a"}`)
	made := w.update(t, first)[0].Rev.String()
	second, other := w.edit(t, `{"_id":"a","_rev":"`+made+`","n":2}`), w.edit(t, `{"_id":"b"}`)
	must(t, w, func(db *Database) (int, error) {
		one, err := db.Update([]Edit{second})
		if err != nil {
			return 0, err
		}
		again, err := w.Open(db.tx, "db")
		if err != nil {
			return 0, err
		}
		if d, err := again.Read("a", Want{}); err != nil || d.Rev != one[0].Rev {
			t.Errorf("own write: %+v, %v", d, err)
		}
		gone := Edit{Document: Document{ID: "a", Rev: one[0].Rev, Deleted: true, Body: []byte("{}")}}
		_, err = again.Update([]Edit{gone, other})
		return 0, err
	})
	if got := w.changes(t, Query{}); !strings.HasPrefix(got, "a! 3-") || !strings.Contains(got, ", b 1-") {
		t.Errorf("feed %s", got)
	}
	if info := w.info(t); info.Docs != 1 || info.Deleted != 1 {
		t.Errorf("info %+v", info)
	}
	if got := w.keys(t, keyRecord, keyAlive, keyDeleted, keyChanges, keyBody); got != "[2 1 1 2 0]" {
		t.Errorf("keys %s", got)
	}
}

// TestLargeBatch has more bytes than a transaction may have, and documents close to the limit.
func TestLargeBatch(t *testing.T) {
	w := newWorld(t)
	var edits []Edit
	for i := range 60 {
		text := strings.Repeat("x", 100_000*(i%5))
		edits = append(edits, w.edit(t, fmt.Sprintf(`{"_id":"%02d","t":"%s"}`, i, text)))
	}
	edits = append(edits, w.edit(t, `{"_id":"max","t":"`+strings.Repeat("x", MaxBody-8)+`"}`))
	for _, r := range w.update(t, edits...) {
		if r.Err != nil {
			t.Fatalf("%s: %v", r.ID, r.Err)
		}
	}
	for _, e := range edits {
		d := must(t, w, func(db *Database) (*Document, error) { return db.Read(e.ID, Want{}) })
		if !bytes.Equal(d.Body, e.Body) {
			t.Fatalf("%s: body of %d bytes, want %d", e.ID, len(d.Body), len(e.Body))
		}
	}
	tooLarge := w.edit(t, `{"_id":"over","t":"`+strings.Repeat("x", MaxBody-7)+`"}`)
	if got := outcome(w.update(t, tooLarge)[0]); got != "document_too_large" {
		t.Errorf("too large: %s", got)
	}
	// A longer value gives way to a shorter one without leaving chunks.
	d := must(t, w, func(db *Database) (*Document, error) { return db.Read("max", Want{}) })
	w.put(t, `{"_id":"max","_rev":"`+d.Rev.String()+`"}`)
	if got := w.keys(t, keyBody); got != fmt.Sprintf("[%d]", 12*(1+2+3+4+5)) {
		t.Errorf("bodies take %s keys", got)
	}
}

// TestValidate refuses, changes and sees what an edit replaces.
func TestValidate(t *testing.T) {
	w := newWorld(t)
	var calls []string
	validated := func(e Edit) string {
		results := must(t, w, func(db *Database) ([]Written, error) {
			db.Validate = func(next, prev *Document, _ bool) error {
				text := string(next.Body)
				if prev != nil {
					text += " after " + prev.Rev.String() + string(prev.Body)
				}
				calls = append(calls, text)
				switch {
				case bytes.Contains(next.Body, []byte("no")):
					return Forbidden("no")
				case bytes.Contains(next.Body, []byte("who")):
					return &Error{Denied, "unauthorized", "who"}
				case bytes.Contains(next.Body, []byte("set")):
					next.Body = []byte(`{"set":true}`)
				}
				return nil
			}
			return db.Update([]Edit{e})
		})
		return outcome(results[0])
	}
	made := validated(w.edit(t, `{"_id":"a","x":1}`))
	for doc, want := range map[string]string{
		`{"_id":"a","_rev":"` + made + `","no":1}`:  "forbidden",
		`{"_id":"a","_rev":"` + made + `","who":1}`: "unauthorized",
		`{"_id":"a","no":1}`:                        "conflict",
	} {
		if got := validated(w.edit(t, doc)); got != want {
			t.Errorf("%s: %s, want %s", doc, got, want)
		}
	}
	if got := validated(replicated(t, `{"_id":"a","_rev":"2-z","no":1}`)); got != "forbidden" {
		t.Errorf("replicated: %s", got)
	}
	calls = nil
	validated(w.edit(t, `{"_id":"a","_rev":"`+made+`","set":0}`))
	validated(w.edit(t, `{"_id":"_local/a","no":0}`))
	if want := fmt.Sprint([]string{`{"set":0} after ` + made + `{"x":1}`}); fmt.Sprint(calls) != want {
		t.Errorf("calls %s, want %s", calls, want)
	}
	if got := w.get(t, "a", Want{}, Format{}); !strings.HasSuffix(got, `"set":true}`) {
		t.Errorf("changed by the validation: %s", got)
	}
	fatal := errors.New("fatal")
	_, err := in(w, func(db *Database) ([]Written, error) {
		db.Validate = func(*Document, *Document, bool) error { return fatal }
		return db.Update([]Edit{w.edit(t, `{"_id":"f"}`)})
	})
	if !errors.Is(err, fatal) {
		t.Errorf("error %v", err)
	}
}

// TestValidateSeesEarlierEdits: the validation reads a document as the edits before have left it, though they are not
// stored.
func TestValidateSeesEarlierEdits(t *testing.T) {
	w := newWorld(t)
	w.replicate(t, `{"_id":"a","_rev":"1-a","x":1}`)
	var seen []string
	must(t, w, func(db *Database) ([]Written, error) {
		db.Validate = func(next, _ *Document, _ bool) error {
			winner, err := db.Read(next.ID, Want{Conflicts: true})
			if err == nil {
				seen = append(seen, fmt.Sprint(winner.Rev, string(winner.Body), winner.Meta.Conflicts))
			}
			return err
		}
		return db.Update([]Edit{
			replicated(t, `{"_id":"a","_revisions":{"start":2,"ids":["b","a"]},"x":2}`),
			replicated(t, `{"_id":"a","_rev":"3-c","x":3}`),
			replicated(t, `{"_id":"a","_rev":"1-d","x":4}`),
		})
	})
	if want := []string{`1-a{"x":1}[]`, `2-b{"x":2}[]`, `3-c{"x":3}[2-b]`}; fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("%q", seen)
	}
}

// TestValidateEnds: a leaf that the history of a known revision puts behind that ends, so the validation decides.
func TestValidateEnds(t *testing.T) {
	w := newWorld(t)
	w.replicate(t, `{"_id":"a","_rev":"2-b","x":2}`)
	w.replicate(t, `{"_id":"a","_rev":"3-d","_deleted":true}`)
	put := func(refused bool) string {
		results := must(t, w, func(db *Database) ([]Written, error) {
			db.Validate = func(next, prev *Document, _ bool) error {
				if !next.Deleted || next.Rev.Gen != 3 || prev.Rev.Gen != 2 || string(prev.Body) != `{"x":2}` {
					t.Errorf("asked about %v after %v", next, prev)
				}
				if refused {
					return Forbidden("no")
				}
				return nil
			}
			return db.Update([]Edit{replicated(t, `{"_id":"a","_revisions":{"start":3,"ids":["d","b"]},"x":3}`)})
		})
		return outcome(results[0])
	}
	if got := put(true); got != "forbidden" || w.changes(t, Query{AllDocs: true}) != "a 2-b 3-d" {
		t.Errorf("%s, %s", got, w.changes(t, Query{AllDocs: true}))
	}
	if got := put(false); got != "3-d" || w.changes(t, Query{AllDocs: true}) != "a! 3-d" {
		t.Errorf("%s, %s", got, w.changes(t, Query{AllDocs: true}))
	}
}

// TestValidateEndsBehindTombstone: a history names the tombstone that its revision replaces, and behind that another
// leaf, which ends, too.
func TestValidateEndsBehindTombstone(t *testing.T) {
	w := newWorld(t)
	w.replicate(t, `{"_id":"a","_rev":"2-b","x":2}`)
	w.replicate(t, `{"_id":"a","_rev":"3-d","_deleted":true}`)
	var asked []string
	must(t, w, func(db *Database) ([]Written, error) {
		db.Validate = func(next, prev *Document, _ bool) error {
			asked = append(asked, prev.Rev.String())
			if prev.Rev.Gen == 2 && next.Deleted {
				return Forbidden("no")
			}
			return nil
		}
		doc := `{"_id":"a","_revisions":{"start":4,"ids":["e","d","b"]},"_deleted":true}`
		return db.Update([]Edit{replicated(t, doc)})
	})
	if got := w.changes(t, Query{AllDocs: true}); len(asked) != 2 || got != "a 2-b 3-d" {
		t.Errorf("asked about %s, %s", asked, got)
	}
}

// TestConflictFootprint: writers of different documents do not collide, writers of one document do, and
// so do a writer and the deletion of the database.
func TestConflictFootprint(t *testing.T) {
	w := newWorld(t)
	w.put(t, `{"_id":"a"}`)
	race := func(first, second func(tx kv.Tx) error) error {
		one, two := w.Begin(t.Context(), kv.Options{}), w.Begin(t.Context(), kv.Options{})
		for _, err := range []error{first(one), second(two), one.Commit()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return two.Commit()
	}
	write := func(doc string) func(tx kv.Tx) error {
		return func(tx kv.Tx) error {
			db, err := w.Open(tx, "db")
			if err == nil {
				_, err = db.Update([]Edit{replicated(t, doc)})
			}
			return err
		}
	}
	drop := func(tx kv.Tx) error { return w.Delete(tx, "db", [16]byte{1}) }
	if err := race(write(`{"_id":"b","_rev":"1-a"}`), write(`{"_id":"c","_rev":"1-a"}`)); err != nil {
		t.Errorf("different documents: %v", err)
	}
	one, other := write(`{"_id":"a","_rev":"1-a"}`), write(`{"_id":"a","_rev":"1-b"}`)
	if err := race(one, other); kv.CodeOf(err) != kv.NotCommitted {
		t.Errorf("the same document: %v", err)
	}
	if err := race(drop, write(`{"_id":"d","_rev":"1-a"}`)); kv.CodeOf(err) != kv.NotCommitted {
		t.Errorf("after deletion: %v", err)
	}
}

// TestLoses: the outcome of an edit says whether the document has the same winner as before it.
func TestLoses(t *testing.T) {
	w := newWorld(t)
	rev := func(gen string, digit string) string { return gen + "-" + strings.Repeat(digit, 32) }
	merge := func(rev string) Edit { return replicated(t, `{"_id":"a","_rev":"`+rev+`"}`) }
	for i, step := range []struct {
		edit    Edit
		changed bool
		loses   bool
	}{
		{merge(rev("1", "b")), true, false}, {merge(rev("1", "a")), true, true}, {merge(rev("1", "a")), false, false},
		{merge(rev("1", "c")), true, false}, {w.edit(t, `{"_id":"a","_rev":"`+rev("1", "a")+`"}`), true, false},
		{w.edit(t, `{"_id":"a","_rev":"`+rev("1", "b")+`","_deleted":true}`), true, true},
		{w.edit(t, `{"_id":"_local/l"}`), false, false},
	} {
		done := w.update(t, step.edit)[0]
		if done.Err != nil || done.Changed != step.changed || done.Loses != step.loses {
			t.Errorf("edit %d: %+v", i, done)
		}
	}
}
