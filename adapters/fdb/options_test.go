package fdb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClusterFileMistakes: a mistake for which the client would wait for ever is an error that says what to
// do.
func TestClusterFileMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "has 0 lines",
		"# nothing but comments\n":           "has 0 lines",
		"hello world":                        `"hello world" is not of the form description:id@address:port`,
		"a:b@10.0.0.1":                       "is not of the form",
		"a:b@10.0.0.1:4500,":                 "is not of the form",
		"a:b@10.0.0.1:4500\nc:d@10.0.0.1:45": "has 2 lines",
	} {
		path := filepath.Join(t.TempDir(), "fdb.cluster")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkClusterFile(path); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for path, want := range map[string]string{"": "path of the cluster file is missing",
		t.TempDir(): "is no file", "/no/such/file": "copy fdb.cluster"} {
		if err := checkClusterFile(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestClusterFiles(t *testing.T) {
	for _, text := range []string{
		"docker:docker@127.0.0.1:4500",
		"# comment\n\ndesc_1:Ab3@10.0.0.1:4500:tls,[::1]:4501,fdb.example.com:4500\n",
		"a:b@10.0.0.1:4500(fromHostname),10.0.0.2:4500:tls(fromHostname) # of 2026\n",
	} {
		path := filepath.Join(t.TempDir(), "fdb.cluster")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkClusterFile(path); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
