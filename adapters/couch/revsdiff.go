package couch

import (
	"context"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"couchrelay/core/peer"
)

// diffRevs asks about all documents in one request. The answer lists what was asked about and is
// missing, in the order of the question: what else a server says is left out.
func (e *endpoint) diffRevs(ctx context.Context, op peer.DiffRevs) (peer.Diff, *peer.Failure) {
	ids, revs := byID(op.Docs)
	r := request{method: http.MethodPost, path: "_revs_diff"}.posting(revsDiffBody(ids, revs))
	a, f := e.ask(ctx, r, http.StatusOK)
	if f != nil {
		return peer.Diff{}, f
	}
	s := newStream(a)
	found := map[string]peer.DocMissing{}
	told := 0
	err := s.object(func(id string) error {
		if told++; told > len(ids) {
			return malformed("answered about more documents than it was asked about")
		}
		s.allow(maxItem)
		d, err := s.missing(id)
		d.Missing = slices.DeleteFunc(d.Missing, func(rev string) bool { return !slices.Contains(revs[id], rev) })
		if len(d.Missing) > 0 {
			found[id] = d
		}
		return err
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		defer a.close()
		return peer.Diff{}, a.broken(err)
	}
	a.finish()
	var diff peer.Diff
	for _, id := range ids {
		if d, missing := found[id]; missing {
			diff.Docs = append(diff.Docs, d)
		}
	}
	return diff, nil
}

// byID joins what is asked about one document in several places, as JSON objects have each name once.
func byID(docs []peer.DocRevs) (ids []string, revs map[string][]string) {
	revs = make(map[string][]string, len(docs))
	for _, d := range docs {
		known, again := revs[d.ID]
		if !again {
			ids = append(ids, d.ID)
		}
		for _, rev := range d.Revs {
			if !slices.Contains(known, rev) {
				known = append(known, rev)
			}
		}
		revs[d.ID] = known
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

// missing reads what the server says of one document.
func (s *stream) missing(id string) (peer.DocMissing, error) {
	d := peer.DocMissing{ID: id}
	err := s.object(func(name string) (err error) {
		switch name {
		case "missing":
			d.Missing, err = s.texts()
		case "possible_ancestors":
			d.Ancestors, err = s.texts()
		default:
			err = s.SkipValue()
		}
		return err
	})
	return d, err
}

// texts reads an array of strings.
func (s *stream) texts() (texts []string, err error) {
	err = s.array(func(int) error {
		if s.PeekKind() != jsontext.KindString {
			return malformedf("answered something else than a string at %q", s.StackPointer())
		}
		text, _, err := s.text()
		texts = append(texts, text)
		return err
	})
	return texts, err
}
