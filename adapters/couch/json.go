package couch

import (
	"encoding/json"
	"io"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxSmall bounds answers that are read whole: database descriptions and such.
	maxSmall = 1 << 20
	// maxLog bounds checkpoint logs: fifty entries of three sequences, which grow with the shards of a database.
	maxLog = 8 << 20
	// maxDesign bounds a design document that is read for its filter.
	maxDesign = 16 << 20
	// maxItem bounds one row or error of a longer answer.
	maxItem = 4 << 20
	// maxDoc bounds one document without its attachments. CouchDB's limit is 8 MB by default and was
	// 64 MB in 2.x.
	maxDoc = 128 << 20
)

// lenient are the options to read JSON that servers wrote: a name given twice and bytes that are not
// UTF-8 pass through as they would from CouchDB to CouchDB.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// stream reads an answer's JSON piece by piece, and no piece larger than what was last allowed.
type stream struct {
	*jsontext.Decoder
	from *allowance
}

// allowance is a reader that fails when more is read than was allowed.
type allowance struct {
	from io.Reader
	left int
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

// allow lets the next piece have up to size bytes.
func (s *stream) allow(size int) { s.from.left = size }

// object reads an object. For each member it calls visit, which reads the value.
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

// array reads an array. For each element it calls visit, which reads it.
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

// begin reads the opening bracket.
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

// text reads a string.
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

// sizeOf is about what texts take in memory.
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

// readJSON reads a small answer into v and ends it.
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
