package couchdb

import (
	"io"
	"net/http"
	"strings"
	"time"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/ejson"
	"couchrelay/core/kv"
	"couchrelay/core/mango"

	"github.com/go-json-experiment/json/jsontext"
)

// search is one request for documents that a selector matches, on its way.
type search struct {
	*request
	*findOptions
	began           time.Time
	examined, found int64
	last            string // bookmark behind the last document that was found
}

// find answers with documents that a selector matches. The selector sees what the client may see, or it would tell the
// client of what that may not see.
func find(q *request) error {
	s := &search{request: q, began: q.Clock.Now()}
	var err error
	if s.findOptions, err = readFind(q); err != nil {
		return err
	}
	if err := s.usable(); err != nil {
		return err
	}
	s.last = s.bookmark
	l, more := s.listing(), true
	for more && !s.bounds.None {
		var rows []docs.Listed
		rows, err := carry(q, sizeOfListed, func(_ kv.Tx, db *docs.Database) (rows []docs.Listed, err error) {
			rows, more, err = db.List(l)
			return rows, err
		})
		if err != nil {
			return err
		}
		if s.limit == 0 {
			break
		}
		if len(rows) > 0 {
			l.From, l.After = &rows[len(rows)-1].ID, true
		}
		for _, row := range rows {
			if err := s.look(row.Doc); err != nil {
				return err
			}
			if more = more && s.found < s.limit; s.found == s.limit {
				break
			}
		}
	}
	if s.bounds.None {
		if _, err := do(q, func(kv.Tx, *docs.Database) (struct{}, error) { return struct{}{}, nil }); err != nil {
			return err
		}
	}
	return s.end()
}

// look sends a document if the selector matches it. Design documents are never found.
func (s *search) look(d *docs.Document) error {
	if strings.HasPrefix(d.ID, "_design/") {
		return nil
	}
	if d = s.viewed(s.request, d); d == nil {
		return nil
	}
	s.examined++
	if chosen, err := matches(s.request, s.selector, d); err != nil || !chosen {
		return err
	}
	if s.skip > 0 {
		s.skip--
		return nil
	}
	if err := s.begin(); err != nil {
		return err
	}
	separator := ""
	if s.found > 0 {
		separator = ",\n"
	}
	text := asStubs(d).AppendJSON(nil, docs.Format{})
	if s.fields != nil {
		text = onlyFields(*s.fields, text)
	}
	s.found, s.last = s.found+1, bookmarkOf(d.ID)
	_, err := io.WriteString(s.W, separator+string(text))
	return err
}

// onlyFields returns some fields of a document.
func onlyFields(fields mango.Fields, document []byte) []byte {
	v, err := ejson.Parse(document, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return []byte("{}") // a body that cannot be read has no fields
	}
	return fields.Of(v).Append(nil)
}

func (s *search) begin() error {
	if s.Began() {
		return nil
	}
	s.Begin(http.StatusOK, "application/json")
	_, err := io.WriteString(s.W, `{"docs":[`+"\n")
	return err
}

// end sends what follows the documents.
func (s *search) end() error {
	if err := s.begin(); err != nil {
		return err
	}
	text := "\n],\n"
	if s.found == 0 {
		text = "],\n"
	}
	text += `"bookmark": ` + string(encode(s.last)) + ",\n"
	if s.stats {
		type stats struct {
			Keys   int64   `json:"total_keys_examined"`
			Docs   int64   `json:"total_docs_examined"`
			Quorum int64   `json:"total_quorum_docs_examined"`
			Found  int64   `json:"results_returned"`
			Time   float64 `json:"execution_time_ms"`
		}
		took := float64(s.Clock.Since(s.began).Microseconds()) / 1000
		text += `"execution_stats": ` + string(encode(stats{s.examined, s.examined, 0, s.found, took})) + ",\n"
	}
	text += `"warning": ` + string(encode(s.warnings(s.examined, s.found))) + "}\n"
	_, err := io.WriteString(s.W, text)
	return err
}

// indexes lists the one index that there is.
func indexes(q *request) error {
	limit, skip, err := q.Page(web.Unlimited)
	if err != nil {
		return err
	}
	if limit == 0 {
		return web.QueryError("limit must be at least 1")
	}
	if _, err := do(q, func(kv.Tx, *docs.Database) (struct{}, error) { return struct{}{}, nil }); err != nil {
		return err
	}
	list := []jsontext.Value{allIndex}
	return q.SendJSON(http.StatusOK, struct {
		Total   int              `json:"total_rows"`
		Indexes []jsontext.Value `json:"indexes"`
	}{1, list[min(skip, 1):]})
}

// noIndex refuses to make an index, which nothing here would use: a client that asks for one counts on it.
func noIndex(q *request) error {
	raw, err := q.jsonBody()
	if err != nil {
		return err
	}
	given := false
	err = objectMembers(raw, func(name string, d *jsontext.Decoder) error {
		given = given || name == "index"
		return skip(d)
	})
	switch {
	case err != nil:
		return err
	case !given:
		return invalid("missing_required_key", "Missing required key: index")
	}
	return web.NotImplemented("this service keeps no indexes of documents: _find looks at all of them, and " +
		"sorts by _id")
}

// noSuchIndex answers for indexes other than that of all documents, which is not to be deleted.
func noSuchIndex(q *request) error {
	_, err := do(q, func(kv.Tx, *docs.Database) (struct{}, error) { return struct{}{}, nil })
	if err != nil {
		return err
	}
	return web.ErrMissing
}
