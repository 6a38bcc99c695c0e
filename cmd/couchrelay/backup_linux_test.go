//go:build !fdb

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestInterruptedRestore: a signal ends a restore from a pipe whose program is silent, and nothing is left of it.
func TestInterruptedRestore(t *testing.T) {
	t.Parallel()
	r, dir := newStoredRig(t)
	r.stop()
	file := filepath.Join(t.TempDir(), "backup")
	typedIn(t, 0, "backup", file, "--store", dir)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	into := filepath.Join(t.TempDir(), "store")
	c := thisProgramWith("restore", "-", "--store", into)
	var said bytes.Buffer
	c.Stderr = &said
	in, err := c.StdinPipe()
	if err := errors.Join(err, c.Start()); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	dead := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer dead.Stop()
	if _, err := in.Write(text[:len(text)/2]); err != nil {
		t.Fatal(err)
	}
	r.await("the beginning", func() bool {
		_, err := os.Stat(filepath.Join(into, "RESTORING"))
		return err == nil
	})
	err = errors.Join(c.Process.Signal(os.Interrupt), c.Wait())
	if names, _ := os.ReadDir(into); c.ProcessState.ExitCode() != unchecked || len(names) > 0 ||
		!strings.Contains(said.String(), "interrupted") {
		t.Errorf("%v, it says %q, and leaves %v", err, said.String(), names)
	}
}
