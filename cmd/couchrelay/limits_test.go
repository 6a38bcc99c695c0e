package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"couchrelay/adapters/config"
)

// TestLimits: limits of bodies and URLs are live, those of headers wait for the next start, and each is refused where
// it makes no sense.
func TestLimits(t *testing.T) {
	r := newRig(t)
	doc := r.body(`,"more":"` + strings.Repeat("x", 2000) + `"`)
	deep := r.body(`,"more":` + strings.Repeat("[", 20) + strings.Repeat("]", 20))
	r.want(201, "PUT", "_replicator/long", doc)
	r.want(201, "PUT", "_replicator/deep", deep)
	url := "_replicator?x=" + strings.Repeat("x", 1000)
	r.want(200, "GET", url, "")
	for _, c := range []struct{ key, value, method, path, body, error string }{
		{"couchdb/max_document_size", "1000", "PUT", "_replicator/a", doc, "document_too_large"},
		{"chttpd/max_http_request_size", "1500", "PUT", "_replicator/a", doc, "too_large"},
		{"chttpd/max_http_request_size", "1500", "POST", "_replicate", doc, "too_large"},
		{"limits/max_json_depth", "10", "PUT", "_replicator/b", deep, "bad_request"},
		{"chttpd/max_uri_length", "900", "GET", url, "", "too_long"},
	} {
		r.want(200, "PUT", "_node/_local/_config/"+c.key, `"`+c.value+`"`)
		if _, got := r.call(c.method, c.path, c.body); got["error"] != c.error {
			t.Errorf("%s = %s: %v", c.key, c.value, got)
		}
		r.want(200, "DELETE", "_node/_local/_config/"+c.key, "")
	}
	for key, value := range map[string]string{
		"couchdb/max_document_size": "9000000", "couchdb/max_attachment_size": "infinity",
		"limits/max_json_depth":    "1001",
		"limits/write_timeout_sec": "0", "chttpd/max_connections": "0", "limits/max_body_memory": "1",
	} {
		got := r.want(400, "PUT", "_node/_local/_config/"+key, `"`+value+`"`)
		if !strings.Contains(got["reason"].(string), value+": must be ") {
			t.Errorf("%s: %v", key, got)
		}
	}
	before := r.want(200, "GET", "_scheduler/docs", "")
	nested := `{"source":` + strings.Repeat(`{"a":`, 2_000_000)
	for _, path := range []string{"_replicator/c", "_replicate", "_replicator/_bulk_docs"} {
		method := "POST"
		if path == "_replicator/c" {
			method = "PUT"
		}
		if status, got := r.call(method, path, nested); status/100 != 4 {
			t.Errorf("10 MB of nested JSON to %s: %d %v", path, status, got)
		}
	}
	if after := r.want(200, "GET", "_scheduler/docs", ""); after["total_rows"] != before["total_rows"] {
		t.Errorf("%v, before %v", after, before)
	}
}

// TestLateBody: a client whose body does not come is told so, by the service as a whole.
func TestLateBody(t *testing.T) {
	r := newRig(t)
	r.stop()
	c := config.Default()
	c.Limits.BodyTime = 200 * time.Millisecond
	r.start(c)
	address := strings.TrimSuffix(strings.TrimPrefix(r.url, "http://"), "/")
	lines := []string{"POST /_session", "PUT /_replicator/a", "PUT /_replicator/a/file", "POST /_replicate"}
	for _, line := range lines {
		client, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = client.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(client, line+" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Content-Length: 100\r\n\r\n{")
		answer, err := http.ReadResponse(bufio.NewReader(client), nil)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if body, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusRequestTimeout {
			t.Errorf("%s: %d %s", line, answer.StatusCode, body)
		}
		_ = client.Close()
	}
}

// TestLimitsOfTheServer: headers that are too long are refused, and connections that send none, or no further request,
// are closed in time. These limits wait for the next start.
func TestLimitsOfTheServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stop()
	c := config.Default()
	c.Limits.HeaderBytes, c.Limits.HeaderTime, c.Limits.IdleTime = 4096, time.Second, time.Second
	r.start(c)
	address := strings.TrimSuffix(strings.TrimPrefix(r.url, "http://"), "/")
	for sent, want := range map[string]string{
		"GET /_up HTTP/1.1\r\nHost: localhost\r\nX-A: " + strings.Repeat("x", 20_000) + "\r\n\r\n": "HTTP/1.1 431 ",
		"GET /_up HTTP/1.1\r\nHost: loc":               "",
		"GET /_up HTTP/1.1\r\nHost: localhost\r\n\r\n": "HTTP/1.1 200 ",
		"": "",
	} {
		client, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = client.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(client, sent)
		// It ends only when the service closes the connection.
		got, err := io.ReadAll(client)
		if timeout, is := err.(net.Error); is && timeout.Timeout() || !strings.HasPrefix(string(got), want) {
			t.Errorf("%.40q: %.60q, %v", sent, got, err)
		}
		_ = client.Close()
	}
	for key, restart := range map[string]bool{"limits/idle_timeout_sec": true, "limits/max_header_bytes": true,
		"limits/header_timeout_sec": true, "limits/body_timeout_sec": false, "chttpd/max_connections": false} {
		q, err := http.NewRequestWithContext(t.Context(), "PUT", r.url+"_node/_local/_config/"+key,
			strings.NewReader(`"5000"`))
		if err != nil {
			t.Fatal(err)
		}
		q.Close = true // an idle connection may be closed while the request is sent
		answer, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if (answer.Header.Get("X-Couchrelay-Restart") != "") != restart || answer.StatusCode != 200 {
			t.Errorf("%s: %d %v", key, answer.StatusCode, answer.Header)
		}
	}
}
