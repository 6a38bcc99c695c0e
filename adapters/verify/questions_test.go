package verify

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// peek reads the body of a request, which can be read once more.
func peek(q *http.Request) []byte {
	body, _ := io.ReadAll(q.Body)
	q.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

// TestQuestionTooLong: a proxy takes no long questions, and the target cannot read some documents: questions are asked
// in parts, and what cannot be read is missing.
func TestQuestionTooLong(t *testing.T) {
	r, end := newRig(t)
	defer end()
	for i := range 12 {
		r.write("a", fmt.Sprint("doc", i), rev("a"))
	}
	server := *r.handler.Load()
	r.behind(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body := peek(q)
		switch {
		case q.Method == http.MethodPost && len(body) > 200:
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		case strings.HasSuffix(q.URL.Path, "/_revs_diff") && bytes.Contains(body, []byte("doc7")):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"bad_request","reason":"invalid UTF-8 JSON"}`)
		default:
			server.ServeHTTP(w, q)
		}
	}))
	got := r.run(r.comparison())
	if len(got) != 12 || !slices.Contains(got, "missing doc7 "+rev("a")) {
		t.Errorf("found %q", got)
	}
	r.behind(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, "/_revs_diff") {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		server.ServeHTTP(w, q)
	}))
	c := r.comparison()
	defer c.Client.Close()
	if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "413") {
		t.Errorf("no question is short enough: %v", err)
	}
}

// TestOneFails: a document for which each question fails is told of with the error, and the others are compared. Where
// all questions fail, or those about too many documents in a row, the comparison does.
func TestOneFails(t *testing.T) {
	r, end := newRig(t)
	defer end()
	for i := range 60 {
		r.write("a", fmt.Sprint("doc", i), rev("a"))
	}
	server := *r.handler.Load()
	compare := func(word string, fail http.HandlerFunc) (got []string, why string, err error) {
		r.behind(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			body := peek(q)
			ofChanges := strings.HasSuffix(q.URL.Path, "_changes") && bytes.Contains(body, []byte("doc4"))
			if ofChanges || strings.HasSuffix(q.URL.Path, "_revs_diff") && bytes.Contains(body, []byte(word)) {
				fail(w, q)
				return
			}
			server.ServeHTTP(w, q)
		}))
		c := r.comparison()
		defer c.Client.Close()
		c.Retries = 0
		c.Found = func(d Difference) error {
			got = append(got, fmt.Sprint(d.Kind, " ", d.ID))
			why += d.Error
			return nil
		}
		_, err = c.Run(t.Context())
		return got, why, err
	}
	status := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>no</html>", status) }
	}
	for why, fail := range map[string]http.HandlerFunc{
		"400": status(400), "403": status(403), "500": status(500), "malformed_response": status(200),
		"connection_closed": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		got, told, err := compare("doc7", fail)
		if err != nil || len(got) != 60 || !slices.Contains(got, "not_compared doc7") ||
			!slices.Contains(got, "missing doc4") || !strings.Contains(told, why) {
			t.Errorf("%s: found %q, told %q, %v", why, got, told, err)
		}
	}
	for _, c := range []struct {
		word  string
		fail  int
		found int
	}{{"doc7", 401, 0}, {"doc7", 404, 0}, {"{", 500, 0}, {"doc", 500, maxAlone}} {
		if got, _, err := compare(c.word, status(c.fail)); err == nil || len(got) != c.found {
			t.Errorf("%d for %s: found %q, %v", c.fail, c.word, got, err)
		}
	}
}
