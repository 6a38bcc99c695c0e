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

// A group ends at either bound; what is left waits for the next.
const (
	maxGroup      = 1024
	maxGroupBytes = 8 << 20
)

// maxPointClears is the number of keys up to which a cleared range becomes so many deleted keys. Pebble
// has range deletions, but pays for each one at every read until it is flushed.
const maxPointClears = 512

// request is a commit that waits for its group.
type request struct {
	commit      *ryw.Commit
	readVersion int64 // 0: nothing was read
	began       instant.Time

	done   chan struct{} // closed when the rest is set
	stamp  [10]byte
	failed kv.Code
}

// groups gathers the commits that wait, and does them one group at a time in its own goroutine.
type groups struct {
	mu       sync.Mutex
	wake     sync.Cond
	queue    []*request
	stopped  bool
	finished chan struct{}
}

func (g *groups) start(db *Database) {
	g.wake.L = &g.mu
	g.finished = make(chan struct{})
	go g.run(db)
}

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

// stop refuses further commits and waits for those that are there.
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

// next waits for the next group; it is nil at the end.
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

// commitGroup decides the commits of a group and makes those that succeed durable, then visible, and
// then known.
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

// decide finds the conflicts and gives out the versionstamps.
func (db *Database) decide(group []*request) (version int64, accepted []*request) {
	db.mu.Lock()
	defer db.mu.Unlock()
	now := db.present()
	version = max(db.view.version+1, int64(now))
	for _, r := range group {
		switch {
		// A view may be older than the transaction: a commit that takes long to sync is not seen until it is done.
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

// write brings the mutations to the disk.
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

// reads says whether some mutation depends on what is stored.
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

// publish lets transactions see the group and ends the watches that it changes.
func (db *Database) publish(v *view, accepted []*request) {
	db.mu.Lock()
	old := db.view
	db.view = v
	latest := func(key []byte) []byte {
		value, err := v.get(key)
		if err != nil {
			return nil // a watch may end without a change
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
