package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReadFile: ReadFile reads files and pipes, and does not wait for ever for a pipe from which nothing comes.
func TestReadFile(t *testing.T) {
	patience = 50 * time.Millisecond
	path := filepath.Join(t.TempDir(), "file")
	if _, err := ReadFile(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadFile(path); err != nil || string(text) != "text" {
		t.Errorf("a file: %q, %v", text, err)
	}
	if _, err := ReadFile(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
	pipe := path + ".pipe"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(pipe); err == nil || !strings.Contains(err.Error(), "pipe that no program writes") {
		t.Errorf("a pipe without a writer: %v", err)
	}
	silent, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(pipe); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a pipe with a silent writer: %v", err)
	}
	if err := silent.Close(); err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe() // as <(...) of shells
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if _, err := write.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	if text, err := ReadFile(fmt.Sprintf("/dev/fd/%d", read.Fd())); err != nil || string(text) != "text" {
		t.Errorf("a pipe with text: %q, %v", text, err)
	}
}
