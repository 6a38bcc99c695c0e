package couch

import (
	"bytes"
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
	encoding    string // of the stored bytes, such as gzip; empty for none
	size        int64  // stored bytes, -1 when the server does not say
	length      int64  // bytes without the encoding, -1 when the server does not say
	revpos      int
	follows     bool
	stub        bool
	inflate     bool     // its encoding is undone on the way
	members     []member // all but stub and follows
}

type member struct {
	name  string
	value jsontext.Value
}

// maxAttachments bounds the attachments of one document.
const maxAttachments = 10_000

// readAttachments reads the value of _attachments. The order is that in which bodies follow.
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

// size reads a number of bytes or such, -1 if it is something else.
func size(v jsontext.Value) int64 {
	n, err := strconv.ParseInt(string(v), 10, 53)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// relate makes a multipart/related body of a document and the attachments that follow it; open gives
// their bytes when their turn comes.
func relate(doc []byte, follow []attachment, open func(attachment) (io.Reader, error)) body {
	boundary := newBoundary()
	head := fmt.Appendf(nil, "--%s\r\nContent-Type: application/json\r\n\r\n%s", boundary, doc)
	tail := fmt.Appendf(nil, "\r\n--%s--", boundary)
	b := body{contentType: `multipart/related; boundary="` + boundary + `"`, size: int64(len(head) + len(tail))}
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

// rewrite replaces a document's _attachments by list.
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

// header begins an attachment's part. CouchDB goes by the order of parts and reads no names; PouchDB
// goes by the name.
func (att attachment) header(boundary string) []byte {
	h := fmt.Appendf(nil, "\r\n--%s\r\nContent-Disposition: attachment; filename=\"%s\"\r\nContent-Type: %s\r\nContent-Length: %d\r\n",
		boundary, strings.ReplaceAll(oneLine(att.name), `"`, `\"`), oneLine(att.contentType), att.size)
	if att.encoding != "" && !att.inflate {
		h = fmt.Appendf(h, "Content-Encoding: %s\r\n", oneLine(att.encoding))
	}
	return append(h, "\r\n"...)
}

// oneLine keeps a name that holds line ends from adding headers. The JSON has it as it is.
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

// chain reads what each of its functions opens, one after the other.
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

// opened is a link of a chain that needs no opening.
func opened(data []byte) func() (io.Reader, error) {
	r := bytes.NewReader(data)
	return func() (io.Reader, error) { return r, nil }
}

// exactly reads an attachment and fails if it is longer or shorter than it should be.
type exactly struct {
	name string
	from io.Reader
	left int64
}

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
