package docs

import (
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/kv"
)

// branch is a branch of document a: n revisions with long names, and what follows from them.
func branch(name string, n int, more ...string) string {
	ids := make([]string, 0, n)
	for i := n; i > 0; i-- {
		ids = append(ids, fmt.Sprintf("%s%d%s", name, i, strings.Repeat("x", 200)))
	}
	ids = append(more, ids...)
	return fmt.Sprintf(`{"_id":"a","_revisions":{"start":%d,"ids":["%s"]}`, len(ids), strings.Join(ids, `","`))
}

// TestBulkyHistory: a document takes no revisions for which its record has no room. Branches can end all the same, and
// with a lower limit there is room again.
func TestBulkyHistory(t *testing.T) {
	w := newWorld(t)
	mine := w.put(t, `{"_id":"a"}`)
	known := branch("k", 1000)
	w.replicate(t, fmt.Sprintf(`{"_id":"a","_rev":"1000-k1000%s"}`, strings.Repeat("x", 200)))
	for _, name := range []string{"b", "c"} {
		if got := w.replicate(t, branch(name, 1000)+"}"); !strings.HasPrefix(got, "1000-") {
			t.Fatalf("branch %s: %s", name, got)
		}
	}
	before := w.changes(t, Query{AllDocs: true})
	refused := w.update(t, replicated(t, branch("d", 1000)+"}"))[0]
	if refused.Err == nil || refused.Err.Kind != TooLarge || !strings.Contains(refused.Err.Reason, "_revs_limit") {
		t.Errorf("another branch: %+v", refused)
	}
	for what, body := range map[string]string{
		"a longer history of a known revision":  known + "}",
		"an end with a long history":            branch("k", 1000, "end") + `,"_deleted":true}`,
		"a branch that is dead from its begin":  branch("d", 1000) + `,"_deleted":true}`,
		"a long branch behind one that is mine": branch("d", 999, "m") + "}",
	} {
		if got := w.replicate(t, body); got != "document_too_large" || w.changes(t, Query{AllDocs: true}) != before {
			t.Errorf("%s: %s, the feed is\n%s, and was\n%s", what, got, w.changes(t, Query{AllDocs: true}), before)
		}
	}
	for n := 512; n > 0; n /= 2 { // all the room that is left
		w.replicate(t, branch(fmt.Sprint("r", n), n)+"}")
	}
	for n, got := 0, mine; got != "document_too_large"; n++ {
		if n > 100 {
			t.Fatal("the document takes one revision after another")
		}
		mine, got = got, w.put(t, fmt.Sprintf(`{"_id":"a","_rev":"%s"}`, got))
	}
	if got := w.put(t, fmt.Sprintf(`{"_id":"a","_rev":"%s","_deleted":true}`, mine)); len(got) < 34 {
		t.Errorf("deletion: %s", got)
	}
	end := strings.Repeat("e", 255)
	if got := w.replicate(t, branch("b", 1000, end)+`,"_deleted":true}`); got != "1001-"+end {
		t.Errorf("replicated deletion: %s", got)
	}
	again := branch("b", 1000, strings.Repeat("f", 255), end) + `,"_deleted":true}`
	if got := w.replicate(t, again); got != "document_too_large" {
		t.Errorf("another one behind it: %s", got)
	}
	must(t, w, func(db *Database) (struct{}, error) { return struct{}{}, db.SetRevsLimit(10) })
	if got := w.replicate(t, branch("d", 100)+"}"); !strings.HasPrefix(got, "100-") {
		t.Errorf("with another limit: %s", got)
	}
}

