package couchdb

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
)

const one = `"f":{"content_type":"text/x","revpos":1,"digest":"md5-+XxdKZQb+xsv2rCHSQargg==",`

func TestStandaloneAttachment(t *testing.T) {
	s := newSite(t)
	s.Want("PUT /db/a/f one", 201, `{"ok":true,"id":"a","rev":"1-*"}`, "Content-Type", "text/x")
	s.Want("GET /db/a", 200, `{"_id":"a","_rev":"1-*","_attachments":{`+one+`"length":3,"stub":true}}}`)
	answer := s.Ask("GET /db/a/f")
	if got := s.Text(answer); got != "one" || answer.Header.Get("Content-Type") != "text/x" ||
		answer.ContentLength != 3 ||
		answer.Header.Get("ETag") != `"+XxdKZQb+xsv2rCHSQargg=="` {
		t.Errorf("%s %v", got, answer.Header)
	}
	s.Want("GET /db/a/f", 304, "", "If-None-Match", `"+XxdKZQb+xsv2rCHSQargg=="`)
	s.Want("HEAD /db/a/f", 200, "")
	s.Fails("PUT /db/a/f two", 409, "conflict", "Document update conflict.")
	s.Fails("PUT /db/a/f?rev=1-x two", 409, "conflict", "Document update conflict.")
	s.Want("GET /db/a", 200, `{"_id":"a","_rev":"1-*","_attachments":{`+one+`"length":3,"stub":true}}}`)
	s.Want("PUT /db/a/g/h%20i?rev=$rev two", 201, `{"ok":true,"id":"a","rev":"2-*"}`)
	s.Want("GET /db/a/g/h%20i", 200, "two")
	s.Fails("PUT /db/a/f?rev=$rev three", 400, "bad_request", "Document rev and etag have different values",
		"If-Match", "1-x")
	s.Want("PUT /db/r/f one", 201, `{"ok":true,"id":"r","rev":"1-*"}`)
	s.Want("PUT /db/r/f?rev=$rev two", 201, `{"ok":true,"id":"r","rev":"2-*"}`)
	two := `{"content_type":"application/json","revpos":2,"digest":"md5-uKn3Fdu2T9XFbneDxoIKYQ==","data":"dHdv"}`
	s.Want("GET /db/r?attachments=true", 200, `{"_id":"r","_rev":"2-*","_attachments":{"f":`+two+`}}`)
	s.Want("GET /db/a?attachments=true", 200, `{"_id":"a","_rev":"2-*","_attachments":{`+one+`"data":"b25l"},`+
		`"g/h i":`+two+`}}`)
	s.Fails("DELETE /db/a/nope?rev=$rev", 404, "not_found", "Document is missing attachment")
	s.Fails("DELETE /db/a/f", 409, "conflict", "Document update conflict.")
	s.Fails("DELETE /db/a/f?rev=1-x", 409, "conflict", "Document update conflict.")
	s.Text(s.Ask("GET /db/a"))
	s.Want("DELETE /db/a/f?rev=$rev", 200, `{"ok":true,"id":"a","rev":"3-*"}`)
	s.Fails("GET /db/a/f", 404, "not_found", "Document is missing attachment")
	s.Fails("GET /db/nope/f", 404, "not_found", "missing")
	s.Fails("PUT /db/a/_f?rev=$rev x", 400, "bad_request", "Attachment name '_f' starts with prohibited character '_'")
	s.Fails("PUT /db/a/%ff?rev=$rev x", 400, "bad_request", "Attachment name is not UTF-8 encoded")
	s.Fails("PUT /db/b/f x", 415, "bad_content_type", "Only gzip and identity content-encodings are supported",
		"Content-Encoding", "br")
	s.Want("PUT /db/t/f x", 201, `{"ok":true,"id":"t","rev":"1-*"}`, "Content-Type", "")
	if answer := s.Ask("GET /db/t/f"); answer.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("an attachment of no type is %s", answer.Header.Get("Content-Type"))
	}
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// TestEncodedAttachment keeps what comes compressed, and decodes it for those who do not take it.
func TestEncodedAttachment(t *testing.T) {
	s := newSite(t)
	packed := gzipped("hello hello")
	answer := s.Send("PUT", "/db/a/f", strings.NewReader(packed), "Content-Encoding", "gzip", "Content-Type", "text/x")
	if got := s.Text(answer); answer.StatusCode != 201 {
		t.Fatal(got)
	}
	s.Want("GET /db/a/f", 200, "hello hello")
	taken := s.Ask("GET /db/a/f", "Accept-Encoding", "br, gzip;q=0.5")
	if got := s.Text(taken); got != packed || taken.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%q %v", got, taken.Header)
	}
	s.Want("GET /db/a/f", 200, "hello hello", "Accept-Encoding", "gzip;q=0")
	inline := s.Text(s.Ask("GET /db/a?attachments=true&att_encoding_info=true"))
	encoded := base64.StdEncoding.EncodeToString([]byte("hello hello"))
	want := fmt.Sprintf(`"data":"%s","encoding":"gzip","encoded_length":%d}`, encoded, len(packed))
	if !strings.Contains(inline, want) {
		t.Errorf("%s, want %s in it", inline, want)
	}
	related := s.Text(s.Ask("GET /db/a?attachments=true", "Accept", "multipart/related"))
	want = fmt.Sprintf("\r\nContent-Length: %d\r\nContent-Encoding: gzip\r\n\r\n%s\r\n--H--", len(packed), packed)
	if !strings.HasSuffix(related, want) {
		t.Errorf("%q, want %q", related, want)
	}
}

