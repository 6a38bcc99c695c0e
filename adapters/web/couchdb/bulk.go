package couchdb

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"

	"github.com/go-json-experiment/json/jsontext"
)

// objectMembers calls fn with every member of the object that body is; the value is still to be read
// from the decoder.
func objectMembers(body []byte, fn func(name string, d *jsontext.Decoder) error) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return notObject(err)
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return docs.ErrJSON
		}
		if err := fn(name.String(), d); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil { // the closing brace
		return docs.ErrJSON
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return docs.ErrJSON
	}
	return nil
}

func notObject(err error) error {
	if err != nil {
		return docs.ErrJSON
	}
	return web.BadRequest("Request body must be a JSON object")
}

// arrayElements calls fn with every element of the array that comes next.
func arrayElements(d *jsontext.Decoder, wrong error, fn func(element []byte) error) error {
	if kind := d.PeekKind(); kind != '[' {
		if kind == 0 {
			return docs.ErrJSON
		}
		return wrong
	}
	_, _ = d.ReadToken()
	for d.PeekKind() != ']' {
		element, err := d.ReadValue()
		if err != nil {
			return docs.ErrJSON
		}
		if err := fn(element); err != nil {
			return err
		}
	}
	_, _ = d.ReadToken()
	return nil
}

func skip(d *jsontext.Decoder) error {
	if d.SkipValue() != nil {
		return docs.ErrJSON
	}
	return nil
}

func decode(d *jsontext.Decoder, into any, wrong error) error {
	value, err := d.ReadValue()
	if err != nil {
		return docs.ErrJSON
	}
	if json.Unmarshal(value, into) != nil {
		return wrong
	}
	return nil
}

// parsedAtOnce is how many bytes of documents are parsed, and in memory as values, at a time. They are about as many
// as one transaction writes. A document that is larger is parsed alone.
const parsedAtOnce = 4 << 20

// together counts the values of documents that are parsed at the same time.
type together struct {
	size   int
	values int64
}

// hold takes memory for another document.
func (t *together) hold(q *request, raw []byte) error {
	if t.size += len(raw); t.size > parsedAtOnce {
		*t = together{size: len(raw)}
	}
	t.values += web.Values(raw)
	return q.HoldValues(t.values)
}

// Of each element of a bulk request there stay about as many bytes of memory besides its text, of which it may have two
// bytes: perElement, and more for the revisions that it names besides its own and for attachments.
const (
	perElement    = 500
	perRevision   = 60
	perAttachment = 300
)

var errNoArray = web.BadRequest("`docs` parameter must be an array.")

// bulkDocs writes many documents. With new_edits=false the answer has only the refused ones.
func (q *request) bulkDocs() error {
	body, err := q.JSONBody(q.Limits.Request)
	if err != nil {
		return err
	}
	edits, uploads, err := q.parseBulk(body)
	defer q.discard(uploads)
	if err != nil {
		return err
	}
	results, err := q.update(edits)
	if err != nil {
		return err
	}
	answer := []any{}
	for i, w := range results {
		switch {
		case w.Err == nil && edits[i].Replicated:
		case w.Err == nil:
			answer = append(answer, okay{true, w.ID, w.Rev.String()})
		case edits[i].Replicated:
			answer = append(answer, refused{w.ID, new(w.Rev.String()), w.Err.Name, w.Err.Reason})
		default:
			answer = append(answer, refused{w.ID, nil, w.Err.Name, w.Err.Reason})
		}
	}
	return q.SendJSON(http.StatusCreated, answer)
}

// okay answers a write.
type okay struct {
	OK  bool   `json:"ok"`
	ID  string `json:"id"`
	Rev string `json:"rev"`
}

// refused answers for one revision of a bulk request.
type refused struct {
	ID     string  `json:"id"`
	Rev    *string `json:"rev,omitzero"`
	Error  string  `json:"error"`
	Reason string  `json:"reason"`
}

