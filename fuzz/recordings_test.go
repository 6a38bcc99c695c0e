package fuzz

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recording is an answer of pouchdb-server, as TestRecordings of adapters/integration wrote it down.
type recording struct{ request, status, kind, body string }

// recordings are the answers in testdata/pouchdb whose names fit a pattern.
func recordings(t testing.TB, pattern string) (found []recording) {
	paths, err := filepath.Glob(filepath.Join("testdata", "pouchdb", pattern+".txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recordings %s: %v", pattern, err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		request, rest, _ := strings.Cut(string(raw), "\n")
		status, rest, _ := strings.Cut(rest, "\n")
		kind, body, _ := strings.Cut(rest, "\n\n")
		found = append(found, recording{request, status, kind, body})
	}
	return found
}
