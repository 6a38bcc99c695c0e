package embedded

import (
	"errors"
	"fmt"
	"sync"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/ryw"

	"github.com/cockroachdb/pebble/v2"
)

// A group takes commits from the queue until it has reached either bound. The others wait for the next group.
const (
	maxGroup      = 1024    // commits; a versionstamp numbers those of a group in 16 bits
	maxGroupBytes = 8 << 20 // bytes of keys and values; the last commit of a group may exceed it
)

// maxPointClears is the number of keys up to which clearing a range deletes each key by itself. Pebble also
// has range deletions, but every read pays for each of them until it is flushed.
const maxPointClears = 512

// request is a commit that waits for its group. The fields above done belong to the transaction until it
// submits the request, and to the goroutine of groups from then on, even if the transaction gives up waiting.
type request struct {
	commit      *ryw.Commit
	readVersion int64        // of the transaction, 0 if it read nothing
	began       instant.Time // when it read first, by the store's time

	done   chan struct{} // closed when the fate is set, and the commit, if it succeeded, durable and visible
	stamp  [10]byte      // the versionstamp, if failed is 0
	failed kv.Code       // 0 if the commit succeeded
}

// groups is the queue of commits that wait. Its goroutine commits them one group at a time.
type groups struct {
	mu      sync.Mutex // guards the fields below
	wake    sync.Cond  // over mu: the queue has got a request, or stopped was set
	queue   []*request
	stopped bool // no more requests are taken

	finished chan struct{} // closed by the goroutine after the last group; never after a failure
}

// start starts the goroutine.
func (g *groups) start(db *Database) {
	g.wake.L = &g.mu
	g.finished = make(chan struct{})
	go g.run(db)
}

// submit queues a commit. The caller waits for its done.
func (g *groups) submit(r *request) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return ErrClosed
	}
	g.queue = append(g.queue, r)
	g.wake.Signal()
	return nil
}

// stop refuses further commits, and waits until those in the queue are done or the store has failed.
func (g *groups) stop(f *failure) {
	g.mu.Lock()
	g.stopped = true
	g.wake.Signal()
	g.mu.Unlock()
	select {
	case <-g.finished:
	case <-f.happened:
	}
}

// run is the body of the goroutine. When the store fails it returns without answering its group: it is
// unknown whether those commits are on the disk. Their callers hear of the failure instead (see send).
func (g *groups) run(db *Database) {
	defer func() {
		if r := recover(); r != nil { // Pebble panics when it cannot write its log
			db.failure.fail(fmt.Errorf("%v", r))
		}
	}()
	for {
		group := g.next()
		if group == nil {
			close(g.finished)
			return
		}
		if err := db.commitGroup(group); err != nil {
			db.failure.fail(err)
			return
		}
	}
}

// next waits for the next group. It returns nil when the queue is empty and takes no more requests.
func (g *groups) next() []*request {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.queue) == 0 {
		if g.stopped {
			return nil
		}
		g.wake.Wait()
	}
	n, size := 0, 0
	for n < len(g.queue) && n < maxGroup && size < maxGroupBytes {
		for _, m := range g.queue[n].commit.Mutations {
			size += len(m.Key) + len(m.Value)
		}
		n++
	}
	group := g.queue[:n:n]
	if g.queue = g.queue[n:]; len(g.queue) == 0 {
		g.queue = nil
	}
	return group
}

// commitGroup decides the commits of a group and makes those that succeed durable, then visible, and then
// known to their callers. The order is what the package comment promises. An error means that the store has
// failed.
func (db *Database) commitGroup(group []*request) error {
	version, accepted := db.decide(group)
	if len(accepted) > 0 {
		if err := db.write(version, accepted); err != nil {
			return err
		}
		db.publish(db.newView(version), accepted)
	}
	for _, r := range group {
		close(r.done)
	}
	return nil
}

