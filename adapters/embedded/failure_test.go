package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/kv/resolver"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

var quiet = slog.New(slog.DiscardHandler)

func resolverSpans(key string) []resolver.Span { return []resolver.Span{{Begin: []byte(key)}} }

// TestFailures: after any write has failed, nothing hangs and every operation says why. A store that is
// opened again has every commit that was acknowledged.
func TestFailures(t *testing.T) {
	for name, hook := range map[string]func(op, name string) error{
		"log write":       failing("write", ".log", errDisk),
		"log sync":        failing("sync", ".log", errDisk),
		"next log":        failing("create", ".log", errDisk),
		"table":           failing("create", ".sst", errDisk),
		"table write":     failing("write", ".sst", errDisk),
		"table sync":      failing("sync", ".sst", errDisk),
		"manifest write":  failing("write", "MANIFEST", errDisk),
		"manifest sync":   failing("sync", "MANIFEST", errDisk),
		"directory sync":  failing("sync", "store", errDisk),
		"everything":      func(string, string) error { return errDisk },
		"after some time": failingLater(20, errDisk),
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			mem := vfs.NewCrashableMem()
			fs := &faultyFS{FS: mem}
			db := mustOpen(t, "store", Options{FS: fs, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			watching := db.Begin(bg, kv.Options{})
			w := watching.Watch([]byte("unchanged"))
			if err := watching.Commit(); err != nil {
				t.Fatal(err)
			}
			open := db.Begin(bg, kv.Options{})
			if _, err := open.ReadVersion(); err != nil {
				t.Fatal(err)
			}
			fs.set(hook)
			acknowledged := 0
			within(t, "writing", func() {
				for i := range 10_000 { // enough to fill the memory table and have it written out
					err := set(db, string(rune('a'+i%26)), strings.Repeat("x", 50_000+i))
					if err != nil {
						checkFailure(t, err)
						return
					}
					acknowledged = i + 1
				}
				t.Error("nothing failed")
			})
			within(t, "using the failed store", func() {
				checkFailure(t, set(db, "a", "b"))
				_, err := open.Get([]byte("a"))
				checkFailure(t, err)
				open.Cancel()
				checkFailure(t, w.Wait(bg))
				checkFailure(t, db.Err())
				checkFailure(t, db.Close())
			})
			if !strings.Contains(log.String(), "store failed") ||
				!strings.Contains(log.String(), errDisk.Error()) {
				t.Errorf("the log says %q", log.String())
			}
			again := mustOpen(t, "store", Options{FS: mem.CrashClone(vfs.CrashCloneCfg{})})
			defer mustClose(t, again)
			for i := max(0, acknowledged-26); i < acknowledged; i++ {
				if v := value(t, again, string(rune('a'+i%26))); len(v) != 50_000+i && i+26 != acknowledged {
					t.Errorf("commit %d of %d is lost: its key has %d bytes", i, acknowledged, len(v))
				}
			}
		})
	}
}

// TestOpenThatFails: opening a store fails when nothing can be written, as on a full disk. It does not hang,
// whether the write fails at once or while the log is replayed.
func TestOpenThatFails(t *testing.T) {
	mem := vfs.NewCrashableMem()
	db := mustOpen(t, "store", Options{FS: mem})
	if err := set(db, "key", strings.Repeat("x", 50_000)); err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, db)
	for name, hook := range map[string]func(op, name string) error{
		"log":           failing("create", ".log", errDisk),
		"table":         failing("create", ".sst", errDisk),
		"table write":   failing("write", ".sst", errDisk),
		"table sync":    failing("sync", ".sst", errDisk),
		"manifest sync": failing("sync", "MANIFEST", errDisk),
		"lock's name":   failingOnce("sync", "store", errDisk),
		"any name":      failing("sync", "store", errDisk),
		"everything":    func(string, string) error { return errDisk },
	} {
		t.Run(name, func(t *testing.T) {
			fs := &faultyFS{FS: mem.CrashClone(vfs.CrashCloneCfg{})}
			fs.set(hook)
			within(t, "opening", func() {
				if db, err := Open("store", Options{FS: fs}); err == nil ||
					!strings.Contains(err.Error(), errDisk.Error()) {
					t.Errorf("%v, %v", db, err)
				}
			})
		})
	}
}

