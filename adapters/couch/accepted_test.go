package couch

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"couchrelay/core/spec"
)

// TestAcceptedURLs: a job whose document was accepted has an endpoint and a proxy to which requests can be made. One
// that has not would crash for ever, with an error that the writer of the document never saw.
func TestAcceptedURLs(t *testing.T) {
	accepted := 0
	try := func(source, proxy string) {
		t.Helper()
		body := fmt.Sprintf(`{"source":%q,"target":"http://t/b","proxy":%q}`, source, proxy)
		r, err := spec.ParseRequest([]byte(body), spec.DefaultConfig())
		if err != nil {
			return
		}
		accepted++
		c := New(Options{})
		defer c.Close()
		p, err := c.Pair(*r)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			return
		}
		defer p.Close()
		u, err := locate(p.source.base, request{method: http.MethodGet, path: "_local/a%2Fb", query: "q=1"})
		if err != nil {
			t.Errorf("%s: %v", body, err)
			return
		}
		if err := (&http.Request{Method: http.MethodGet, URL: u, Host: u.Host}).Write(io.Discard); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, host := range []string{
		"h", "h.", ".", "a..b", "a_b", "-a-", "*", "(x)", "a,b", "a'b", "!$&+;=~", "1.2.3.4", "1.2.3.4.5",
		"xn--", "xn--a", "a%20b", "a%25b", "%41", "%7F", "%00", "%2E", "%C3%A4",
		"%c3%28", "%ff", "%E2%80%8B", "ä", "a b", "<a>", `a"b`,
		"[::1]", "[::]", "[1:2]", "[1::2::3]", "[00001::1]", "[::1.2.3.4]", "[::1.2.3]", "[::01.2.3.4]",
		"[::ffff:1.2.3.4]", "[1:2:3:4:5:6:7:8]", "[1:2:3:4:5:6:7:8:9]", "[1.2.3.4]", "[fe80::1%25a]",
		"[]", "[:]", "[.:]", "[12345::]",
	} {
		for _, port := range []string{"", ":", ":0", ":1", ":080", ":65535", ":65536", ":00000000080", ":+1", ":1%32"} {
			try("http://"+host+port+"/d", "")
			try("http://h/d", "http://"+host+port)
			try("http://h/d", "socks5://"+host+port)
		}
		for _, user := range []string{"u", "u:p", ":", "%zz:%", "u%3A:p%40", "!$&'()*+,;=~:x", "ü:p", "u%00:%0A"} {
			try("https://"+user+"@"+host+"/d", "http://"+user+"@"+host)
		}
		for _, path := range []string{"", "?", "?a", "?a=%00;b&&", "//d", "/d%2Fe%00%fF", "/%zz", "?%", "/:@?/?"} {
			try("http://"+host+path, "")
		}
	}
	if accepted < 500 {
		t.Errorf("only %d were accepted", accepted)
	}
}