// TestBogusEncoding: bytes that are no gzip, though their writer said so, are given as they are, and the answers that
// have them are whole.
func TestBogusEncoding(t *testing.T) {
	s := newSite(t)
	packed := gzipped(strings.Repeat("hello", 1000))
	for name, text := range map[string]string{
		"a text": "not packed", "empty": "", "cut": packed[:len(packed)/2], "longer": packed + "x",
	} {
		path := "/db/" + url.PathEscape(name)
		answer := s.Send("PUT", path+"/f", strings.NewReader(text), "Content-Encoding", "gzip")
		if got := s.Text(answer); answer.StatusCode != 201 {
			t.Fatal(got)
		}
		s.Want("GET "+path+"/f", 200, text)
		s.Want("HEAD "+path+"/f", 200, "")
		want := `"data":"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"`
		for _, ask := range []string{
			"GET " + path + "?attachments=true", "GET " + path + "?attachments=true&open_revs=all",
			"GET /db/_all_docs?include_docs=true&attachments=true",
			"GET /db/_changes?include_docs=true&attachments=true",
			`POST /db/_bulk_get?attachments=true {"docs":[{"id":"` + name + `"}]}`,
		} {
			got := s.Text(s.Ask(ask, "Accept", "application/json"))
			whole := json.Valid([]byte(strings.ReplaceAll(got, ":S", ":0")))
			if !whole || !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s in it", ask, got, want)
			}
		}
	}
}

// multi is a multipart/related body of a document and attachments.
func multi(doc string, parts ...string) string {
	body := "--b\r\nContent-Type: application/json\r\n\r\n" + doc
	for _, part := range parts {
		body += "\r\n--b\r\nContent-Disposition: attachment; filename=\"x\"\r\n\r\n" + part
	}
	return body + "\r\n--b--"
}

func (s *site) putMulti(path, body string) string {
	s.Helper()
	return s.Text(s.Send("PUT", path, strings.NewReader(body), "Content-Type", `multipart/related; boundary="b"`))
}

