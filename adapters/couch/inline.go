package couch

import (
	"bytes"
	"encoding/base64"

	"github.com/go-json-experiment/json/jsontext"
)

// measure returns about how many bytes a document has when the attachments are inside of its body that the
// target lacks, 0 if that is unknown or cannot be, and whether they are inside already. since are the revisions
// that the target has: attachments that came with the newest of them in the document's history, or before it,
// are there, and remain stubs. A stub that does not say when it came counts as lacking.
//
// Attachments that the source has compressed cannot be inside: CouchDB sends them decoded then, and the target
// would store other bytes, with another digest, than the source has. Alone they are copied as they are.
func (s *scanner) measure(doc document, since []string) (size int, inside bool) {
	size, inside = len(doc.raw), true
	known, n, fits := 0, 0, true
	if len(since) > 0 {
		known = doc.newestOf(since)
	}
	s.buf = *bytes.NewBuffer(doc.attachments)
	s.decoder.Reset(&s.buf, lenient...)
	in := &stream{Decoder: &s.decoder}
	err := in.object(func(string) error {
		att, err := in.inlined()
		n++
		switch {
		case att.stub && !att.data && att.revpos > 0 && att.revpos <= known:
		case att.data && !att.stub && !att.encoded:
		case att.stub && !att.data && !att.encoded && att.length >= 0 && att.length <= maxDoc:
			inside = false
			size += base64.StdEncoding.EncodedLen(int(att.length))
		default:
			fits = false
		}
		return err
	})
	if err != nil || !fits || n > maxAttachments || size > maxDoc {
		return 0, false
	}
	return size, inside
}

// inlined is what decides whether an attachment is inside of a document, or may be.
type inlined struct {
	data    bool  // it is inside
	stub    bool  // it is only described
	encoded bool  // compressed, as the source has it
	length  int64 // -1 if unknown
	revpos  int   // 0 if unknown
}

// inlined reads the value of a member of _attachments. It copies nothing.
func (s *stream) inlined() (att inlined, err error) {
	att.length = -1
	err = s.object(func(name string) error {
		v, err := s.ReadValue()
		switch name {
		case "data":
			att.data = v.Kind() == jsontext.KindString
		case "stub":
			att.stub = v.Kind() == jsontext.KindTrue
		case "encoding":
			att.encoded = att.encoded || string(v) != `"identity"`
		case "length":
			att.length = size(v)
		case "revpos":
			att.revpos = int(max(0, size(v)))
		}
		return err
	})
	return att, err
}
