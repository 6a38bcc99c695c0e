package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// told answers with what the path has for the names of a pattern.
func told(names ...string) Handler {
	return func(q *Request) error {
		values := []string{q.Method}
		for _, name := range names {
			values = append(values, q.Param(name))
		}
		return q.SendJSON(http.StatusOK, append(values, q.Rest...))
	}
}

func TestRouter(t *testing.T) {
	locked := func(*Request) error { return Unauthorized("locked") }
	r := NewRouter(
		func(q *Request) error {
			if q.Host == "evil" {
				return Forbidden("guarded")
			}
			return nil
		},
		[]Route{
			{Method: "GET", Path: "/", Handler: told()},
			{Method: "GET", Path: "/_up", Handler: told()},
			{Method: Any, Path: "/_odd/{rest...}", Handler: told("rest")},
			{Method: "GET", Path: "/_docs/{doc...}", Handler: told("doc")},
			{Method: "GET", Path: "/_locked", Access: locked, Handler: told()},
			{Method: "GET", Path: "/{db}", Handler: told("db")},
			{Method: "POST", Path: "/{db}", Handler: told("db")},
			{Method: "GET", Path: "/{db}/_changes", Handler: told("db")},
			{Method: "GET", Path: "/{docid}/_other", Handler: told()}, // names another segment docid
			{Method: "PUT", Path: "/{db}/{docid}", Handler: told("db", "docid")},
			{Method: "PUT", Path: "/{db}/{docid}/{file...}", Handler: told("db", "docid", "file")},
		})
	for request, want := range map[string]string{
		"GET /":                `200 ["GET"]`,
		"GET /_up/":            `200 ["GET"]`,
		"GET //_up":            `200 ["GET"]`,
		"GET //":               `200 ["GET"]`,
		"PUT //a//doc//f//":    `200 ["PUT","a","doc","f","f"]`,
		"HEAD /_up":            `200 ["HEAD"]`,
		"PATCH /_odd":          `200 ["PATCH",""]`,
		"PATCH /_odd/a/b%2Fc":  `200 ["PATCH","a/b/c","a","b/c"]`,
		"GET /_locked":         `401 {"error":"unauthorized","reason":"locked"}`,
		"PUT /_locked":         `401 {"error":"unauthorized","reason":"locked"}`,
		"GET /a%2Fb":           `200 ["GET","a/b"]`,
		"GET /a+b%2Bc":         `200 ["GET","a b+c"]`,
		"PUT /a+/+b%2B/c+/d":   `200 ["PUT","a "," b+","c /d","c ","d"]`,
		"GET /_docs/a+b/%2Bc":  `200 ["GET","a b/+c","a b","+c"]`,
		"PATCH /_odd/a+b%2Bc":  `200 ["PATCH","a+b+c","a+b+c"]`,
		"DELETE /a":            `405 {"error":"method_not_allowed","reason":"Only GET,HEAD,POST allowed"}`,
		"PUT /a/_changes":      `405 {"error":"method_not_allowed","reason":"Only GET,HEAD allowed"}`,
		"PUT /a/doc":           `200 ["PUT","a","doc"]`,
		"PUT /a/_design":       `200 ["PUT","a","_design"]`,
		"PUT /a/_design/d":     `200 ["PUT","a","_design/d"]`,
		"PUT /a/_design%2Fd/f": `200 ["PUT","a","_design/d","f","f"]`,
		"PUT /a/_local/l/f/g":  `200 ["PUT","a","_local/l","f/g","f","g"]`,
		"GET /?%zz":            `400 {"error":"bad_request","reason":"malformed query string"}`,
		"GET /_up?a;b":         `400 {"error":"bad_request","reason":"malformed query string"}`,
		"GET evil/_locked":     `403 {"error":"forbidden","reason":"guarded"}`,
	} {
		method, target, _ := strings.Cut(request, " ")
		host, target, _ := strings.Cut(target, "/")
		hr := httptest.NewRequest(method, "/"+target, nil)
		if host != "" {
			hr.Host = host
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, hr)
		if got := fmt.Sprintf("%d %s", w.Code, strings.TrimSuffix(w.Body.String(), "\n")); got != want {
			t.Errorf("%s: %s, want %s", request, got, want)
		}
		if allow := w.Header().Get("Allow"); (w.Code == http.StatusMethodNotAllowed) != (allow != "") ||
			!strings.Contains(w.Body.String(), allow) {
			t.Errorf("%s: Allow is %q", request, allow)
		}
	}
}

// TestGuardComesFirst: a client that the guard refuses does not learn which paths there are.
func TestGuardComesFirst(t *testing.T) {
	guard := func(*Request) error { return Unauthorized("guarded") }
	r := NewRouter(guard, []Route{{Method: "GET", Path: "/_up", Handler: told()}})
	for _, path := range []string{"/_up", "/nothing"} {
		w := httptest.NewRecorder()
		if r.ServeHTTP(w, httptest.NewRequest("GET", path, nil)); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// TestRouterWithoutPath: what no route takes is not found.
func TestRouterWithoutPath(t *testing.T) {
	w := httptest.NewRecorder()
	NewRouter(nil, []Route{{Method: "GET", Path: "/a", Handler: told()}}).ServeHTTP(w,
		httptest.NewRequest("GET", "/b", nil))
	if got := w.Body.String(); w.Code != http.StatusNotFound || got != `{"error":"not_found","reason":"missing"}`+"\n" {
		t.Errorf("%d %s", w.Code, got)
	}
}

// TestRouterTwice: a route that could never answer is a mistake.
func TestRouterTwice(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("two routes for one method of a path")
		}
	}()
	NewRouter(nil, []Route{{Method: "GET", Path: "/a", Handler: told()}, {Method: "GET", Path: "/a", Handler: told()}})
}

// TestEncode: answers are for people and programs, not for HTML, and what came from elsewhere stays as it was.
func TestEncode(t *testing.T) {
	got, err := Encode([]any{"<&>\xff", jsontext.Value(` {"a":1.0,"a":"\u0041"} `), []string(nil), (*string)(nil)})
	if want := `["<&>` + "\ufffd" + `",{"a":1.0,"a":"\u0041"},[],null]`; err != nil || string(got) != want {
		t.Errorf("%s %v, want %s", got, err, want)
	}
}