func TestMultipart(t *testing.T) {
	s := newSite(t)
	big := strings.Repeat("ghijklmnop", 130_000)
	doc := fmt.Sprintf(`{"_revisions":{"start":2,"ids":["m","l"]},"_attachments":{`+
		`"f":{"follows":true,"length":3,"revpos":1,"content_type":"text/x"},`+
		`"in":{"data":"aW4=","revpos":2},"g\"":{"follows":true,"length":%d,"revpos":2,"content_type":"b/x"}}}`,
		len(big))
	if got := s.putMulti("/db/a?new_edits=false", multi(doc, "one", big)); got != `{"ok":true,"id":"a","rev":"2-m"}` {
		t.Fatal(got)
	}
	s.Want("GET /db/a/g%22", 200, big)
	s.Want("GET /db/a/f", 200, "one")
	s.Want("GET /db/a/in", 200, "in")
	for _, accept := range []string{"multipart/related", "*/*", "application/json;q=0, multipart/*"} {
		answer := s.Ask("GET /db/a?attachments=true&revs=true", "Accept", accept)
		got := s.Text(answer)
		if answer.ContentLength != int64(len(got)) { // the random boundary has the length of its H's
			got += strings.Repeat("H", int(answer.ContentLength)-len(got))
		}
		want := "--H\r\nContent-Type: application/json\r\n\r\n" +
			`{"_id":"a","_rev":"2-m","_revisions":{"start":2,"ids":["m","l"]},"_attachments":{` + one +
			`"length":3,"follows":true},`
		last := "\r\n--H\r\nContent-Disposition: attachment; filename=\"g_\"\r\nContent-Type: b/x\r\n" +
			"Content-Length: 1300000\r\n\r\n" + big + "\r\n--H--"
		if !strings.HasPrefix(got, want) || !strings.Contains(got, last) {
			t.Errorf("%s: %.300s", accept, got)
		}
	}
	all := s.Text(s.Ask("GET /db/a?open_revs=all", "Accept", "multipart/mixed"))
	if strings.Count(all, "Content-Disposition") != 3 {
		t.Errorf("multipart/mixed without all attachments: %.500s", all)
	}
	since := s.Text(s.Ask("GET /db/a?open_revs=all&atts_since=%5B%221-l%22%5D", "Accept", "multipart/mixed"))
	if !strings.HasPrefix(since, "--H\r\nContent-Type: multipart/related; boundary=\"H\"\r\n\r\n--H\r\n") ||
		!strings.Contains(since, one+`"length":3,"stub":true}`) ||
		!strings.Contains(since, `"in":{"content_type":"application/octet-stream","revpos":2,`+
			`"digest":"md5-E7W/6W8+L+QRyfZvSlgq3w==","length":2,"follows":true}`) {
		t.Errorf("%.500s", since)
	}
	s.Want("GET /db/a?atts_since=%5B%222-m%22%5D", 200, s.Text(s.Ask("GET /db/a"))) // nothing is newer: all stubs
	// An edit carries the others over.
	edit := multi(`{"_rev":"2-m","_attachments":{"f":{"stub":true},"n":{"follows":true,"length":2}}}`, "nn")
	if got := s.putMulti("/db/a", edit); got != `{"ok":true,"id":"a","rev":"3-*"}` {
		t.Fatal(got)
	}
	s.Want("GET /db/a/f", 200, "one")
	s.Want("GET /db/a/n", 200, "nn")
}

