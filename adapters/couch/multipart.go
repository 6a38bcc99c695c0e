package couch

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// attachment is a member of _attachments.
type attachment struct {
	name        string
	contentType string
	encoding    string   // of the stored bytes, such as gzip; empty for none
	size        int64    // bytes to send, -1 if unknown: the stored ones, or the length if inflate
	length      int64    // bytes without the encoding, -1 if unknown
	revpos      int      // generation of the revision that brought it; 0 if unknown, -1 if it is no number
	follows     bool     // its bytes come behind the document
	stub        bool     // only described: the bytes are at the server
	inflate     bool     // its gzip is undone on the way, for a target that ignores Content-Encoding
	filename    string   // its name as the header of its part has it; empty for the usual spelling
	members     []member // as the server sent them, all but stub and follows
}

// member is a member of a JSON object.
type member struct {
	name  string
	value jsontext.Value
}

// maxAttachments bounds the attachments of one document. What is kept of each takes about 1 kB.
const maxAttachments = 100_000

// readAttachments reads the value of _attachments. The order of members is kept, because the attachments'
// bytes follow a document in that order.
func readAttachments(raw jsontext.Value) (list []attachment, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	s := newStream(bytes.NewReader(raw))
	s.allow(len(raw) + 1)
	err = s.object(func(name string) error {
		if len(list) == maxAttachments {
			return malformed("answered a document with too many attachments")
		}
		att := attachment{name: name, size: -1, length: -1, contentType: "application/octet-stream"}
		err := s.object(func(member string) error { return s.attachmentMember(&att, member) })
		if att.encoding == "" || att.size < 0 {
			att.size = att.length
		}
		if err == nil && att.follows && att.size < 0 {
			err = malformedf("attachment %q has no length", clip(name, 100))
		}
		list = append(list, att)
		return err
	})
	return list, err
}

// attachmentMember reads the value of one member of an attachment.
func (s *stream) attachmentMember(att *attachment, name string) error {
	v, err := s.ReadValue()
	if err != nil {
		return err
	}
	text, _ := jsontext.AppendUnquote(nil, v)
	switch name {
	case "follows":
		att.follows = v.Kind() == jsontext.KindTrue
		return nil
	case "stub":
		att.stub = v.Kind() == jsontext.KindTrue
		return nil
	case "content_type":
		att.contentType = string(text)
	case "encoding":
		att.encoding = string(text)
	case "length":
		att.length = size(v)
	case "encoded_length":
		att.size = size(v)
	case "revpos":
		att.revpos = int(size(v))
	}
	att.members = append(att.members, member{name, v.Clone()})
	return nil
}

