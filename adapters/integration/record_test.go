package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/adapters/eventlog"
)

// TestRecorded: a service replicates between independent servers and is killed. Its log alone leads to the
// same decisions again.
func TestRecorded(t *testing.T) {
	needPouch(t)
	source, target := database(t, pouch[0]), database(t, pouch[1])
	documents := make([]object, 2000)
	for n := range documents {
		documents[n] = object{"n": n, "text": "the body of a document"}
	}
	write(t, source, true, documents...)
	dir := t.TempDir()
	path := filepath.Join(dir, "events.log")
	r := serve(t, dir, "--record", path)
	want(t, 201, "PUT", r.url+"_replicator/once",
		object{"source": source, "target": target, "worker_batch_size": 100})
	want(t, 201, "PUT", r.url+"_replicator/none",
		object{"source": source + "-none", "target": target, "continuous": true})
	await(t, "completion", func() bool { return r.docState(t, "once") == "completed" })
	await(t, "a crash", func() bool { return r.docState(t, "none") == "crashing" })
	r.kill()
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(log), "the body of") {
		t.Error("bodies are in the log")
	}
	var ended []string
	report, err := eventlog.Replay(strings.NewReader(string(log)), func(s eventlog.Step) {
		for _, e := range s.Effects {
			if s.Run > 0 && strings.HasPrefix(e, "end ") {
				ended = append(ended, e)
			}
		}
	})
	if err != nil || !report.Cut || report.Runs < 2 || report.Events < 80 {
		t.Errorf("%+v, %v", report, err)
	}
	if all := strings.Join(ended, "\n"); !strings.Contains(all, "end completed") ||
		!strings.Contains(all, "db_not_found") {
		t.Errorf("runs ended with %q", ended)
	}
}
