package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

const oneShot = `{"source":"http://h/a","target":"http://h/b"}`

// TestHalfClosedConnection: who stops sending and goes on listening is not told that a replication is done
// which is not.
func TestHalfClosedConnection(t *testing.T) {
	s := newService(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = fmt.Fprintf(conn, "POST /_replicate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(oneShot), oneShot)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil {
		body, _ := io.ReadAll(answer.Body)
		t.Errorf("answered %s %q", answer.Status, body)
	}
}
