package fuzz

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"
	"testing"

	"couchrelay/core/peer"
)

// mixed is an answer to open_revs as CouchDB gives it.
func mixed(parts ...string) []byte {
	return []byte("--outer" + strings.Join(parts, "\r\n--outer") + "\r\n--outer--")
}

func partOf(doc string, files ...string) string {
	if len(files) == 0 {
		return "\r\nContent-Type: application/json\r\n\r\n" + doc
	}
	text := "\r\nContent-Type: multipart/related; boundary=\"inner\"\r\n\r\n" +
		"--inner\r\nContent-Type: application/json\r\n\r\n" + doc + "\r\n--inner"
	for _, file := range files {
		text += fmt.Sprintf("\r\nContent-Disposition: attachment; filename=\"x\"\r\nContent-Length: %d\r\n\r\n"+
			"%s\r\n--inner", len(file), file)
	}
	return text + "--"
}

const (
	docWithFiles = `{"_id":"doc","_rev":"2-b","_revisions":{"start":2,"ids":["b","a"]},"n":1.50,"_attachments":{` +
		`"é\"x":{"content_type":"text/plain\n","revpos":2,"digest":"md5-x","length":5,"follows":true},` +
		`"old":{"content_type":"a/b","revpos":1,"digest":"md5-y","length":9,"stub":true},` +
		`"zip":{"content_type":"a/b","revpos":2,"digest":"md5-z","length":100,` +
		`"encoding":"gzip","encoded_length":4,"follows":true}}}`
	docAlone = `{"_id":"doc","_rev":"3-c","_revisions":{"start":3,"ids":["c","b","a"]},"_deleted":true}`
)

