package integration

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestTerminalStatus: the exit status is 0 only when everything selected is on the target.
func TestTerminalStatus(t *testing.T) {
	needPouch(t)
	source, target := database(t, pouch[0]), database(t, pouch[1])
	write(t, source, true, object{"_id": "a"}, object{"_id": "b"})
	for _, c := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"copies", []string{source, target}, 0, "2 docs"},
		{"nothing to do", []string{source, target}, 0, "0 docs"},
		{"one document", []string{source, target + "-new", "--create-target", "--doc-ids", "a"}, 0, "1 docs"},
		{"no such database", []string{source + "x", target}, 1,
			"db_not_found: could not open " + source + "x/"},
		{"no server", []string{"http://127.0.0.1:1/x", target, "--retries", "0"}, 1, "connect_failed"},
		{"no URL", []string{"x", target}, 2, "local_endpoints_not_supported"},
		{"bad option", []string{source, target, "--workers", "0"}, 2, "worker_processes"},
		{"unknown flag", []string{source, target, "--magic"}, 2, "unknown flag --magic"},
	} {
		out, status := replicate(t, c.args...)
		if status != c.status || !strings.Contains(out, c.says) {
			t.Errorf("%s: status %d, want %d with %q:\n%s", c.name, status, c.status, c.says, out)
		}
	}
	want(t, 200, "DELETE", target+"-new", nil)
}

// TestInterrupt: Ctrl-C stops after a checkpoint, from which the next replication continues.
func TestInterrupt(t *testing.T) {
	needPouch(t)
	source, target := database(t, pouch[0]), database(t, pouch[1])
	var documents []object
	for range 3000 {
		documents = append(documents, object{"text": strings.Repeat("x", 500)})
	}
	write(t, source, true, documents...)
	writes := tap(t, pouch[1])
	tapped := writes.url + target[strings.LastIndex(target, "/")+1:]
	cmd := exec.Command(binary, "replicate", source, tapped, "--batch-size", "50", "--workers", "1")
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "some documents", func() bool {
		count, _ := want(t, 200, "GET", target, nil)["doc_count"].(float64)
		return count > 200
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if status := cmd.ProcessState.ExitCode(); status != 1 ||
		!strings.Contains(out.String(), "stopped before the end") {
		t.Errorf("status %d: %s", status, out)
	}
	if seq := writes.checkpoint(t, pouch[1]); seq == "0" {
		t.Errorf("no checkpoint was written: %s", out)
	}
	if out, status := replicate(t, source, tapped); status != 0 {
		t.Errorf("status %d: %s", status, out)
	}
}
