package embedded

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// failure notes the first write or sync that fails, and from then on lets none through.
//
// Pebble retries some failed writes at once and for ever, ends the process on others, and returns an
// error of the rest. Here the goroutine that met the failure, and every later one that wants to write,
// stops for good instead, so that nothing more happens to the files; whoever waits for one of them
// waits for happened too.
type failure struct {
	logger   *slog.Logger
	armed    atomic.Bool // once the store is open; before, errors are returned as they are
	once     sync.Once
	cause    error // set before happened is closed
	happened chan struct{}
}

func newFailure(logger *slog.Logger) *failure {
	return &failure{logger: logger, happened: make(chan struct{})}
}

func (f *failure) arm() { f.armed.Store(true) }

// err is the failure, nil while there is none.
func (f *failure) err() error {
	select {
	case <-f.happened:
		return f.cause
	default:
		return nil
	}
}

// fail notes a failure.
func (f *failure) fail(cause error) {
	f.once.Do(func() {
		f.cause = fmt.Errorf("%w: %w", ErrFailed, cause)
		f.logger.Error("store failed", "error", cause)
		close(f.happened)
	})
}

// stop ends the calling goroutine's work without unwinding it, since what it holds is in no state to
// be used.
func (f *failure) stop() { select {} }

// check passes the result of a write on, unless the store is open and the write failed.
func (f *failure) check(err error) error {
	if err != nil && f.armed.Load() {
		f.fail(err)
	}
	if f.err() != nil {
		f.stop()
	}
	return err
}

// listener makes the errors that Pebble meets in the background, and damaged files, failures of the
// store. Pebble would only log the former and try again at once.
func (f *failure) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			f.fail(err)
			time.Sleep(time.Second) // before it tries again
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) { f.fail(info.Details) },
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

// pebbleLog passes Pebble's messages on. What is fatal to Pebble is fatal to the store and not to the
// process.
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
