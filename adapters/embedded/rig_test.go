package embedded

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/core/kv"

	"github.com/benbjohnson/clock"
	"github.com/cockroachdb/pebble/v2/vfs"
)

var bg = context.Background()

// patience bounds operations that must not hang.
const patience = 10 * time.Second

func mustOpen(t testing.TB, dir string, o Options) *Database {
	t.Helper()
	db, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func mustClose(t testing.TB, db *Database) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func do(t testing.TB, db *Database, fn func(tx kv.Tx)) {
	t.Helper()
	if err := kv.Do(bg, db, func(tx kv.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

func set(db *Database, key, value string) error {
	return kv.Do(bg, db, func(tx kv.Tx) error { tx.Set([]byte(key), []byte(value)); return nil })
}

func value(t testing.TB, db *Database, key string) string {
	t.Helper()
	v, err := kv.Run(bg, db, func(tx kv.Tx) ([]byte, error) { return tx.Get([]byte(key)) })
	if err != nil {
		t.Fatal(err)
	}
	return string(v)
}

func stopped() clock.Clock {
	c := clock.NewMock()
	c.Set(time.Unix(1_000_000, 0))
	return c
}

// faultyFS is a file system whose writes can be made to fail or to wait.
type faultyFS struct {
	vfs.FS
	mu   sync.Mutex
	hook func(op, name string) error
}

func (fs *faultyFS) set(hook func(op, name string) error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.hook = hook
}

func (fs *faultyFS) call(op, name string) error {
	fs.mu.Lock()
	hook := fs.hook
	fs.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op, name)
}

func (fs *faultyFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := fs.call("create", name); err != nil {
		return nil, err
	}
	f, err := fs.FS.Create(name, c)
	return faultyFile{f, fs, name}, err
}

func (fs *faultyFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := fs.call("create", newname); err != nil {
		return nil, err
	}
	f, err := fs.FS.ReuseForWrite(oldname, newname, c)
	return faultyFile{f, fs, newname}, err
}

func (fs *faultyFS) OpenDir(name string) (vfs.File, error) {
	d, err := fs.FS.OpenDir(name)
	return faultyFile{d, fs, name}, err
}

type faultyFile struct {
	vfs.File
	fs   *faultyFS
	name string
}

func (f faultyFile) Write(p []byte) (int, error) {
	if err := f.fs.call("write", f.name); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f faultyFile) Sync() error {
	if err := f.fs.call("sync", f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f faultyFile) SyncData() error {
	if err := f.fs.call("sync", f.name); err != nil {
		return err
	}
	return f.File.SyncData()
}

// failing makes an operation on files with a suffix fail.
func failing(op, suffix string, err error) func(op, name string) error {
	return func(o, name string) error {
		if o == op && (strings.HasSuffix(name, suffix) || strings.Contains(name, "/"+suffix)) {
			return err
		}
		return nil
	}
}

// failingOnce makes the first of them fail.
func failingOnce(op, suffix string, err error) func(op, name string) error {
	fails, failed := failing(op, suffix, err), atomic.Bool{}
	return func(op, name string) error {
		if err := fails(op, name); err != nil && failed.CompareAndSwap(false, true) {
			return err
		}
		return nil
	}
}

// within fails the test when f takes too long.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s hangs", what)
	}
}

var errDisk = errors.New("no space left on device")
