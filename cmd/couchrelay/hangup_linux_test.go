package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"couchrelay/adapters/config"
)

// TestHangupDuringStart: a SIGHUP that comes while the service starts does not end it. The configuration is read again
// once the service is prepared.
func TestHangupDuringStart(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "couchrelay.ini")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(freePort(t))
	c := thisProgramWith("serve", "--config", file, "--store", filepath.Join(dir, "store"), "--port", port)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = c.Wait()
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill()
		<-ended
	})
	within := func(what string, do func() error) {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- do() }()
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		case <-ended:
			t.Fatalf("%s: the service has ended: %v", what, c.ProcessState)
		case <-time.After(time.Minute):
			t.Fatalf("%s: waits for ever", what)
		}
	}
	within("the start", func() error {
		w, err := os.OpenFile(file, os.O_WRONLY, 0) // once the service reads it
		if err != nil {
			return err
		}
		defer w.Close()
		if err := c.Process.Signal(syscall.SIGHUP); err != nil {
			return err
		}
		if err := os.Remove(file); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte("[replicator]\nmax_jobs = 7\n"), 0o600); err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, "[log]\nlevel = info")
		return err
	})
	within("the reload", func() error {
		for {
			answer, err := http.Get("http://127.0.0.1:" + port + "/_node/_local/_config/replicator/max_jobs")
			if err == nil {
				text, _ := io.ReadAll(answer.Body)
				if answer.Body.Close() == nil && strings.TrimSpace(string(text)) == `"7"` {
					return nil
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// TestLogWithoutReader: the service goes on, and ends in order, after the reader of its log and output has ended.
func TestLogWithoutReader(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(freePort(t))
	c := thisProgramWith("serve", "--store", filepath.Join(t.TempDir(), "store"), "--port", port)
	c.Stdout, c.Stderr = write, write
	err = c.Start()
	_ = write.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	answered := false
	for end := time.Now().Add(time.Minute); !answered && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		q, err := http.NewRequest("PUT", "http://127.0.0.1:"+port+"/a%2F_replicator", nil) // a line of the audit
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := http.DefaultClient.Do(q); err == nil {
			answered = answer.StatusCode == http.StatusCreated || answered
			_ = answer.Body.Close()
		}
	}
	_ = c.Process.Signal(syscall.SIGTERM)
	if err := c.Wait(); err != nil || !answered {
		t.Errorf("answered: %t, %v", answered, err)
	}
}

// TestChangesLeaveNoFiles: what is looked at before the configuration changes does not stay open.
func TestChangesLeaveNoFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.html"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	r.stop()
	c := config.Default()
	c.Beside.Fauxton = dir
	r.start(c)
	for n := range 50 {
		r.want(200, "PUT", configURL+"replicator/max_jobs", strconv.Quote(strconv.Itoa(n)))
	}
	open, all := 0, "/proc/self/fd"
	entries, err := os.ReadDir(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(all, e.Name())); err == nil && to == dir {
			open++
		}
	}
	if open > 1 {
		t.Errorf("%d files are open that 50 changes have looked at", open)
	}
}
