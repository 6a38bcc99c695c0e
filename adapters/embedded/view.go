package embedded

import "github.com/cockroachdb/pebble/v2"

// view is the contents of the store as of one version. Transactions and the store itself share it; the last
// of them to release it closes its snapshot.
type view struct {
	snapshot *pebble.Snapshot
	version  int64
	refs     int // users of the view, the store included; guarded by Database.mu
}

// newView returns a view of what Pebble holds now, with one reference. Only the goroutine that writes may
// call it, or Pebble could already hold more than this version.
func (db *Database) newView(version int64) *view {
	v := &view{snapshot: db.pebble.NewSnapshot(), version: version, refs: 1}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.views[v] = true
	return v
}

// current returns the latest view, with a reference for the caller.
func (db *Database) current() *view {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.view.refs++
	return db.view
}

// release gives a reference back. After Close, which has closed all snapshots, and after a failure it does
// nothing.
func (db *Database) release(v *view) {
	if db.enter() != nil {
		return
	}
	defer db.leave()
	db.mu.Lock()
	v.refs--
	last := v.refs == 0
	if last {
		delete(db.views, v)
	}
	db.mu.Unlock()
	if last {
		_ = v.snapshot.Close() // has no other error than that of a second call
	}
}
