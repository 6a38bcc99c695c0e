package follow_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// TestSections: a section that goes takes its mirror along, and one that stays keeps it; a database of ours is no
// mirror.
func TestSections(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	k := w.start()
	w.settle(10 * time.Second)
	w.follow(w.list...)
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Pending, "")
	w.follow()
	w.settle(10 * time.Second)
	if len(k.open) != 0 {
		t.Errorf("runs %v", k.open)
	}
	w.do(func(tx kv.Tx) error {
		if _, err := w.relay.Docs.Open(tx, mirror); err == nil {
			t.Error("the mirror is there")
		}
		rows, err := tx.GetRange(w.store.Keys.Rows.Range(), kv.RangeOptions{})
		if len(rows) > 0 {
			t.Errorf("%d rows are left", len(rows))
		}
		return err
	})
	w.follow(follow.Database{Section: "couch", Name: "reps", URL: "http://s/reps/"})
	w.settle(10 * time.Second)
	w.expect("d", jobstore.Pending, "")
	err := kv.Do(t.Context(), w.db, func(tx kv.Tx) error {
		if err := w.relay.Docs.Create(tx, "x/y/_replicator", tuple.UUID{99}, w.now); err != nil {
			return err
		}
		list := append(w.list, follow.Database{Section: "x", Name: "y", URL: "http://s/y/"})
		_, _, err := follow.Follow(tx, w.store, list, []tuple.UUID{{97}, {98}}, w.now)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "x/y/_replicator") {
		t.Errorf("got %v", err)
	}
	var made, gone []string
	w.do(func(tx kv.Tx) (err error) {
		list := []follow.Database{{Section: "new", Name: "z", URL: "http://s/z/"}}
		made, gone, err = follow.Follow(tx, w.store, list, []tuple.UUID{{96}}, w.now)
		return err
	})
	if !slices.Equal(made, []string{"new/z/_replicator"}) || !slices.Equal(gone, []string{mirror}) {
		t.Errorf("made %v, gone %v", made, gone)
	}
}

// TestTrustIsWithdrawn: what documents may do is decided anew when their writers are trusted no more. The security
// object of their mirror stays.
func TestTrustIsWithdrawn(t *testing.T) {
	const security = `{"members":{"names":["joe"]}}`
	const named = `{"source":{"url":"http://a/x","headers":{"X":{"secret":"s"}}},"target":"http://b/x"}`
	w := newWorld(t)
	d := follow.Database{Section: "couch", Name: "reps", URL: "http://s/reps/", Trusted: true}
	w.follow(d)
	w.write("named", named)
	w.write("d", one)
	w.start()
	w.settle(10 * time.Second)
	w.expect("named", jobstore.Pending, "")
	w.do(func(tx kv.Tx) error {
		db, err := w.relay.Docs.Open(tx, mirror)
		if err != nil {
			return err
		}
		return db.SetSecurity([]byte(security))
	})
	d.Trusted = false
	w.follow(d)
	w.settle(10 * time.Second)
	w.expect("named", jobstore.Failed, "failed")
	w.expect("d", jobstore.Pending, "")
	_, id := w.job("named")
	w.do(func(tx kv.Tx) error {
		_, err := jobstore.Operator{Store: w.relay, Tx: tx, By: "root", Now: w.now}.Retry(id, "")
		if obstacle, is := errors.AsType[jobstore.Obstacle](err); !is || !strings.Contains(string(obstacle), "secret") {
			t.Errorf("an order of an admin for it: %v", err)
		}
		return nil
	})
	w.do(func(tx kv.Tx) error {
		db, err := w.relay.Docs.Open(tx, mirror)
		if err != nil {
			return err
		}
		if text, err := db.Security(); err != nil || string(text) != security || db.Trusted {
			t.Errorf("the mirror has %s, trusted %v, %v", text, db.Trusted, err)
		}
		return nil
	})
}

// TestConfiguredAnew: a database that is followed as before is followed with connections of its own from then on, since
// its password may be another one.
func TestConfiguredAnew(t *testing.T) {
	w := newWorld(t)
	k := w.start()
	w.settle(10 * time.Second)
	w.follow(w.list...)
	w.settle(5 * time.Second)
	if w.runs != 2 || len(k.open) != 1 {
		t.Errorf("%d runs, open are %v", w.runs, k.open)
	}
}
