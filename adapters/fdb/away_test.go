//go:build fdb && fdbctest

package fdb_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"couchrelay/adapters/fdb"
	"couchrelay/adapters/fdb/fdbctest"
	"couchrelay/adapters/fdb/fdbtest"
	"couchrelay/core/kv"
	"couchrelay/sim/fakefdb"

	"github.com/benbjohnson/clock"
)

// logLines collects the log and lets a test wait for a line.
type logLines struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{}
}

func newLog() *logLines { return &logLines{more: make(chan struct{}, 1000)} }

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	l.more <- struct{}{}
	return len(p), nil
}

func (l *logLines) count(what string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, "msg="+what) {
			n++
		}
	}
	return n
}

func (l *logLines) await(what string) {
	late := time.After(10 * time.Second)
	for l.count(what) == 0 {
		select {
		case <-l.more:
		case <-late:
			panic("the log never says " + what)
		}
	}
}

// monitorClock stands still unless a test advances it, so that a slow machine alone has no cluster count as away.
type monitorClock struct {
	*clock.Mock
	rests chan struct{} // gets a value whenever the monitor begins the pause between two questions
}

func newMonitorClock() *monitorClock {
	return &monitorClock{clock.NewMock(), make(chan struct{}, 1000)}
}

func (c *monitorClock) After(d time.Duration) <-chan time.Time {
	defer func() { c.rests <- struct{}{} }()
	return c.Mock.After(d)
}

// leave has the cluster go away between two questions of the monitor, and returns once the log says so.
func (c *monitorClock) leave(cluster *fdbctest.Cluster, log *logLines, gone ...fakefdb.Kind) {
	<-c.rests
	waiting := cluster.Leave(gone...)
	c.Add(time.Second) // Probe
	<-waiting
	for range 1000 {
		if log.count("fdb_away") > 0 {
			return
		}
		c.Add(time.Second) // sleeps a little, so that the monitor gets to its next timer
	}
	panic("the log never says that the cluster is away")
}

