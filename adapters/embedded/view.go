package embedded

import "github.com/cockroachdb/pebble/v2"

// view is the contents as of one version. It is closed when neither the store nor a transaction refers
// to it.
type view struct {
	snapshot *pebble.Snapshot
	version  int64
	refs     int // guarded by Database.mu
}

// newView is a view of what Pebble holds now, referred to once.
func (db *Database) newView(version int64) *view {
	v := &view{snapshot: db.pebble.NewSnapshot(), version: version, refs: 1}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.views[v] = true
	return v
}

// current is the latest view, referred to once more.
func (db *Database) current() *view {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.view.refs++
	return db.view
}

// release gives a reference back. It is harmless after Close and after a failure.
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