// TestOpenThatFailsWhileCompacting: opening a store may begin a compaction; when a write fails then, the error is
// returned, and nothing is freed under the compaction, which would end the process.
func TestOpenThatFailsWhileCompacting(t *testing.T) {
	mem := vfs.NewCrashableMem()
	for range 12 { // the log of each becomes a table
		db := mustOpen(t, "store", Options{FS: mem})
		if err := set(db, "key", strings.Repeat("x", 50_000)); err != nil {
			t.Fatal(err)
		}
		crashed := mem.CrashClone(vfs.CrashCloneCfg{})
		mustClose(t, db)
		mem = crashed
	}
	for range 20 {
		fs := &faultyFS{FS: mem.CrashClone(vfs.CrashCloneCfg{})}
		fs.set(failing("create", ".log", errDisk))
		within(t, "opening", func() {
			if _, err := Open("store", Options{FS: fs}); !errors.Is(err, errDisk) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestFirstOpenThatCrashes: a crash while a store is made leaves one that can be opened.
func TestFirstOpenThatCrashes(t *testing.T) {
	for at, more := 0, true; more; at++ {
		more = false
		for seed := range uint64(10) {
			mem := vfs.NewCrashableMem()
			fs := &faultyFS{FS: mem}
			crashed := (*vfs.MemFS)(nil)
			writes := 0
			fs.set(func(string, string) error {
				if writes++; writes == at+1 {
					r := rand.New(rand.NewPCG(seed, uint64(at)))
					crashed = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: r})
				}
				return nil
			})
			mustClose(t, mustOpen(t, "store", Options{FS: fs}))
			if crashed == nil {
				continue
			}
			more = true
			db, err := Open("store", Options{FS: crashed})
			if err != nil {
				names, _ := crashed.List("store")
				t.Fatalf("crash at write %d: %v, with %v", at, err, names)
			}
			mustClose(t, db)
		}
	}
}

// TestDamagedTable: a read of a damaged file is an error, never a wrong answer, and ends the store.
func TestDamagedTable(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // opening the second time turns the log of the first into a table
		db := mustOpen(t, dir, Options{})
		do(t, db, func(tx kv.Tx) {
			for i := range 5000 {
				tx.Set(fmt.Appendf(nil, "k%04d", i), []byte(fmt.Sprint("value ", i*7919)))
			}
		})
		mustClose(t, db)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal("no table to damage", err)
	}
	for _, table := range tables {
		b, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(b) / 2 {
			b[i] ^= 0x55
		}
		if err := os.WriteFile(table, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	for _, log := range logs {
		if err := os.Truncate(log, 0); err != nil {
			t.Fatal(err)
		}
	}
	within(t, "reading", func() {
		db, err := Open(dir, Options{})
		if err != nil { // it may be noticed at once
			checkDamage(t, err)
			return
		}
		moment, err := db.Moment()
		if err != nil {
			t.Fatal(err)
		}
		checkDamage(t, moment.Rows(func(_, _ []byte) error { return nil }))
		_, err = kv.Run(bg, db, func(tx kv.Tx) ([]kv.KeyValue, error) {
			return tx.GetRange(kv.Range{Begin: []byte("k"), End: []byte("l")}, kv.RangeOptions{})
		})
		checkDamage(t, err)
		if err := set(db, "k", "v"); !errors.Is(err, ErrFailed) {
			t.Errorf("then %v", err)
		}
		if err := db.Close(); !errors.Is(err, ErrFailed) {
			t.Errorf("close: %v", err)
		}
	})
}

// checkDamage demands an error that says what to do, on one line.
func checkDamage(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrDamaged) || kv.Retryable(err) || strings.Contains(err.Error(), "\n") ||
		strings.Count(err.Error(), "pebble") != 1 {
		t.Errorf("got %v", err)
	}
}

// TestDamagedLog: a log that has something else than what was written is not taken for one that ends there.
func TestDamagedLog(t *testing.T) {
	dir, copied := t.TempDir(), filepath.Join(t.TempDir(), "copied")
	mustClose(t, mustOpen(t, dir, Options{})) // the first log of a store does not tell how much of it was synced
	db := mustOpen(t, dir, Options{})
	for i := range 100 {
		if err := set(db, fmt.Sprint("k", i), strings.Repeat("x", 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil { // as after a kill
		t.Fatal(err)
	}
	mustClose(t, db)
	logs, _ := filepath.Glob(filepath.Join(copied, "*.log"))
	for _, log := range logs {
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for i := range min(100, len(b)) {
			b[len(b)/3+i] ^= 0x55
		}
		if err := os.WriteFile(log, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Open(copied, Options{})
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v", err)
	}
}

// TestLostManifest: a store without its manifest is not one that a crash left half made, so it is not made anew.
func TestLostManifest(t *testing.T) {
	mem := vfs.NewMem()
	db := mustOpen(t, "store", Options{FS: mem})
	if err := set(db, "k", "v"); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	before, _ := mem.List("store")
	before = slices.DeleteFunc(before, func(name string) bool {
		return strings.HasPrefix(name, "MANIFEST") && mem.Remove("store/"+name) == nil
	})
	for range 2 {
		if _, err := Open("store", Options{FS: mem}); err == nil || !strings.Contains(err.Error(), "MANIFEST") {
			t.Fatalf("the error is %v", err)
		}
	}
	after, _ := mem.List("store")
	slices.Sort(before)
	slices.Sort(after)
	if !slices.Equal(after, before) {
		t.Errorf("the directory has %q, and had %q", after, before)
	}
}

func failingLater(n int, err error) func(op, name string) error {
	count := 0
	return func(op, _ string) error {
		if op == "sync" {
			count++
		}
		if count > n {
			return err
		}
		return nil
	}
}

func checkFailure(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrFailed) || !errors.Is(err, errDisk) || kv.Retryable(err) {
		t.Errorf("got %v, want the failure and its cause", err)
	}
}

// TestRefusalOnFullDisk: a store that is refused is told so, whenever the disk is full, also while it is closed again.
func TestRefusalOnFullDisk(t *testing.T) {
	mem := vfs.NewCrashableMem()
	db := mustOpen(t, "store", Options{FS: mem})
	if err := db.pebble.Set(formatKey, []byte("couchrelay 99"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	for free, more := 0, true; more; free++ {
		fs := &faultyFS{FS: mem.CrashClone(vfs.CrashCloneCfg{})}
		var writes atomic.Int64
		fs.set(func(string, string) error {
			if writes.Add(1) > int64(free) {
				return errDisk
			}
			return nil
		})
		within(t, "opening", func() {
			if _, err := Open("store", Options{FS: fs}); !errors.Is(err, errDisk) && !errors.Is(err, ErrNewer) {
				t.Errorf("with %d writes the error is %v", free, err)
			}
		})
		more = writes.Load() > int64(free)
	}
}
