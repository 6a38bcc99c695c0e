package eventlog

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// releases returns the logs in testdata.
func releases(t *testing.T) (logs [][]byte) {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.log.gz")
	if err != nil || len(paths) == 0 {
		t.Fatal("no logs", err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(unpacked)
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, text)
	}
	return logs
}

// TestRead: all steps of a log are told, whatever this version would decide; a log that is cut is read up to
// there, and one that was changed is an error.
func TestRead(t *testing.T) {
	for _, log := range releases(t) {
		var header Header
		count, starts := 0, 0
		see := func(r Record) {
			count++
			if r.At < 0 || r.Event == nil {
				t.Fatalf("%+v", r)
			}
			for _, e := range r.Effects {
				if strings.HasPrefix(e, "start run ") {
					starts++
				}
			}
		}
		cut, err := Read(bytes.NewReader(log), func(h Header) { header = h }, see)
		steps, plans := bytes.Count(log, []byte(`{"step":{`)), bytes.Count(log, []byte(`{"plan":{`))
		if err != nil || cut || count != steps || starts < plans || header.Node.MaxJobs == 0 || header.Program == "" {
			t.Errorf("%d of %d steps, %d of %d runs, cut %t, %+v: %v", count, steps, starts, plans, cut, header, err)
		}
		count, starts = 0, 0
		cut, err = Read(bytes.NewReader(log[:len(log)/2]), func(Header) {}, see)
		if err != nil || !cut || count == 0 || count >= steps {
			t.Errorf("half of a log: %d steps, cut %t: %v", count, cut, err)
		}
		changed := bytes.Replace(log, []byte(`"type":"Wake"`), []byte(`"type":"Woke"`), 1)
		second := log[bytes.IndexByte(log, '\n')+1:]
		for name, text := range map[string][]byte{"changed": changed, "headless": second, "empty": nil,
			"other": []byte("x\n")} {
			if _, err := Read(bytes.NewReader(text), func(Header) {}, func(Record) {}); !errors.Is(err, ErrFormat) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
