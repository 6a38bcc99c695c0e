package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/adapters/config"
)

// TestMissingSecret: a job whose secret is missing crashes with an error that names it, and runs once it is there. Its
// replication id is the same with another secret. A directory of secrets that is not there yet is told at the start.
func TestMissingSecret(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stop()
	c := config.Default()
	c.Secrets.Directory = filepath.Join(t.TempDir(), "later")
	r.start(c)
	if !strings.Contains(r.log.String(), "level=WARN msg=secrets_directory ") {
		t.Errorf("nothing is said of the directory: %s", r.log)
	}
	r.fill(3)
	r.want(201, "PUT", "_replicator/r", fmt.Sprintf(
		`{"source":{"url":%q,"auth":{"basic":{"username":"u","password":{"secret":"orders"}}}},"target":%q,`+
			`"create_target":true}`, r.source.url+"db", r.target.url+"copy"))
	r.await("the crash", func() bool { return r.docState("r") == "crashing" })
	view := r.want(200, "GET", "_scheduler/docs/_replicator/r", "")
	text := fmt.Sprint(view)
	if !strings.Contains(text, "secret_missing") || !strings.Contains(text, `"orders"`) {
		t.Errorf("the job says %s", text)
	}
	if err := os.Mkdir(c.Secrets.Directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Secrets.Directory, "orders"), []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.want(200, "POST", "_scheduler/jobs/"+view["id"].(string)+"/retry", "{}")
	r.await("the end", func() bool { return r.docState("r") == "completed" })
	r.same()
	if log := r.log.String(); strings.Contains(log, "hunter2") {
		t.Error("the log shows the secret")
	}
}
