package couchdb

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/kv"

	"github.com/go-json-experiment/json/jsontext"
)

// allDocs lists documents, by their order or by their ids.
func (q *request) allDocs() error {
	keys, given, err := q.listKeys()
	if err != nil {
		return err
	}
	if given {
		return q.listByID(keys)
	}
	list, err := q.keyRange()
	if err != nil {
		return err
	}
	limit, skip, err := q.Page(web.Unlimited)
	if err != nil {
		return err
	}
	return q.listRange(list, limit, skip)
}

// listKeys are the ids that are asked for, by the query or a body. Other members of a body count as
// parameters.
func (q *request) listKeys() (keys []jsontext.Value, given bool, err error) {
	wrong := web.BadRequest("`keys` parameter must be an array.")
	if text := q.Query.Get("keys"); text != "" {
		if json.Unmarshal([]byte(text), &keys) != nil {
			return nil, false, wrong
		}
		given = true
	}
	if q.Method != http.MethodPost {
		return keys, given, nil
	}
	body, err := q.jsonBody()
	if err != nil {
		return nil, false, err
	}
	err = objectMembers(body, func(name string, d *jsontext.Decoder) error {
		if name == "keys" {
			given = true
			return decode(d, &keys, wrong)
		}
		value, err := d.ReadValue()
		if err != nil {
			return docs.ErrJSON
		}
		text := string(value)
		if !strings.Contains(name, "key") && value.Kind() == '"' {
			_ = json.Unmarshal(value, &text)
		}
		q.Query.Set(name, text)
		return nil
	})
	return keys, given, err
}

// idRange is a range of ids.
type idRange struct {
	docs.Listing
	empty bool
}

// keyRange reads key, start_key, end_key, inclusive_end and descending.
func (q *request) keyRange() (r idRange, err error) {
	r.Descending = q.flag("descending")
	r.Before = q.Query.Get("inclusive_end") == "false"
	if r.From, err = q.key(&r, !r.Descending, "key", "start_key", "startkey"); err != nil {
		return r, err
	}
	if q.Query.Has("key") {
		r.To = r.From
		return r, nil
	}
	r.To, err = q.key(&r, r.Descending, "end_key", "endkey")
	return r, err
}

// key is the first of some parameters that is given. What is no string lies before all ids; lower says
// that the key bounds the range from below.
func (q *request) key(r *idRange, lower bool, names ...string) (*string, error) {
	for _, name := range names {
		text := q.Query.Get(name)
		if text == "" {
			continue
		}
		if !jsontext.Value(text).IsValid() {
			return nil, docs.ErrJSON
		}
		var key string
		if json.Unmarshal([]byte(text), &key) == nil && text != "null" {
			return &key, nil
		}
		r.empty = r.empty || !lower || name == "key"
		return nil, nil
	}
	return nil, nil
}

func (r *idRange) contains(id string) bool {
	from, to := r.From, r.To
	if r.Descending {
		from, to = to, from
	}
	beyond := to != nil && (id > *to || id == *to && r.Before && !r.Descending)
	return !r.empty && !beyond && (from == nil || *from < id || *from == id && !(r.Before && r.Descending))
}

func (q *request) listRange(r idRange, limit, skip int64) error {
	l, s, err := q.listing(r.Listing)
	if err != nil {
		return err
	}
	info, err := do(q, func(_ kv.Tx, db *docs.Database) (docs.Info, error) { return db.Info() })
	if err != nil {
		return err
	}
	var offset *int64 // unknown when the list begins at a key: counting would read all rows before it
	if l.From == nil && !r.empty {
		offset = new(min(skip, info.Docs))
	}
	w := q.rows(info, offset)
	more := !r.empty
	for more && skip > 0 {
		var rows []docs.Listed
		if rows, more, err = q.list(&l, skip, false); err != nil {
			return err
		}
		skip -= int64(len(rows))
	}
	for more && limit > 0 {
		var rows []docs.Listed
		if rows, more, err = q.list(&l, limit, s != nil); err != nil {
			return err
		}
		limit -= int64(len(rows))
		for _, row := range rows {
			if err := w.row(row, s); err != nil {
				return err
			}
		}
	}
	return w.end()
}

