package fuzz

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"couchrelay/adapters/web/couchdb"
	"couchrelay/core/docs"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"
)

// FuzzUpload sends any bytes as a document with attachments. An accepted document comes back whole; a refused
// one is the client's fault, leaves nothing behind, and is answered with CouchDB's error words.
func FuzzUpload(f *testing.F) {
	whole := func(doc string, files ...string) []byte {
		_, body, _ := bytes.Cut([]byte(partOf(doc, files...)), []byte("\r\n\r\n"))
		return body
	}
	f.Add(whole(docWithFiles, "hello", "zip!"), `multipart/related; boundary="inner"`)
	f.Add(whole(`{"_id":"doc","_rev":"1-a","_attachments":{"f":{"length":5,"follows":true},"g":{"data":"aGVsbG8="}}}`,
		"hello"), `multipart/related; boundary="inner"`)
	f.Add(whole(`{"_id":"doc","_rev":"1-a","_attachments":{"f":{"length":4,"follows":true}}}`, "hello"),
		`multipart/related; boundary="inner"`)
	f.Add(whole(docAlone, "hello"), `multipart/related; boundary=inner`)
	f.Add([]byte(docAlone), "application/json")
	f.Fuzz(func(t *testing.T, body []byte, kind string) {
		server := couchdb.New(couchdb.Options{Store: fakefdb.New(), Docs: docs.New(tuple.Subspace("docs")),
			UUID: "u"})
		ask := func(method, path, kind, accept string, body []byte) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), method, path, bytes.NewReader(body))
			r.Header.Set("Content-Type", kind)
			r.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			server.ServeHTTP(w, r)
			return w
		}
		ask(http.MethodPut, "/db", "application/json", "application/json", nil)
		put := ask(http.MethodPut, "/db/doc?new_edits=false", kind, "application/json", body)
		got := ask(http.MethodGet, "/db/doc?open_revs=all&revs=true", "", "multipart/mixed", nil)
		if put.Code != http.StatusCreated && put.Code != http.StatusOK { // 200 is for deletions
			var said struct{ Error, Reason *string }
			if err := json.Unmarshal(put.Body.Bytes(), &said); err != nil || said.Error == nil ||
				said.Reason == nil || put.Code < 400 || put.Code >= 500 {
				t.Fatalf("%d %s", put.Code, put.Body)
			}
			if got.Code != http.StatusNotFound {
				t.Fatalf("refused, but %d %s", got.Code, got.Body)
			}
			return
		}
		found, complete := plainMixed(got.Body.Bytes(), got.Header().Get("Content-Type"))
		if got.Code != http.StatusOK || !complete || len(found) != 1 || !json.Valid(found[0].doc) {
			t.Fatalf("%d %q", got.Code, got.Body)
		}
		name, params, err := mime.ParseMediaType(kind)
		if err != nil || name != "multipart/related" {
			return
		}
		sent, err := plainRelated(bytes.NewReader(body), params["boundary"])
		if err != nil && err != io.EOF {
			t.Fatalf("%q was accepted: %v", body, err)
		}
		if problem := misfit(sent); problem != "" && err == nil && unique(sent.doc) {
			t.Fatalf("%s was accepted: %s", sent.doc, problem)
		}
		for _, file := range sent.files {
			if !slices.ContainsFunc(found[0].files, func(got []byte) bool { return bytes.Equal(got, file) }) {
				t.Fatalf("%q is not among %q", file, found[0].files)
			}
		}
	})
}
