package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/kv/resolver"

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
		if err != nil {
			return // may be noticed at once
		}
		_, err = kv.Run(bg, db, func(tx kv.Tx) ([]kv.KeyValue, error) {
			return tx.GetRange(kv.Range{Begin: []byte("k"), End: []byte("l")}, kv.RangeOptions{})
		})
		if err == nil || kv.Retryable(err) {
			t.Errorf("got %v", err)
		}
		if err := set(db, "k", "v"); !errors.Is(err, ErrFailed) {
			t.Errorf("then %v", err)
		}
		if err := db.Close(); !errors.Is(err, ErrFailed) {
			t.Errorf("close: %v", err)
		}
	})
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
