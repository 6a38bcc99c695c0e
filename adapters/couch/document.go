package couch

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// document is a document's body as it came and what replication must know of it.
type document struct {
	raw     []byte // a JSON object
	id, rev string
	// revisions and attachments are the values of _revisions and _attachments, nil when absent. They
	// are parts of raw.
	revisions, attachments jsontext.Value
	attachmentsAt          int // where in raw
}

// scanner finds the members of documents. It is used again for one document after the other.
type scanner struct {
	buf     bytes.Buffer
	decoder jsontext.Decoder
}

// scan looks at the members of raw, which is valid JSON. Values of a wrong type count as absent.
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
			d.attachments, err = in.ReadValue()
			d.attachmentsAt = int(in.InputOffset()) - len(d.attachments)
		default:
			err = in.SkipValue()
		}
		return err
	})
	if err == nil && (d.id == "" || d.rev == "") {
		err = malformed("answered a document without _id or _rev")
	}
	return d, err
}

// hasAttachments says whether there is at least one attachment, stub or not.
func (d document) hasAttachments() bool {
	v := bytes.TrimSpace(d.attachments)
	return len(v) > 0 && v[0] == '{' && len(bytes.TrimSpace(v[1:])) > 1
}

// lineage tells of revisions whether they are the document's own or in its history.
func (d document) lineage() func(rev string) bool {
	start, hashes := d.history()
	return func(rev string) bool {
		generation, hash, _ := strings.Cut(rev, "-")
		n, err := strconv.Atoi(generation)
		return rev == d.rev || err == nil && start >= n && start-n < len(hashes) && hashes[start-n] == hash
	}
}

// history reads _revisions: the generation of the newest and the hashes from there back.
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

// newestOf is the highest generation of those revisions that are in the document's history, 0 if none
// is.
func (d document) newestOf(revs []string) int {
	start, hashes := d.history()
	for i, hash := range hashes {
		generation := start - i
		if slices.Contains(revs, strconv.Itoa(generation)+"-"+hash) {
			return generation
		}
	}
	return 0
}
