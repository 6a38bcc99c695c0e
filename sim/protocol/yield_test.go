package protocol

import (
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

func TestYielding(t *testing.T) {
	// asked has a run begin with a copy, or whatever begins does, and be told to give way a minute later.
	asked := func(before time.Duration, begins func(*talk) uint64) func(*talk) uint64 {
		return func(c *talk) uint64 {
			c.hears(replication.Begin{})
			c.begun(row(1, "a", "1-a"), row(2, "b", "1-b"))
			c.pass(time.Hour) // what comes before the first documents does not count
			c.copiesDoc("b", "1-b")
			c.does(diff("a", "1-a"), peer.Diff{Docs: []peer.DocMissing{{ID: "a", Missing: []string{"1-a"}}}})
			c.pass(before)
			id := begins(c)
			c.pass(time.Minute - before)
			c.hears(replication.GiveWay{})
			return id
		}
	}
	gives := func(c *talk) { c.note(c.r.Does(replication.GivesWay{})) }
	rests := func(c *talk) { c.note(c.r.Rests(c.now, false)) }
	copies := func(c *talk) uint64 { return c.asks(peer.CopyDoc{ID: "a", Revs: []string{"1-a"}}) }
	reads := func(c *talk) uint64 { return c.asks(fetch("a", "1-a")) }
	writes := func(c *talk) uint64 {
		id := reads(c)
		c.pass(40 * time.Second)
		c.gets(id, came("1-a"))
		c.pass(-40 * time.Second)
		return c.asks(write(id))
	}
	late, early := 31*time.Second, 29*time.Second
	check(t, []conversation{
		{"at once, with nothing under way", spec.Replication{}, func(c *talk) {
			c.hears(replication.Begin{})
			c.begun(row(1, "a", "1-a"))
			c.pass(time.Minute)
			c.hears(replication.GiveWay{})
			gives(c)
			rests(c)
		}, legal},
		{"not at all", spec.Replication{}, func(c *talk) {
			c.hears(replication.Begin{})
			c.begun(row(1, "a", "1-a"))
			c.pass(time.Minute)
			c.hears(replication.GiveWay{})
			rests(c)
		}, Yielding},
		{"for nobody", spec.Replication{}, func(c *talk) { c.begun(row(1, "a", "1-a")); gives(c) }, Yielding},
		{"twice", spec.Replication{}, func(c *talk) {
			c.hears(replication.GiveWay{})
			gives(c)
			gives(c)
		}, Yielding},
		{"during a late copy", spec.Replication{}, func(c *talk) { asked(late, copies)(c); gives(c) }, legal},
		{"not for a late copy", spec.Replication{}, func(c *talk) { asked(late, copies)(c); rests(c) }, Yielding},
		{"during an early copy", spec.Replication{}, func(c *talk) { asked(early, copies)(c); gives(c) }, Yielding},
		{"not for an early copy", spec.Replication{}, func(c *talk) { asked(early, copies)(c); rests(c) }, legal},
		{"during an early read", spec.Replication{}, func(c *talk) { asked(early, reads)(c); gives(c) }, Yielding},
		{"during the write behind an early read", spec.Replication{},
			func(c *talk) { asked(early, writes)(c); gives(c) }, Yielding},
		{"not after an early copy", spec.Replication{}, func(c *talk) {
			id := asked(early, copies)(c)
			c.gets(id, peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a"}}})
			rests(c)
		}, Yielding},
		{"not while an early copy waits for its next attempt", spec.Replication{}, func(c *talk) {
			id := asked(early, copies)(c)
			down := &peer.Failure{Kind: peer.Status, Status: 503}
			c.hears(replication.Reply{ID: id, Reply: peer.Reply{Failure: down}})
			rests(c)
		}, Yielding},
		{"not while an early copy is repeated", spec.Replication{}, func(c *talk) {
			id := asked(early, copies)(c)
			down := &peer.Failure{Kind: peer.Status, Status: 503}
			c.note(c.r.Hear(c.now, replication.Reply{ID: id, Reply: peer.Reply{Failure: down}}))
			c.pass(2 * time.Second)
			copies(c)
			rests(c)
		}, legal},
		{"stopped meanwhile", spec.Replication{}, func(c *talk) {
			id := asked(early, copies)(c)
			c.hears(replication.Stop{})
			c.note(c.r.Cancel(id))
			rests(c)
		}, legal},
	})
}
