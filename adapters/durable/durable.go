// Package durable replaces files so that a crash at any moment leaves either the old content or the new one, and reads
// files with a bound on the wait for a pipe.
package durable

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Replace has write make a file's new content, under another name in the same directory. The file gets the content
// once all of it is on the disk, and only its owner may read it. After an error the file is as it was. Where
// the path is a link, its target is replaced. A path that is no regular file, such as /dev/stdout, is refused. What
// processes have left that were killed meanwhile is removed.
func Replace(path string, write func(io.Writer) error) error {
	path, err := Target(path)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"+unfinished) // mode 0600
	if e, is := errors.AsType[*os.PathError](err); is {
		e.Path = path // the other name says nothing to who named the file
	}
	if err != nil {
		return err
	}
	removeLeft(path)
	err = write(file)
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err == nil {
		return syncDirectory(filepath.Dir(path))
	}
	_ = os.Remove(file.Name())
	return err
}

// unfinished is how the other names of files end.
const unfinished = ".unfinished"

// leftAfter is for how long nothing is written into a file under another name once its process was killed.
const leftAfter = time.Hour

// removeLeft removes files under other names that killed processes have left: each may be as large as the file itself.
// One that cannot be removed does no harm to the file.
func removeLeft(path string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return
	}
	for _, e := range entries {
		ours := strings.HasPrefix(e.Name(), "."+filepath.Base(path)+".") && strings.HasSuffix(e.Name(), unfinished)
		if !ours || !e.Type().IsRegular() {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > leftAfter {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
}

// Target returns the path of the file to which the links at a path lead; without a link that is the path itself. The
// file need not exist yet. A path to something else than a regular file, or through too many links, is refused.
func Target(path string) (string, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no regular file", path)
	}
	for range maxLinks {
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil
		}
		if !filepath.IsAbs(to) {
			// Join would drop a name and the .. behind it, also where that name is a link to another directory.
			to = filepath.Dir(path) + string(filepath.Separator) + to
		}
		path = to
	}
	return "", fmt.Errorf("%s is a link that leads through more than %d others", path, maxLinks)
}

// maxLinks is how many links of links systems follow.
const maxLinks = 40

// syncDirectory makes what became of the names in a directory durable.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
