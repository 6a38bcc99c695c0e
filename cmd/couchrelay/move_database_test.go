package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// TestLargeDocumentsMove: documents that are too large for one request together are copied in several, and one that is
// too large alone is refused, and keeps no other one from being copied.
func TestLargeDocumentsMove(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	r.want(200, "PUT", "_node/_local/_config/chttpd/max_http_request_size", `"300000"`)
	for i, size := range []int{100_000, 100_000, 400_000, 100_000, 100_000} {
		data := base64.StdEncoding.EncodeToString(make([]byte, size))
		couch.want(201, "PUT", fmt.Sprint("_replicator/large", i), couch.body(fmt.Sprintf(
			`,"paused":true,"_attachments":{"a":{"content_type":"x/y","data":%q}}`, data)))
	}
	said, err := r.shift(couch, true, nil)
	if !leftOut(err) || !strings.Contains(said, "large2 is refused: ") {
		t.Errorf("import: %v\n%s", err, said)
	}
	for _, id := range []string{"large0", "large1", "large3", "large4", "steady"} {
		r.want(200, "GET", "_replicator/"+id, "")
	}
	said, err = r.shift(couch, true, takeOver)
	if err == nil || !strings.Contains(err.Error(), "1 revision refused") {
		t.Errorf("taking over: %v\n%s", err, said)
	}
}

// TestLargeDocumentsMoveBehindAProxy: so it is where a proxy takes no large requests, and answers a page of its own.
func TestLargeDocumentsMoveBehindAProxy(t *testing.T) {
	t.Parallel()
	couch, r := pairToMove(t)
	for i, size := range []int{100_000, 100_000, 400_000} {
		data := base64.StdEncoding.EncodeToString(make([]byte, size))
		couch.want(201, "PUT", fmt.Sprint("_replicator/large", i), couch.body(fmt.Sprintf(
			`,"paused":true,"_attachments":{"a":{"content_type":"x/y","data":%q}}`, data)))
	}
	behind, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	behind.User = nil
	forward := httputil.NewSingleHostReverseProxy(behind)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.ContentLength > 200_000 {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			fmt.Fprint(w, "<html><title>413 Request Entity Too Large</title></html>")
			return
		}
		forward.ServeHTTP(w, q)
	}))
	defer proxy.Close()
	said, err := r.shift(couch, true, func(m *move) {
		m.Server = strings.Replace(proxy.URL, "://", "://adm:pass@", 1)
	})
	if !leftOut(err) || !strings.Contains(said, "large2 is refused: ") {
		t.Errorf("import: %v\n%s", err, said)
	}
	for _, id := range []string{"large0", "large1", "steady"} {
		r.want(200, "GET", "_replicator/"+id, "")
	}
}

// leftOut reports whether a move without a take-over fails because of one revision that it left behind.
func leftOut(err error) bool {
	return err != nil && strings.Contains(err.Error(), "1 revision refused, so their documents are not copied")
}

func TestReadAtMost(t *testing.T) {
	for text, long := range map[string]bool{"": false, "abc": false, "abcd": true} {
		raw, err := readAtMost(strings.NewReader(text), 3)
		if errors.Is(err, errLongAnswer) != long || !long && string(raw) != text {
			t.Errorf("%q: %q, %v", text, raw, err)
		}
	}
	if !isTooLarge(fmt.Errorf("documents: %w", errLongAnswer)) || isTooLarge(nil) {
		t.Error("what is too large for an answer is not told apart")
	}
}