// parseBulk reads the edits of a bulk request. What was uploaded is returned even with an error.
func (q *request) parseBulk(body []byte) (edits []docs.Edit, uploads []*docs.Upload, err error) {
	newEdits, given, some := true, false, together{}
	err = objectMembers(body, func(name string, d *jsontext.Decoder) error {
		switch name {
		case "new_edits":
			return decode(d, &newEdits, web.BadRequest("`new_edits` parameter must be a boolean."))
		case "all_or_nothing":
			if d.PeekKind() == 't' {
				return errNotBuilt
			}
		case "docs":
			given = true
			return arrayElements(d, errNoArray, func(raw []byte) error {
				if err := cmp.Or(q.Hold(perElement), some.hold(q, raw)); err != nil {
					return err
				}
				doc, err := q.parse(raw)
				if err == nil {
					err = q.Hold(perRevision*int64(len(doc.Ancestors)) + perAttachment*int64(len(doc.Attachments)))
				}
				if err != nil {
					return err
				}
				spooled, err := q.spool(doc, docs.MaxInline)
				uploads = append(uploads, spooled...)
				edits = append(edits, docs.Edit{Document: *doc})
				return err
			})
		}
		return skip(d)
	})
	if err == nil && !given {
		err = web.BadRequest("POST body must include `docs` parameter.")
	}
	if err != nil {
		return nil, uploads, err
	}
	for i := range edits {
		e := &edits[i]
		e.Replicated, e.Token = !newEdits, newToken()
		if e.Replicated && e.Rev.IsZero() {
			return nil, uploads, web.BadRequest(
				"When `new_edits: false`, the document needs `_rev` or `_revisions` specified")
		}
		if e.ID == "" {
			e.ID = newID()
		}
	}
	return edits, uploads, nil
}

// revsDiff answers which revisions are missing.
func (q *request) revsDiff() error {
	return q.diff("", "\n", func(d docs.Diff) any { return missing{texts(d.Missing), texts(d.Ancestors)} })
}

// missingRevs answers that, too, as clients of CouchDB 1 ask it.
func missingRevs(q *request) error {
	return q.diff(`{"missing_revs":`, "}\n", func(d docs.Diff) any { return texts(d.Missing) })
}

// diff finds the revisions of the body that are missing, and sends an object with what there is to tell of each
// document, in the order of the request. It streams the answer while it reads: to each document that is named belong
// all leaves that may be ancestors.
func (q *request) diff(before, after string, tell func(docs.Diff) any) error {
	wanted, err := readDiff(q)
	if err != nil {
		return err
	}
	separator := before + "{"
	for first := true; first || len(wanted) > 0; first = false { // an empty request fails too without the database
		compared := 0
		diffs, err := carry(q, sizeOfDiff, func(_ kv.Tx, db *docs.Database) (diffs []docs.Diff, err error) {
			diffs, compared, err = db.Diff(wanted)
			return diffs, err
		})
		if err != nil {
			return err
		}
		if !q.Began() {
			q.Begin(http.StatusOK, "application/json")
		}
		for _, d := range diffs {
			member := append(append(encode(d.ID), ':'), encode(tell(d))...)
			if _, err := io.WriteString(q.W, separator+string(member)); err != nil {
				return err
			}
			separator = ","
		}
		wanted = wanted[compared:]
	}
	if separator == "," {
		separator = ""
	}
	_, err = io.WriteString(q.W, separator+"}"+after)
	return err
}

// readDiff reads which revisions a client has.
func readDiff(q *request) (wanted []docs.Wanted, err error) {
	body, err := q.jsonBody()
	if err != nil {
		return nil, err
	}
	wrong := web.BadRequest("the revisions of a document must be an array of strings")
	err = objectMembers(body, func(id string, d *jsontext.Decoder) error {
		var list []string
		if err := decode(d, &list, wrong); err != nil {
			return err
		}
		revs, err := parseRevs(list)
		wanted = append(wanted, docs.Wanted{ID: id, Revs: revs})
		return err
	})
	return wanted, err
}

// missing says which revisions of a document the database lacks, and which it has that may be their
// ancestors.
type missing struct {
	Revs      []string `json:"missing"`
	Ancestors []string `json:"possible_ancestors,omitempty"`
}

func texts(revs []revtree.Rev) []string {
	list := make([]string, len(revs))
	for i, rev := range revs {
		list[i] = rev.String()
	}
	return list
}

// bulkWanted is one entry of a bulk read.
type bulkWanted struct {
	docs.Wanted
	since []revtree.Rev
	rev   string      // as the client spelled it
	err   *docs.Error // when the entry cannot be read
}

