package couchdb

import (
	"net/http/httptest"
	"strings"
	"testing"

	"couchrelay/adapters/web"
)

// TestManySmallElements: what a bulk request is made into counts as memory for bodies, which is many times the text.
func TestManySmallElements(t *testing.T) {
	h := New(Options{Limits: web.Limits{Memory: 10 << 20}})
	for _, path := range []string{"/db/_bulk_docs", "/db/_bulk_get"} {
		body := `{"docs":[` + strings.Repeat("{},", 100_000) + `{}]}`
		q := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(body))
		q.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, q)
		if w.Code != 503 || !strings.Contains(w.Body.String(), "max_body_memory") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
