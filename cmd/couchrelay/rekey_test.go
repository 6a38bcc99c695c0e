//go:build !fdb

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/adapters/seal"
	"couchrelay/core/ejson"
)

// TestKeyOfAService: a service with a directory makes its key there, changes it when asked, and needs only the new one
// after the old one was dropped. The directory's files show no password.
func TestKeyOfAService(t *testing.T) {
	seal.LateCommits = 0
	r, dir := newStoredRig(t)
	path := filepath.Join(dir, "secret.key")
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r.want(201, "PUT", "_replicator/r",
		`{"source":"http://u:hunter2@127.0.0.1:1/a","target":"http://127.0.0.1:1/b"}`)
	ask := func(wants string, flags ...string) {
		t.Helper()
		out, _, err := typed(t, 0, append([]string{"rekey", "--server", r.url}, flags...)...)
		if err != nil || !strings.Contains(out, wants) {
			t.Fatalf("rekey %s prints %q, %v; want %q", flags, out, err, wants)
		}
	}
	ask("rows in clear: 0")
	r.await("the new key", func() bool {
		out, _, err := typed(t, 0, "rekey", "--status", "--server", r.url)
		return err == nil && strings.Contains(out, "done: all rows")
	})
	ask("dropped: ", "--drop")
	ask("dropped: none", "--drop")
	r.stop()
	second, err := os.ReadFile(path)
	if err != nil || bytes.Equal(first, second) || len(first) != len(second) {
		t.Errorf("the key file is as it was, or has both keys: %v", err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) < 3 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte("hunter2")) {
			t.Errorf("%s shows the password", name)
		}
	}
	r = onStore(t, dir)
	if source := r.want(200, "GET", "_replicator/r", "")["source"]; source != "http://u:hunter2@127.0.0.1:1/a" {
		t.Errorf("the document came back with source %v", source)
	}
}

// TestRowsOfAnotherKey: a status does not say that all rows have the first key while some have another one.
func TestRowsOfAnotherKey(t *testing.T) {
	for rows, want := range map[int]string{0: "done: all rows", 1: "done, and rows have another key"} {
		v, err := ejson.Parse(fmt.Appendf(nil, `{"keys":[{"id":"a","seals":true,"in_file":true,"needed":true,"rows":7},
			{"id":"b","seals":false,"in_file":true,"needed":true,"rows":%d}],"rows_in_clear":0,"done":true}`, rows))
		if err != nil {
			t.Fatal(err)
		}
		s := &screen{}
		if keysOn(s, v); !strings.Contains(s.text.String(), want) {
			t.Errorf("with %d rows: %s", rows, s.text.String())
		}
	}
}
