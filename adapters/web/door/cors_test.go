package door

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"couchrelay/adapters/config"
	"couchrelay/adapters/web"
)

// TestCORS: pages of origins that are allowed may read answers and errors, and are told what they may send; others are
// answered as without.
func TestCORS(t *testing.T) {
	const app, other = "https://app.example.com", "https://other.example.com"
	settings := func(keys ...string) config.CORS {
		c := config.Default()
		c.CORS.Enable = true
		for i := 0; i < len(keys); i += 2 {
			if err := c.Set("cors", keys[i], keys[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		return c.CORS
	}
	off := settings("origins", "*")
	off.Enable = false
	named := settings("origins", app+", http://localhost:8080", "credentials", "true", "max_age", "60")
	all := settings("origins", "*")
	both := settings("origins", app+", *", "credentials", "true")
	local, one := all, settings("origins", app)
	local.Local, one.Local = true, true
	few := settings("origins", app, "methods", "get, PUT", "headers", "Content-Type, X-Mine")
	for name, c := range map[string]struct {
		settings                config.CORS
		method, origin          string
		asks, sends             string // Access-Control-Request-Method and -Headers
		allowed, cookies, early bool
	}{
		"off":                     {off, "GET", app, "", "", false, false, false},
		"off, asked":              {off, "OPTIONS", app, "GET", "", false, false, false},
		"no page":                 {named, "GET", "", "", "", false, false, false},
		"named":                   {named, "GET", app, "", "", true, true, false},
		"named, asked":            {named, "OPTIONS", app, "DELETE", "Content-Type, authorization", true, true, true},
		"named, nothing asked":    {named, "OPTIONS", app, "", "", true, true, false},
		"not named":               {named, "GET", other, "", "", false, false, false},
		"not named, asked":        {named, "OPTIONS", other, "GET", "", false, false, false},
		"begins as one":           {named, "GET", app + ".evil", "", "", false, false, false},
		"other port":              {named, "GET", "http://localhost", "", "", false, false, false},
		"null":                    {named, "GET", "null", "", "", false, false, false},
		"all":                     {all, "GET", other, "", "", true, false, false},
		"all, asked":              {all, "OPTIONS", other, "PUT", "", true, false, true},
		"all here, another":       {local, "GET", other, "", "", false, false, false},
		"all here, asked":         {local, "OPTIONS", other, "PUT", "", false, false, false},
		"all here, null":          {local, "GET", "null", "", "", false, false, false},
		"all here, like it":       {local, "GET", "http://localhost.example.com", "", "", false, false, false},
		"all here, by name":       {local, "OPTIONS", "http://localhost:8080", "PUT", "", true, false, true},
		"all here, by address":    {local, "GET", "http://127.0.0.1:8080", "", "", true, false, false},
		"all here, by IPv6":       {local, "GET", "http://[::1]:8080", "", "", true, false, false},
		"one, without an admin":   {one, "GET", app, "", "", true, false, false},
		"all and one, the one":    {both, "GET", app, "", "", true, true, false},
		"all and one, another":    {both, "GET", other, "", "", true, false, false},
		"unknown header":          {named, "OPTIONS", app, "GET", "X-Evil", true, true, false},
		"unknown method":          {named, "OPTIONS", app, "PATCH", "", true, true, false},
		"few":                     {few, "OPTIONS", app, "PUT", "x-mine,content-type", true, false, true},
		"few, another method":     {few, "OPTIONS", app, "DELETE", "", true, false, false},
		"few, another header":     {few, "OPTIONS", app, "GET", "authorization", true, false, false},
		"asked, with other verbs": {named, "POST", app, "DELETE", "", true, true, false},
	} {
		refuse := func(w http.ResponseWriter, r *http.Request) { web.Refuse(w, r, web.Unauthorized("x")) }
		h := CORS(func() config.CORS { return c.settings }, http.HandlerFunc(refuse))
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/", nil)
		for key, value := range map[string]string{
			"Origin": c.origin, "Access-Control-Request-Method": c.asks, "Access-Control-Request-Headers": c.sends,
		} {
			if value != "" {
				r.Header.Set(key, value)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got, want := w.Header(), 401
		if c.early {
			want = 204
		}
		if w.Code != want || (got.Get("Access-Control-Allow-Origin") == c.origin && c.origin != "") != c.allowed ||
			(got.Get("Access-Control-Allow-Credentials") == "true") != c.cookies ||
			(got.Get("Access-Control-Allow-Methods") == strings.Join(c.settings.Methods, ", ")) != c.early ||
			(got.Get("Access-Control-Max-Age") != "") != c.early ||
			got.Get("Access-Control-Allow-Headers") != "" && !c.early ||
			(got.Get("Access-Control-Expose-Headers") != "") != (c.allowed && !c.early) ||
			c.settings.Enable != (got.Get("Vary") == "Origin") {
			t.Errorf("%s: %d %v", name, w.Code, got)
		}
		if c.early && got.Get("Access-Control-Allow-Headers") != c.sends {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestNamesOfCORS: what is no origin or no name is refused.
func TestNamesOfCORS(t *testing.T) {
	for key, values := range map[string][]string{
		"origins": {"app.example.com", "https://a.example.com/", "https://u:p@a.example.com", "", "https://a, b",
			"https://a?x", "null"},
		"methods": {"", "GET PUT", "GET\r\nX: y"}, "headers": {"a:b", "a,,b"}, "max_age": {"-1", "x", "86401"},
		"credentials": {"yes"},
	} {
		for _, value := range values {
			c := config.Default()
			if err := c.Set("cors", key, value); err == nil || !strings.Contains(err.Error(), "must be ") {
				t.Errorf("%s = %s: %v", key, value, err)
			}
		}
	}
}
