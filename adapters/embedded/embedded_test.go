package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/core/kv"

	"github.com/benbjohnson/clock"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestReopen: a store has what was committed when it is opened again. Only its owner may look into its directory.
func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	db := mustOpen(t, dir, Options{})
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has the mode %v, %v", info.Mode(), err)
	}
	do(t, db, func(tx kv.Tx) {
		tx.Set([]byte("a"), []byte("1"))
		tx.Set([]byte("b"), []byte("2"))
		tx.Add([]byte("n"), 3)
	})
	do(t, db, func(tx kv.Tx) { tx.Clear([]byte("a")) })
	mustClose(t, db)
	db = mustOpen(t, dir, Options{})
	defer mustClose(t, db)
	if a, b, n := value(t, db, "a"), value(t, db, "b"), value(t, db, "n"); a != "" || b != "2" ||
		n != "\x03\x00\x00\x00\x00\x00\x00\x00" {
		t.Errorf("a=%q b=%q n=%q", a, b, n)
	}
}

// TestVersionsNeverGoBack: versions rise from one start to the next, even if the clock goes back.
func TestVersionsNeverGoBack(t *testing.T) {
	fs := vfs.NewMem()
	last := uint64(0)
	for _, year := range []int{2030, 2020, 1960, 2040} {
		now := clock.NewMock()
		now.Set(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC))
		db := mustOpen(t, "store", Options{FS: fs, Clock: now})
		for range 3 {
			tx := db.Begin(bg, kv.Options{})
			read, err := tx.ReadVersion()
			tx.Set([]byte("a"), nil)
			if err := errors.Join(err, tx.Commit()); err != nil {
				t.Fatal(err)
			}
			stamp, err := tx.Versionstamp()
			if v := binary.BigEndian.Uint64(stamp[:]); err != nil || v <= last || read < int64(last) ||
				read >= int64(v) {
				t.Errorf("in %d: read version %d and version %d after %d, %v", year, read, v, last, err)
			} else {
				last = v
			}
		}
		mustClose(t, db)
	}
}

