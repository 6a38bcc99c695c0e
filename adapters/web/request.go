package web

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/kv"
)

// request is one request on its way.
type request struct {
	*http.Request
	*server
	w      http.ResponseWriter
	method string // HEAD counts as GET
	query  url.Values
	access Access

	database, id, attachment string // from the path
	// began says that the status line is written: an error can only cut the answer off.
	began bool
}

var notBuilt = &Error{Status: 501, Name: "not_implemented", Reason: "this feature is not yet implemented"}

// splitPath decodes a path's segments. An empty last one does not count.
func splitPath(escaped string) ([]string, error) {
	segments := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	if n := len(segments); n > 1 && segments[n-1] == "" {
		segments = segments[:n-1]
	}
	for i, s := range segments {
		var err error
		if segments[i], err = url.PathUnescape(s); err != nil {
			return nil, docs.BadRequest("the path has a malformed escape")
		}
	}
	return segments, nil
}

func parseQuery(raw string) (url.Values, error) {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, docs.BadRequest("malformed query string")
	}
	return query, nil
}

// flag says whether a parameter is true.
func (q *request) flag(name string) bool { return q.query.Get(name) == "true" }

// number is a parameter that is not negative.
func (q *request) number(name string, absent int64) (int64, error) {
	if !q.query.Has(name) {
		return absent, nil
	}
	n, err := strconv.ParseInt(q.query.Get(name), 10, 64)
	if err != nil || n < 0 {
		return 0, &Error{Status: 400, Name: "query_parse_error", Reason: "Invalid value for integer: " + strconv.Quote(q.query.Get(name))}
	}
	return n, nil
}

// rev is the parameter rev or the header If-Match, which must not differ; zero when there is neither.
func (q *request) rev() (rev revtree.Rev, err error) {
	if q.query.Has("rev") {
		if rev, err = docs.ParseRev(q.query.Get("rev")); err != nil {
			return rev, err
		}
	}
	if tag := strings.Trim(q.Header.Get("If-Match"), `"`); tag != "" {
		match, err := docs.ParseRev(tag)
		if err != nil {
			return rev, err
		}
		if !rev.IsZero() && rev != match {
			return rev, docs.BadRequest("Document rev and etag have different values")
		}
		rev = match
	}
	return rev, nil
}

// revs is a parameter that holds a JSON array of revisions; nil when there is none.
func (q *request) revs(name string) ([]revtree.Rev, error) {
	if !q.query.Has(name) {
		return nil, nil
	}
	var list []string
	text := []byte(q.query.Get(name))
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

// jsonBody reads a body that must be declared as JSON.
func (q *request) jsonBody() ([]byte, error) {
	if kind, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type")); kind != "application/json" {
		return nil, &Error{Status: 415, Name: "bad_content_type", Reason: "Content-Type must be application/json"}
	}
	return q.readBody()
}

// readBody reads the whole body, decompressed.
func (q *request) readBody() ([]byte, error) {
	if q.ContentLength > q.Limits.Request {
		return nil, errTooLarge
	}
	var body io.Reader = http.MaxBytesReader(q.w, q.Body, q.Limits.Request)
	switch encoding := strings.ToLower(q.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
	case "gzip":
		plain, err := gzip.NewReader(body)
		if err != nil {
			return nil, readError(err)
		}
		body = plain
	default:
		return nil, errEncoding
	}
	all, err := io.ReadAll(io.LimitReader(body, q.Limits.Request+1))
	if err != nil {
		return nil, readError(err)
	}
	if int64(len(all)) > q.Limits.Request {
		return nil, errTooLarge
	}
	return all, nil
}

// readError is what a body that cannot be read is answered with.
func readError(err error) error {
	if limit := (*http.MaxBytesError)(nil); errors.As(err, &limit) {
		return errTooLarge
	}
	return docs.BadRequest("the request body cannot be read: %v", err)
}

// accepts says whether the client takes answers of a content type.
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
	return doWith(q.Context(), q, fn)
}

func doWith[T any](ctx context.Context, q *request, fn func(tx kv.Tx, db *docs.Database) (T, error)) (T, error) {
	return kv.Run(ctx, q.Store, func(tx kv.Tx) (T, error) {
		db, err := q.Docs.Open(tx, q.database)
		if err != nil {
			var none T
			return none, err
		}
		return fn(tx, db)
	})
}

// update writes edits, in as many transactions as it takes.
func (q *request) update(edits []docs.Edit) ([]docs.Written, error) {
	write := q.access.Write
	if write == nil {
		write = func(_ kv.Tx, db *docs.Database, edits []docs.Edit) ([]docs.Written, error) { return db.Update(edits) }
	}
	all := make([]docs.Written, 0, len(edits))
	for len(edits) > 0 {
		some, err := do(q, func(tx kv.Tx, db *docs.Database) ([]docs.Written, error) { return write(tx, db, edits) })
		if err != nil {
			return all, err
		}
		all, edits = append(all, some...), edits[len(some):]
	}
	return all, nil
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

// show prepares a document for the client.
func (q *request) show(d *docs.Document) *docs.Document {
	if q.access.Show != nil && d != nil {
		q.access.Show(d)
	}
	return d
}
