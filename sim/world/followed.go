package world

import (
	"couchrelay/core/ejson"
	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/sim/peers"
)

// MakeFollowed makes the mirrors of followed databases, without faults and without time passing.
func MakeFollowed(w *World) {
	list, instances, _ := w.follows.databases()
	calmly(w, func(tx kv.Tx) error {
		_, _, err := follow.Follow(tx, w.follows.store, list, instances, w.Engine.Now())
		return err
	})
}

// WriteFollowed writes a document of a followed database as its user does; no body deletes it.
func WriteFollowed(w *World, f *Following, id, body string, valid bool) {
	d := &FollowedDoc{Valid: valid}
	if body != "" {
		d.Body = []byte(body)
	}
	w.follows.put(f, id, d, false)
}

// ForkFollowed writes a document of a followed database beside its winner, with a history so many generations longer;
// no body deletes it.
func ForkFollowed(w *World, f *Following, id, body string, deeper int) {
	d := &FollowedDoc{Valid: true}
	if body != "" {
		d.Body = []byte(body)
	}
	w.follows.graft(f, f.DB().Latest(id), d, deeper)
}

// CompleteFollowed writes a document of a followed database as another replicator leaves it that has completed it.
func CompleteFollowed(w *World, f *Following, id string) {
	w.follows.runElsewhere(f, f.DB().Latest(id), "completed", 1)
}

// HideFollowed notes a document as one that a backup hides from the feed, unless the database is behind the change that
// has the number goal.
func HideFollowed(f *Following, id string, goal int64) { f.hidden, f.goal = []string{id}, goal }

// DamageFollowed makes a document of a followed database unreadable.
func DamageFollowed(f *Following, id string) { peers.Damage(f.DB(), id) }

// RemakeFollowed deletes a followed database and makes it again.
func RemakeFollowed(w *World, f *Following) {
	f.server.Delete(f.Name)
	w.follows.fill(f)
}

// MirrorFollowed writes a document into the mirror of a followed database.
func MirrorFollowed(w *World, f *Following, id, body string) {
	parsed, _ := ejson.Parse([]byte(body))
	calmly(w, func(tx kv.Tx) error {
		db, err := w.store.Docs.Open(tx, f.tenant.name)
		if err != nil {
			return err
		}
		_, err = jobstore.Mirror(w.store, tx, db, []jobstore.Mirrored{{ID: id, Body: parsed}}, w.Engine.Now())
		return err
	})
}

// calmly carries out a transaction, without faults and without time passing.
func calmly(w *World, f func(kv.Tx) error) {
	w.storeWorld.undisturbed = true
	defer func() { w.storeWorld.undisturbed = false }()
	w.users.untilDone(f)
	w.emit(Stepped{})
}

// FailFollowed has a worker take a followed database up, and give it back with an error.
func FailFollowed(w *World, f *Following) {
	do := func(q follow.Request) (result follow.Result) {
		calmly(w, func(tx kv.Tx) (err error) {
			result, err = follow.Perform(tx, w.follows.store, q, w.Engine.Now())
			return err
		})
		return result
	}
	do(follow.Join{Worker: "w"})
	got := do(follow.Accept{Worker: "w", Batch: 1, Max: 1, Known: []string{f.ID()}})
	held := got.(follow.Accepted).Jobs[0].Held
	do(follow.Release{Held: held, Errors: 1, Error: "connect_failed", Reason: "no connection"})
}
