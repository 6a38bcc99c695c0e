package couch

import (
	"encoding/json"
	"io"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// All of these are in bytes. maxSmall bounds short answers that are read whole, such as database
	// descriptions.
	maxSmall = 1 << 20
	// maxLog bounds a checkpoint log. It has up to fifty entries with three sequences each, and a sequence
	// grows with the number of the database's shards.
	maxLog = 8 << 20
	// maxDesign bounds a design document that is read for its filter.
	maxDesign = 16 << 20
	// maxItem bounds an error or other element of a long answer.
	maxItem = 4 << 20
	// maxLeaves bounds what an answer says of all leaves of one document, a row of changes say. Each leaf takes
	// about 45 bytes, and a document may have hundreds of thousands.
	maxLeaves = 32 << 20
	// maxDoc bounds one document without its attachments. CouchDB's limit is 8 MB by default and was
	// 64 MB in 2.x.
	maxDoc = 128 << 20
)

// lenient are the options to read JSON that servers wrote. Repeated names and bytes that are not UTF-8 pass
// through, as they would between two CouchDBs: a document with either must be replicated.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// stream reads an answer's JSON piece by piece. Before each piece its reader calls allow, which bounds the
// memory that the decoder takes for it.
type stream struct {
	*jsontext.Decoder
	from *allowance
}

// allowance is a reader that fails with errTooLarge when more is read than was allowed.
type allowance struct {
	from io.Reader
	left int // bytes that may still be read
}

func (a *allowance) Read(p []byte) (int, error) {
	if a.left <= 0 {
		return 0, errTooLarge
	}
	n, err := a.from.Read(p)
	a.left -= n
	return n, err
}

func newStream(from io.Reader) *stream {
	a := &allowance{from, maxItem}
	return &stream{jsontext.NewDecoder(a, lenient...), a}
}

// allow lets the next piece have up to size bytes, from where the decoder has read to.
func (s *stream) allow(size int) { s.from.left = size }

// object reads an object. For each member it calls visit, which must read the value.
func (s *stream) object(visit func(name string) error) error {
	if err := s.begin(jsontext.KindBeginObject, "an object"); err != nil {
		return err
	}
	for s.PeekKind() != jsontext.KindEndObject {
		name, err := s.ReadToken()
		if err != nil {
			return err
		}
		if err := visit(name.String()); err != nil {
			return err
		}
	}
	_, err := s.ReadToken()
	return err
}

// array reads an array. For each element it calls visit, which must read it.
func (s *stream) array(visit func(i int) error) error {
	if err := s.begin(jsontext.KindBeginArray, "an array"); err != nil {
		return err
	}
	for i := 0; s.PeekKind() != jsontext.KindEndArray; i++ {
		if err := visit(i); err != nil {
			return err
		}
	}
	_, err := s.ReadToken()
	return err
}

// begin reads the opening bracket of an object or array. what names it in the error for another value.
func (s *stream) begin(kind jsontext.Kind, what string) error {
	got := s.PeekKind()
	if got == kind {
		_, err := s.ReadToken()
		return err
	}
	if got != jsontext.KindInvalid {
		return malformedf("answered JSON with %s where %s was expected, at %q", got, what, s.StackPointer())
	}
	if start := s.UnreadBuffer(); s.StackDepth() == 0 && len(start) > 0 {
		return notJSON(start)
	}
	_, err := s.ReadToken()
	if err == io.EOF {
		return notJSON(nil)
	}
	return err
}

// text reads a string, and reports whether the value is one. Any other value is skipped.
func (s *stream) text() (string, bool, error) {
	if s.PeekKind() != jsontext.KindString {
		return "", false, s.SkipValue()
	}
	t, err := s.ReadToken()
	if err != nil {
		return "", false, err
	}
	return t.String(), true, nil
}

// sizeOf returns about how many bytes of memory texts take.
func sizeOf(texts ...string) (size int) {
	const header = 16
	for _, text := range texts {
		size += header + len(text)
	}
	return size
}

// end reads what follows the last value, which must be nothing.
func (s *stream) end() error {
	_, err := s.ReadToken()
	if err == io.EOF {
		return nil
	}
	if err == nil {
		return malformed("answered more than one JSON value")
	}
	return err
}

// readJSON decodes an answer of up to limit bytes into v, and ends it.
func (a *answer) readJSON(limit int64, v any) *peer.Failure {
	defer a.finish()
	body, err := a.readAll(limit)
	if err != nil {
		return a.broken(err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		if !json.Valid(body) {
			err = notJSON(body)
		} else {
			err = malformedf("answered JSON of another shape than expected: %v", err)
		}
		return a.broken(err)
	}
	return nil
}
