package couch

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// document is a document's body as it came, with the members that replication needs of it.
type document struct {
	raw     []byte // a JSON object, never changed
	id, rev string // neither is empty
	// revisions and attachments are the values of _revisions and _attachments, nil when absent. They
	// share memory with raw.
	revisions, attachments jsontext.Value
	attachmentsAt          int // offset of attachments in raw
}

// scanner finds the members of documents, one document after the other. Using one scanner for many saves the
// decoder's buffers.
type scanner struct {
	buf     bytes.Buffer
	decoder jsontext.Decoder
}

// scan returns the document whose body is raw, which must be valid JSON. Values of a wrong type count as
// absent.
func (s *scanner) scan(raw []byte) (document, error) {
	d := document{raw: raw}
	s.buf = *bytes.NewBuffer(raw)
	s.decoder.Reset(&s.buf, lenient...)
	in := &stream{Decoder: &s.decoder}
	err := in.object(func(name string) (err error) {
		switch name {
		case "_id":
			d.id, _, err = in.text()
		case "_rev":
			d.rev, _, err = in.text()
		case "_revisions":
			d.revisions, err = in.ReadValue()
		case "_attachments":
			v, bad := in.ReadValue()
			if err = bad; v.Kind() == jsontext.KindBeginObject {
				d.attachments, d.attachmentsAt = v, int(in.InputOffset())-len(v)
			}
		default:
			err = in.SkipValue()
		}
		return err
	})
	if err == nil {
		err = in.end()
	}
	if err == nil && (d.id == "" || d.rev == "") {
		err = malformed("answered a document without _id or _rev")
	}
	return d, err
}

// hasAttachments reports whether the document has at least one attachment, stub or not.
func (d document) hasAttachments() bool {
	v := bytes.TrimSpace(d.attachments)
	return len(v) > 0 && v[0] == '{' && len(bytes.TrimSpace(v[1:])) > 1
}

// lineage returns a function that reports whether a revision is the document's own or in its history.
func (d document) lineage() func(rev string) bool {
	start, hashes := d.history()
	return func(rev string) bool { return rev == d.rev || generationIn(start, hashes, rev) > 0 }
}

// generationIn returns the generation of a revision, 0 if the history does not have it.
func generationIn(start int, hashes []string, rev string) int {
	generation, hash, _ := strings.Cut(rev, "-")
	n, err := strconv.Atoi(generation)
	if err != nil || n > start || start-n >= len(hashes) || hashes[start-n] != hash {
		return 0
	}
	return n
}

// history returns what _revisions says: the generation of the newest revision, and the hashes from there
// back. A value that cannot be read counts as no history.
func (d document) history() (start int, hashes []string) {
	if d.revisions == nil {
		return 0, nil
	}
	s := newStream(bytes.NewReader(d.revisions))
	err := s.object(func(name string) (err error) {
		switch name {
		case "start":
			var v jsontext.Value
			if v, err = s.ReadValue(); err == nil {
				start, err = strconv.Atoi(string(v))
			}
		case "ids":
			hashes, err = s.texts()
		default:
			err = s.SkipValue()
		}
		return err
	})
	if err != nil {
		return 0, nil
	}
	return start, hashes
}

// newestOf returns the generation of the newest of revs that is in the document's history, 0 if none of them
// is.
func (d document) newestOf(revs []string) int {
	start, hashes := d.history()
	newest := 0
	for _, rev := range revs {
		newest = max(newest, generationIn(start, hashes, rev))
	}
	return newest
}