// list reads a page and moves the listing behind it.
func (q *request) list(l *docs.Listing, limit int64, withDocs bool) (rows []docs.Listed, more bool, err error) {
	l.Limit, l.Docs = int(min(limit, 1<<20)), withDocs
	rows, err = do(q, func(_ kv.Tx, db *docs.Database) (rows []docs.Listed, err error) {
		rows, more, err = db.List(*l)
		return rows, err
	})
	if len(rows) > 0 {
		l.From, l.After = &rows[len(rows)-1].ID, true
	}
	return rows, more, err
}

// listing completes a listing; shown is nil when no documents are asked for.
func (q *request) listing(l docs.Listing) (docs.Listing, *shown, error) {
	if !q.flag("include_docs") {
		return l, nil, nil
	}
	s, err := q.shown()
	return l, &s, err
}

func (q *request) listByID(keys []jsontext.Value) error {
	limit, skip, err := q.Page(web.Unlimited)
	if err != nil {
		return err
	}
	_, s, err := q.listing(docs.Listing{})
	if err != nil {
		return err
	}
	if q.flag("descending") {
		return web.BadRequest("`keys` and descending cannot be combined")
	}
	keys = keys[min(skip, int64(len(keys))):]
	keys = keys[:min(limit, int64(len(keys)))]
	ids := make([]string, len(keys))
	for i, key := range keys {
		_ = json.Unmarshal(key, &ids[i]) // a key that is no string names no document
	}
	info, err := do(q, func(_ kv.Tx, db *docs.Database) (docs.Info, error) { return db.Info() })
	if err != nil {
		return err
	}
	w := q.rows(info, nil)
	for len(ids) > 0 {
		rows, err := do(q, func(_ kv.Tx, db *docs.Database) ([]docs.Listed, error) {
			return db.ListIDs(ids, s != nil)
		})
		if err != nil {
			return err
		}
		for i, row := range rows {
			if row.Rev.IsZero() {
				err = w.raw(encode(struct {
					Key   jsontext.Value `json:"key"`
					Error string         `json:"error"`
				}{keys[i], "not_found"}))
			} else {
				err = w.row(row, s)
			}
			if err != nil {
				return err
			}
		}
		ids, keys = ids[len(rows):], keys[len(rows):]
	}
	return w.end()
}

// rowWriter writes the answer of a list.
type rowWriter struct {
	q         *request
	separator string
}

// rows begins the answer.
func (q *request) rows(info docs.Info, offset *int64) *rowWriter {
	q.Begin(http.StatusOK, "application/json")
	head := encode(struct {
		Total  int64  `json:"total_rows"`
		Offset *int64 `json:"offset"`
	}{info.Docs, offset})
	return &rowWriter{q, string(unclosed(head)) + `,"rows":[` + "\n"}
}

func (w *rowWriter) raw(row []byte) error {
	_, err := io.WriteString(w.q.W, w.separator+string(row))
	w.separator = ",\r\n"
	return err
}

// listRow is a row of a list; the document may follow.
type listRow struct {
	ID    string   `json:"id"`
	Key   string   `json:"key"`
	Value rowValue `json:"value"`
}

type rowValue struct {
	Rev     string `json:"rev"`
	Deleted bool   `json:"deleted,omitzero"`
}

func (w *rowWriter) row(r docs.Listed, s *shown) error {
	text := encode(listRow{r.ID, r.ID, rowValue{r.Rev.String(), r.Deleted}})
	if s == nil {
		return w.raw(text)
	}
	text = append(unclosed(text), `,"doc":`...)
	if r.Doc = w.q.viewed(w.q, r.Doc); r.Doc == nil { // the document is deleted, or not for this client
		return w.raw(append(text, "null}"...))
	}
	if err := w.raw(text); err != nil {
		return err
	}
	s.mark(r.Doc, docs.Inline)
	if err := w.q.writeDocument(w.q.W, r.Doc, *s); err != nil {
		return err
	}
	_, err := io.WriteString(w.q.W, "}")
	return err
}

func (w *rowWriter) end() error {
	begin := w.separator
	if begin == ",\r\n" {
		begin = ""
	}
	_, err := io.WriteString(w.q.W, begin+"\n]}\n")
	return err
}
