package couch

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
)

// att is an attachment in a test.
type att struct {
	name, kind, encoding string
	data                 string
	length               int // what the document says; the data's unless given
}

// mixed writes an answer to open_revs as CouchDB does.
type mixed struct{ out bytes.Buffer }

func (m *mixed) part(doc string, atts ...att) *mixed {
	if len(atts) == 0 {
		fmt.Fprintf(&m.out, "\r\n--outer\r\nContent-Type: application/json\r\n\r\n%s", doc)
		return m
	}
	fmt.Fprintf(&m.out, "\r\n--outer\r\nContent-Type: multipart/related; boundary=\"inner\"\r\n\r\n"+
		"--inner\r\nContent-Type: application/json\r\n\r\n%s\r\n--inner", doc)
	for _, a := range atts {
		fmt.Fprintf(&m.out, "\r\nContent-Disposition: attachment; filename=\"%s\"\r\nContent-Type: %s\r\n"+
			"Content-Length: %d\r\n\r\n%s\r\n--inner", a.name, a.kind, len(a.data), a.data)
	}
	m.out.WriteString("--")
	return m
}

func (m *mixed) missing(rev string) *mixed {
	fmt.Fprintf(&m.out, "\r\n--outer\r\nContent-Type: application/json; error=\"true\"\r\n\r\n{\"missing\":%q}", rev)
	return m
}

func (m *mixed) end() string { return strings.TrimPrefix(m.out.String(), "\r\n") + "\r\n--outer--" }

// docWith is a document whose attachments follow it.
func docWith(rev string, atts ...att) string {
	var members []string
	for i, a := range atts {
		length := len(a.data)
		if a.length != 0 {
			length = a.length
		}
		size := fmt.Sprintf(`"length":%d`, length)
		if a.encoding != "" {
			size = fmt.Sprintf(`"length":1000,"encoding":%q,"encoded_length":%d`, a.encoding, length)
		}
		members = append(members,
			fmt.Sprintf(`%q:{"content_type":%q,"revpos":%d,"digest":"md5-x",%s,"follows":true}`,
				a.name, a.kind, i+1, size))
	}
	generation, hash, _ := strings.Cut(rev, "-")
	doc := fmt.Sprintf(`{"_id":"doc","_rev":%q,"_revisions":{"start":%s,"ids":[%q,"parent"]},"n":1.0`,
		rev, generation, hash)
	if len(atts) > 0 {
		doc += `,"_attachments":{` + strings.Join(members, ",") + `}`
	}
	return doc + "}"
}

func saysMixed(answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", `multipart/mixed; boundary="outer"`)
		_, _ = io.WriteString(w, answer)
	}
}

// written is a PUT that a target got.
type written struct {
	uri, doc string
	atts     []att
}

// writes is a target that accepts documents and notes them.
type writes struct {
	t    *testing.T
	list []written
}

func (w *writes) serve(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || int64(len(body)) != r.ContentLength || len(r.TransferEncoding) > 0 {
		w.t.Errorf("PUT with %d bytes of %d: %v", len(body), r.ContentLength, err)
	}
	got := written{uri: r.RequestURI, doc: string(body)}
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "multipart/related" {
		if got = readWritten(w.t, r.RequestURI, body, params["boundary"]); len(got.atts) == 0 {
			w.t.Errorf("PUT of parts without an attachment: %s", body)
		}
	}
	w.list = append(w.list, got)
	says(201, `{"ok":true}`)(rw, r)
}

func readWritten(t *testing.T, uri string, body []byte, boundary string) written {
	got := written{uri: uri}
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for first := true; ; first = false {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return got
		}
		if err != nil {
			t.Errorf("PUT: %v", err)
			return got
		}
		data, _ := io.ReadAll(part)
		if first {
			got.doc = string(data)
			continue
		}
		if part.Header.Get("Content-Length") != fmt.Sprint(len(data)) {
			t.Errorf("attachment of %d bytes says %v", len(data), part.Header)
		}
		got.atts = append(got.atts, att{
			name: part.FileName(), kind: part.Header.Get("Content-Type"),
			encoding: part.Header.Get("Content-Encoding"), data: string(data),
		})
	}
}

var (
	attText = att{name: "text.txt", kind: "text/plain", data: "hello\r\n--innermost is no end\r\n"}
	attZip  = att{name: `q"uote ü`, kind: "text/html", encoding: "gzip",
		data: string([]byte{0x1f, 0x8b, 0, 255, 13, 10})}
	attOne  = att{name: "one", kind: "text/plain", data: "11"}
	attTwo  = att{name: "two", kind: "text/plain", data: "22"}
	attNone = att{name: "empty", kind: "image/png"}
)
