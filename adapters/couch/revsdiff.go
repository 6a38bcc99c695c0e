package couch

import (
	"context"
	"net/http"
	"strings"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// maxAncestors bounds what is kept of all possible ancestors in one answer, in bytes. Without them
// attachments that the target has travel once more, which does no harm.
const maxAncestors = 8 << 20

// diffRevs asks about all documents in one request. The answer lists what was asked about and is
// missing, in the order and the spelling of the question.
func (e *endpoint) diffRevs(ctx context.Context, op peer.DiffRevs) (peer.Diff, *peer.Failure) {
	ids, revs := byID(op.Docs)
	r := request{method: http.MethodPost, path: "_revs_diff"}.posting(revsDiffBody(ids, revs))
	a, f := e.ask(ctx, r, http.StatusOK)
	if f != nil {
		return peer.Diff{}, f
	}
	found, err := newStream(a).missing(revs)
	if err != nil {
		defer a.close()
		return peer.Diff{}, a.broken(err)
	}
	a.finish()
	var diff peer.Diff
	for _, id := range ids {
		if d := found[id]; len(d.Missing) > 0 {
			diff.Docs = append(diff.Docs, d)
		}
	}
	return diff, nil
}

// byID joins what is asked about one document in several places, as JSON objects have each name once.
func byID(docs []peer.DocRevs) (ids []string, revs map[string][]string) {
	type leaf struct{ id, rev string }
	revs, known := make(map[string][]string, len(docs)), map[leaf]bool{}
	for _, d := range docs {
		if _, again := revs[d.ID]; !again {
			ids = append(ids, d.ID)
			revs[d.ID] = nil
		}
		for _, rev := range d.Revs {
			if l := (leaf{d.ID, rev}); !known[l] {
				known[l] = true
				revs[d.ID] = append(revs[d.ID], rev)
			}
		}
	}
	return ids, revs
}

func revsDiffBody(ids []string, revs map[string][]string) []byte {
	body := []byte{'{'}
	for i, id := range ids {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(appendQuoted(body, id), ':')
		body = appendStrings(body, revs[id])
	}
	return append(body, '}')
}

// appendStrings appends a JSON array of strings.
func appendStrings(dst []byte, texts []string) []byte {
	dst = append(dst, '[')
	for i, text := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendQuoted(dst, text)
	}
	return append(dst, ']')
}

// missing reads what the server says of documents, by their ids.
func (s *stream) missing(asked map[string][]string) (map[string]peer.DocMissing, error) {
	found, room := map[string]peer.DocMissing{}, maxAncestors
	err := s.object(func(id string) error {
		if _, again := found[id]; again || len(found) == len(asked) {
			return malformedf("answered about more documents than it was asked about, or about one twice: %q", clip(id, 60))
		}
		s.allow(maxItem)
		d, err := s.missingOf(id, asked[id], &room)
		found[id] = d
		return err
	})
	if err == nil {
		err = s.end()
	}
	return found, err
}

// missingOf reads what the server says of one document. Servers may print revisions in a spelling of
// their own; CouchDB prints 32 hex digits in lower case. Nobody knows which revision is meant by one that
// is none of those asked about, so then they all count as missing: to copy too much does no harm.
func (s *stream) missingOf(id string, asked []string, room *int) (peer.DocMissing, error) {
	d := peer.DocMissing{ID: id}
	lacks, unknown := make(map[string]bool, len(asked)), false
	for _, rev := range asked {
		lacks[strings.ToLower(rev)] = false
	}
	err := s.object(func(name string) error {
		switch name {
		case "missing":
			return s.eachText(func(rev string) {
				rev = strings.ToLower(rev)
				if _, known := lacks[rev]; known {
					lacks[rev] = true
				} else {
					unknown = true
				}
			})
		case "possible_ancestors":
			return s.eachText(func(rev string) {
				if *room -= sizeOf(rev); *room >= 0 {
					d.Ancestors = append(d.Ancestors, rev)
				}
			})
		}
		return s.SkipValue()
	})
	if err == nil && unknown && len(asked) == 0 {
		err = malformedf("answered that it lacks document %q, about which it was not asked", clip(id, 60))
	}
	for _, rev := range asked {
		if unknown || lacks[strings.ToLower(rev)] {
			d.Missing = append(d.Missing, rev)
		}
	}
	return d, err
}

// texts reads an array of strings.
func (s *stream) texts() (texts []string, err error) {
	err = s.eachText(func(text string) { texts = append(texts, text) })
	return texts, err
}

// eachText reads an array of strings. It calls take for each.
func (s *stream) eachText(take func(text string)) error {
	return s.array(func(int) error {
		if s.PeekKind() != jsontext.KindString {
			return malformedf("answered something else than a string at %q", s.StackPointer())
		}
		text, _, err := s.text()
		take(text)
		return err
	})
}