// bulkGet reads many documents. It streams the answer while it reads.
func (q *request) bulkGet() error {
	body, err := q.JSONBody(q.Limits.Request)
	if err != nil {
		return err
	}
	for _, name := range []string{"open_revs", "new_edits", "w", "rev", "atts_since"} {
		if q.Query.Has(name) {
			return web.BadRequest("\"%s\" query parameter is not acceptable", name)
		}
	}
	if !q.accepts("application/json") {
		return &web.Error{Status: 406, Name: "not_acceptable", Reason: "application/json is what can be sent"}
	}
	var wanted []bulkWanted
	given := false
	err = objectMembers(body, func(name string, d *jsontext.Decoder) error {
		if name != "docs" {
			return skip(d)
		}
		given = true
		return arrayElements(d, errNoArray, func(raw []byte) error {
			if err := cmp.Or(q.Hold(perElement), q.HoldParsed(raw)); err != nil {
				return err
			}
			w, err := parseWanted(raw)
			wanted = append(wanted, w)
			return cmp.Or(err, q.Hold(perRevision*int64(len(w.since))))
		})
	})
	if err == nil && !given {
		err = web.BadRequest("Missing JSON list of 'docs'.")
	}
	if err != nil {
		return err
	}
	return q.sendBulk(wanted)
}

func parseWanted(raw []byte) (bulkWanted, error) {
	var v struct {
		ID    *string
		Rev   *string
		Since []string `json:"atts_since"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return bulkWanted{}, web.BadRequest(
			"an element of `docs` must have the strings id and rev and the array atts_since")
	}
	w := bulkWanted{rev: "undefined"}
	if v.ID == nil {
		w.err = docs.BadRequest("document id missed")
		return w, nil
	}
	w.ID = *v.ID
	if v.Rev != nil {
		w.rev = *v.Rev
		rev, err := docs.ParseRev(w.rev)
		if w.Revs = []revtree.Rev{rev}; err != nil {
			w.err = docs.ErrRev
		}
	}
	since, err := parseRevs(v.Since)
	if w.since = since; err != nil {
		w.err = docs.ErrRev
	}
	return w, nil
}

// bulkAtOnce is how many entries of a _bulk_get are asked for at once: no transaction answers more of them.
const bulkAtOnce = 100

func (q *request) sendBulk(wanted []bulkWanted) error {
	s, err := q.shown()
	if err != nil {
		return err
	}
	separator := `{"results":[`
	for first := true; first || len(wanted) > 0; first = false {
		plain := make([]docs.Wanted, min(len(wanted), bulkAtOnce))
		for i, w := range wanted[:len(plain)] {
			if w.err == nil {
				plain[i] = w.Wanted
			}
		}
		answers, err := carry(q, sizeOfOpened, func(_ kv.Tx, db *docs.Database) ([][]docs.Opened, error) {
			return db.OpenRevs(plain, q.flag("latest"))
		})
		if err != nil {
			return err
		}
		q.viewAll(q, plain, answers)
		if !q.Began() {
			q.Begin(http.StatusOK, "application/json")
		}
		for i, answer := range answers {
			if _, err := io.WriteString(q.W, separator); err != nil {
				return err
			}
			separator = ","
			if err := q.writeBulk(wanted[i], answer, s); err != nil {
				return err
			}
		}
		wanted = wanted[len(answers):]
	}
	if separator != "," {
		_, _ = io.WriteString(q.W, separator)
	}
	_, err = io.WriteString(q.W, "]}\n")
	return err
}

func (q *request) writeBulk(w bulkWanted, answer []docs.Opened, s shown) error {
	refuse := func(rev, name, reason string) error {
		_, err := q.W.Write(encode(struct {
			Error refused `json:"error"`
		}{refused{w.ID, &rev, name, reason}}))
		return err
	}
	head := encode(struct {
		ID string `json:"id"`
	}{w.ID})
	if _, err := q.W.Write(append(unclosed(head), `,"docs":[`...)); err != nil {
		return err
	}
	if s.since = setOf(w.since); w.err != nil {
		answer = nil
		_ = refuse(w.rev, w.err.Name, w.err.Reason)
	} else if len(answer) == 0 {
		_ = refuse(w.rev, "not_found", "missing")
	}
	for i, o := range answer {
		if i > 0 {
			_, _ = io.WriteString(q.W, ",")
		}
		if o.Doc == nil {
			_ = refuse(o.Missing.String(), "not_found", "missing")
		} else if err := q.writeOK(o.Doc, s); err != nil {
			return err
		}
	}
	_, err := io.WriteString(q.W, "]}")
	return err
}
