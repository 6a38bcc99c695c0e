package couch

import (
	"context"
	"net/http"
	"strings"

	"couchrelay/core/peer"

	"github.com/go-json-experiment/json/jsontext"
)

// maxAncestors bounds the possible ancestors that are kept of one answer, in bytes. Those beyond it are
// dropped: the source then sends attachments again that the target has, which costs time and does no harm.
const maxAncestors = 8 << 20

// diffRevs asks the target which revisions it lacks, in one request. The result has them in the order and the
// spelling of the question, whatever the server's.
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

// byID merges the revisions of each document and drops repeated ones. The question is a JSON object, which
// has each document's id just once. ids are in the order of docs.
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

// missing reads the answer, and returns what the server lacks by document id. asked is the question.
func (s *stream) missing(asked map[string][]string) (map[string]peer.DocMissing, error) {
	const excess = "answered about more documents than it was asked about, or about one twice: %q"
	found, room := map[string]peer.DocMissing{}, maxAncestors
	err := s.object(func(id string) error {
		if _, again := found[id]; again || len(found) == len(asked) {
			return malformedf(excess, clip(id, 60))
		}
		s.allow(maxLeaves)
		d, err := s.missingOf(id, asked[id], &room)
		found[id] = d
		return err
	})
	if err == nil {
		err = s.end()
	}
	return found, err
}

// missingOf reads what the server lacks of one document. room is what is left of maxAncestors.
//
// A server may spell a revision otherwise than the question did: CouchDB prints hex digits in lower case. If
// a missing revision matches none of those asked about even so, it cannot be told which one is meant, and all
// count as missing: copying a revision that the target has does no harm, leaving one out loses it.
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

// eachText reads an array of strings and calls take for each.
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
