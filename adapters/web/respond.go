package web

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"couchrelay/core/docs"
)

// fail answers with an error, or cuts an answer off that has begun.
func (q *request) fail(err error) {
	if q.began || q.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client must not take what it has for the whole
	}
	answer := errorOf(err)
	if answer.Status == http.StatusUnauthorized {
		q.w.Header().Set("WWW-Authenticate", `Basic realm="couchrelay"`)
	}
	_ = q.sendJSON(answer.Status, object("error", answer.Name, "reason", answer.Reason))
}

// object is a small JSON object of names and values, which may be raw JSON.
func object(pairs ...any) []byte {
	dst := []byte{'{'}
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(docs.AppendQuoted(dst, pairs[i].(string)), ':')
		dst = appendValue(dst, pairs[i+1])
	}
	return append(dst, '}')
}

func appendValue(dst []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		return docs.AppendQuoted(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case bool:
		return strconv.AppendBool(dst, v)
	case json.RawMessage:
		return append(dst, v...)
	case nil:
		return append(dst, "null"...)
	}
	panic("web: no JSON for this type")
}

// sendJSON answers with a JSON value.
func (q *request) sendJSON(status int, value []byte) error {
	q.begin(status, "application/json")
	_, err := q.w.Write(append(value, '\n'))
	return err
}

// begin writes the status line and headers.
func (q *request) begin(status int, contentType string) {
	h := q.w.Header()
	h.Set("Content-Type", contentType)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "must-revalidate")
	}
	q.w.WriteHeader(status)
	q.began = true
}

// location tells where what was made is.
func (q *request) location(segments ...string) {
	scheme := "http"
	if q.TLS != nil {
		scheme = "https"
	}
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	q.w.Header().Set("Location", scheme+"://"+q.Host+"/"+strings.Join(segments, "/"))
}

// unchanged answers 304 when the client has what tag names.
func (q *request) unchanged(tag string) bool {
	q.w.Header().Set("ETag", tag)
	for known := range strings.SplitSeq(q.Header.Get("If-None-Match"), ",") {
		if known = strings.TrimSpace(known); known == tag || known == "*" {
			q.w.WriteHeader(http.StatusNotModified)
			q.began = true
			return true
		}
	}
	return false
}

// written answers a write.
func (q *request) written(status int, w docs.Written) error {
	return q.sendJSON(status, object("ok", true, "id", w.ID, "rev", w.Rev.String()))
}
