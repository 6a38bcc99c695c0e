package fuzz

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/adapters/audit"
	"couchrelay/adapters/config"
	"couchrelay/adapters/web"
	"couchrelay/adapters/web/door"
)

// FuzzDoor sends any request, as the bytes of its head, through all that requests meet before the service. Each that
// may change something leaves one line in the audit log and one in the audit file, also when it is refused, in which no
// text of the client makes a line of its own and no password is shown; the client's address is one, and only a proxy's
// word makes it another; no header of the answer is of the client's making.
func FuzzDoor(f *testing.F) {
	file := filepath.Join(f.TempDir(), "audit.log")
	var log strings.Builder
	record := audit.New(slog.New(slog.NewTextHandler(&log, nil)))
	c := config.Default()
	c.CORS.Enable, c.Limits.URL, c.Limits.Headers = true, 200, 10
	if err := c.Set("cors", "origins", "https://a.example.com, *"); err != nil {
		f.Fatal(err)
	}
	c.Limits.Proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	from, changes := "", 0
	answer := func(q *web.Request) error {
		from = q.RemoteAddr
		if q.Method == "PUT" {
			changes++
		}
		return q.SendJSON(http.StatusOK, web.OK)
	}
	router := web.NewRouter(func(q *web.Request) error {
		q.Claimed, _, _ = q.BasicAuth()
		return nil
	}, []web.Route{
		{Method: "PUT", Path: "/{db}/{docid}", Handler: answer}, {Method: "GET", Path: "/{x...}", Handler: answer},
	})
	router.Record = record.Record
	limits := func() config.Limits { return c.Limits }
	h := door.CORS(func() config.CORS { return c.CORS }, door.Bounded(limits, door.BehindProxies(limits, router)))

	f.Add("PUT /a%0Amsg=audit/b?token=planted HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n", true)
	f.Add("OPTIONS / HTTP/1.1\r\nHost: h\r\nOrigin: https://a.example.com\r\nAccess-Control-Request-Method: PUT\r\n"+
		"Access-Control-Request-Headers: content-type\r\n\r\n", false)
	f.Add("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YTpwbGFudGVk\r\nX-Forwarded-For: x, 10.0.0.1\r\n"+
		"X-Forwarded-For: ::1%eth0\r\nX-Forwarded-Proto: https\r\n\r\n", true)
	f.Fuzz(func(t *testing.T, head string, proxied bool) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
		if err != nil || r.URL == nil {
			return
		}
		r.Body, r.RemoteAddr = http.NoBody, "192.0.2.1:9"
		if proxied {
			r.RemoteAddr = "10.1.1.1:9"
		}
		log.Reset()
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if err := record.Open(file); err != nil {
			t.Fatal(err)
		}
		from, changes = "", 0
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := url.ParseQuery(r.URL.RawQuery); err != nil && r.Method == "PUT" && w.Code == 400 {
			changes = strings.Count(log.String(), " status=400 ") // refused before the route was asked, if there is one
		}
		if changes > 1 || strings.Count(log.String(), "\n") != changes || strings.Count(string(text), "\n") != changes {
			t.Fatalf("%d changes: %q %q", changes, &log, text)
		}
		shown := r.URL.RawQuery == "token=planted" && strings.Contains(string(text), "token")
		if changes > 0 && !json.Valid(text) || shown {
			t.Fatalf("%q", text)
		}
		if from != "" && from != "192.0.2.1:9" {
			at, err := netip.ParseAddrPort(from)
			if err != nil || !proxied || at.Addr().Zone() != "" {
				t.Fatalf("from %q: %v", from, err)
			}
		}
		for name, values := range w.Header() {
			for _, value := range values {
				if strings.ContainsAny(name+value, "\r\n\x00") {
					t.Fatalf("header %q: %q", name, value)
				}
			}
		}
		if allowed := w.Header().Get("Access-Control-Allow-Origin"); allowed != r.Header.Get("Origin") {
			t.Fatalf("origin %q of %q", allowed, r.Header.Get("Origin"))
		}
	})
}
