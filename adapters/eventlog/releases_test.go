package eventlog

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLogsOfReleases: a service that recorded its events with an earlier release is decided again as it
// was. Each log is of one node and databases on one machine: replications that complete, that crash and
// are tried again, one whose document is replaced and one whose document is deleted while it runs, two
// with one id, one with a filter function, one whose URL cannot be connected to, a request, changed
// settings, and a drain.
func TestLogsOfReleases(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.log.gz")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, %v", paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { playRelease(t, unpacked(t, path)) })
	}
}

func playRelease(t *testing.T, log []byte) {
	var all strings.Builder
	report, err := Replay(bytes.NewReader(log), func(s Step) {
		all.WriteString(s.Event + "\n" + strings.Join(s.Effects, "\n") + "\n")
	})
	if err != nil || report.Cut || report.Events < 400 || report.Runs < 12 {
		t.Errorf("%+v, %v", report, err)
	}
	for _, happened := range []string{
		"end completed", "end crashed: db_not_found", "end crashed: invalid_replication",
		"end crashed: changes_req_failed", "note halted", "run 4 identifies", "configure ", "drain",
		"stop run",
		"end stopped", "write 5 docs", "copy ", "exit",
	} {
		if !strings.Contains(all.String(), happened) {
			t.Errorf("nothing says %q", happened)
		}
	}
}

func unpacked(t *testing.T, path string) []byte {
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	log, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	return log
}
