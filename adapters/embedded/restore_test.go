package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"couchrelay/core/kv"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// rowsOf fills a store that is restored with so many rows of a kilobyte.
func rowsOf(n int) func(put func(key, value []byte) error) error {
	return func(put func(key, value []byte) error) error {
		for i := range n {
			if err := put(fmt.Appendf(nil, "row/%06d", i), bytes.Repeat([]byte{'x'}, 1000)); err != nil {
				return err
			}
		}
		return nil
	}
}

func nothing(*Database) error { return nil }

// count is the number of rows of a store.
func count(t testing.TB, db *Database) (n int) {
	t.Helper()
	m, err := db.Moment()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Rows(func(_, _ []byte) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMoment: a moment shows what was committed before it, whatever comes later, and also when it is old.
func TestMoment(t *testing.T) {
	db := mustOpen(t, t.TempDir(), Options{})
	defer mustClose(t, db)
	for i := range rowsAtOnce + 10 {
		if i%1000 == 0 {
			do(t, db, func(tx kv.Tx) {
				for n := range min(1000, rowsAtOnce+10-i) {
					tx.Set(fmt.Appendf(nil, "k%06d", i+n), []byte("old"))
				}
			})
		}
	}
	m, err := db.Moment()
	if err != nil {
		t.Fatal(err)
	}
	do(t, db, func(tx kv.Tx) {
		tx.ClearRange(kv.Range{Begin: []byte("k"), End: []byte("k000100")})
		tx.Set([]byte("k000200"), []byte("new"))
		tx.Set([]byte("z"), nil)
	})
	n := 0
	err = m.Rows(func(key, value []byte) error {
		if want := fmt.Sprintf("k%06d", n); string(key) != want || string(value) != "old" {
			return fmt.Errorf("row %d is %s: %s", n, key, value)
		}
		n++
		return nil
	})
	if err != nil || n != rowsAtOnce+10 {
		t.Errorf("%d rows, %v", n, err)
	}
	values, err := m.GetAll([][]byte{[]byte("k000200"), []byte("z")})
	if err != nil || string(values[0]) != "old" || values[1] != nil {
		t.Errorf("%q, %v", values, err)
	}
	rows, err := m.GetRange(kv.Range{End: []byte{0xff}}, kv.RangeOptions{Limit: 3})
	if err != nil || len(rows) != 3 || string(rows[0].Key) != "k000000" {
		t.Errorf("%q, %v", rows, err)
	}
	if m.Version() == 0 {
		t.Error("it has no version")
	}
	m.Close()
	if got := count(t, db); got != rowsAtOnce+10-100+1 {
		t.Errorf("there are %d rows now", got)
	}
}

// TestRestore: a restored store has the rows, goes on above the version, and can be opened again.
func TestRestore(t *testing.T) {
	dir := t.TempDir() + "/new"
	if err := os.MkdirAll(dir+"/lost+found", 0o700); err != nil { // as in the top directory of a disk
		t.Fatal(err)
	}
	const version = 9e15
	err := Restore(dir, Options{}, version, rowsOf(10_000), func(db *Database) error {
		return set(db, "finished", "yes")
	})
	if err != nil {
		t.Fatal(err)
	}
	db := mustOpen(t, dir, Options{})
	defer mustClose(t, db)
	if n := count(t, db); n != 10_001 {
		t.Errorf("there are %d rows", n)
	}
	got, err := kv.Run(bg, db, func(tx kv.Tx) (int64, error) { return tx.ReadVersion() })
	if err != nil || got <= version {
		t.Errorf("the version is %d, %v", got, err)
	}
	again := Restore(dir, Options{}, 1, rowsOf(1), nothing)
	if !errors.Is(again, ErrNotEmpty) && !errors.Is(again, ErrInUse) {
		t.Errorf("restored over a store: %v", again)
	}
}

// TestOpenWhileRestoring: a store that is being restored is in use, and nobody is told to remove its files.
func TestOpenWhileRestoring(t *testing.T) {
	dir := t.TempDir() + "/new"
	err := Restore(dir, Options{}, 1, rowsOf(1), func(*Database) error {
		if _, err := Open(dir, Options{}); !errors.Is(err, ErrInUse) {
			t.Errorf("the error is %v", err)
		}
		if err := Restore(dir, Options{}, 1, rowsOf(1), nothing); !errors.Is(err, ErrInUse) {
			t.Errorf("the error of another restore is %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRestoreThatFails: after an error nothing is left but what was there.
func TestRestoreThatFails(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		fill   func(put func(key, value []byte) error) error
		finish func(*Database) error
	}{
		"rows": {func(put func(key, value []byte) error) error {
			return errors.Join(rowsOf(5000)(put), broken)
		}, nothing},
		"finish":       {rowsOf(10), func(*Database) error { return broken }},
		"foreign row":  {func(put func(key, value []byte) error) error { return put([]byte("\xffx"), nil) }, nothing},
		"nameless row": {func(put func(key, value []byte) error) error { return put(nil, []byte("x")) }, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			if err := fs.MkdirAll("dir", 0o700); err != nil {
				t.Fatal(err)
			}
			f, err := fs.Create(fs.PathJoin("dir", "secret.key"), vfs.WriteCategoryUnspecified)
			if err != nil || f.Close() != nil {
				t.Fatal(err)
			}
			err = Restore("dir", Options{FS: fs}, 1, c.fill, c.finish)
			if err == nil || !strings.HasSuffix(name, " row") && !errors.Is(err, broken) {
				t.Errorf("the error is %v", err)
			}
			if names, _ := fs.List("dir"); fmt.Sprint(names) != "[secret.key]" {
				t.Errorf("there are %v", names)
			}
			if err := Restore("dir", Options{FS: fs}, 1, rowsOf(3), nothing); err != nil {
				t.Errorf("restored again: %v", err)
			}
		})
	}
}

// TestRestoreIntoUnknown: a restore that could not see what is in the directory removes nothing there.
func TestRestoreIntoUnknown(t *testing.T) {
	fs := &blind{FS: vfs.NewMem()}
	if err := fs.MkdirAll("dir", 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Create("dir/precious", vfs.WriteCategoryUnspecified)
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if err := Restore("dir", Options{FS: fs}, 1, rowsOf(1), nothing); !errors.Is(err, errDisk) {
		t.Errorf("the error is %v", err)
	}
	if names, err := fs.List("dir"); fmt.Sprint(names) != "[precious]" {
		t.Errorf("there are %v, %v", names, err)
	}
}

// blind is a file system of which the first list fails.
type blind struct {
	vfs.FS
	sees bool
}

func (fs *blind) List(dir string) ([]string, error) {
	if !fs.sees {
		fs.sees = true
		return nil, errDisk
	}
	return fs.FS.List(dir)
}

// TestRestoreOntoFullDisk: the error comes at once, and names the disk's.
func TestRestoreOntoFullDisk(t *testing.T) {
	var writes atomic.Int64
	for name, hook := range map[string]func(op, name string) error{
		"log": failing("write", ".log", errDisk), "table": failing("write", ".sst", errDisk),
		"everything": func(op, name string) error {
			if writes.Add(1) > 5 {
				return errDisk
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := &faultyFS{FS: vfs.NewMem()}
			armed := false
			err := Restore("dir", Options{FS: fs}, 1, func(put func(key, value []byte) error) error {
				if !armed {
					armed = true
					fs.set(hook)
				}
				return rowsOf(20_000)(put)
			}, nothing)
			if !errors.Is(err, errDisk) && (err == nil || !strings.Contains(err.Error(), errDisk.Error())) {
				t.Errorf("the error is %v", err)
			}
			fs.set(nil)
			if names, _ := fs.List("dir"); len(names) > 0 {
				t.Errorf("there are %v", names)
			}
		})
	}
}

// TestRestoreThatCrashes: after a crash at any moment, of the process or of the machine, the directory has the whole
// store, is refused, or has nothing of one.
func TestRestoreThatCrashes(t *testing.T) {
	for at, more := 0, true; more; at++ {
		for _, kept := range []int{0, 50, 100} {
			if more = restoreWithCrash(t, at, kept); !more && at < 10 {
				t.Errorf("there are %d writes", at)
			}
		}
	}
}

// restoreWithCrash has a restore crash before a write, of which the disk keeps a part of what was not synced. It
// reports whether there was such a write.
func restoreWithCrash(t *testing.T, at, kept int) bool {
	mem := vfs.NewCrashableMem()
	fs := &faultyFS{FS: mem}
	r := rand.New(rand.NewPCG(uint64(at), uint64(kept)))
	writes, crashed := 0, (*vfs.MemFS)(nil)
	fs.set(func(string, string) error {
		if writes++; writes == at+1 {
			crashed = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: r})
		}
		return nil
	})
	if err := Restore("dir", Options{FS: fs}, 1, rowsOf(500), nothing); err != nil {
		t.Fatal(err)
	}
	if crashed == nil {
		return false
	}
	if names, err := crashed.List("dir"); err != nil || len(names) == 0 {
		return true // nothing was begun
	}
	db, err := Open("dir", Options{FS: crashed})
	switch {
	case errors.Is(err, ErrUnfinished):
		if err := Restore("dir", Options{FS: crashed}, 1, rowsOf(1), nothing); !errors.Is(err, ErrUnfinished) {
			t.Errorf("crash at write %d, and restored again: %v", at, err)
		}
	case err != nil:
		t.Fatalf("crash at write %d, with %d %% of the rest: %v", at, kept, err)
	default:
		if n := count(t, db); n != 500 {
			t.Errorf("crash at write %d, with %d %% of the rest: %d rows", at, kept, n)
		}
		mustClose(t, db)
	}
	return true
}

// TestRestoreThatFailsAndDies: when a restore that failed is killed while it removes its files, what is left is no
// store.
func TestRestoreThatFailsAndDies(t *testing.T) {
	broken := errors.New("broken")
	for at := 0; ; at++ {
		fs := &removals{FS: vfs.NewMem(), left: at}
		err := Restore("dir", Options{FS: fs}, 1, rowsOf(500), func(*Database) error { return broken })
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		names, _ := fs.List("dir")
		if len(names) == 0 {
			if at < 5 {
				t.Errorf("%d files were removed", at)
			}
			return
		}
		if _, err := Open("dir", Options{FS: fs}); !errors.Is(err, ErrUnfinished) {
			t.Fatalf("after %d removals %v are left, and opening them ends with %v", at, names, err)
		}
	}
}

// removals is a file system whose process is killed after so many removals from a store's directory.
type removals struct {
	vfs.FS
	left int
}

func (fs *removals) RemoveAll(name string) error { return fs.remove(name, fs.FS.RemoveAll) }

func (fs *removals) Remove(name string) error {
	if strings.HasSuffix(name, unfinished) {
		return fs.remove(name, fs.FS.Remove)
	}
	return fs.FS.Remove(name) // of Pebble
}

func (fs *removals) remove(name string, how func(string) error) error {
	if fs.left--; fs.left < 0 {
		return errors.New("killed")
	}
	return how(name)
}

// TestNewDirectories: a commit is durable in a store whose directory was made with those above it.
func TestNewDirectories(t *testing.T) {
	mem := vfs.NewCrashableMem()
	db := mustOpen(t, "a/b/store", Options{FS: mem})
	if err := set(db, "k", "v"); err != nil {
		t.Fatal(err)
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	mustClose(t, db)
	again := mustOpen(t, "a/b/store", Options{FS: crashed})
	defer mustClose(t, again)
	if got := value(t, again, "k"); got != "v" {
		t.Errorf("after a crash it is %q", got)
	}
}
