package couch

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"couchrelay/core/peer"
)

// TestCopyDocFromArray copies from a server that answers JSON, as PouchDB's does.
func TestCopyDocFromArray(t *testing.T) {
	const list = `{"x":{"revpos":1,"stub":true,"length":3},` +
		`"n/ew":{"content_type":"image/png","revpos":3,"digest":"md5-n","length":5,"stub":true}}`
	const doc = `{"_id":"doc","_rev":"3-c","_revisions":{"start":3,"ids":["c","b","a"]},"same":` + list +
		`,"_attachments":` + list + `}`
	source := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/db/doc":
			says(200, `[{"ok":`+doc+`},{"missing":"9-z"},{"ok":`+docWith("2-b")+`}]`)(w, r)
		case "/db/doc/x":
			_, _ = io.WriteString(w, "xxx")
		case "/db/doc/n/ew":
			if r.RequestURI != "/db/doc/n%2Few?rev=3-c" || r.Header.Get("Accept-Encoding") != "identity" {
				t.Errorf("asked %s %v", r.RequestURI, r.Header)
			}
			_, _ = io.WriteString(w, "12345")
		}
	}
	for _, c := range []struct {
		since []string
		known int // attachments that the target has
	}{{nil, 0}, {[]string{"1-a"}, 1}, {[]string{"2-b", "9-x"}, 1}, {[]string{"3-z"}, 0}, {[]string{"3-c"}, 2}} {
		target := &writes{t: t}
		inRig(t, source, target.serve, func(r *rig) {
			got := must[peer.Copied](r,
				peer.CopyDoc{ID: "doc", Revs: []string{"3-c", "9-z", "2-b"}, Since: c.since})
			want := []peer.CopiedRev{{Rev: "3-c"}, {Rev: "9-z", Missing: true}, {Rev: "2-b"}}
			if !reflect.DeepEqual(got.Revs, want) {
				t.Errorf("%+v", got)
			}
			if r.net.dials != 2 {
				t.Errorf("took %d connections", r.net.dials)
			}
		})
		// mime/multipart returns the part of a name behind its last slash.
		atts := []att{{name: "x", kind: "application/octet-stream", data: "xxx"},
			{name: "ew", kind: "image/png", data: "12345"}}
		mark := `"follows":true`
		if c.known > 0 {
			mark = `"stub":true`
		}
		sent := doc[:strings.Index(doc, `"_attachments"`)] +
			`"_attachments":{"x":{"revpos":1,"length":3,` + mark +
			`},"n/ew":{"content_type":"image/png","revpos":3,"digest":"md5-n","length":5,"follows":true}}}`
		if atts = atts[c.known:]; len(atts) == 0 { // as it came
			sent, atts = doc, nil
		}
		want := []written{{"/db/doc?new_edits=false", sent, atts},
			{"/db/doc?new_edits=false", docWith("2-b"), nil}}
		if !reflect.DeepEqual(target.list, want) {
			t.Errorf("since %v: wrote %+v\nwant %+v", c.since, target.list, want)
		}
	}
}

// TestCopyDocFromArrayFails: failures of attachment requests are the source's.
func TestCopyDocFromArrayFails(t *testing.T) {
	doc := `[{"ok":{"_id":"doc","_rev":"1-a","_attachments":{"x":{"revpos":1,"stub":true,"length":3}}}}]`
	for _, c := range []struct {
		name       string
		attachment http.HandlerFunc
		kind       peer.Kind
		reason     string
	}{
		{"gone", says(404, `{"error":"not_found","reason":"missing"}`), peer.Status, "missing"},
		{"short", says(200, "xx"), peer.Malformed, "shorter"},
		{"long", says(200, "xxxx"), peer.Malformed, "longer"},
		{"cut", raw("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nx"), peer.Broken, ""},
		{"silent", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "x")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, peer.TimedOut, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/db/doc" {
					says(200, doc)(w, r)
				} else {
					c.attachment(w, r)
				}
			}, says(201, `{"ok":true}`), func(r *rig) {
				f := r.do(peer.CopyDoc{ID: "doc", Revs: []string{"1-a"}}).Failure
				if f == nil || f.Side != peer.Source || f.Kind != c.kind ||
					!strings.Contains(f.Reason, c.reason) {
					t.Errorf("%v", f)
				}
			})
		})
	}
	for answer, reason := range map[string]string{
		`[{"x":1}]`: "neither a document nor", `[17]`: "neither", `{"ok":1}`: "where an array",
		`[{"ok":{"_id":"doc"}}]`:             "without _id or _rev",
		`[{"ok":{"_id":"doc","_rev":"1-a"}}`: "EOF",
	} {
		inRig(t, says(200, answer), says(201, `{"ok":true}`), func(r *rig) {
			f := r.do(peer.CopyDoc{ID: "doc", Revs: []string{"1-a"}}).Failure
			if f == nil || f.Side != peer.Source || !strings.Contains(f.Reason, reason) {
				t.Errorf("%s: %v", answer, f)
			}
		})
	}
}

// TestArrayFollows: nothing can follow a document in an array.
func TestArrayFollows(t *testing.T) {
	inRig(t, says(200, `[{"ok":`+docWith("2-b", attText)+`}]`), nil, func(r *rig) {
		f := r.do(peer.CopyDoc{ID: "doc", Revs: []string{"2-b"}}).Failure
		if f == nil || f.Kind != peer.Malformed ||
			!strings.Contains(f.Reason, `attachment "text.txt" is announced but does not follow`) {
			t.Errorf("%v", f)
		}
	})
}
