package relay

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestProtection: answers of all routes, errors too, say that they are data, and what concerns a session is not stored
// by caches.
func TestProtection(t *testing.T) {
	for _, route := range newSite(t).service.routes() {
		for _, who := range "NA" {
			if route.Path == rekeyPath && who == 'A' {
				continue // needs a store that is sealed
			}
			s, method := newSite(t), route.Method
			if method == "*" {
				method = "POST"
			}
			h := s.ask(who, method, s.pathOf(route.Method, route.Path), "{}").Header()
			if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" ||
				h.Get("Content-Security-Policy") != "frame-ancestors 'none'" {
				t.Errorf("%c %s %s: %v", who, method, route.Path, h)
			}
			if route.Path == "/_session" && !strings.Contains(h.Get("Cache-Control"), "no-store") {
				t.Errorf("%c %s %s: Cache-Control %q", who, method, route.Path, h.Get("Cache-Control"))
			}
		}
	}
}

// TestForeignPages: what a browser sends for a page of another origin without asking, with the login of its user,
// changes nothing.
func TestForeignPages(t *testing.T) {
	s := newSite(t)
	harmless := []string{"/{db}/_ensure_full_commit", "/{db}/_view_cleanup", configPath + "/_reload"}
	walked := 0
	for _, route := range s.service.routes() {
		if route.Method != "POST" && route.Method != "*" || slices.Contains(harmless, route.Path) {
			continue
		}
		q := s.request('A', "POST", s.pathOf("POST", route.Path), "{}")
		q.Header.Set("Content-Type", "text/plain")
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, q)
		if w.Code != http.StatusUnsupportedMediaType && route.Method != "*" && w.Code != http.StatusNotImplemented &&
			w.Code != http.StatusGone || w.Code < 400 {
			t.Errorf("%s: %d %s", route.Path, w.Code, w.Body)
		}
		walked++
	}
	if walked < 20 {
		t.Errorf("%d requests only", walked)
	}
}

// TestInjection: line breaks from clients, wherever they stand, make no header of an answer.
func TestInjection(t *testing.T) {
	s := newSite(t)
	const evil, db = "%0D%0ASet-Cookie:%20evil=1", "/team%2F_replicator"
	body := `{"source":"http://h/a","target":"http://h/b","_attachments":{"f\r\nSet-Cookie: evil=1":{"content_type":` +
		`"text/html\r\nSet-Cookie: evil=1","data":"eHh4"}}}`
	s.must('A', "PUT", db+"/with", body)
	server := httptest.NewServer(s.handler)
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	login := "Authorization: " + s.header('A') + "\r\n"
	for request, status := range map[string]int{
		"PUT " + db + "/a" + evil + "|" + login:                                201,
		"GET " + db + "/with?attachments=true|Accept: */*\r\n" + login:         200,
		"GET " + db + "/with/f" + evil + "|" + login:                           200,
		"COPY " + db + "/with|Destination: x" + evil + "\r\n" + login:          201,
		"COPY " + db + "/with|Destination: x\rSet-Cookie: evil=1\r\n" + login:  400,
		"GET /_up|X-A: b\nSet-Cookie : evil=1\r\n":                             400,
		"GET /_up|X-A\rSet-Cookie: evil=1\r\n":                                 400,
		"GET /_up|X-A: \x00\r\n":                                               400,
		"GET " + evil + "|":                                                    400,
		"GET /_session" + evil + "|":                                           404,
		"DELETE /_session?next=/x" + evil + "|":                                400,
		"DELETE /_session?next=//evil.example|":                                302,
		"DELETE /_session?next=https://evil.example|":                          400,
		"PUT /_node/_local/_config/log/level|X-Couch-Persist: x\t\r\n" + login: 400,
	} {
		line, headers, _ := strings.Cut(request, "|")
		text := ""
		if strings.HasPrefix(line, "PUT") {
			text = `{"source":"http://h/a","target":"http://h/b"}`
		}
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.WriteString(c, line+" HTTP/1.1\r\nHost: relay:5980\r\nContent-Type: application/json\r\n"+
			"Connection: close\r\n"+headers+"Content-Length: "+strconv.Itoa(len(text))+"\r\n\r\n"+text)
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		_ = c.Close()
		if answer.StatusCode != status || strings.Contains(answer.Header.Get("Set-Cookie"), "evil") {
			t.Errorf("%q: %d %v", line, answer.StatusCode, answer.Header)
		}
		if at := answer.Header.Get("Location"); at != "" && !strings.HasPrefix(at, "http://relay:5980/") {
			t.Errorf("%q: Location %s", line, at)
		}
	}
	for _, query := range []string{"attachments=true", "attachments=true&open_revs=all"} {
		q := httptest.NewRequestWithContext(t.Context(), "GET", db+"/with?"+query, nil)
		q.Header.Set("Accept", "multipart/related, multipart/mixed")
		q.Header.Set("Authorization", s.header('A'))
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, q)
		if text := w.Body.String(); !strings.Contains(text, "filename=") || strings.Contains(text, "\nSet-Cookie") {
			t.Errorf("parts with headers of a client's making: %q", text)
		}
	}
}
