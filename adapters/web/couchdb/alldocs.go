package couchdb

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/kv"

	"github.com/go-json-experiment/json/jsontext"
)

// namespace is which documents a list is of: those whose ids begin with it; all but local ones if it is empty.
type namespace string

const (
	everything namespace = ""
	designs    namespace = "_design/"
	locals     namespace = "_local/"
)

// listOf returns the handler of a list.
func listOf(of namespace) func(*request) error {
	return func(q *request) error {
		if err := q.listParameters(); err != nil {
			return err
		}
		l, err := newLister(q, of)
		if err != nil {
			return err
		}
		if err := l.count(); err != nil {
			return err
		}
		return l.run("\n")
	}
}

// maxQueries bounds the lists that one request may ask for.
const maxQueries = 1000

// queriesOf returns the handler of several lists in one request.
func queriesOf(of namespace) func(*request) error {
	return func(q *request) error {
		list, err := readQueries(q, of)
		if err != nil {
			return err
		}
		for _, l := range list {
			if err := l.count(); err != nil {
				return err
			}
		}
		q.Begin(http.StatusOK, "application/json")
		separator := `{"results":[` + "\n"
		for _, l := range list {
			if _, err := io.WriteString(q.W, separator); err != nil {
				return err
			}
			if err := l.run(""); err != nil {
				return err
			}
			separator = ",\n"
		}
		if len(list) > 0 {
			separator = ""
		}
		_, err = io.WriteString(q.W, separator+"\n]}\n")
		return err
	}
}

// readQueries reads the member queries of the body: parameters of lists, each in the place of the request's own.
func readQueries(q *request, of namespace) (list []*lister, err error) {
	body, err := q.jsonBody()
	if err != nil {
		return nil, err
	}
	given := false
	wrong := web.BadRequest("`queries` must be an array of objects")
	err = objectMembers(body, func(name string, d *jsontext.Decoder) error {
		if name != "queries" {
			return skip(d)
		}
		given = true
		return arrayElements(d, wrong, func(raw []byte) error {
			if len(list) == maxQueries {
				return web.BadRequest("`queries` may have %d elements", maxQueries)
			}
			each, parameters := *q, *q.Request
			each.Request, parameters.Query = &parameters, url.Values{}
			if jsontext.Value(raw).Kind() != '{' {
				return wrong
			}
			if err := each.readParameters(bytes.Clone(raw)); err != nil {
				return err
			}
			l, err := newLister(&each, of)
			if err == nil {
				l.request = q
				list = append(list, l)
			}
			return err
		})
	})
	if err == nil && !given {
		err = web.BadRequest("Missing `queries` parameter, an array of objects with parameters of a list")
	}
	return list, err
}

// listParameters adds the parameters of the body of a POST to those of the query.
func (q *request) listParameters() error {
	if q.Method != http.MethodPost {
		return nil
	}
	body, err := q.jsonBody()
	if err != nil {
		return err
	}
	return q.readParameters(body)
}