// size returns a number that is not negative, -1 for any other value.
func size(v jsontext.Value) int64 {
	n, err := strconv.ParseInt(string(v), 10, 53)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// relate makes a multipart/related body of a document and the attachments that follow it. open is called for
// each attachment when its turn comes. The body's size is known in advance: the target must be told it, and
// an attachment that turns out longer or shorter fails the body (see exactly).
func relate(doc []byte, follow []attachment, open func(attachment) (io.Reader, error)) body {
	boundary := newBoundary()
	head := fmt.Appendf(nil, "--%s\r\nContent-Type: application/json\r\n\r\n%s", boundary, doc)
	tail := fmt.Appendf(nil, "\r\n--%s--", boundary)
	kind := `multipart/related; boundary="` + boundary + `"`
	b := body{contentType: kind, size: int64(len(head) + len(tail))}
	parts := chain{opened(head)}
	for _, att := range follow {
		header := att.header(boundary)
		b.size += int64(len(header)) + att.size
		parts = append(parts, opened(header), func() (io.Reader, error) {
			from, err := open(att)
			if err == nil && att.inflate {
				from, err = gzip.NewReader(from)
			}
			return &exactly{name: att.name, from: from, left: att.size}, err
		})
	}
	parts = append(parts, opened(tail))
	b.from = &parts
	return b
}

// rewrite returns a document's body with list as its _attachments. All other bytes stay as they are. An
// inflated attachment loses the members that describe its encoded bytes, the digest among them.
func rewrite(doc document, list []attachment) []byte {
	out := append([]byte(nil), doc.raw[:doc.attachmentsAt]...)
	out = append(out, '{')
	for i, att := range list {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(appendQuoted(out, att.name), `:{`...)
		for _, m := range att.members {
			if att.inflate && (m.name == "encoding" || m.name == "encoded_length" || m.name == "digest") {
				continue
			}
			out = append(append(appendQuoted(out, m.name), ':'), m.value...)
			out = append(out, ',')
		}
		switch {
		case att.follows:
			out = append(out, `"follows":true,`...)
		case att.stub:
			out = append(out, `"stub":true,`...)
		}
		out = append(bytes.TrimSuffix(out, []byte(",")), '}')
	}
	out = append(out, '}')
	return append(out, doc.raw[doc.attachmentsAt+len(doc.attachments):]...)
}

// header returns what begins an attachment's part. CouchDB tells attachments by the order of parts and reads
// no names; PouchDB tells them by name.
func (att attachment) header(boundary string) []byte {
	name := cmp.Or(att.filename, strings.ReplaceAll(oneLine(att.name), `"`, `\"`))
	h := fmt.Appendf(nil, "\r\n--%s\r\nContent-Disposition: attachment; filename=\"%s\"\r\n", boundary, name)
	h = fmt.Appendf(h, "Content-Type: %s\r\nContent-Length: %d\r\n", oneLine(att.contentType), att.size)
	if att.encoding != "" && !att.inflate {
		h = fmt.Appendf(h, "Content-Encoding: %s\r\n", oneLine(att.encoding))
	}
	return append(h, "\r\n"...)
}

// pouchName spells a name for PouchDB's server. In the header it reads %22 and references to characters by
// number, and it takes what follows the last backslash for the name. A name that differs from that in the
// document ends its process.
func pouchName(name string) string {
	var b strings.Builder
	for _, r := range name {
		if r < ' ' || r == 0x7f || strings.ContainsRune(`"%&`, r) {
			fmt.Fprintf(&b, "&#%d;", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// oneLine replaces control characters in a text that goes into a header: with a line end in it, an
// attachment's name could add headers. The document's JSON has the name as it is.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, text)
}

func newBoundary() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

// chain is a reader of the concatenation of what its functions open. Each is called when its turn comes; the
// first of the chain is the one being read.
type chain []func() (io.Reader, error)

func (c *chain) Read(p []byte) (int, error) {
	for len(*c) > 0 {
		from, err := (*c)[0]()
		if err != nil {
			return 0, err
		}
		(*c)[0] = func() (io.Reader, error) { return from, nil }
		n, err := from.Read(p)
		if err == io.EOF {
			*c = (*c)[1:]
			err = nil
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
	return 0, io.EOF
}

// opened returns a link of a chain for bytes in memory.
func opened(data []byte) func() (io.Reader, error) {
	r := bytes.NewReader(data)
	return func() (io.Reader, error) { return r, nil }
}

// exactly reads an attachment and fails if it is longer or shorter than announced. Without it, the next part
// would begin inside the announced body, and the target would store bytes of one attachment as another's.
type exactly struct {
	name string
	from io.Reader
	left int64 // bytes still to come
}

// Read reads the attachment. When all bytes have come, it reads one more to see the end.
func (e *exactly) Read(p []byte) (int, error) {
	var probe [1]byte
	if e.left == 0 {
		p = probe[:]
	}
	n, err := e.from.Read(p[:min(int64(len(p)), max(1, e.left))])
	e.left -= int64(n)
	switch {
	case e.left < 0:
		return 0, malformedf("attachment %q is longer than its length says", clip(e.name, 100))
	case err == io.EOF && e.left > 0:
		return n, malformedf("attachment %q is shorter than its length says", clip(e.name, 100))
	}
	return n, err
}
