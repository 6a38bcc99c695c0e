package fakefdb

import (
	"slices"

	"couchrelay/core/kv"
	"couchrelay/core/kv/resolver"
	"couchrelay/core/kv/ryw"
)

var errCommitted = kv.NewError(kv.UsedDuringCommit)

// Commit is kv.Transaction's.
func (t *transaction) Commit() error {
	if t.ended != nil {
		return t.ended
	}
	readOnly := t.ReadOnly()
	limit := t.options.SizeLimit
	if limit <= 0 || limit > kv.MaxTxSize {
		limit = kv.MaxTxSize
	}
	c, err := t.Finish(limit)
	if err != nil {
		return err
	}
	t.misread.end(t.db, nil)
	t.Fail(errCommitted)
	if readOnly {
		t.db.mu.Lock()
		t.db.stats.ReadOnly++
		t.db.mu.Unlock()
	} else if err := t.send(c); err != nil {
		return err
	}
	t.startWatches()
	return nil
}

// send carries the commit to the store and waits for the answer. The store goes on when the client's context
// ends.
func (t *transaction) send(c *ryw.Commit) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	if len(c.Reads) > 0 { // by explicit conflict ranges alone
		if err := t.begin(); err != nil {
			return err
		}
	}
	out, err := t.op(Op{Kind: Commit})
	if err != nil {
		return err
	}
	l := &landing{t: t.number, readVersion: t.version, trips: t.trips.n, commit: c, sameBatch: out.SameBatch}
	switch out.Fault {
	case NoFault, SlowCommit, UnknownLanded:
		return t.land(l, out)
	case TimedOutLate, ClusterLate:
		t.db.world.After(out.Before+out.After+out.Late, func() { t.db.tryLand(l) })
	}
	if err := t.db.world.Sleep(t.ctx, out.Before+out.After); err != nil {
		return err
	}
	return kv.NewError(out.Fault.code())
}

// land waits for a commit that takes effect after out.Before and is answered out.After later.
func (t *transaction) land(l *landing, out Outcome) error {
	world := t.db.world
	err := world.Await(t.ctx, func(wake func()) {
		world.After(out.Before, func() {
			t.db.tryLand(l)
			world.After(out.After, func() {
				t.db.acknowledge(l)
				wake()
			})
		})
	})
	if err != nil {
		return err
	}
	if out.Fault == UnknownLanded {
		return kv.NewError(kv.CommitUnknownResult)
	}
	if l.failed == 0 {
		t.stamp = &l.stamp
		return nil
	}
	return kv.NewError(l.failed)
}

// landing is a commit on its way.
type landing struct {
	t           uint64
	readVersion int64 // 0 when nothing was read
	trips       int
	commit      *ryw.Commit
	sameBatch   bool

	version int64    // 0 until it landed
	stamp   [10]byte // valid once it landed
	failed  kv.Code  // why it did not land; 0 if it did, or until it is decided
}

// tryLand decides on a commit at the moment at which it reaches the store, and applies it if nothing is
// against it.
func (db *Database) tryLand(l *landing) {
	db.mu.Lock()
	defer db.mu.Unlock()
	now := db.present()
	switch {
	case l.readVersion > 0 && l.readVersion < now-window:
		l.failed = kv.TransactionTooOld
		db.stats.TooOld++
		return
	case db.log.Conflicts(l.readVersion, l.commit.Reads):
		l.failed = kv.NotCommitted
		db.stats.Conflicts++
		return
	}
	db.assignVersion(l)
	l.commit.Stamp(l.stamp)
	writes := db.apply(l)
	db.log.Record(l.version, writes)
	db.limbo = append(db.limbo, l.version)
	db.log.Forget(now - window)
	db.data.prune(now - window)
	if db.onCommit != nil {
		db.onCommit(Landing{
			Tx: l.t, Version: l.version, Stamp: l.stamp, Mutations: l.commit.Mutations,
			Read: l.readVersion, Trips: l.trips,
		})
	}
}

// assignVersion takes the next version or, for a commit that is to be in the batch of the one before it, that
// one's version. The latter is possible only while no client can have seen the commit before.
func (db *Database) assignVersion(l *landing) {
	if l.sameBatch && db.landed > db.known && db.landed > l.readVersion && db.order < 1<<16-1 {
		db.order++
	} else {
		db.landed = max(db.last+1, int64(db.world.Now()))
		db.order = 0
	}
	db.last = db.landed
	l.version = db.landed
	l.stamp = ryw.Versionstamp(l.version, db.order)
}

// apply carries out the mutations and returns the spans that conflict with later commits that read them.
func (db *Database) apply(l *landing) []resolver.Span {
	db.stats.Commits++
	for _, m := range l.commit.Mutations {
		db.stats.KeysWritten++
		db.stats.BytesWritten += uint64(len(m.Key) + len(m.Value))
		switch m.Kind {
		case ryw.Clear:
			db.data.put(m.Key, nil, l.version)
		case ryw.ClearRange:
			db.data.clearRange(kv.Range{Begin: m.Key, End: m.Value}, l.version)
		case ryw.Set:
			db.data.put(m.Key, m.Value, l.version)
		default:
			db.data.put(m.Key, ryw.Apply(m.Kind, db.data.latest(m.Key), m.Value), l.version)
		}
	}
	db.fireWatches(l.commit.Mutations)
	return l.commit.Writes
}

// acknowledge notes that the client knows of its commit: every read version that is asked for from now on
// covers it.
func (db *Database) acknowledge(l *landing) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if l.failed == 0 {
		db.known = max(db.known, l.version)
		db.limbo = slices.DeleteFunc(db.limbo, func(v int64) bool { return v <= db.known })
	}
}
