package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/check"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"
)

// weighing is a reader that adds up what it reads.
type weighing struct {
	kv.Reader
	bytes int
}

func (w *weighing) Get(key []byte) ([]byte, error) {
	value, err := w.Reader.Get(key)
	w.bytes += len(value)
	return value, err
}

func (w *weighing) GetAll(keys [][]byte) ([][]byte, error) {
	values, err := w.Reader.GetAll(keys)
	for _, value := range values {
		w.bytes += len(value)
	}
	return values, err
}

func (w *weighing) GetRange(r kv.Range, o kv.RangeOptions) ([]kv.KeyValue, error) {
	rows, err := w.Reader.GetRange(r, o)
	for _, row := range rows {
		w.bytes += len(row.Value)
	}
	return rows, err
}

// checked is what a check of the databases finds, and the most bytes that a step of it read.
func (w *world) checked(t *testing.T, atOnce bool) (found []string, most int) {
	t.Helper()
	root := tuple.Subspace("root")
	c := check.New(check.Options{Root: root, Sections: Sections(root, nil), AtOnce: atOnce})
	present := w.Database.(*fakefdb.Database).Present()
	for done := false; !done; {
		r := &weighing{Reader: present}
		some, last, err := c.Step(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range some {
			text := f.Key + " " + f.What
			if f.Mends() {
				text += ": " + f.Repair
			}
			found = append(found, text)
		}
		done, most = last, max(most, r.bytes)
	}
	return found, most
}

// attached is a database with a document whose attachment has some pieces and a half, and its bytes.
func attached(t *testing.T, pieces int) *world {
	w := newWorld(t)
	data := bytes.Repeat([]byte("x"), pieces*pieceSize+pieceSize/2)
	e := w.edit(t, `{"_id":"a"}`)
	e.Attachments = []Attachment{{Name: "f", Type: "t/x", Content: Uploaded, Upload: w.upload(t, 1, data, pieceSize)}}
	if r := w.update(t, e)[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	return w
}

// TestCheckOfLargeAttachment: a step reads no more of an attachment than has room on a page, however large it is: a
// transaction has five seconds, and a service has other uses for its memory.
func TestCheckOfLargeAttachment(t *testing.T) {
	w := attached(t, 600)
	for _, atOnce := range []bool{true, false} {
		found, most := w.checked(t, atOnce)
		if len(found) > 0 || most > 300*pieceSize {
			t.Errorf("at once %v: a step reads %d bytes, and finds %q", atOnce, most, found)
		}
	}
}

// TestCheckOfEmptyAttachment: an attachment without bytes has no piece, and lacks none.
func TestCheckOfEmptyAttachment(t *testing.T) {
	w := newWorld(t)
	e := w.edit(t, `{"_id":"a"}`)
	e.Attachments = []Attachment{{Name: "f", Type: "t/x", Content: Uploaded, Upload: w.upload(t, 1, nil, 1)}}
	if r := w.update(t, e)[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	if found, _ := w.checked(t, true); len(found) > 0 {
		t.Errorf("found %q", found)
	}
}

// TestCheckOfUploads: attachments that are still coming are nothing to report, and a row of one that cannot be read is.
func TestCheckOfUploads(t *testing.T) {
	w := newWorld(t)
	w.upload(t, 1, bytes.Repeat([]byte("x"), 3*pieceSize), pieceSize)
	if found, _ := w.checked(t, true); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	must(t, w, func(db *Database) (int, error) {
		db.tx.Set(db.store.uploads.Pack("x"), nil)
		return 0, nil
	})
	if found, _ := w.checked(t, true); len(found) != 1 || !strings.Contains(found[0], "upload") {
		t.Errorf("found %q", found)
	}
}

// TestCheckOfPieces: a piece of an attachment that is gone, too short or too long is told, wherever it is.
func TestCheckOfPieces(t *testing.T) {
	const last = 300
	w := attached(t, last)
	db := must(t, w, func(db *Database) (*Database, error) { return db, nil })
	set := func(n int64, value []byte) {
		err := kv.Do(context.Background(), w, func(tx kv.Tx) error {
			if tx.Set(db.pieceKey(tuple.UUID{1}, n), value); value == nil {
				tx.Clear(db.pieceKey(tuple.UUID{1}, n))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	whole := func(n int64) []byte {
		if n == last {
			return make([]byte, pieceSize/2)
		}
		return make([]byte, pieceSize)
	}
	for _, n := range []int64{0, 1, 255, 256, last - 1, last} {
		for damage, value := range map[string][]byte{
			"are missing": nil, "bytes of": whole(n)[1:], "has more bytes": append(whole(n), 1),
		} {
			set(n, value)
			for _, atOnce := range []bool{true, false} {
				found, _ := w.checked(t, atOnce)
				told := strings.Join(found, "\n")
				if !strings.Contains(told, `attachment "f" of document "a"`) || !strings.Contains(told, damage) ||
					!strings.Contains(told, fmt.Sprintf("/%d ", n)) {
					t.Errorf("of piece %d: want %s, and there is %q", n, damage, found)
				}
			}
			set(n, whole(n))
		}
	}
	if found, _ := w.checked(t, true); len(found) > 0 {
		t.Errorf("at last: %q", found)
	}
}

// TestCheckOfLostText: attachments of a document whose text cannot be read are still its own.
func TestCheckOfLostText(t *testing.T) {
	w := attached(t, 1)
	d := must(t, w, func(db *Database) (*Document, error) { return db.Read("a", Want{}) })
	key := must(t, w, func(db *Database) ([]byte, error) { return db.bodyKey("a", d.Rev), nil })
	for _, text := range []string{"", "[]"} {
		d.Body = []byte(text)
		w.change(t, kv.KeyValue{Key: key, Value: append([]byte{1}, bodyValue(d)...)})
		found, _ := w.checked(t, true)
		if len(found) != 1 || !strings.Contains(found[0], `the content of document "a" cannot be read`) {
			t.Errorf("of %q: found %q", text, found)
		}
	}
}

// TestCheckOfLongText: a text of several parts is judged as a whole.
func TestCheckOfLongText(t *testing.T) {
	w := newWorld(t)
	w.replicate(t, `{"_id":"a","_rev":"1-a","t":"`+strings.Repeat("x", chunkSize)+`"}`)
	if found, _ := w.checked(t, true); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	last := must(t, w, func(db *Database) ([]byte, error) { return chunkKey(db.bodyKey("a", rev("1-a")), 1), nil })
	w.change(t, kv.KeyValue{Key: last, Value: []byte("x")})
	found, _ := w.checked(t, true)
	if len(found) != 1 || !strings.Contains(found[0], `the content of document "a" cannot be read`) {
		t.Errorf("found %q", found)
	}
}

// TestCheckOfLeftOver: a row that has no use is to be removed.
func TestCheckOfLeftOver(t *testing.T) {
	w := newWorld(t)
	w.replicate(t, `{"_id":"a","_rev":"1-a"}`)
	db := must(t, w, func(db *Database) (*Database, error) { return db, nil })
	w.change(t, kv.KeyValue{Key: db.bodyKey("a", rev("1-z")), Value: []byte("{}")})
	found, _ := w.checked(t, true)
	if len(found) != 1 || !strings.HasSuffix(found[0], "has no content there: remove the row") {
		t.Errorf("found %q", found)
	}
}

// change writes rows of the store, and clears those without a value.
func (w *world) change(t *testing.T, rows ...kv.KeyValue) {
	t.Helper()
	err := kv.Do(context.Background(), w, func(tx kv.Tx) error {
		for _, row := range rows {
			if tx.Set(row.Key, row.Value); row.Value == nil {
				tx.Clear(row.Key)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCheckOfLostRevisions: of a document without its revisions nothing is to be removed that still tells of it.
func TestCheckOfLostRevisions(t *testing.T) {
	for _, more := range []string{"", `,"_deleted":true`} {
		w := newWorld(t)
		w.replicate(t, `{"_id":"a","_rev":"1-a"`+more+`}`)
		db := must(t, w, func(db *Database) (*Database, error) { return db, nil })
		w.change(t, kv.KeyValue{Key: db.idKey(keyRecord, "a")})
		found, _ := w.checked(t, true)
		if len(found) != 1 || !strings.Contains(found[0], `document "a" has lost its revisions`) {
			t.Errorf("found %q", found)
		}
	}
}

// TestCheckOfCutEntry: an entry that has lost its revision says still where the document is in the feed. Of one that is
// cut shorter the feed tells the place, and nothing does once its row there is lost.
func TestCheckOfCutEntry(t *testing.T) {
	w := newWorld(t)
	w.replicate(t, `{"_id":"a","_rev":"1-a"}`)
	row := must(t, w, func(db *Database) (row kv.KeyValue, err error) {
		row.Key = db.entryKey("a", true)
		row.Value, err = db.tx.Get(row.Key)
		return row, err
	})
	cut := func(size int, want string) {
		w.change(t, kv.KeyValue{Key: row.Key, Value: row.Value[:size]})
		if found, _ := w.checked(t, true); len(found) != 1 || !strings.Contains(found[0], want) {
			t.Errorf("of %d bytes: found %q, want %q", size, found, want)
		}
	}
	cut(seqSize, `document "a" is listed with revision "", and has 1-a`)
	cut(seqSize-1, `document "a" is not listed`)
	w.change(t, kv.KeyValue{Key: must(t, w, func(db *Database) ([]byte, error) {
		return db.changeKey(seqOf(row.Value), "a"), nil
	})})
	want := `document "a" has a place in the feed of changes that cannot be read`
	if found, _ := w.checked(t, true); len(found) != 1 || !strings.Contains(found[0], want) {
		t.Errorf("without a row in the feed: found %q, want %q", found, want)
	}
}

// TestCheckJudgesOnce: a document is judged once, however many rows its history takes, and not if it is deleted.
func TestCheckJudgesOnce(t *testing.T) {
	w := newWorld(t)
	w.replicate(t, branch("b", 1000)+"}")
	w.replicate(t, `{"_id":"a","_rev":"1-x"}`)
	w.replicate(t, `{"_id":"gone","_rev":"1-x","_deleted":true}`)
	if got := w.keys(t, keyRecord); got != "[4]" {
		t.Errorf("records take %s keys", got)
	}
	var judged []string
	root := tuple.Subspace("root")
	c := check.New(check.Options{Root: root, AtOnce: true, Sections: Sections(root, func(_ *check.Page, d Checked) {
		at := check.Readable(root, d.Key)
		judged = append(judged, fmt.Sprintf("%s/%s of %x at %s", d.Database, d.ID, d.Instance[:1], at))
	})})
	for done := false; !done; {
		found, last, err := c.Step(w.Database.(*fakefdb.Database).Present())
		if done = last; err != nil || len(found) > 0 {
			t.Fatalf("found %v, %v", found, err)
		}
	}
	if len(judged) != 1 || judged[0] != "db/a of 01 at 1/01000000000000000000000000000000/4/a" {
		t.Errorf("judged %v", judged)
	}
}

// TestCheckOfUnreadable: a check says what of a database cannot be read.
func TestCheckOfUnreadable(t *testing.T) {
	for _, c := range []struct {
		want   string
		damage func(db *Database) kv.KeyValue
	}{
		{"the description of the database cannot be read", func(db *Database) kv.KeyValue {
			return kv.KeyValue{Key: db.store.names.Pack("db"), Value: []byte("x")}
		}},
		{"it has no update sequence", func(db *Database) kv.KeyValue { return kv.KeyValue{Key: db.key(keySeq)} }},
		{"the update sequence cannot be read", func(db *Database) kv.KeyValue {
			return kv.KeyValue{Key: db.key(keySeq), Value: make([]byte, seqSize-1)}
		}},
		{"the counter cannot be read", func(db *Database) kv.KeyValue {
			return kv.KeyValue{Key: db.key(keyDelCount), Value: make([]byte, 7)}
		}},
		{"the security object cannot be read", func(db *Database) kv.KeyValue {
			return kv.KeyValue{Key: db.key(keySecurity), Value: []byte("\x01[")}
		}},
		{"the revisions of the document cannot be read", func(db *Database) kv.KeyValue {
			return kv.KeyValue{Key: db.idKey(keyRecord, "c"), Value: []byte("\x01x")}
		}},
		{`the content of document "c" is missing`, func(db *Database) kv.KeyValue {
			return kv.KeyValue{Key: db.bodyKey("c", rev("1-z"))}
		}},
		{`the content of document "c" cannot be read`, func(db *Database) kv.KeyValue {
			return kv.KeyValue{Key: db.bodyKey("c", rev("1-z")), Value: []byte("\x01x")}
		}},
		{"the local document cannot be read", func(db *Database) kv.KeyValue {
			return kv.KeyValue{Key: db.idKey(keyLocal, "_local/l"), Value: []byte("\x01\x0101234567[]")}
		}},
		{"the upload cannot be read", func(db *Database) kv.KeyValue {
			return kv.KeyValue{Key: db.uploadKey(tuple.UUID{9}), Value: make([]byte, 7)}
		}},
		{"the upload cannot be read", func(db *Database) kv.KeyValue {
			return kv.KeyValue{Key: append(db.uploadKey(tuple.UUID{9}), 0xfd), Value: make([]byte, 8)}
		}},
		{"the change cannot be read", func(db *Database) kv.KeyValue {
			return kv.KeyValue{Key: tuple.Subspace(db.key(keyChanges)).Pack(1, 2, 3), Value: []byte("x")}
		}},
		{"the key is none of a database", func(db *Database) kv.KeyValue {
			return kv.KeyValue{Key: db.instance.Pack(-1), Value: []byte("x")}
		}},
		{"the key is none of a database", func(db *Database) kv.KeyValue {
			return kv.KeyValue{Key: append(db.key(keyBlob), 0xfd), Value: []byte("x")}
		}},
	} {
		w := fullWorld(t, fakefdb.New())
		if found, _ := w.checked(t, true); len(found) > 0 {
			t.Fatalf("found %q", found)
		}
		w.change(t, c.damage(must(t, w, func(db *Database) (*Database, error) { return db, nil })))
		if found, _ := w.checked(t, true); !strings.Contains(strings.Join(found, "\n"), c.want) {
			t.Errorf("found %q, want %q", found, c.want)
		}
	}
}

// TestWriteOfLostPlace: a document that has lost its entry and its row in the feed can be written, and is in the feed
// then; until then a reader that asks for its place is told that this cannot be read.
func TestWriteOfLostPlace(t *testing.T) {
	w := newWorld(t)
	w.replicate(t, `{"_id":"a","_rev":"1-a"}`)
	for _, pair := range must(t, w, func(db *Database) (rows []kv.KeyValue, err error) {
		entry, err := db.tx.Get(db.entryKey("a", true))
		return []kv.KeyValue{{Key: db.entryKey("a", true)}, {Key: db.changeKey(seqOf(entry), "a")}}, err
	}) {
		w.change(t, pair)
	}
	place := func(db *Database) (*Document, error) { return db.Read("a", Want{LocalSeq: true}) }
	if _, err := w.once(t, func(db *Database) (any, error) { return place(db) }); !errors.Is(err, kv.ErrUnreadable) {
		t.Errorf("a read of the place ends with %v", err)
	}
	w.replicate(t, `{"_id":"a","_revisions":{"start":2,"ids":["b","a"]}}`)
	if got := w.changes(t, Query{}); !strings.Contains(got, "a 2-b") {
		t.Errorf("the feed has %q", got)
	}
	if found, _ := w.checked(t, true); len(found) > 0 || *must(t, w, place).Meta.LocalSeq == (Seq{}) {
		t.Errorf("found %q", found)
	}
}