// decide returns the group's version and the commits without a conflict, in the order of their versionstamps.
// Those go into the conflict log before they are on the disk: later commits of the same group must conflict
// with them, and if the write fails the log is of no use any more.
func (db *Database) decide(group []*request) (version int64, accepted []*request) {
	db.mu.Lock()
	defer db.mu.Unlock()
	now := db.present()
	version = max(db.view.version+1, int64(now))
	for _, r := range group {
		switch {
		// A young transaction may have an old view: while a group takes long to sync, new transactions read
		// the version before it. So both are checked, the transaction's age and how far back the log reaches.
		case r.readVersion > 0 && (now.Sub(r.began) > window || !db.log.Covers(r.readVersion)):
			r.failed = kv.TransactionTooOld
		case db.log.Conflicts(r.readVersion, r.commit.Reads):
			r.failed = kv.NotCommitted
		default:
			r.stamp = ryw.Versionstamp(version, uint16(len(accepted)))
			r.commit.Stamp(r.stamp)
			db.log.Record(version, r.commit.Writes)
			accepted = append(accepted, r)
		}
	}
	db.log.Forget(int64(now.Add(-window)))
	return version, accepted
}

// write writes the mutations and the group's version as one batch, and returns when it is synced to the disk.
// An error leaves it open what is on the disk, so the store has failed. Pebble shows the batch to its own
// readers before it is synced; therefore transactions read views, which publish makes after this.
func (db *Database) write(version int64, accepted []*request) error {
	batch := db.pebble.NewBatch()
	if reads(accepted) {
		batch = db.pebble.NewIndexedBatch()
	}
	defer batch.Close()
	for _, r := range accepted {
		for _, m := range r.commit.Mutations {
			if err := apply(batch, m); err != nil {
				return err
			}
		}
	}
	if err := setVersion(batch, version); err != nil {
		return err
	}
	if err := db.pebble.ApplyNoSyncWait(batch, pebble.Sync); err != nil {
		return err
	}
	return batch.SyncWait()
}

// reads reports whether a mutation depends on what is stored. Only then the batch needs an index, by which it
// reads its own earlier mutations; the index costs time and memory.
func reads(accepted []*request) bool {
	for _, r := range accepted {
		for _, m := range r.commit.Mutations {
			switch m.Kind {
			case ryw.Add, ryw.Max, ryw.ClearRange:
				return true
			}
		}
	}
	return false
}

// apply adds a mutation to a batch. Add and Max become the value that they come to: their base is read
// through the batch, which has the mutations before it.
func apply(batch *pebble.Batch, m ryw.Mutation) error {
	switch m.Kind {
	case ryw.Clear:
		return batch.Delete(m.Key, nil)
	case ryw.ClearRange:
		return clearRange(batch, m.Key, m.Value)
	case ryw.Add, ryw.Max:
		base, err := get(batch, m.Key)
		if err != nil {
			return err
		}
		return batch.Set(m.Key, ryw.Apply(m.Kind, base, m.Value), nil)
	}
	return batch.Set(m.Key, m.Value, nil)
}

// clearRange deletes the keys of a range, those that the batch has set included.
func clearRange(batch *pebble.Batch, begin, end []byte) error {
	it, err := batch.NewIter(&pebble.IterOptions{LowerBound: begin, UpperBound: end})
	if err != nil {
		return err
	}
	var keys [][]byte
	for ok := it.First(); ok && len(keys) <= maxPointClears; ok = it.Next() {
		keys = append(keys, append([]byte(nil), it.Key()...))
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	if len(keys) > maxPointClears {
		return batch.DeleteRange(begin, end, nil)
	}
	for _, key := range keys {
		if err := batch.Delete(key, nil); err != nil {
			return err
		}
	}
	return nil
}

// publish lets new transactions read a group that is on the disk, and ends the watches that it changes. All
// of it happens under the lock: a gap must be split before the view with a key in it can be read, and a watch
// that is added meanwhile sees either the old view, and is ended here, or the new one.
func (db *Database) publish(v *view, accepted []*request) {
	db.mu.Lock()
	old := db.view
	db.view = v
	latest := func(key []byte) []byte {
		value, err := v.get(key)
		if err != nil {
			return nil // then a watch may end without a change, which its contract allows
		}
		return value
	}
	for _, r := range accepted {
		for _, m := range r.commit.Mutations {
			if m.Kind != ryw.Clear && m.Kind != ryw.ClearRange {
				db.gaps.split(m.Key)
			}
		}
		for _, w := range db.watches.Changed(r.commit.Mutations, latest) {
			w.finishLocked(nil)
		}
	}
	db.mu.Unlock()
	db.release(old)
}
