package docs

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/docs/revtree"
	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"

	"pgregory.net/rapid"
)

// upload brings data into the store in pieces of n bytes.
func (w *world) upload(t failer, id byte, data []byte, n int) *Upload {
	t.Helper()
	u := NewUpload(tuple.UUID{id})
	store := func() {
		for range 2 { // again, as after an unknown result
			must(t, w, func(db *Database) (int, error) { return 0, db.StoreUpload(u, instant.Seconds(100)) })
		}
		u.Stored()
	}
	for len(data) > 0 {
		k, _ := u.Write(data[:min(n, len(data))])
		if data = data[k:]; u.Ready() {
			store()
		}
	}
	u.Finish()
	store()
	return u
}

// content reads an attachment to its end, in pieces of n bytes.
func (w *world) content(t failer, a *Attachment, n int) []byte {
	t.Helper()
	var all []byte
	for {
		part := must(t, w, func(db *Database) ([]byte, error) { return db.ReadAttachment(a, int64(len(all)), n) })
		if len(part) == 0 {
			return all
		}
		all = append(all, part...)
	}
}

func (w *world) doc(t failer, id string) *Document {
	t.Helper()
	return must(t, w, func(db *Database) (*Document, error) { return db.Read(id, Want{}) })
}

// TestUpload: any size, written and read in pieces of any size.
func TestUpload(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		data := bytes.Repeat([]byte("0123456789a"), rapid.IntRange(0, 4*uploadBatch/11).Draw(t, "size"))
		u := w.upload(t, 1, data, rapid.IntRange(1000, 3*pieceSize).Draw(t, "written"))
		e := w.edit(t, `{"_id":"a"}`)
		e.Attachments = []Attachment{{Name: "f", Type: "t/x", Content: Uploaded, Upload: u}}
		first, again := w.update(t, e)[0], w.update(t, e)[0]
		if first.Err != nil || again.Err != nil || again.Changed {
			t.Fatalf("%+v, again %+v", first, again)
		}
		must(t, w, func(db *Database) (int, error) { return 0, db.DiscardUpload(u) })
		a := &w.doc(t, "a").Attachments[0]
		if got := w.content(t, a, rapid.IntRange(1, 3*pieceSize).Draw(t, "read")+pieceSize/2); !bytes.Equal(got, data) {
			t.Fatalf("%d bytes, want %d", len(got), len(data))
		}
		if a.Length != int64(len(data)) || a.RevPos != 1 {
			t.Fatalf("attachment %+v", a)
		}
	})
}

