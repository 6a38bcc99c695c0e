package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestReplace: a file has the new content and a private mode, or after an error what it had, and nothing lies beside
// it.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	has := func(want string) {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil || string(text) != want {
			t.Errorf("the file has %q, %v, and not %q", text, err, want)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("the mode is %v, %v", info.Mode(), err)
		}
		if names, _ := os.ReadDir(dir); len(names) != 1 {
			t.Errorf("the directory has %v", names)
		}
	}
	put := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, failed := io.WriteString(w, text)
			return errors.Join(failed, err)
		}
	}
	for _, text := range []string{"one", "two"} {
		if err := Replace(path, put(text, nil)); err != nil {
			t.Fatal(err)
		}
		has(text)
	}
	if err := Replace(path, put("half", syscall.ENOSPC)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk the error is %v", err)
	}
	has("two")
	if Replace(filepath.Join(dir, "none", "file"), put("", nil)) == nil {
		t.Error("a directory that is not there is no error")
	}
}

// TestLeftByKilled: what a killed process has left is removed by the next one; what one writes at the moment stays, and
// so do other files.
func TestLeftByKilled(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	killed := make(chan string, 1)
	go func() { // ends as if it were killed
		_ = Replace(path, func(w io.Writer) error {
			killed <- w.(*os.File).Name()
			select {}
		})
	}()
	left, old := <-killed, time.Now().Add(-2*leftAfter)
	for _, other := range []string{".file.1", ".file2.1" + unfinished, "file.1" + unfinished} {
		other = filepath.Join(dir, other)
		if err := errors.Join(os.WriteFile(other, nil, 0o600), os.Chtimes(other, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{5, 4} {
		if err := Replace(path, func(io.Writer) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if names, err := os.ReadDir(dir); len(names) != want {
			t.Errorf("there are %v, %v", names, err)
		}
		_ = os.Chtimes(left, old, old)
	}
}

// TestReplaceBehindLink: a link stays, and what it names is replaced. What is no file is left alone: a file that is put
// over /dev/stdout would take it from all programs of the machine.
func TestReplaceBehindLink(t *testing.T) {
	dir := t.TempDir()
	file, link, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink("file", link), syscall.Mkfifo(pipe, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	write := func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }
	if err := Replace(link, write); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(file); string(text) != "new" {
		t.Errorf("what the link names has %q", text)
	}
	if to, err := os.Readlink(link); to != "file" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	early, late := filepath.Join(dir, "early"), filepath.Join(dir, "late")
	if err := errors.Join(os.Symlink("late", early), Replace(early, write)); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(late); string(text) != "new" {
		t.Errorf("what was not there when the link was made has %q, %v", text, err)
	}
	circle := filepath.Join(dir, "circle")
	if err := os.Symlink("circle", circle); err != nil {
		t.Fatal(err)
	}
	if Replace(circle, write) == nil {
		t.Error("a link to itself is replaced")
	}
	nowhere := filepath.Join(dir, "none", "file")
	if err := Replace(nowhere, write); err == nil || err.Error() != "open "+nowhere+": no such file or directory" {
		t.Errorf("where there is no directory: %v", err)
	}
	for _, path := range []string{pipe, dir} {
		before, err := os.Stat(path)
		if Replace(path, write) == nil || err != nil {
			t.Errorf("%s is replaced (%v)", path, err)
		}
		if now, err := os.Stat(path); err != nil || now.Mode() != before.Mode() {
			t.Errorf("%s is %v now, %v", path, now.Mode(), err)
		}
	}
}