// readParameters takes the members of an object for parameters. Those with ids and ranges stay JSON.
func (q *request) readParameters(body []byte) error {
	return objectMembers(body, func(name string, d *jsontext.Decoder) error {
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
}

// switchOf is a parameter that is true or false.
func (q *request) switchOf(name string, absent bool) (bool, error) {
	switch value := strings.ToLower(q.Query.Get(name)); {
	case value == "true", value == "false":
		return value == "true", nil
	case !q.Query.Has(name):
		return absent, nil
	default:
		return false, web.QueryError(name + " must be true or false")
	}
}

// lister answers with one list of documents.
type lister struct {
	*request
	of          namespace
	idRange                      // what is listed in order, and what is read of each
	keys        []jsontext.Value // what is listed by its ids, nil for a range
	limit, skip int64
	shown       *shown // nil when no documents are asked for
	updateSeq   bool

	info      docs.Info
	offset    *int64
	separator string
}

// newLister reads the parameters of a list.
func newLister(q *request, of namespace) (l *lister, err error) {
	l = &lister{request: q, of: of}
	for _, name := range []string{"attachments", "att_encoding_info"} {
		if _, err := q.switchOf(name, false); err != nil {
			return nil, err
		}
	}
	if l.updateSeq, err = q.switchOf("update_seq", false); err != nil {
		return nil, err
	}
	if l.limit, l.skip, err = q.Page(web.Unlimited); err != nil {
		return nil, err
	}
	if l.idRange, err = q.keyRange(); err != nil {
		return nil, err
	}
	if l.Docs, err = q.switchOf("include_docs", false); err != nil {
		return nil, err
	}
	if l.Conflicts, err = q.switchOf("conflicts", false); err != nil {
		return nil, err
	}
	if l.Docs {
		s, err := q.shown()
		if err != nil {
			return nil, err
		}
		l.shown = &s
	}
	return l, l.readKeys()
}

// readKeys reads the parameter keys. As in CouchDB, ids of another kind than the list's are left out.
func (l *lister) readKeys() error {
	text := l.Query.Get("keys")
	if text == "" {
		l.idRange.within(l.of)
		return nil
	}
	wrong := web.BadRequest("`keys` parameter must be an array.")
	if json.Unmarshal([]byte(text), &l.keys) != nil || l.keys == nil {
		return wrong
	}
	if l.Descending {
		return web.BadRequest("`keys` and descending cannot be combined")
	}
	if l.of == everything {
		return nil
	}
	kept := l.keys[:0]
	for _, key := range l.keys {
		if strings.HasPrefix(idOf(key), string(l.of)) {
			kept = append(kept, key)
		}
	}
	l.keys = kept
	return nil
}

// idOf is the id that a key is; a key that is no string names no document.
func idOf(key jsontext.Value) (id string) {
	_ = json.Unmarshal(key, &id)
	return id
}

// count reads what stands before the rows.
func (l *lister) count() (err error) {
	l.info, err = do(l.request, func(_ kv.Tx, db *docs.Database) (docs.Info, error) { return db.Info() })
	if err != nil || l.of == locals {
		return err
	}
	if l.keys == nil && l.From == nil && !l.empty {
		// Else the offset is unknown: counting would read all rows before the first.
		l.offset = new(min(l.skip, l.info.Docs))
	}
	if l.of == designs {
		return l.countDesigns()
	}
	return nil
}

// countDesigns counts the design documents, which are few.
func (l *lister) countDesigns() error {
	from := ""
	if l.From != nil && !l.Descending {
		from = *l.From
	}
	total, err := do(l.request, func(_ kv.Tx, db *docs.Database) (int64, error) {
		total, before, err := docs.CountDesigns(db, from)
		if l.keys == nil && !l.Descending {
			l.offset = new(min(before+l.skip, total))
		}
		return total, err
	})
	l.info.Docs = total
	return err
}

// run writes the list.
func (l *lister) run(end string) error {
	type head struct {
		Total     *int64  `json:"total_rows"`
		Offset    *int64  `json:"offset"`
		UpdateSeq *string `json:"update_seq,omitzero"`
	}
	h := head{Total: &l.info.Docs, Offset: l.offset}
	if l.of == locals {
		h.Total = nil
	}
	if l.updateSeq {
		h.UpdateSeq = new(l.info.UpdateSeq.String())
	}
	l.separator = string(unclosed(encode(h))) + `,"rows":[` + "\n"
	list := l.byRange
	if l.keys != nil {
		list = l.byID
	}
	if err := list(); err != nil {
		return err
	}
	begin := l.separator
	if begin == ",\r\n" {
		begin = ""
	}
	return l.write(begin + "\n]}" + end)
}

// write begins the answer if it has not begun, and goes on with it.
func (l *lister) write(text string) error {
	if !l.Began() {
		l.Begin(http.StatusOK, "application/json")
	}
	_, err := io.WriteString(l.W, text)
	return err
}

// byRange writes the rows of a range.
func (l *lister) byRange() error {
	skip, limit, more := l.skip, l.limit, !l.empty
	for more && limit > 0 {
		var rows []docs.Listed
		var err error
		if skip > 0 {
			rows, more, err = l.page(skip, false)
			skip -= int64(len(rows))
			rows = nil
		} else {
			rows, more, err = l.page(limit, l.Docs)
			limit -= int64(len(rows))
		}
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := l.row(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// page reads a page and moves the range behind it.
func (l *lister) page(limit int64, withDocs bool) (rows []docs.Listed, more bool, err error) {
	ask := l.Listing
	ask.Limit, ask.Docs = int(min(limit, 1<<20)), withDocs
	rest := ask
	rows, err = carry(l.request, sizeOfListed, func(_ kv.Tx, db *docs.Database) (rows []docs.Listed, err error) {
		if l.of == locals {
			rows, rest, more, err = docs.Locals(db, ask)
		} else {
			rows, more, err = db.List(ask)
		}
		return rows, err
	})
	if l.of == locals {
		l.From, l.After = rest.From, rest.After
	} else if len(rows) > 0 {
		l.From, l.After = &rows[len(rows)-1].ID, true
	}
	return rows, more, err
}

// byID writes the rows of ids.
func (l *lister) byID() error {
	keys := l.keys[min(l.skip, int64(len(l.keys))):]
	keys = keys[:min(l.limit, int64(len(keys)))]
	ids := make([]string, len(keys))
	for i, key := range keys {
		ids[i] = idOf(key)
	}
	for len(ids) > 0 {
		rows, err := carry(l.request, sizeOfListed, func(_ kv.Tx, db *docs.Database) ([]docs.Listed, error) {
			if l.of == locals {
				return docs.LocalsByID(db, ids)
			}
			return db.ListIDs(ids, l.Listing)
		})
		if err != nil {
			return err
		}
		for i, row := range rows {
			if row.Rev.IsZero() {
				err = l.raw(encode(struct {
					Key   jsontext.Value `json:"key"`
					Error string         `json:"error"`
				}{keys[i], "not_found"}))
			} else {
				err = l.row(row)
			}
			if err != nil {
				return err
			}
		}
		ids, keys = ids[len(rows):], keys[len(rows):]
	}
	return nil
}

func (l *lister) raw(row []byte) error {
	err := l.write(l.separator + string(row))
	l.separator = ",\r\n"
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

func (l *lister) row(r docs.Listed) error {
	text := encode(listRow{r.ID, r.ID, rowValue{r.Rev.String(), r.Deleted}})
	if l.shown == nil {
		return l.raw(text)
	}
	text = append(unclosed(text), `,"doc":`...)
	if r.Doc = l.viewed(l.request, r.Doc); r.Doc == nil { // the document is deleted, or not for this client
		return l.raw(append(text, "null}"...))
	}
	if err := l.raw(text); err != nil {
		return err
	}
	l.shown.mark(r.Doc, docs.Inline)
	if err := l.writeDocument(l.W, r.Doc, *l.shown); err != nil {
		return err
	}
	_, err := io.WriteString(l.W, "}")
	return err
}