// TestStubs goes through what a stub may stand for.
func TestStubs(t *testing.T) {
	w := newWorld(t)
	first := w.put(t,
		`{"_id":"a","_attachments":{"f":{"data":"b25l","content_type":"text/plain"},"g":{"data":"dHdv"}}}`)
	want := `{"_id":"a","_rev":"` + first + `","_attachments":{` +
		`"f":{"content_type":"text/plain","revpos":1,"digest":"md5-+XxdKZQb+xsv2rCHSQargg==",` +
		`"length":3,"stub":true},` +
		`"g":{"content_type":"application/octet-stream","revpos":1,"digest":"md5-uKn3Fdu2T9XFbneDxoIKYQ==",` +
		`"length":3,"stub":true}}}`
	if got := w.get(t, "a", Want{}, Format{}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, stub := range []string{
		`{"h":{"stub":true}}`, `{"f":{"stub":true,"revpos":2}}`, `{"f":{"follows":true,"length":1}}`,
	} {
		if got := w.put(t, `{"_id":"a","_rev":"`+first+`","_attachments":`+stub+`}`); got != "missing_stub" &&
			got != "bad_request" {
			t.Errorf("%s: %s", stub, got)
		}
	}
	if got := w.keys(t, keyBlob); got != "[2]" {
		t.Errorf("%s pieces", got)
	}
	second := w.put(t,
		`{"_id":"a","_rev":"`+first+`","_attachments":{"f":{"stub":true,"revpos":1},"h":{"data":"b25l"}}}`)
	if got := w.keys(t, keyBlob); got != "[1]" { // f and h are the same bytes, g is gone
		t.Errorf("%s pieces", got)
	}
	// A conflict brings the same bytes as a stub of an ancestor that is no leaf any more.
	conflict := `{"_id":"a","_revisions":{"start":2,"ids":["z","` + first[2:] + `"]},` +
		`"_attachments":{"f":{"stub":true,"revpos":1,"digest":"md5-+XxdKZQb+xsv2rCHSQargg=="}}}`
	if got := w.replicate(t, conflict); got != "2-z" {
		t.Errorf("conflict: %s", got)
	}
	other := strings.NewReplacer(`"z"`, `"y"`, "+XxdKZQb+xsv2rCHSQargg", "uKn3Fdu2T9XFbneDxoIKYQ")
	if got := w.replicate(t, other.Replace(conflict)); got != "missing_stub" {
		t.Errorf("a stub of other bytes under the same name: %s", got)
	}
	// One of the two leaves goes, then the other.
	third := w.put(t, `{"_id":"a","_rev":"`+second+`","_deleted":true}`)
	if got := w.keys(t, keyBlob); got != "[1]" || string(w.content(t, &w.doc(t, "a").Attachments[0], 10)) != "one" {
		t.Errorf("%s pieces", got)
	}
	w.put(t, `{"_id":"a","_rev":"2-z","_deleted":true}`)
	if got := w.keys(t, keyBlob, keyBody); got != "[0 0]" || !strings.HasPrefix(third, "3-") {
		t.Errorf("%s pieces and bodies", got)
	}
}

// TestStubOfEarlier: a stub of an attachment that was replaced since is not one of the newer bytes under that name.
func TestStubOfEarlier(t *testing.T) {
	w := newWorld(t)
	first := w.put(t, `{"_id":"a","_attachments":{"f":{"data":"b25l"}}}`)
	second := w.put(t, `{"_id":"a","_rev":"`+first+`","_attachments":{"f":{"data":"dHdv"}}}`)
	stub := `"_attachments":{"f":{"stub":true,"revpos":1,"digest":"md5-+XxdKZQb+xsv2rCHSQargg=="}}}`
	if got := w.put(t, `{"_id":"a","_rev":"`+second+`",`+stub); got != "missing_stub" {
		t.Errorf("a stub of what was replaced: %s", got)
	}
	brought := `{"_id":"a","_revisions":{"start":3,"ids":["z","` + second[2:] + `","` + first[2:] + `"]},`
	if got := w.replicate(t, brought+stub); got != "missing_stub" {
		t.Errorf("a stub of what was replaced is replicated: %s", got)
	}
}

// TestStubsBeforeValidation: an edit with a stub of an attachment that is not there is refused before the validation is
// asked.
func TestStubsBeforeValidation(t *testing.T) {
	w := newWorld(t)
	edit := w.edit(t, `{"_id":"a","_attachments":{"f":{"stub":true,"revpos":1}}}`)
	written := must(t, w, func(db *Database) ([]Written, error) {
		db.Validate = func(*Document, *Document, bool) error { t.Error("asked"); return nil }
		return db.Update([]Edit{edit})
	})
	if got := outcome(written[0]); got != "missing_stub" {
		t.Error(got)
	}
}

// TestAgeOfAttachments: revpos is the generation of the revision that brought the bytes, also in a document that was
// deleted, whose revisions go on where they ended.
func TestAgeOfAttachments(t *testing.T) {
	w := newWorld(t)
	first := w.put(t, `{"_id":"a"}`)
	second := w.put(t, `{"_id":"a","_rev":"`+first+`","_attachments":{"f":{"data":"b25l"}}}`)
	age := func(want int64) {
		t.Helper()
		if a := w.doc(t, "a").Attachments[0]; a.RevPos != want {
			t.Errorf("revpos %d, want %d", a.RevPos, want)
		}
	}
	age(2)
	w.put(t, `{"_id":"a","_rev":"`+second+`","_deleted":true}`)
	w.put(t, `{"_id":"a","_attachments":{"f":{"data":"b25l"}}}`)
	age(4)
}

// TestSlowUpload: an upload is not swept as long as it comes on.
func TestSlowUpload(t *testing.T) {
	w := newWorld(t)
	u := NewUpload(tuple.UUID{1})
	for at := int64(0); at < 10_000; at += 1000 {
		u.Write(bytes.Repeat([]byte("x"), uploadBatch))
		must(t, w, func(db *Database) (int, error) { return 0, db.StoreUpload(u, instant.Seconds(at)) })
		u.Stored()
		n, err := kv.Run(t.Context(), w, func(tx kv.Tx) (int, error) {
			return w.SweepUploads(tx, instant.Seconds(at-999), 10)
		})
		if n > 0 || err != nil {
			t.Fatalf("after %d s: swept %d, %v", at, n, err)
		}
	}
}

// TestSweepMeetsWriter: a sweep that finds an upload abandoned does not commit if its writer goes on meanwhile.
func TestSweepMeetsWriter(t *testing.T) {
	w := newWorld(t)
	u := w.upload(t, 1, []byte("x"), 1000)
	n := 0
	swept, err := kv.Run(t.Context(), w, func(tx kv.Tx) (int, error) {
		swept, err := w.SweepUploads(tx, instant.Seconds(1500), 10)
		if n++; n == 1 && err == nil {
			must(t, w, func(db *Database) (int, error) { return 0, db.StoreUpload(u, instant.Seconds(2000)) })
		}
		return swept, err
	})
	if n != 2 || swept != 0 || err != nil {
		t.Errorf("after %d attempts %d are swept, %v", n, swept, err)
	}
}

// TestSweepsInParts: a sweep removes as many uploads as it may, and the next one the others.
func TestSweepsInParts(t *testing.T) {
	w := newWorld(t)
	for id := range byte(5) {
		w.upload(t, id, []byte("x"), 1000)
	}
	for i, want := range []int{2, 2, 1, 0} {
		n, err := kv.Run(t.Context(), w, func(tx kv.Tx) (int, error) {
			return w.SweepUploads(tx, instant.Seconds(10_000), 2)
		})
		if n != want || err != nil {
			t.Errorf("sweep %d removes %d uploads, want %d: %v", i, n, want, err)
		}
	}
}

// TestEncodings: what is stored encoded says so where asked for.
func TestEncodings(t *testing.T) {
	w := newWorld(t)
	e := replicated(t, `{"_id":"a","_rev":"4-x","_attachments":{"f":{"follows":true,`+
		`"encoding":"gzip","length":100,"encoded_length":5,"revpos":2}}}`)
	e.Attachments[0].Content, e.Attachments[0].Upload = Uploaded, w.upload(t, 1, []byte("gzip!"), 2)
	w.update(t, e)
	a := `"content_type":"application/octet-stream","revpos":2,"digest":"md5-abUU9ERPjGFETBGcYl7p6A==",` +
		`"length":100,"stub":true`
	text := w.get(t, "a", Want{}, Format{})
	if want := `{"_id":"a","_rev":"4-x","_attachments":{"f":{` + a + `}}}`; text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	want := a + `,"encoding":"gzip","encoded_length":5`
	if got := w.get(t, "a", Want{}, Format{Encodings: true}); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
	e = replicated(t, `{"_id":"b","_rev":"1-x","_attachments":{"f":{"follows":true,"encoding":"gzip"}}}`)
	e.Attachments[0].Content, e.Attachments[0].Data = Inline, []byte("gzip!")
	w.update(t, e)
	lengths := `"length":5,"stub":true,"encoding":"gzip","encoded_length":5`
	if got := w.get(t, "b", Want{}, Format{Encodings: true}); !strings.Contains(got, lengths) {
		t.Errorf("without lengths: %s", got)
	}
	e = replicated(t, `{"_id":"c","_rev":"1-x","_attachments":{"f":{"follows":true,"encoding":"gzip","length":100}}}`)
	e.Attachments[0].Content, e.Attachments[0].Data = Inline, []byte("gzip!")
	w.update(t, e)
	lengths = `"length":100,"stub":true,"encoding":"gzip","encoded_length":5`
	if got := w.get(t, "c", Want{}, Format{Encodings: true}); !strings.Contains(got, lengths) {
		t.Errorf("without the length of what is stored: %s", got)
	}
	if got := w.content(t, &w.doc(t, "a").Attachments[0], 3); string(got) != "gzip!" {
		t.Errorf("stored %q", got)
	}
}

// TestUploadRefused: wrong digests, uploads that are gone, and what is swept and what is not.
func TestUploadRefused(t *testing.T) {
	w := newWorld(t)
	with := func(u *Upload, digest []byte) string {
		e := w.edit(t, fmt.Sprintf(`{"_id":"%x"}`, u.ID[0]))
		e.Attachments = []Attachment{{Name: "f", Content: Uploaded, Upload: u, Digest: digest}}
		return outcome(w.update(t, e)[0])
	}
	data := bytes.Repeat([]byte("x"), uploadBatch+10)
	taken, wrong, aborted, idle := w.upload(t, 1, data, 1000), w.upload(t, 2, data, 1000), w.upload(t, 3, data, 1000),
		w.upload(t, 4, data, 1000)
	if got := with(taken, taken.digest); !strings.HasPrefix(got, "1-") {
		t.Errorf("taken: %s", got)
	}
	if got := with(wrong, make([]byte, 16)); got != "content_md5_mismatch" {
		t.Errorf("wrong digest: %s", got)
	}
	small := w.edit(t, `{"_id":"small"}`)
	small.Attachments = []Attachment{{Name: "f", Content: Inline, Data: []byte("one"), Digest: make([]byte, 16)}}
	if got := outcome(w.update(t, small)[0]); got != "content_md5_mismatch" {
		t.Errorf("wrong digest of few bytes: %s", got)
	}
	must(t, w, func(db *Database) (int, error) { return 0, db.DiscardUpload(wrong) })
	must(t, w, func(db *Database) (int, error) { return 0, db.DiscardUpload(aborted) })
	if got := with(aborted, nil); got != "internal_server_error" {
		t.Errorf("aborted: %s", got)
	}
	sweep := func(before int64) int {
		n, err := kv.Run(t.Context(), w,
			func(tx kv.Tx) (int, error) { return w.SweepUploads(tx, instant.Seconds(before), 10) })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if early, late, again := sweep(100), sweep(101), sweep(101); early != 0 || late != 1 || again != 0 {
		t.Errorf("swept %d, %d, %d", early, late, again)
	}
	short := NewUpload(tuple.UUID{5}) // of which one piece was stored
	short.Write(data[:pieceSize])
	short.Stored()
	for _, gone := range []*Upload{idle, short} {
		_, err := in(w, func(db *Database) (int, error) { return 0, db.StoreUpload(gone, instant.Seconds(200)) })
		if !errors.Is(err, ErrUploadGone) {
			t.Errorf("storing more than %d pieces of a swept upload: %v", gone.pieces, err)
		}
	}
	if got := w.keys(t, keyBlob); got != "[17]" {
		t.Errorf("%s pieces, want those of one upload", got)
	}
	if got := string(w.content(t, &w.doc(t, "1").Attachments[0], 1<<20)); got != string(data) {
		t.Error("the taken upload is damaged")
	}
}

func TestReadAttachmentGone(t *testing.T) {
	w := newWorld(t)
	made := w.put(t, `{"_id":"a","_attachments":{"f":{"data":"b25l"}}}`)
	a := &w.doc(t, "a").Attachments[0]
	w.put(t, `{"_id":"a","_rev":"`+made+`"}`)
	read := func(db *Database) ([]byte, error) { return db.ReadAttachment(a, 0, 10) }
	if _, err := in(w, read); !errors.Is(err, ErrMissing) {
		t.Errorf("error %v", err)
	}
}

// TestInlineLimit: the largest body and the largest inline attachments that may be written fit into one transaction.
func TestInlineLimit(t *testing.T) {
	w := newWorld(t)
	e := w.edit(t, `{"_id":"a","t":"`+strings.Repeat("x", MaxBody-8)+`"}`)
	for i, size := range []int{MaxInline / 3, MaxInline / 3, MaxInline - 2*(MaxInline/3)} {
		data := bytes.Repeat([]byte{byte(i)}, size)
		e.Attachments = append(e.Attachments, Attachment{Name: fmt.Sprint(i), Content: Inline, Data: data})
	}
	if got := outcome(w.update(t, e)[0]); !strings.HasPrefix(got, "1-") {
		t.Errorf("at the limit: %s", got)
	}
	e.ID, e.Token, e.Attachments[0].Data = "b", 0, bytes.Repeat([]byte("x"), MaxInline/3+1)
	if got := outcome(w.update(t, e)[0]); got != "attachment_too_large" {
		t.Errorf("over the limit: %s", got)
	}
}

// TestRevOfAttachments: equal edits have equal revisions in all releases, so that nodes of two releases that write the
// same document make no conflict. The revision was computed by hand, of the parts that newRev names.
func TestRevOfAttachments(t *testing.T) {
	digest, err := hex.DecodeString("5d41402abc4b2a76b9719d911017c592") // of "hello"
	if err != nil {
		t.Fatal(err)
	}
	parent := revtree.Rev{Gen: 1, ID: "6f"}
	attached := Attachment{Name: "x.txt", Type: "text/plain", Digest: digest}
	d := &Document{Body: []byte(`{"a":1}`), Attachments: []Attachment{attached}}
	if got := newRev(parent, d).String(); got != "2-faa12030062445fb745f8daebce0da53" {
		t.Errorf("the revision is %s", got)
	}
}
