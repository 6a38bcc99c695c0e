package main

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"couchrelay/adapters/config"
)

// TestPanicsAreLogged: a panic in a handler is logged as an error, with its stack. A connection that a
// handler cuts on purpose is not.
func TestPanicsAreLogged(t *testing.T) {
	log := &syncBuffer{}
	server := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cut" {
			panic(http.ErrAbortHandler)
		}
		panic(errors.New("a bug"))
	}), config.Default().Limits, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError})))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	for _, path := range []string{"/cut", "/bug"} {
		if answer, err := http.Get("http://" + listener.Addr().String() + path); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v %v", path, answer, err)
		}
		text := log.String()
		told := strings.Contains(text, "level=ERROR") && strings.Contains(text, "path=/bug") &&
			strings.Contains(text, "a bug") && strings.Contains(text, "server_test.go")
		if bug := path == "/bug"; told != bug || !bug && text != "" {
			t.Errorf("%s: the log says %q", path, text)
		}
	}
}
