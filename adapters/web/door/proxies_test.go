package door

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"couchrelay/adapters/config"
)

// TestBehindProxies: only what trusted proxies have written counts, from the last to the first that is none of them.
func TestBehindProxies(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	got, secure := "", false
	h := BehindProxies(func() config.Limits { return config.Limits{Proxies: trusted} },
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, secure = r.RemoteAddr, r.TLS != nil }))
	for _, c := range []struct {
		peer  string
		lines []string
		want  string
	}{
		{"192.0.2.1:9", nil, "192.0.2.1:9"},
		{"192.0.2.1:9", []string{"198.51.100.7"}, "192.0.2.1:9"},
		{"10.1.1.1:9", nil, "10.1.1.1:0"},
		{"10.1.1.1:9", []string{"198.51.100.7"}, "198.51.100.7:0"},
		{"[::ffff:10.1.1.1]:9", []string{"198.51.100.7"}, "198.51.100.7:0"},
		{"[fd00::1]:9", []string{" 2001:db8::5 "}, "[2001:db8::5]:0"},
		{"10.1.1.1:9", []string{"made-up, 198.51.100.7, 10.2.2.2"}, "198.51.100.7:0"},
		{"10.1.1.1:9", []string{"203.0.113.9, 198.51.100.7"}, "198.51.100.7:0"},
		{"10.1.1.1:9", []string{"203.0.113.9", "198.51.100.7"}, "198.51.100.7:0"},
		{"10.1.1.1:9", []string{"198.51.100.7, nonsense"}, "10.1.1.1:0"},
		{"10.1.1.1:9", []string{"10.3.3.3, 10.2.2.2"}, "10.3.3.3:0"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = c.peer
		r.Header["X-Forwarded-For"] = c.lines
		r.Header.Set("X-Forwarded-Proto", "https")
		if h.ServeHTTP(httptest.NewRecorder(), r); got != c.want {
			t.Errorf("%s %q: %s, want %s", c.peer, c.lines, got, c.want)
		}
		if secure != (c.peer != "192.0.2.1:9") {
			t.Errorf("%s: over TLS is %v", c.peer, secure)
		}
		r.TLS = nil
		r.RemoteAddr = c.peer
		r.Header.Set("X-Forwarded-Proto", "http")
		if h.ServeHTTP(httptest.NewRecorder(), r); secure {
			t.Errorf("%s: plain HTTP counts as TLS", c.peer)
		}
	}
}