// TestBulkyBranches: nor does it take more branches, or longer bodies, than a transaction should read.
func TestBulkyBranches(t *testing.T) {
	w := newWorld(t)
	large := strings.Repeat("x", 7_900_000)
	for n := range 11 { // 88 chunks each
		got := w.replicate(t, fmt.Sprintf(`{"_id":"a","_rev":"1-%d","t":"%s"}`, n, large))
		if !strings.HasPrefix(got, "1-") {
			t.Fatalf("body %d: %s", n, got)
		}
	}
	if got := w.replicate(t, fmt.Sprintf(`{"_id":"a","_rev":"1-x","t":"%s"}`, large)); got != "document_too_large" {
		t.Errorf("another body: %s", got)
	}
	if got := w.put(t, fmt.Sprintf(`{"_id":"a","_rev":"1-1","t":"%s"}`, large)); len(got) < 34 {
		t.Errorf("a body in place of another one: %s", got)
	}
	var edits []Edit
	for n := range MaxLeaves + 1 {
		edits = append(edits, replicated(t, fmt.Sprintf(`{"_id":"b","_rev":"1-%d"}`, n)))
	}
	for n, r := range w.update(t, edits...) {
		if over := n == MaxLeaves; (r.Err != nil) != over {
			t.Errorf("leaf %d: %v", n, r.Err)
		}
	}
}

// TestBulkyWrite: a body that would fill a transaction, with the keys of a long id, is refused.
func TestBulkyWrite(t *testing.T) {
	w := newWorld(t)
	e := w.edit(t, fmt.Sprintf(`{"_id":"x","t":"%s"}`, strings.Repeat("x", 7_000_000)))
	e.ID = strings.Repeat("\x00", maxIDSize)
	if got := outcome(w.update(t, e)[0]); got != "document_too_large" {
		t.Errorf("long id: %s", got)
	}
}

// TestRefusedBesideOthers: an edit that is refused as too large changes nothing of its document, though the same batch
// adds other revisions to that: revisions that a new one, or the history of a known one, would have replaced stay
// leaves.
func TestRefusedBesideOthers(t *testing.T) {
	w := newWorld(t)
	w.replicate(t, `{"_id":"a","_rev":"1-m"}`)
	for _, known := range []string{"1000-h1000", "999-h999"} {
		w.replicate(t, `{"_id":"a","_rev":"`+known+strings.Repeat("x", 200)+`"}`)
	}
	for _, name := range []string{"k", "b", "c"} {
		w.replicate(t, branch(name, 1000)+"}")
	}
	for n := 512; n > 50; n /= 2 {
		w.replicate(t, branch(fmt.Sprint("r", n), n)+"}")
	}
	behind := branch("d", 100) + `,"_attachments":{"f":{"data":"eA=="}}}`
	behind = strings.NewReplacer(`"start":100`, `"start":101`, `"]`, `","m"]`).Replace(behind)
	for i, large := range []string{behind, branch("h", 1000) + "}"} {
		edits := []Edit{replicated(t, large)}
		for n := range 9 {
			beside := replicated(t, fmt.Sprintf(`{"_id":"a","_rev":"1-n%d%d"}`, i, n))
			edits = append([]Edit{beside}, append(edits, beside)...)
		}
		if got := w.update(t, edits...); outcome(got[9]) != "document_too_large" {
			t.Fatalf("wrote %+v", got)
		}
	}
	feed := w.changes(t, Query{AllDocs: true})
	for revs, want := range map[string]int{" 1-n": 18, " 1-m": 1, " 1000-h": 1, " 999-h": 1} {
		if strings.Count(feed, revs) != want {
			t.Errorf("the feed has not %d of %s: %s", want, revs, feed)
		}
	}
	if got := w.keys(t, keyBlob); got != "[0]" {
		t.Errorf("%s pieces of an attachment that was refused", got)
	}
}

