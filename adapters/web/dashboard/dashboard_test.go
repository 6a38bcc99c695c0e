package dashboard

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"couchrelay/adapters/web"
)

// ask sends a request to a server of the page.
func ask(method, path string, headers ...string) *httptest.ResponseRecorder {
	router := web.NewRouter(nil, []web.Route{{Method: "GET", Path: "/_dashboard/{file...}", Handler: Serve}})
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	router.ServeHTTP(w, r)
	return w
}

// TestServe: the page and its files are there, and nothing else is.
func TestServe(t *testing.T) {
	for _, c := range []struct {
		request string
		status  int
		kind    string
		want    string
	}{
		{"GET /_dashboard/", 200, "text/html; charset=utf-8", "<!doctype html>"},
		{"HEAD /_dashboard/", 200, "text/html; charset=utf-8", ""},
		{"GET /_dashboard/index.html", 200, "text/html; charset=utf-8", "<!doctype html>"},
		{"GET /_dashboard/main.js", 200, "text/javascript; charset=utf-8", "import"},
		{"GET /_dashboard/style.css", 200, "text/css; charset=utf-8", ":root"},
		{"GET /_dashboard/icon.svg", 200, "image/svg+xml", "<svg"},
		{"GET /_dashboard/none.js", 404, "application/json", "missing"},
		{"GET /_dashboard/main.js/more", 404, "application/json", "missing"},
		{"GET /_dashboard/../dashboard.go", 404, "application/json", "missing"},
		{"GET /_dashboard/..%2fdashboard.go", 404, "application/json", "missing"},
		{"GET /_dashboard/page/index.html", 404, "application/json", "missing"},
		{"POST /_dashboard/", 405, "application/json", "Only GET,HEAD allowed"},
		{"DELETE /_dashboard/main.js", 405, "application/json", "Only GET,HEAD allowed"},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		w := ask(method, path)
		kind := w.Header().Get("Content-Type")
		if w.Code != c.status || kind != c.kind || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %v %s", c.request, w.Code, w.Header(), w.Body)
		}
	}
}

// TestWithoutSlash: the way to the page is relative, so that it holds behind a proxy with a prefix.
func TestWithoutSlash(t *testing.T) {
	w := ask("GET", "/_dashboard")
	if to := w.Header().Get("Location"); w.Code != http.StatusMovedPermanently || to != "_dashboard/" {
		t.Errorf("%d to %s", w.Code, to)
	}
}

// TestHeaders: every file says what browsers may do with it, and is asked for anew each time.
func TestHeaders(t *testing.T) {
	for name := range page {
		w, kept := ask("GET", "/_dashboard/"+name), "no-cache"
		if name == "icon.svg" {
			kept = "max-age=86400"
		}
		tag := w.Header().Get("ETag")
		for header, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cache-Control": kept,
		} {
			if got := w.Header().Values(header); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %s is %q", name, header, got)
			}
		}
		if w.Header().Get("Content-Type") == "" || len(tag) != 18 || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %v", name, w.Header())
		}
		w = ask("GET", "/_dashboard/"+name, "If-None-Match", `"other", `+tag)
		protected := w.Header().Get("Content-Security-Policy") == policy
		if w.Code != http.StatusNotModified || w.Body.Len() != 0 || !protected {
			t.Errorf("%s: %d once it is known, %v", name, w.Code, w.Header())
		}
		if w = ask("GET", "/_dashboard/"+name, "If-None-Match", `"other"`); w.Code != http.StatusOK {
			t.Errorf("%s: %d for another version", name, w.Code)
		}
	}
}

var (
	relative = regexp.MustCompile(`(?:from |import\()'(\./[^']+)'`)
	linked   = regexp.MustCompile(`(?:src|href)="([^"#]+)"`)
)

// TestPage: the page needs nothing but its own files, runs no text as script or markup, and its files can be read.
func TestPage(t *testing.T) {
	for name, f := range page {
		text := string(f.text)
		var needed []string
		found := slices.Concat(relative.FindAllStringSubmatch(text, -1), linked.FindAllStringSubmatch(text, -1))
		for _, found := range found {
			needed = append(needed, strings.TrimPrefix(found[1], "./"))
		}
		for _, file := range needed {
			if _, there := page[file]; !there && !strings.HasPrefix(name, "icon") {
				t.Errorf("%s needs %s", name, file)
			}
		}
		for _, forbidden := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
			"new Function", "https://", "//cdn", "style=", `"/_`, "'/_"} {
			if strings.Contains(text, forbidden) {
				t.Errorf("%s has %s", name, forbidden)
			}
		}
		if n := strings.Count(text, "\n"); n >= 500 {
			t.Errorf("%s has %d lines", name, n)
		}
	}
	if len(page) < 15 {
		t.Errorf("%d files only", len(page))
	}
}