// TestClusterAway: while the cluster is away every operation waits or ends with its context, and the log says
// so once. When it is back, the operations that waited succeed.
func TestClusterAway(t *testing.T) {
	log, monitor := newLog(), newMonitorClock()
	cluster, db := openCluster(t, fdb.Options{Clock: monitor, Probe: time.Second,
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	limited, cancel := context.WithCancel(bg)
	open := db.Begin(limited, kv.Options{}) // in the middle of its work
	defer open.Cancel()
	if _, err := open.Get([]byte("k")); err != nil {
		t.Fatal(err)
	}
	available := db.Available()
	if err := available.Err(); err != nil {
		t.Errorf("unavailable while the cluster answers: %v", err)
	}
	monitor.leave(cluster, log)
	<-available.Done()
	if cause := context.Cause(available); !errors.Is(cause, kv.ErrUnavailable) || !errors.Is(cause, fdb.ErrAway) {
		t.Errorf("unavailable: %v", cause)
	}
	if db.Available().Err() == nil {
		t.Error("available while the cluster is away")
	}
	asked := cluster.DB.Stats().Transactions
	if err := db.Err(); !errors.Is(err, fdb.ErrAway) || !strings.Contains(err.Error(), ".cluster") {
		t.Errorf("Err is %v", err)
	}
	for name, operation := range map[string]func(kv.Transaction) error{
		"read": func(tx kv.Transaction) error { _, err := tx.Get([]byte("k")); return err },
		"read of all": func(tx kv.Transaction) error {
			_,
				err := tx.GetAll([][]byte{[]byte("k")})
			return err
		},
		"range": func(tx kv.Transaction) error {
			_, err := tx.GetRange(kv.PrefixRange([]byte("k")), kv.RangeOptions{})
			return err
		},
		"read version": func(tx kv.Transaction) error { _, err := tx.ReadVersion(); return err },
		"watch":        func(tx kv.Transaction) error { return tx.Watch([]byte("k")).Wait(bg) },
		"commit":       func(tx kv.Transaction) error { tx.Set([]byte("lost"), nil); return tx.Commit() },
	} {
		ctx, cancel := context.WithTimeout(bg, 10*time.Millisecond)
		tx := db.Begin(ctx, kv.Options{})
		if err := operation(tx); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, fdb.ErrAway) {
			t.Errorf("%s: %v", name, err)
		}
		tx.Cancel()
		cancel()
	}
	go cancel()
	if _, err := open.GetRange(kv.PrefixRange([]byte("k")), kv.RangeOptions{}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("a range in the middle of a transaction: %v", err)
	}
	patient := make(chan error)
	go func() {
		patient <- kv.Do(bg, db, func(tx kv.Tx) error { tx.Set([]byte("k"), []byte("v")); return nil })
	}()
	if more := cluster.DB.Stats().Transactions - asked; more > 8 {
		t.Errorf("%d transactions while the cluster was away", more)
	}
	cluster.Return()
	if err := <-patient; err != nil {
		t.Error(err)
	}
	log.await("fdb_back")
	if err := errors.Join(db.Err(), db.Available().Err()); err != nil {
		t.Errorf("Err is %v", err)
	}
	if string(get(t, db, "k")) != "v" || log.count("fdb_away") != 1 || log.count("fdb_back") != 1 {
		t.Errorf("log %s", log.lines)
	}
}

// TestReadsHang: a cluster that gives read versions and answers no reads counts as away, and the reason says so.
func TestReadsHang(t *testing.T) {
	for _, gone := range [][]fakefdb.Kind{{fakefdb.Read}, {fakefdb.Read, fakefdb.Commit}} {
		log, monitor := newLog(), newMonitorClock()
		cluster, db := openCluster(t, fdb.Options{Clock: monitor, Probe: time.Second, Key: []byte("k"),
			Logger: slog.New(slog.NewTextHandler(log, nil))})
		monitor.leave(cluster, log, gone...)
		if err := db.Err(); !errors.Is(err, fdb.ErrAway) || !strings.Contains(err.Error(), "answer reads") {
			t.Errorf("%s: Err is %v", gone, err)
		}
		ctx, cancel := context.WithTimeout(bg, 10*time.Millisecond)
		if _, err := kv.Run(ctx, db, func(tx kv.Tx) ([]byte, error) { return tx.Get([]byte("k")) }); !errors.Is(err,
			context.DeadlineExceeded) || !errors.Is(err, fdb.ErrAway) {
			t.Errorf("%s: a read gives %v", gone, err)
		}
		cancel()
		if _, err := kv.Run(bg, db, kv.Tx.ReadVersion); err != nil {
			t.Errorf("%s: a read version: %v", gone, err)
		}
		write := make(chan error)
		go func() { write <- kv.Do(bg, db, func(tx kv.Tx) error { tx.Set([]byte("k"), nil); return nil }) }()
		if !slices.Contains(gone, fakefdb.Commit) {
			if err := <-write; err != nil {
				t.Errorf("%s: a blind write: %v", gone, err)
			}
			close(write)
		}
		cluster.Return()
		if err := <-write; err != nil {
			t.Error(err)
		}
		log.await("fdb_back")
		if get(t, db, "k") == nil || db.Err() != nil || log.count("fdb_away") != 1 || log.count("fdb_back") != 1 {
			t.Errorf("%s: %v, log %s", gone, db.Err(), log.lines)
		}
	}
}

// TestOtherData: once a row is gone that must be there, no transaction commits writes or begins, whatever comes back,
// and the log says so once.
func TestOtherData(t *testing.T) {
	log := newLog()
	cluster, db := openCluster(t,
		fdb.Options{Probe: time.Millisecond, Logger: slog.New(slog.NewTextHandler(log, nil))})
	set := func(key string) error {
		return kv.Do(bg, db, func(tx kv.Tx) error { tx.Set([]byte(key), []byte("v")); return nil })
	}
	if err := set("id"); err != nil {
		t.Fatal(err)
	}
	db.Expect([]byte("id"), []byte("v"))
	cluster.Decide(once(fakefdb.Read, fakefdb.Outcome{Fault: fakefdb.TooOldEarly}))
	if err := set("a"); err != nil || get(t, db, "a") == nil {
		t.Errorf("a write to the right data: %v", err)
	}
	begun := db.Begin(bg, kv.Options{})
	if _, err := begun.Get([]byte("a")); err != nil {
		t.Fatal(err)
	}
	begun.Set([]byte("b"), nil)
	put := func(key string, value []byte) {
		err := kv.Do(bg, cluster.DB, func(tx kv.Tx) error {
			if tx.Clear([]byte(key)); value != nil {
				tx.Set([]byte(key), value)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("id", nil)
	if err := begun.Commit(); kv.CodeOf(err) != kv.NotCommitted {
		t.Errorf("a commit of writes to data that were the right ones: %v", err)
	}
	if get(t, db, "a") == nil {
		t.Error("nothing can be read")
	}
	available := db.Available()
	for _, key := range []string{"c", "d"} {
		if err := set(key); !errors.Is(err, fdb.ErrReplaced) || !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("a write to other data: %v", err)
		}
		put("id", []byte("v")) // too late
	}
	<-available.Done()
	time.Sleep(20 * time.Millisecond) // some probes
	if err := db.Err(); !errors.Is(err, fdb.ErrReplaced) || log.count("store_replaced") != 1 || log.count("fdb_") != 0 {
		t.Errorf("Err is %v, log %s", err, log.lines)
	}
	rows, err := kv.Run(bg, cluster.DB, func(tx kv.Tx) ([][]byte, error) {
		return tx.GetAll([][]byte{[]byte("b"), []byte("c"), []byte("d")})
	})
	if err != nil || rows[0] != nil || rows[1] != nil || rows[2] != nil {
		t.Errorf("written: %q, %v", rows, err)
	}
}

// TestClusterRefuses: a cluster that answers with errors counts as away, and the log says so once.
func TestClusterRefuses(t *testing.T) {
	log := newLog()
	cluster, db := openCluster(t,
		fdb.Options{Probe: time.Millisecond, Logger: slog.New(slog.NewTextHandler(log, nil))})
	asked := make(chan struct{}, 1000)
	cluster.Decide(func(op fakefdb.Op) fakefdb.Outcome {
		asked <- struct{}{}
		return fakefdb.Outcome{Fault: fakefdb.ClusterNever}
	})
	for range 5 {
		<-asked
	}
	log.await("fdb_away")
	if err := db.Err(); kv.CodeOf(err) != kv.ClusterVersionChanged ||
		!strings.Contains(err.Error(), "install the client library") {
		t.Errorf("Err is %v", err)
	}
	cluster.Decide(nil)
	log.await("fdb_back")
	if log.count("fdb_away") != 1 || db.Err() != nil {
		t.Errorf("%v, log %s", db.Err(), log.lines)
	}
}

// TestClusterLocked: of a cluster that goes on answering with an error that may pass, the log says which that is, and
// what to do about it.
func TestClusterLocked(t *testing.T) {
	log, monitor := newLog(), newMonitorClock()
	cluster, db := openCluster(t, fdb.Options{Clock: monitor, Probe: time.Second, Key: []byte("k"),
		Logger: slog.New(slog.NewTextHandler(log, nil))})
	<-monitor.rests
	refused := make(chan struct{}, 1)
	cluster.Decide(func(op fakefdb.Op) fakefdb.Outcome {
		select {
		case refused <- struct{}{}:
		default:
		}
		return fakefdb.Outcome{Fault: fakefdb.DatabaseLocked}
	})
	monitor.Add(time.Second) // Probe
	<-refused
	<-refused // so the first answer was heard
	for range 1000 {
		if log.count("fdb_away") > 0 {
			break
		}
		monitor.Add(time.Second)
	}
	err := db.Err()
	if kv.CodeOf(err) != kv.DatabaseLocked || !errors.Is(err, fdb.ErrAway) ||
		!strings.Contains(err.Error(), "unlock it in fdbcli") {
		t.Errorf("Err is %v", err)
	}
	cluster.Decide(nil)
	log.await("fdb_back")
}

func TestClosed(t *testing.T) {
	_, db := openCluster(t, fdb.Options{})
	if err := errors.Join(db.Close(), db.Close()); err != nil {
		t.Error(err)
	}
	if err := kv.Do(bg, db, func(tx kv.Tx) error { tx.Set([]byte("k"), nil); return nil }); !errors.Is(err,
		fdb.ErrClosed) {
		t.Error(err)
	}
	if err := db.Err(); !errors.Is(err, fdb.ErrClosed) {
		t.Error(err)
	}
}

func TestUnknownCluster(t *testing.T) {
	_, path := fdbtest.NewCluster(t)
	other := path + ".other"
	if err := os.WriteFile(other, []byte("other:cluster@127.0.0.1:1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := fdb.Open(other, fdb.Options{}); kv.CodeOf(err) != 1515 ||
		!strings.Contains(err.Error(), other) {
		t.Error(err)
	}
}

// TestClientTooOld runs in a process of its own, since a process can choose the API version just once.
func TestClientTooOld(t *testing.T) {
	if os.Getenv("FDBTEST_OLD_CLIENT") != "" {
		fdbctest.SetMaxAPIVersion(710)
		_, path := fdbtest.NewCluster(t)
		_, err := fdb.Open(path, fdb.Options{})
		fmt.Println("is ErrClient:", errors.Is(err, fdb.ErrClient), err)
		return
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(own, "-test.run=^TestClientTooOld$", "-test.v")
	command.Env = append(os.Environ(), "FDBTEST_OLD_CLIENT=1")
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "is ErrClient: true") ||
		!strings.Contains(string(out), "maximum version of 710") ||
		!strings.Contains(string(out), "7.3 or newer") {
		t.Errorf("%v: %s", err, out)
	}
}