// TestMultipartControlNames: CouchDB's replicator writes names and types of attachments into headers of parts as they
// are, also with control characters and quotes.
func TestMultipartControlNames(t *testing.T) {
	s := newSite(t)
	for i, c := range []struct{ name, kind, shown string }{
		{"a\nb", "text/plain", "text/plain"}, {"a", "text/plain\n", "text/plain_"}, {"\x01\x7f\"", "\n\tx\r", "__x_"},
		{"a\r", "x: \x00\r y", "x: __ y"}, {`";\`, `x; y="z"`, `x; y="z"`},
	} {
		name, _ := json.Marshal(c.name)
		kind, _ := json.Marshal(c.kind)
		body := fmt.Sprintf("--b\r\nContent-Type: application/json\r\n\r\n"+
			`{"_revisions":{"start":1,"ids":["a"]},"_attachments":{%s:{"content_type":%s,"follows":true,"length":3}}}`+
			"\r\n--b\r\nContent-Disposition: attachment; filename=\"%s\"\r\nContent-Type: %s\r\nContent-Length: 3\r\n"+
			"\r\n\r\n\x01\r\n--b--", name, kind, c.name, c.kind)
		want := fmt.Sprintf(`{"ok":true,"id":"%d","rev":"1-a"}`, i)
		if got := s.putMulti(fmt.Sprintf("/db/%d?new_edits=false", i), body); got != want {
			t.Errorf("%q %q: %s", c.name, c.kind, got)
		}
		answer := s.Ask(fmt.Sprintf("GET /db/%d/%s", i, url.PathEscape(c.name)))
		if got := s.Text(answer); got != "\r\n\x01" || answer.Header.Get("Content-Type") != c.shown {
			t.Errorf("%q %q: %q %q", c.name, c.kind, got, answer.Header)
		}
	}
}

// TestMultipartRefused: bodies that are not what they say leave nothing behind.
func TestMultipartRefused(t *testing.T) {
	var o Options
	s := newSite(t, func(opts *Options) { opts.Limits.Attachment = 3_000_000; o = *opts })
	big := strings.Repeat("x", 2_500_000)
	follows := func(length int) string {
		return fmt.Sprintf(`{"_attachments":{"f":{"follows":true,"length":%d}}}`, length)
	}
	for name, c := range map[string]struct{ body, want string }{
		"shorter": {multi(follows(4), "one"),
			`{"error":"bad_request","reason":"attachment shorter than expected"}`},
		"longer": {multi(follows(2), "one"),
			`{"error":"bad_request","reason":"attachment longer than expected"}`},
		"long and shorter": {multi(follows(2_600_000), big),
			`{"error":"bad_request","reason":"attachment shorter than expected"}`},
		"too large": {multi(follows(3_000_001), "one"), `{"error":"attachment_too_large","reason":"f"}`},
		"no part": {multi(follows(4)),
			`{"error":"bad_request","reason":"the request body cannot be read: EOF"}`},
		"more parts": {multi(`{}`, "one"),
			`{"error":"bad_request","reason":"there are more parts than attachments that follow"}`},
		"cut off in bytes": {multi(follows(2_500_000), big)[:2_000_000],
			`{"error":"bad_request","reason":"the request body cannot be read: unexpected EOF"}`},
		"cut off at end": {strings.TrimSuffix(multi(follows(3), "one"), "--b--"),
			`{"error":"bad_request","reason":"the request body cannot be read: unexpected EOF"}`},
		"no document": {"--b\r\n\r\n",
			`{"error":"bad_request","reason":"the request body cannot be read: unexpected EOF"}`},
		"empty": {"",
			`{"error":"bad_request","reason":"the request body cannot be read: multipart: NextPart: EOF"}`},
		"bad JSON": {multi(`{`, "one"), `{"error":"bad_request","reason":"invalid UTF-8 JSON"}`},
		"wrong digest": {multi(`{"_attachments":{"f":{"follows":true,"length":3,`+
			`"digest":"md5-AAAAAAAAAAAAAAAAAAAAAA=="}}}`, "one"),
			`{"error":"content_md5_mismatch","reason":"The bytes of attachment f do not match its digest."}`},
		"conflict": {multi(`{"_rev":"1-x","_attachments":{"f":{"follows":true,"length":2500000}}}`, big),
			`{"error":"conflict","reason":"Document update conflict."}`},
		"missing stub": {multi(`{"_attachments":{"f":{"follows":true,"length":2500000},"s":{"stub":true}}}`, big),
			`{"error":"missing_stub","reason":"Invalid attachment stub in a for s"}`},
	} {
		if got := s.putMulti("/db/a", c.body); got != c.want {
			t.Errorf("%s: %.200s", name, got)
		}
	}
	s.Fails("PUT /db/a --b--", 400, "bad_request", "multipart/related needs a boundary", "Content-Type",
		"multipart/related")
	s.Fails("PUT /db/a "+follows(3), 400, "bad_request", "Attachment f must follow in a multipart request")
	s.Fails("PUT /db/a/f "+strings.Repeat("x", 3_000_001), 413, "attachment_too_large", "f")
	chunked := io.MultiReader(strings.NewReader(strings.Repeat("x", 3_000_001))) // whose length is not told before
	if got := s.Text(s.Send("PUT", "/db/a/f", chunked)); got != `{"error":"attachment_too_large","reason":"f"}` {
		t.Errorf("in chunks: %.200s", got)
	}
	s.Want(`GET /db/_all_docs`, 200, `{"total_rows":0,"offset":0,"rows":[`+"\n\n]}")
	if n := o.leftKeys(t); n != 3 {
		t.Errorf("%d keys left in the store, want those of the empty database", n)
	}
}

// leftKeys counts the keys of the store after all uploads were swept.
func (o *Options) leftKeys(t *testing.T) int {
	t.Helper()
	n, err := kv.Run(t.Context(), o.Store, func(tx kv.Tx) (int, error) {
		swept, err := o.Docs.SweepUploads(tx, instant.Never, 10)
		if swept > 0 {
			t.Errorf("%d uploads were left behind", swept)
		}
		rows, err2 := tx.GetRange(kv.Range{Begin: []byte{0}, End: []byte{0xff}}, kv.RangeOptions{})
		if err == nil {
			err = err2
		}
		return len(rows) + 1, err // the first run has one more than two
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestManyInline brings more inline bytes than a transaction takes.
func TestManyInline(t *testing.T) {
	s := newSite(t)
	data := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), 60_000))
	doc := func(id string, n int) string {
		var atts []string
		for i := range n {
			atts = append(atts, fmt.Sprintf(`"%d":{"data":"%s"}`, i, data))
		}
		return fmt.Sprintf(`{"_id":"%s","_attachments":{%s}}`, id, strings.Join(atts, ","))
	}
	s.Want("PUT /db/a "+doc("a", 50), 201, `{"ok":true,"id":"a","rev":"1-*"}`)
	s.Want(fmt.Sprintf(`POST /db/_bulk_docs {"docs":[%s,%s,%s]}`, doc("b", 30), doc("c", 1), doc("d", 20)), 201,
		`[{"ok":true,"id":"b","rev":"1-*"},{"ok":true,"id":"c","rev":"1-*"},{"ok":true,"id":"d","rev":"1-*"}]`)
	var follow, parts []string
	for i := range 50 {
		follow = append(follow, fmt.Sprintf(`"%d":{"follows":true,"length":60000}`, i))
		parts = append(parts, strings.Repeat("y", 60_000))
	}
	many := `{"_attachments":{` + strings.Join(follow, ",") + `}}`
	if got := s.putMulti("/db/m", multi(many, parts...)); got != `{"ok":true,"id":"m","rev":"1-*"}` {
		t.Error(got)
	}
	s.Want("GET /db/m/49", 200, strings.Repeat("y", 60_000))
	s.Want("GET /db/a/49", 200, strings.Repeat("x", 60_000))
	s.Want("GET /db/b/0", 200, strings.Repeat("x", 60_000))
}

// forgetful is a store that keeps no bytes of attachments, so that memory can be measured.
type forgetful struct{ kv.Database }

type forgetfulTx struct{ kv.Transaction }

func (f forgetful) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return forgetfulTx{f.Database.Begin(ctx, o)}
}

func (f forgetfulTx) Set(key, value []byte) {
	if len(value) == 1<<16 {
		value = nil
	}
	f.Transaction.Set(key, value)
}

// endless makes n bytes and notes the largest heap on the way.
type endless struct {
	n    int64
	peak uint64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.n == 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), e.n)
	if e.n>>22 != (e.n-n)>>22 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		e.peak = max(e.peak, m.HeapAlloc)
	}
	e.n -= n
	clear(p[:n])
	return int(n), nil
}

// TestUploadMemory streams far more than it may hold.
func TestUploadMemory(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Store = forgetful{o.Store} })
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const size = 64 << 20
	body := &endless{n: size}
	answer := s.Send("PUT", "/db/a/f", body, "Content-Type", "b/x")
	if got := s.Text(answer); answer.StatusCode != http.StatusCreated {
		t.Fatal(got)
	}
	if used := int64(body.peak) - int64(before.HeapAlloc); used > 8<<20 {
		t.Errorf("%d MiB of heap for an upload of %d MiB", used>>20, size>>20)
	}
	s.Want("GET /db/a", 200,
		`{"_id":"a","_rev":"1-*","_attachments":{"f":{"content_type":"b/x","revpos":1,`+
			`"digest":"md5-f2FNqTKc066/WbkarcML8A==","length":67108864,"stub":true}}}`)
}

// TestAttachmentGone: a document changes while its attachment is read; the answer is cut off.
func TestAttachmentGone(t *testing.T) {
	for _, path := range []string{"/db/a/f", "/db/a?attachments=true"} {
		s := newSite(t)
		s.Want("PUT /db/a/f "+strings.Repeat("x", 16<<20), 201, `{"ok":true,"id":"a","rev":"1-*"}`)
		answer := s.Ask("GET " + path)
		if _, err := io.ReadFull(answer.Body, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		s.Want("DELETE /db/a?rev=$rev", 200, `{"ok":true,"id":"a","rev":"2-*"}`)
		if rest, err := io.ReadAll(answer.Body); err == nil && len(rest) < 16<<20-1000 {
			t.Errorf("%s: %d bytes were taken for the whole", path, len(rest)+1000)
		}
	}
}
