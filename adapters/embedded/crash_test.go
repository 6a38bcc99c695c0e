package embedded

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const crashClients = 4

// crash is the disk as it may be after a power cut, and the commits that each client knew of just before.
type crash struct {
	disk         *vfs.MemFS
	acknowledged [crashClients]int64
}

// TestCrash cuts the power at random points and loses random parts of what was not synced. Afterwards every
// acknowledged commit is there, each other one is there as a whole or not at all, and versions continue above
// all that clients have seen.
func TestCrash(t *testing.T) {
	unacknowledged := 0
	for seed := range uint64(8) {
		for _, c := range crashes(t, rand.New(rand.NewPCG(seed, 1))) {
			unacknowledged += checkCrash(t, c)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if unacknowledged == 0 {
		t.Error("no crash kept an unacknowledged commit: they come too early to show anything")
	}
}

// crashes lets clients commit and takes copies of the disk between its operations.
func crashes(t *testing.T, r *rand.Rand) (list []crash) {
	mem := vfs.NewCrashableMem()
	fs := &faultyFS{FS: mem}
	db := mustOpen(t, "store", Options{FS: fs})
	var acknowledged [crashClients]atomic.Int64
	var sizes [crashClients]int
	for i := range sizes {
		sizes[i] = 10 + 3000*r.IntN(8)
	}
	var mu sync.Mutex // for list and r
	fs.set(func(op, name string) error {
		mu.Lock()
		defer mu.Unlock()
		if r.IntN(10) == 0 && len(list) < 20 {
			var c crash
			for i := range c.acknowledged {
				c.acknowledged[i] = acknowledged[i].Load()
			}
			c.disk = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 10 * r.IntN(11), RNG: r})
			list = append(list, c)
		}
		return nil
	})
	var clients sync.WaitGroup
	for client := range crashClients {
		clients.Go(func() {
			for i := range int64(100) {
				do(t, db, func(tx kv.Tx) { commitOne(tx, client, i+1, sizes[client]) })
				acknowledged[client].Store(i + 1)
			}
		})
	}
	clients.Wait()
	mustClose(t, db)
	return list
}

// commitOne is a client's i-th transaction, whose parts must agree with each other.
func commitOne(tx kv.Tx, client int, i int64, size int) {
	tx.Set(fmt.Appendf(nil, "first/%d", client), binary.BigEndian.AppendUint64(nil, uint64(i)))
	tx.Set(fmt.Appendf(nil, "last/%d", client),
		binary.BigEndian.AppendUint64([]byte(strings.Repeat("x", size)), uint64(i)))
	tx.Add([]byte("count"), 1)
	tx.SetVersionstampedKey(tuple.Subspace("log").PackVersionstamped(tuple.Incomplete(0)),
		[]byte{byte(client)})
}

// checkCrash returns how many unacknowledged commits are there.
func checkCrash(t *testing.T, c crash) (more int) {
	db := mustOpen(t, "store", Options{FS: c.disk})
	defer mustClose(t, db)
	log, err := kv.Run(bg, db, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(tuple.Subspace("log").Range(), kv.RangeOptions{})
	})
	if err != nil {
		t.Fatal(err)
	}
	var perClient [crashClients]int64
	for _, p := range log {
		perClient[p.Value[0]]++
	}
	for client, known := range c.acknowledged {
		first, last := counter(t, db, fmt.Sprintf("first/%d", client)),
			counter(t, db, fmt.Sprintf("last/%d", client))
		if first != last || first != perClient[client] {
			t.Errorf("client %d: parts %d, %d and %d of a transaction", client, first, last,
				perClient[client])
		}
		if first < known {
			t.Errorf("client %d: %d commits left of %d acknowledged", client, first, known)
		}
		more += int(first - known)
	}
	if n := value(t, db, "count"); len(log) > 0 && int(binary.LittleEndian.Uint64([]byte(n))) != len(log) {
		t.Errorf("count is %x with %d log entries", n, len(log))
	}
	checkVersionsGoOn(t, db, log)
	return more
}

func counter(t *testing.T, db *Database, key string) int64 {
	v := value(t, db, key)
	if v == "" {
		return 0
	}
	return int64(binary.BigEndian.Uint64([]byte(v[len(v)-8:])))
}

func checkVersionsGoOn(t *testing.T, db *Database, log []kv.KeyValue) {
	do(t, db, func(tx kv.Tx) { commitOne(tx, 0, 0, 0) })
	again, err := kv.Run(bg, db, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(tuple.Subspace("log").Range(), kv.RangeOptions{})
	})
	if err != nil || len(again) != len(log)+1 {
		t.Fatal(len(again), err)
	}
	for i := range log {
		if string(again[i].Key) != string(log[i].Key) {
			t.Fatal("a new versionstamp is below those before the crash")
		}
	}
}