// FuzzOpenRevs answers open_revs with any bytes, as multipart or as JSON. The target is sent whole revisions
// of the document that was asked for, with the attachments that came.
func FuzzOpenRevs(f *testing.F) {
	const kind = `multipart/mixed; boundary="outer"`
	for _, answer := range recordings(f, "open_revs*") {
		f.Add([]byte(answer.body), "application/json", uint8(0))
	}
	f.Add(mixed(partOf(docWithFiles, "hello", "zip!"), partOf(docAlone),
		"\r\nContent-Type: application/json; error=\"true\"\r\n\r\n{\"missing\":\"7-x\"}"), kind, uint8(3))
	f.Add(mixed(partOf(docWithFiles, "hell", "zip!!"), partOf(docAlone)), kind, uint8(0))
	f.Add(mixed(partOf(docWithFiles, "hello")), kind, uint8(0))
	f.Add([]byte(`[{"ok":`+strings.ReplaceAll(docWithFiles, `"follows":true`,
		`"stub":true`)+`},{"missing":"7-x"}]`), "application/json", uint8(0))
	asked := []string{"2-b", "3-c", "7-x"}
	asIs := map[string]bool{string(mixed(partOf(docWithFiles, "hello", "zip!"))): true,
		string(mixed(partOf(docAlone))): true}
	for body := range asIs {
		f.Add([]byte(body), kind, uint8(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, kind string, piece uint8) {
		if strings.ContainsFunc(kind, func(r rune) bool { return r < ' ' || r > '~' }) {
			return
		}
		var target puts
		w := wire{piece: int(piece), answer: func(r *http.Request, sent []byte) []byte {
			switch {
			case r.Method == http.MethodPut:
				target.take(r, sent)
				return says(201, "application/json", []byte(`{"ok":true}`))
			case r.URL.Path != "/db/doc":
				return says(200, "text/plain", []byte("hello"))
			}
			return says(200, kind, body)
		}}
		w.pair(t, func(do func(peer.Op) peer.Reply) {
			reply := do(peer.CopyDoc{ID: "doc", Revs: asked, Since: []string{"1-a"}})
			copied, _ := reply.Result.(peer.Copied)
			if reply.Failure != nil && asIs[string(body)] && strings.HasSuffix(kind, `boundary="outer"`) {
				t.Fatal(reply.Failure)
			}
			written := 0
			for _, r := range copied.Revs {
				if !r.Missing {
					target.check(t, written, r.Rev)
					written++
				}
			}
			if reply.Failure == nil && written != len(target.bodies) {
				t.Fatalf("%d revisions in %d requests", written, len(target.bodies))
			}
			if len(copied.Revs) > 4*len(asked)+100+len(asked) {
				t.Fatalf("%d revisions for %d", len(copied.Revs), len(asked))
			}
			if docs, whole := plainMixed(body, kind); whole && reply.Failure == nil {
				target.compare(t, docs)
			}
		})
	})
}

// puts are the documents that a target got.
type puts struct {
	mu     sync.Mutex
	kinds  []string
	bodies [][]byte
}

func (p *puts) take(r *http.Request, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kinds, p.bodies = append(p.kinds, r.Method+" "+r.RequestURI+" "+r.Header.Get("Content-Type")),
		append(p.bodies, body)
}

// check checks one request: its document is the revision, and as many bytes follow as the document announces.
func (p *puts) check(t *testing.T, i int, rev string) {
	t.Helper()
	if i >= len(p.bodies) {
		t.Fatalf("%s is said to be written", rev)
	}
	kind, is := strings.CutPrefix(p.kinds[i], "PUT /db/doc?new_edits=false ")
	if !is {
		t.Fatalf("asked for %s", p.kinds[i])
	}
	doc, files := split(t, kind, p.bodies[i])
	if !unique(doc) {
		return
	}
	var d struct {
		ID  string `json:"_id"`
		Rev string `json:"_rev"`
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(doc, &members) != nil {
		t.Fatalf("sent %s", doc)
	}
	_, _ = json.Unmarshal(members["_id"], &d.ID), json.Unmarshal(members["_rev"], &d.Rev)
	if d.ID != "doc" || d.Rev != rev {
		t.Fatalf("sent %s as %s", doc, rev)
	}
	if problem := misfit(related{doc, files}); problem != "" {
		t.Fatalf("%s: %s", problem, doc)
	}
}

// misfit returns how the attachments that follow a document differ from those that it announces, empty if
// they do not.
func misfit(d related) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(d.doc, &members) != nil {
		return "no object"
	}
	follow := 0
	for dec := json.NewDecoder(bytes.NewReader(members["_attachments"])); ; {
		token, err := dec.Token()
		if err != nil {
			break
		}
		name, is := token.(string)
		if !is {
			continue
		}
		var a map[string]json.RawMessage
		if dec.Decode(&a) != nil || string(a["follows"]) != "true" {
			continue
		}
		if follow == len(d.files) {
			return fmt.Sprintf("%q does not follow", name)
		}
		size := a["length"]
		if encoded, is := a["encoded_length"]; is && len(a["encoding"]) > len(`""`) {
			size = encoded
		}
		if n := string(size); n != fmt.Sprint(len(d.files[follow])) && !strings.ContainsAny(n, "-.eE\"{[n") {
			return fmt.Sprintf("%q has %d bytes, not %s", name, len(d.files[follow]), n)
		}
		follow++
	}
	if follow != len(d.files) {
		return fmt.Sprintf("%d parts for %d attachments", len(d.files), follow)
	}
	return ""
}

// compare checks that the target got every document that the source sent, with the same attachments.
func (p *puts) compare(t *testing.T, docs []related) {
	t.Helper()
	sent := 0
	for _, d := range docs {
		if bytes.HasPrefix(bytes.TrimSpace(d.doc), []byte(`{"missing"`)) {
			continue
		}
		if sent == len(p.bodies) {
			t.Fatalf("%s was not sent", d.doc)
		}
		_, kind, _ := strings.Cut(p.kinds[sent], "false ")
		_, files := split(t, kind, p.bodies[sent])
		for i, file := range files {
			if i >= len(d.files) || !bytes.Equal(file, d.files[i]) {
				t.Fatalf("file %d became %q", i, file)
			}
		}
		sent++
	}
}

type related struct {
	doc   []byte
	files [][]byte
}

// split takes a request apart.
func split(t *testing.T, kind string, body []byte) (doc []byte, files [][]byte) {
	t.Helper()
	if kind == "application/json" {
		return body, nil
	}
	name, params, err := mime.ParseMediaType(kind)
	if err != nil || name != "multipart/related" {
		t.Fatalf("%s: %v", kind, err)
	}
	d, err := plainRelated(bytes.NewReader(body), params["boundary"])
	if err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return d.doc, d.files
}

// plainMixed reads an answer as the standard library does.
func plainMixed(body []byte, kind string) (docs []related, whole bool) {
	name, params, err := mime.ParseMediaType(kind)
	if err != nil || name != "multipart/mixed" {
		return nil, false
	}
	for parts := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
		part, err := parts.NextRawPart()
		if err != nil {
			return docs, err == io.EOF
		}
		name, params, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		var d related
		if name == "multipart/related" {
			d, err = plainRelated(part, params["boundary"])
		} else {
			d.doc, err = io.ReadAll(part)
		}
		if err != nil {
			return nil, false
		}
		docs = append(docs, d)
	}
}

func plainRelated(from io.Reader, boundary string) (d related, err error) {
	for parts := multipart.NewReader(from, boundary); ; {
		part, err := parts.NextRawPart()
		if err == io.EOF && d.doc != nil {
			return d, nil
		}
		if err != nil {
			return d, err
		}
		raw, err := io.ReadAll(part)
		if err != nil {
			return d, err
		}
		if d.doc == nil {
			d.doc = raw
		} else {
			d.files = append(d.files, raw)
		}
	}
}