// TestWindowAfterClockWentBack: the age of transactions and the conflict log follow the time since the start.
func TestWindowAfterClockWentBack(t *testing.T) {
	fs := vfs.NewMem()
	now := clock.NewMock()
	now.Set(time.Unix(2_000_000, 0))
	db := mustOpen(t, "store", Options{FS: fs, Clock: now})
	if err := set(db, "a", "x"); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	now.Set(time.Unix(1_000_000, 0))
	db = mustOpen(t, "store", Options{FS: fs, Clock: now})
	defer mustClose(t, db)
	for range 10 {
		if err := set(db, "a", "x"); err != nil {
			t.Fatal(err)
		}
		now.Add(time.Second)
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if !db.log.Conflicts(0, resolverSpans("a")) {
		t.Error("the last seconds are forgotten")
	}
	now.Add(time.Minute)
	if db.log.Forget(int64(db.present().Add(-window))); db.log.Conflicts(0, resolverSpans("a")) {
		t.Error("the time before is remembered for ever")
	}
}

func TestOpenErrors(t *testing.T) {
	busy := t.TempDir()
	held := mustOpen(t, busy, Options{})
	defer mustClose(t, held)

	newer := t.TempDir()
	db := mustOpen(t, newer, Options{})
	if err := db.pebble.Set(formatKey, []byte("couchrelay 2"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)

	newerPebble := t.TempDir()
	mustClose(t, mustOpen(t, newerPebble, Options{}))
	markers, _ := filepath.Glob(filepath.Join(newerPebble, "marker.format-version.*"))
	for _, m := range markers {
		if err := os.Rename(m, filepath.Join(newerPebble, "marker.format-version.999999.999")); err != nil {
			t.Fatal(err)
		}
	}

	strange := t.TempDir()
	db = mustOpen(t, strange, Options{})
	if err := db.pebble.Set(formatKey, []byte("else"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)

	foreign := t.TempDir()
	p, err := pebble.Open(foreign, &pebble.Options{Logger: pebbleLog{newFailure(quiet)}})
	if err == nil {
		err = errors.Join(p.Set([]byte("a"), nil, pebble.Sync), p.Close())
	}
	if err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(t.TempDir(), "file")
	other := t.TempDir()
	for _, name := range []string{file, filepath.Join(other, "notes.txt")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	corrupt := t.TempDir()
	mustClose(t, mustOpen(t, corrupt, Options{}))
	manifests, _ := filepath.Glob(filepath.Join(corrupt, "MANIFEST-*"))
	for _, m := range manifests {
		if err := os.WriteFile(m, []byte("garbage"), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	readOnly := &faultyFS{FS: vfs.NewMem()}
	readOnly.set(func(string, string) error { return os.ErrPermission })

	for name, c := range map[string]struct {
		dir  string
		fs   vfs.FS
		is   error
		text string
	}{
		"in use":           {busy, nil, ErrInUse, "in use by another process"},
		"newer":            {newer, nil, ErrNewer, "format 2 and this one knows up to 1"},
		"newer Pebble":     {newerPebble, nil, ErrNewer, "unknown format major version 999"},
		"strange marker":   {strange, nil, nil, `the format marker is "else"`},
		"foreign database": {foreign, nil, nil, "database of another program"},
		"a file":           {file, nil, nil, "not a directory"},
		"other things":     {other, nil, nil, `there is "notes.txt"`},
		"corrupt":          {corrupt, nil, nil, "MANIFEST"},
		"read only":        {"store", readOnly, os.ErrPermission, "permission denied"},
	} {
		within(t, name, func() {
			db, err := Open(c.dir, Options{FS: c.fs})
			if db != nil || err == nil || !strings.Contains(err.Error(), c.text) ||
				!strings.Contains(err.Error(), c.dir) {
				t.Errorf("%s: got %v, want %q and the directory", name, err, c.text)
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%s: %v is not %v", name, err, c.is)
			}
		})
	}
}

// TestOtherProcess holds the directory in a process of its own.
func TestOtherProcess(t *testing.T) {
	if dir := os.Getenv("EMBEDDED_TEST_HOLD"); dir != "" {
		db := mustOpen(t, dir, Options{})
		fmt.Println("held")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent closes the pipe
		mustClose(t, db)
		return
	}
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=TestOtherProcess$")
	child.Env = append(os.Environ(), "EMBEDDED_TEST_HOLD="+dir)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); !errors.Is(err, ErrInUse) {
		t.Errorf("while another process holds it: %v", err)
	}
	in.Close()
	_ = child.Wait()
	mustClose(t, mustOpen(t, dir, Options{}))
}

// TestClose: operations in flight succeed, later ones fail.
func TestClose(t *testing.T) {
	fs := &faultyFS{FS: vfs.NewMem()}
	db := mustOpen(t, "store", Options{FS: fs})
	reader := db.Begin(bg, kv.Options{})
	if _, err := reader.Get([]byte("a")); err != nil {
		t.Fatal(err)
	}
	watching := db.Begin(bg, kv.Options{})
	w := watching.Watch([]byte("a"))
	if err := watching.Commit(); err != nil {
		t.Fatal(err)
	}
	gate := newGate()
	fs.set(gate.hook)
	result := make(chan error)
	go func() { result <- set(db, "k", "v") }()
	<-gate.reached
	closed := make(chan error)
	go func() { closed <- db.Close() }()
	gate.open()
	within(t, "close", func() {
		if err := errors.Join(<-result, <-closed); err != nil {
			t.Error(err)
		}
		if err := w.Wait(bg); !errors.Is(err, ErrClosed) {
			t.Errorf("watch: %v", err)
		}
		_, err := reader.Get([]byte("b"))
		reader.Cancel()
		_, err2 := kv.Run(bg, db, func(tx kv.Tx) ([]byte, error) { return tx.Get([]byte("k")) })
		for _, err := range []error{err, err2, set(db, "k", "x")} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("after close: %v", err)
			}
		}
		mustClose(t, db)
	})
	db = mustOpen(t, "store", Options{FS: fs})
	defer mustClose(t, db)
	if v := value(t, db, "k"); v != "v" {
		t.Errorf("k=%q", v)
	}
}

// gate holds the syncs of the write-ahead log.
type gate struct {
	reached chan struct{} // one value for each sync that is held
	opened  chan struct{}
	syncs   atomic.Int32
}

func newGate() *gate { return &gate{reached: make(chan struct{}, 1000), opened: make(chan struct{})} }

func (g *gate) open() { close(g.opened) }

func (g *gate) hook(op, name string) error {
	if op == "sync" && strings.HasSuffix(name, ".log") {
		g.syncs.Add(1)
		g.reached <- struct{}{}
		<-g.opened
	}
	return nil
}

// TestNothingBeforeTheSync: a commit is neither answered nor visible before it is on the disk. Commits that
// arrive during a sync share the next one.
func TestNothingBeforeTheSync(t *testing.T) {
	fs := &faultyFS{FS: vfs.NewMem()}
	db := mustOpen(t, "store", Options{FS: fs})
	defer mustClose(t, db)
	gate := newGate()
	fs.set(gate.hook)
	var answered atomic.Int32
	var clients sync.WaitGroup
	commit := func(i int) {
		clients.Go(func() {
			if err := set(db, fmt.Sprint("k", i), "v"); err != nil {
				t.Error(err)
			}
			answered.Add(1)
		})
	}
	commit(0)
	<-gate.reached
	const others = 50
	for i := range others {
		commit(i + 1)
	}
	for waiting := 0; waiting < others; { // until all are in the queue
		db.groups.mu.Lock()
		waiting = len(db.groups.queue)
		db.groups.mu.Unlock()
	}
	if n := answered.Load(); n != 0 || value(t, db, "k0") != "" {
		t.Errorf("%d answered before the sync, and k0 is %q", n, value(t, db, "k0"))
	}
	gate.open()
	clients.Wait()
	if n := gate.syncs.Load(); n != 2 {
		t.Errorf("%d syncs, want one for the first and one for all others", n)
	}
	if v := value(t, db, "k50"); v != "v" {
		t.Errorf("k50 is %q", v)
	}
}

// TestConflictsWithinAGroup: of two commits in one group that exclude each other the second fails.
func TestConflictsWithinAGroup(t *testing.T) {
	fs := &faultyFS{FS: vfs.NewMem()}
	db := mustOpen(t, "store", Options{FS: fs})
	defer mustClose(t, db)
	gate := newGate()
	fs.set(gate.hook)
	var clients sync.WaitGroup
	clients.Go(func() { _ = set(db, "other", "") })
	<-gate.reached
	var conflicts atomic.Int32
	for range 10 {
		tx := db.Begin(bg, kv.Options{})
		if _, err := tx.Get([]byte("k")); err != nil {
			t.Fatal(err)
		}
		tx.Set([]byte("k"), nil)
		tx.Add([]byte("n"), 1)
		clients.Go(func() {
			if err := tx.Commit(); kv.CodeOf(err) == kv.NotCommitted {
				conflicts.Add(1)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	gate.open()
	clients.Wait()
	if n := conflicts.Load(); n != 9 || value(t, db, "n") != "\x01\x00\x00\x00\x00\x00\x00\x00" {
		t.Errorf("%d conflicts, want 9; n is %q", n, value(t, db, "n"))
	}
}

// TestContextEndsDuringCommit: the caller returns at once, and the commit is done all the same.
func TestContextEndsDuringCommit(t *testing.T) {
	fs := &faultyFS{FS: vfs.NewMem()}
	db := mustOpen(t, "store", Options{FS: fs})
	defer mustClose(t, db)
	gate := newGate()
	fs.set(gate.hook)
	ctx, cancel := context.WithCancel(bg)
	tx := db.Begin(ctx, kv.Options{})
	tx.Set([]byte("k"), []byte("v"))
	go func() { <-gate.reached; cancel() }()
	within(t, "commit", func() {
		if err := tx.Commit(); !errors.Is(err, context.Canceled) || !kv.MaybeCommitted(err) {
			t.Errorf("got %v", err)
		}
	})
	tx.Cancel()
	gate.open()
	if err := set(db, "later", ""); err != nil {
		t.Fatal(err)
	}
	if v := value(t, db, "k"); v != "v" {
		t.Errorf("k is %q", v)
	}
}

// TestClearRange clears as many keys as become single deletions, and one more.
func TestClearRange(t *testing.T) {
	for _, n := range []int{maxPointClears, maxPointClears + 1} {
		db := mustOpen(t, "store", Options{FS: vfs.NewMem()})
		do(t, db, func(tx kv.Tx) {
			for i := range n {
				tx.Set(fmt.Appendf(nil, "k%04d", i), nil)
			}
			tx.Set([]byte("l"), []byte("stays"))
		})
		do(t, db, func(tx kv.Tx) {
			tx.ClearRange(kv.Range{Begin: []byte("k"), End: []byte("l")})
			tx.Set([]byte("k0007"), []byte("new"))
		})
		got, err := kv.Run(bg, db, func(tx kv.Tx) ([]kv.KeyValue, error) {
			return tx.GetRange(kv.Range{End: []byte{0xff}}, kv.RangeOptions{})
		})
		if err != nil || len(got) != 2 || string(got[0].Value) != "new" || string(got[1].Value) != "stays" {
			t.Errorf("%d keys: got %q, %v", n, got, err)
		}
		mustClose(t, db)
	}
}

// TestViewsAreReleased: when all transactions have ended, only the latest view is open.
func TestViewsAreReleased(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: vfs.NewMem(), Clock: stopped()})
	defer mustClose(t, db)
	for i := range 20 {
		tx := db.Begin(bg, kv.Options{})
		_, _ = tx.Get([]byte("a"))
		tx.Set([]byte("a"), []byte{byte(i)})
		switch i % 4 {
		case 0:
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			tx.Cancel()
		case 1:
			if err := tx.OnError(kv.NewError(kv.NotCommitted)); err != nil {
				t.Fatal(err)
			}
			tx.Cancel()
		case 2:
			_ = tx.OnError(errDisk)
		case 3:
			tx.Cancel()
		}
	}
	if n := len(db.views); n != 1 || db.view.refs != 1 {
		t.Errorf("%d views, the last with %d references", n, db.view.refs)
	}
}

// TestPairsAreApart: an append to a key or a value of a range that was read changes no other pair of the range.
func TestPairsAreApart(t *testing.T) {
	db, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = kv.Do(t.Context(), db, func(tx kv.Tx) error {
		for _, key := range []string{"a", "b", "c"} {
			tx.Set([]byte(key), []byte("value of "+key))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	moment, err := db.Moment()
	if err != nil {
		t.Fatal(err)
	}
	defer moment.Close()
	pairs, err := moment.GetRange(kv.Range{Begin: []byte("a"), End: []byte("z")}, kv.RangeOptions{})
	if err != nil || len(pairs) != 3 {
		t.Fatal(len(pairs), err)
	}
	for _, p := range pairs {
		_, _ = append(p.Key, "xxxx"...), append(p.Value, "xxxx"...)
	}
	for _, p := range pairs {
		if string(p.Value) != "value of "+string(p.Key) {
			t.Errorf("%q: %q", p.Key, p.Value)
		}
	}
}
