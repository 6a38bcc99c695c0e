package couchdb

import (
	"cmp"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
	"couchrelay/core/spec"
)

// flag reports whether a parameter is true.
func (q *request) flag(name string) bool { return q.Query.Get(name) == "true" }

// rev is the parameter rev or the header If-Match, which must not differ; zero when there is neither.
func (q *request) rev() (rev revtree.Rev, err error) {
	if q.Query.Has("rev") {
		if rev, err = docs.ParseRev(q.Query.Get("rev")); err != nil {
			return rev, err
		}
	}
	if tag := strings.Trim(q.Header.Get("If-Match"), `"`); tag != "" {
		match, err := docs.ParseRev(tag)
		if err != nil {
			return rev, err
		}
		if !rev.IsZero() && rev != match {
			return rev, web.BadRequest("Document rev and etag have different values")
		}
		rev = match
	}
	return rev, nil
}

// revs is a parameter that holds a JSON array of revisions; nil when there is none.
func (q *request) revs(name string) ([]revtree.Rev, error) {
	if !q.Query.Has(name) {
		return nil, nil
	}
	var list []string
	text := []byte(q.Query.Get(name))
	if !json.Valid(text) {
		return nil, docs.ErrJSON
	}
	if json.Unmarshal(text, &list) != nil {
		return nil, docs.ErrRev
	}
	return parseRevs(list)
}

func parseRevs(list []string) ([]revtree.Rev, error) {
	revs := make([]revtree.Rev, len(list))
	for i, s := range list {
		var err error
		if revs[i], err = docs.ParseRev(s); err != nil {
			return nil, err
		}
	}
	return revs, nil
}

// jsonBody reads a body that must be declared as JSON, and is parsed as a whole.
func (q *request) jsonBody() ([]byte, error) {
	body, err := q.JSONBody(q.Limits.Request)
	return body, cmp.Or(err, q.HoldParsed(body))
}

// readBody reads the whole body, decompressed, which is parsed as a whole.
func (q *request) readBody() ([]byte, error) {
	body, err := q.ReadBody(q.Limits.Request)
	return body, cmp.Or(err, q.HoldParsed(body))
}

// accepts reports whether the client takes answers of a content type.
func (q *request) accepts(kind string) bool {
	header := q.Header.Values("Accept")
	if len(header) == 0 {
		return true
	}
	major, _, _ := strings.Cut(kind, "/")
	for entry := range strings.SplitSeq(strings.Join(header, ","), ",") {
		accepted, params, err := mime.ParseMediaType(entry)
		if quality, err := strconv.ParseFloat(params["q"], 64); err == nil && quality == 0 || accepted == "" {
			continue
		}
		if err == nil && (accepted == kind || accepted == "*/*" || accepted == major+"/*") {
			return true
		}
	}
	return false
}

// do runs fn with the request's database open in a transaction.
func do[T any](q *request, fn func(tx kv.Tx, db *docs.Database) (T, error)) (T, error) {
	return doAt(q, kv.Options{}, fn)
}

func doAt[T any](q *request, o kv.Options, fn func(tx kv.Tx, db *docs.Database) (T, error)) (T, error) {
	return web.Run(q.Request, q.Store, o, func(tx kv.Tx) (T, error) {
		db, err := q.Docs.Open(tx, q.database)
		if err != nil {
			var none T
			return none, err
		}
		return fn(tx, db)
	})
}

// carry reads rows with documents, which count as memory until they are sent.
func carry[T any](
	q *request, size func(T) int64, fn func(tx kv.Tx, db *docs.Database) ([]T, error),
) (rows []T, err error) {
	err = q.Carry(func() (sum int64, err error) {
		rows, err = do(q, fn)
		for _, row := range rows {
			sum += size(row)
		}
		return sum, err
	})
	return rows, err
}

func sizeOfDocument(d *docs.Document) int64 {
	if d == nil {
		return 0
	}
	return int64(len(d.Body)) + perRevision*int64(len(d.Ancestors)) + perAttachment*int64(len(d.Attachments))
}

func sizeOfListed(r docs.Listed) int64 { return sizeOfDocument(r.Doc) }

func sizeOfChange(c docs.Change) int64 {
	size := sizeOfDocument(c.Doc)
	for _, d := range c.Leaves {
		size += sizeOfDocument(d)
	}
	return size
}

func sizeOfDiff(d docs.Diff) int64 { return perRevision * int64(len(d.Missing)+len(d.Ancestors)) }

