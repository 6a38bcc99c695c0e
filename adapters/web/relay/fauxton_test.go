package relay

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFauxton: the files of the directory are served without a login, and nothing else of the machine.
func TestFauxton(t *testing.T) {
	above := t.TempDir()
	dir := filepath.Join(above, "www")
	for name, text := range map[string]string{
		"index.html": "<html>", "assets/js/a.js": "let a", "../secret": "secret",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	files, err := OpenFauxton(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := newService(t, withAdmin, func(o *Options) { o.Fauxton = files })
	for _, c := range []struct {
		request string
		status  int
		kind    string
		want    string
	}{
		{"GET /_utils", 301, "", "/_utils/"},
		{"GET /_utils/", 200, "text/html", "<html>"},
		{"HEAD /_utils/", 200, "text/html", ""},
		{"GET /_utils/index.html", 200, "text/html", "<html>"},
		{"GET /_utils/assets/js/a.js", 200, "text/javascript", "let a"},
		{"GET /_utils/assets", 404, "application/json", "missing"},
		{"GET /_utils/none", 404, "application/json", "missing"},
		{"GET /_utils/link", 404, "application/json", "missing"},
		{"GET /_utils/../secret", 404, "application/json", "missing"},
		{"GET /_utils/..%2fsecret", 404, "application/json", "missing"},
		{"POST /_utils/", 405, "application/json", "Only GET,HEAD allowed"},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		w := httptest.NewRecorder()
		s.Config.Handler.ServeHTTP(w, httptest.NewRequest(method, "http://localhost"+path, nil))
		if w.Code != c.status || !strings.HasPrefix(w.Header().Get("Content-Type"), c.kind) ||
			!strings.Contains(w.Body.String()+w.Header().Get("Location"), c.want) ||
			strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d %v %s", c.request, w.Code, w.Header(), w.Body)
		}
		if policy := w.Header().Get("Content-Security-Policy"); c.status == 200 && policy != policyOfFauxton {
			t.Errorf("%s: %q", c.request, policy)
		}
	}
	if _, err := OpenFauxton(above); err == nil || !strings.Contains(err.Error(), "index.html") {
		t.Errorf("a directory without Fauxton: %v", err)
	}
	newService(t).Want("GET /_utils/", 404,
		`{"error":"not_found","reason":"Fauxton is not here: [fauxton] docroot can name the directory of its files"}`)
}