// TestWorkOfATransaction: a transaction takes as many edits as it has room for, with the records of their documents,
// each of which counts once.
func TestWorkOfATransaction(t *testing.T) {
	w := newWorld(t)
	var same, many []Edit
	text := strings.Repeat("x", 300_000)
	for i := range 6 {
		of := func(doc string) string { return strings.Replace(doc, `"a"`, fmt.Sprintf(`"%d"`, i), 1) }
		w.replicate(t, of(branch("b", 1000)+"}"))
		w.replicate(t, of(branch("c", 1000)+"}"))
		many = append(many, replicated(t, of(`{"_id":"a","_rev":"1-x","t":"`+text+`"}`)))
		same = append(same, replicated(t, fmt.Sprintf(`{"_id":"0","_rev":"1-y%d"}`, i)))
	}
	for what, c := range map[string]struct {
		edits []Edit
		want  int
	}{"edits of one document": {same, len(same)}, "edits of many": {many, 3}} {
		written := must(t, w, func(db *Database) ([]Written, error) { return db.Update(c.edits) })
		if len(written) != c.want {
			t.Errorf("%s: %d of %d are taken, want %d", what, len(written), len(c.edits), c.want)
		}
	}
}

// TestManyAttachments: a document with as many attachments as it may have is written in a time that grows with their
// number, whether its stubs stand for those of the revision before or of another leaf. Else the end of its job would
// take longer than a transaction may.
func TestManyAttachments(t *testing.T) {
	const many = 20_000
	list := func(one string) string {
		var all []string
		for i := range many {
			all = append(all, fmt.Sprintf(`"a%d":%s`, i, one))
		}
		return `"_attachments":{` + strings.Join(all, ",") + "}}"
	}
	w := newWorld(t)
	first := w.put(t, `{"_id":"a",`+list(`{"data":""}`))
	stubs := list(`{"stub":true,"digest":"md5-1B2M2Y8AsgTpgAmY7PhCfg=="}`)
	second := w.put(t, `{"_id":"a","_rev":"`+first+`",`+stubs)
	if got := w.replicate(t, `{"_id":"a","_rev":"1-x",`+stubs); got != "1-x" {
		t.Errorf("another leaf: %s", got)
	}
	w.put(t, `{"_id":"a","_rev":"`+second+`","_deleted":true}`)
	doc := must(t, w, func(db *Database) (*Document, error) { return db.Read("a", Want{}) })
	if len(doc.Attachments) != many {
		t.Errorf("%d attachments", len(doc.Attachments))
	}
}

// counted is a transaction that counts the bytes that are read.
type counted struct {
	kv.Tx
	bytes *int
}

func (c counted) GetAll(keys [][]byte) ([][]byte, error) {
	values, err := c.Tx.GetAll(keys)
	for _, v := range values {
		*c.bytes += len(v)
	}
	return values, err
}

// TestManyBulkyHistories: a transaction that writes some of many documents with long histories reads the histories of
// these, and of the others the first chunks at most.
func TestManyBulkyHistories(t *testing.T) {
	w := newWorld(t)
	const many = 30
	var edits []Edit
	for i := range many {
		of := func(doc string) string { return strings.Replace(doc, `"a"`, fmt.Sprintf(`"%d"`, i), 1) }
		w.replicate(t, of(branch("b", 1000)+"}"))
		w.replicate(t, of(branch("c", 1000)+"}"))
		edits = append(edits, replicated(t, of(`{"_id":"a","_rev":"1-x"}`)))
	}
	transactions := 0
	for left := edits; len(left) > 0; transactions++ {
		read := 0
		written, err := kv.Run(t.Context(), w, func(tx kv.Tx) ([]Written, error) {
			read = 0
			db, err := w.Open(counted{tx, &read}, w.name)
			if err != nil {
				return nil, err
			}
			return db.Update(left)
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range written {
			if one.ID != left[i].ID || !one.Changed {
				t.Errorf("%+v", one)
			}
		}
		if left = left[len(written):]; read > 2*batchSize+many*chunkSize {
			t.Errorf("%d bytes are read for %d documents", read, len(written))
		}
	}
	if feed := w.changes(t, Query{AllDocs: true}); transactions < 3 || strings.Count(feed, " 1-x") != many {
		t.Errorf("%d transactions", transactions)
	}
}