func sizeOfOpened(answer []docs.Opened) (size int64) {
	for _, o := range answer {
		size += sizeOfDocument(o.Doc)
	}
	return size
}

// update writes edits, in as many transactions as it takes.
func (q *request) update(edits []docs.Edit) ([]docs.Written, error) {
	if q.Prepare != nil {
		if err := q.Prepare(q.Request, edits); err != nil {
			return nil, err
		}
	}
	all := make([]docs.Written, 0, len(edits))
	defer func(asked int) { note(q, asked, all) }(len(edits))
	for most := len(edits); len(edits) > 0; most = min(2*most, len(edits)) {
		some, err := updateSome(q, edits, &most)
		if err != nil {
			return all, err
		}
		if q.Wrote != nil {
			q.Wrote(q.Request, edits[:len(some)], some)
		}
		all, edits = append(all, some...), edits[len(some):]
	}
	return all, nil
}

// noted bounds the ids of documents that are recorded of a request.
const noted = 20

// note adds to what is recorded of the request which documents it wrote.
func note(q *request, asked int, written []docs.Written) {
	if len(written) == 1 && asked == 1 {
		if q.id == "" {
			q.Note("doc", written[0].ID)
		}
		return
	}
	var ids []string
	refused := asked - len(written)
	for _, w := range written {
		if w.Err != nil {
			refused++
		} else if len(ids) < noted {
			ids = append(ids, w.ID)
		}
	}
	q.Note("docs", ids)
	q.Note("asked", asked)
	q.Note("refused", refused)
}

// updateSome writes as many edits as one transaction should, at most as many as most. It first tries without asking the
// store for the newest version: the commit makes sure of what was read. Where an edit changed nothing there is no such
// commit, and another node may have written the document meanwhile. Each repetition tries half as many: nodes take jobs
// while their documents are deleted, and the more documents a transaction writes, the likelier it meets one of them.
func updateSome(q *request, edits []docs.Edit, most *int) ([]docs.Written, error) {
	write := q.Options.Write
	if write == nil {
		write = func(_ *web.Request, _ kv.Tx, db *docs.Database, edits []docs.Edit) ([]docs.Written, error) {
			return db.Update(edits)
		}
	}
	try := func(o kv.Options) ([]docs.Written, error) {
		repeated := false
		return doAt(q, o, func(tx kv.Tx, db *docs.Database) ([]docs.Written, error) {
			if repeated {
				*most = max(1, *most/2)
			}
			repeated = true
			written, err := write(q.Request, tx, db, edits[:min(len(edits), *most)])
			unchanged := func(w docs.Written) bool { return !w.Changed }
			if err == nil && o.Stale && slices.ContainsFunc(written, unchanged) {
				err = docs.ErrConflict
			}
			return written, err
		})
	}
	written, err := try(kv.Options{Stale: true})
	if _, refused := errors.AsType[*docs.Error](err); refused {
		return try(kv.Options{})
	}
	return written, err
}

// updateOne writes one edit.
func (q *request) updateOne(e docs.Edit) (docs.Written, error) {
	results, err := q.update([]docs.Edit{e})
	if err != nil {
		return docs.Written{}, err
	}
	if results[0].Err != nil {
		return results[0], results[0].Err
	}
	return results[0], nil
}

// location tells the client where the thing is that it made.
func (q *request) location(segments ...string) {
	scheme := "http"
	if q.TLS != nil {
		scheme = "https"
	}
	for i, s := range segments {
		segments[i] = spec.EscapeName(s)
	}
	q.W.Header().Set("Location", scheme+"://"+q.Host+"/"+strings.Join(segments, "/"))
}

// written answers a write. With batch=ok, as in CouchDB, the answer does not tell the revision; the document is written
// all the same.
func (q *request) written(status int, w docs.Written) error {
	if q.Query.Get("batch") == "ok" && q.Method != http.MethodDelete {
		q.W.Header().Del("ETag")
		return q.SendJSON(http.StatusAccepted, struct {
			OK bool   `json:"ok"`
			ID string `json:"id"`
		}{true, w.ID})
	}
	return q.SendJSON(status, okay{true, w.ID, w.Rev.String()})
}

// encode returns plain values as JSON.
func encode(value any) []byte {
	text, err := web.Encode(value)
	if err != nil {
		panic("couchdb: " + err.Error()) // strings, numbers and JSON that was read
	}
	return text
}

// unclosed returns a JSON object without its closing brace, for a member to follow that is streamed.
func unclosed(object []byte) []byte { return object[:len(object)-1] }
