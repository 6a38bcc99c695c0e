package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// failure is the store's end by a failed write. It notes the first write or sync that fails.
//
// Pebble by itself retries some failed writes at once and for ever, ends the process on others, and returns
// an error for the rest. Here the goroutine that met the failure blocks for good instead, and so does every
// later one when its next write returns. So Pebble does not build on files whose state is unknown, and a
// restart finds them much as the failure left them. A goroutine that waits for one of these must also wait
// for happened. While Pebble is opened this holds, too: it would return an error and free what a compaction
// in the background goes on to use, which ends the process with a panic.
type failure struct {
	logger   *slog.Logger
	once     sync.Once
	first    error         // the failure; set before happened is closed
	happened chan struct{} // closed when the store fails
}

func newFailure(logger *slog.Logger) *failure {
	return &failure{logger: logger, happened: make(chan struct{})}
}

// err returns the failure, wrapped in ErrFailed, nil as long as there is none.
func (f *failure) err() error {
	select {
	case <-f.happened:
		return fmt.Errorf("%w: %w", ErrFailed, f.first)
	default:
		return nil
	}
}

// of returns the failure in place of an error that may tell of it in Pebble's words.
func (f *failure) of(err error) error {
	if err == nil {
		return nil
	}
	return cmp.Or(f.err(), err)
}

// fail ends the store with a failure, unless it has failed already.
func (f *failure) fail(cause error) {
	f.once.Do(func() {
		f.first = cause
		f.logger.Error("store failed", "error", cause)
		close(f.happened)
	})
}

// whileGood calls f, which may wait for ever once the store has failed.
func (db *Database) whileGood(f func() error) error {
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() {
			if r := recover(); r != nil { // Pebble panics when it cannot write its log
				err = fmt.Errorf("%v", r)
			}
			done <- err
		}()
		err = f()
	}()
	select {
	case err := <-done:
		return errors.Join(err, db.failure.err())
	case <-db.failure.happened:
		return db.failure.err()
	}
}

// stop blocks the calling goroutine for good. Unwinding it would run Pebble's own handling of errors, on
// locks and structures in the middle of a change.
func (f *failure) stop() { select {} }

// check takes the result of every write and sync. It returns the result while the store is good; once a write
// has failed it does not return, whichever write this one was.
func (f *failure) check(err error) error {
	if err != nil {
		f.fail(err)
	}
	if f.err() != nil {
		f.stop()
	}
	return err
}

// listener returns the listener by which errors in Pebble's background work, and damaged files, fail the
// store. Pebble alone would log such an error and try again at once.
func (f *failure) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			f.fail(err)
			time.Sleep(time.Second) // Pebble tries again when this returns: keep that from being a busy loop
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			f.fail(fmt.Errorf("%w (%w)", ErrDamaged, info.Details))
		},
	}
}

// files is a file system whose writes are checked.
type files struct {
	vfs.FS
	failure *failure
}

func (fs files) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.opened(fs.FS.Create(name, c))
}

func (fs files) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return fs.opened(fs.FS.ReuseForWrite(oldname, newname, c))
}

func (fs files) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return fs.opened(fs.FS.OpenReadWrite(name, c, o...))
}

func (fs files) OpenDir(name string) (vfs.File, error) { return fs.opened(fs.FS.OpenDir(name)) }

func (fs files) opened(f vfs.File, err error) (vfs.File, error) {
	if err := fs.failure.check(err); err != nil {
		return nil, err
	}
	return file{f, fs.failure}, nil
}

func (fs files) Rename(oldname, newname string) error {
	return fs.failure.check(fs.FS.Rename(oldname, newname))
}

func (fs files) Link(oldname, newname string) error {
	return fs.failure.check(fs.FS.Link(oldname, newname))
}

func (fs files) Unwrap() vfs.FS { return fs.FS }

// file is a file whose writes are checked.
type file struct {
	vfs.File
	failure *failure
}

func (f file) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.failure.check(err)
}

func (f file) WriteAt(p []byte, at int64) (int, error) {
	n, err := f.File.WriteAt(p, at)
	return n, f.failure.check(err)
}

func (f file) Sync() error { return f.failure.check(f.File.Sync()) }

func (f file) SyncData() error { return f.failure.check(f.File.SyncData()) }

func (f file) SyncTo(n int64) (bool, error) {
	full, err := f.File.SyncTo(n)
	return full, f.failure.check(err)
}

// pebbleLog hands Pebble's messages to the logger. An error that is fatal to Pebble fails the store; Pebble's
// own logger would end the process.
type pebbleLog struct{ failure *failure }

func (l pebbleLog) Infof(format string, args ...any) {
	l.failure.logger.Debug("pebble", "message", fmt.Sprintf(format, args...))
}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.failure.logger.Warn("pebble", "message", fmt.Sprintf(format, args...))
}

func (l pebbleLog) Fatalf(format string, args ...any) {
	l.failure.fail(fmt.Errorf(format, args...))
	l.failure.stop()
}
