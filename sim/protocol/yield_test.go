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
	reading := func(c *talk) uint64 {
		c.hears(replication.Begin{})
		c.located()
		c.pass(time.Minute)
		id := c.asks(peer.ReadChanges{Since: peer.Zero, Limit: 10})
		c.hears(replication.GiveWay{})
		return id
	}
	compared := func(c *talk) {
		c.gets(reading(c), peer.Changes{Rows: []peer.Change{row(1, "a", "1-a"), row(2, "b", "1-b")}})
		c.asks(peer.ReadChanges{Since: seq(2), Limit: 10})
		c.does(diff("a", "1-a"), peer.Diff{})
	}
	arrives := func(c *talk) {
		c.gets(reading(c), peer.Changes{Rows: []peer.Change{row(1, "a", "1-a")}})
		c.does(diff("a", "1-a"), peer.Diff{Docs: []peer.DocMissing{{ID: "a", Missing: []string{"1-a"}}}})
		copies(c)
		c.pass(time.Hour)
	}
	later := func(c *talk, id uint64) {
		busy := &peer.Failure{Kind: peer.Status, Status: 429}
		c.hears(replication.Reply{ID: id, Reply: peer.Reply{Failure: busy}})
	}
	breaks := func(c *talk, id uint64) {
		c.hears(replication.Reply{ID: id, Reply: peer.Reply{Failure: &peer.Failure{Kind: peer.Broken}}})
	}
	// asksToBeLetIn has a listed revision be copied for the list and for a change. One of the copies is refused for
	// good while the other asks whether the target lets the run in.
	asksToBeLetIn := func(c *talk) uint64 {
		feed := c.page("a", "1-a")
		c.gets(feed, peer.Changes{Rows: []peer.Change{row(1, "b", "1-b"), row(2, "a", "1-a")}})
		c.copiesDoc("b", "1-b")
		for range 2 {
			c.does(diff("a", "1-a"), lacks("a", "1-a"))
		}
		refusal := &peer.Refusal{ID: "a", Rev: "1-a", Status: 400}
		refused := peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a", Refused: refusal}}}
		one, two := copies(c), copies(c)
		c.gets(one, refused)
		id := c.asks(peer.Open{Side: peer.Target})
		c.gets(two, refused)
		c.does(peer.Open{Side: peer.Target}, peer.Opened{})
		c.gets(copies(c), refused)
		c.lists(replication.Finding{Refusal: *refusal, Failed: true})
		c.hears(replication.Stored{})
		c.hears(replication.GiveWay{})
		return id
	}
	// copiesListed has a listed revision that the feed tells of, too, be copied for the list before the first changes
	// are compared.
	copiesListed := func(c *talk) {
		feed := c.page("a", "1-a")
		c.gets(feed, peer.Changes{Rows: []peer.Change{row(1, "a", "1-a"), row(2, "b", "1-b")}})
		c.does(diff("a", "1-a"), lacks("a", "1-a"))
		c.asks(peer.DiffRevs{Docs: append(diff("a", "1-a").Docs, diff("b", "1-b").Docs...)})
		c.gets(copies(c), peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a"}}})
		c.hears(replication.GiveWay{})
	}
	late, early := 31*time.Second, 29*time.Second
	check(t, []conversation{
		{"on the way to the first document", spec.Replication{}, func(c *talk) {
			c.named()
			c.asks(peer.Open{Side: peer.Source})
			c.pass(time.Minute)
			c.hears(replication.GiveWay{})
			gives(c)
		}, Yielding},
		{"while the first changes are read", spec.Replication{}, func(c *talk) { reading(c); gives(c) }, Yielding},
		{"not while the first changes are read", spec.Replication{}, func(c *talk) { reading(c); rests(c) }, legal},
		{"when there are no changes", spec.Replication{Continuous: true}, func(c *talk) {
			c.gets(reading(c), peer.Changes{End: true, LastSeq: peer.Zero})
			gives(c)
		}, legal},
		{"not when there are no changes", spec.Replication{Continuous: true}, func(c *talk) {
			c.gets(reading(c), peer.Changes{End: true, LastSeq: peer.Zero})
			rests(c)
		}, Yielding},
		{"during a read ahead of changes to compare later", spec.Replication{Continuous: true}, func(c *talk) {
			c.gets(reading(c), peer.Changes{Rows: []peer.Change{row(1, "a", "1-a"), row(2, "b", "1-b")}})
			c.asks(peer.ReadChanges{Since: seq(2), Limit: 10})
			later(c, c.asks(diff("a", "1-a")))
			gives(c)
		}, legal},
		{"not for a document that is copied for the list", spec.Replication{}, func(c *talk) {
			copiesListed(c)
			rests(c)
		}, legal},
		{"once the first changes are compared", spec.Replication{Continuous: true}, func(c *talk) {
			compared(c)
			gives(c)
		}, legal},
		{"not once the first changes are compared", spec.Replication{Continuous: true}, func(c *talk) {
			compared(c)
			rests(c)
		}, Yielding},
		{"with the first document under way", spec.Replication{}, func(c *talk) { arrives(c); gives(c) }, Yielding},
		{"not with the first document under way", spec.Replication{}, func(c *talk) { arrives(c); rests(c) }, legal},
		{"on the way, from a server that asks to come later", spec.Replication{}, func(c *talk) {
			later(c, reading(c))
			gives(c)
		}, legal},
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
		{"while an early copy waits for its next attempt", spec.Replication{}, func(c *talk) {
			breaks(c, asked(early, copies)(c))
			gives(c)
		}, Yielding},
		{"not while an early copy waits for its next attempt", spec.Replication{}, func(c *talk) {
			breaks(c, asked(early, copies)(c))
			rests(c)
		}, legal},
		{"not when an early copy should have been repeated", spec.Replication{}, func(c *talk) {
			breaks(c, asked(early, copies)(c))
			c.pass(time.Minute)
			rests(c)
		}, Yielding},
		{"not while the node stands still, and repeats no early copy", spec.Replication{}, func(c *talk) {
			breaks(c, asked(early, copies)(c))
			c.pass(time.Minute)
			c.note(c.r.Rests(c.now, true))
		}, legal},
		{"not while an early copy is to be repeated later", spec.Replication{}, func(c *talk) {
			later(c, asked(early, copies)(c))
			rests(c)
		}, Yielding},
		{"not once it may be stalled", spec.Replication{}, func(c *talk) {
			c.r.StallTimeout = time.Minute
			breaks(c, asked(early, copies)(c))
			c.pass(time.Minute)
			rests(c)
		}, legal},
		{"not once it may be stalled, with a log on the target alone", spec.Replication{}, func(c *talk) {
			c.r.StallTimeout = time.Minute
			c.begun(row(1, "a", "1-a"), row(2, "b", "1-b"))
			c.copiesDoc("a", "1-a")
			c.pass(50 * time.Second)
			c.durable()
			c.does(put(peer.Target, 1), peer.LocalWritten{Rev: "0-1"})
			c.pass(10 * time.Second)
			c.hears(replication.GiveWay{})
			rests(c)
		}, legal},
		{"not before it may be stalled", spec.Replication{}, func(c *talk) {
			c.r.StallTimeout = time.Minute
			c.gets(asked(late, copies)(c), peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a"}}})
			c.pass(59 * time.Second)
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
		{"not while one of two copies of a revision asks whether it is let in", spec.Replication{}, func(c *talk) {
			asksToBeLetIn(c)
			rests(c)
		}, legal},
		{"not before one of two copies of a revision asks so again", spec.Replication{}, func(c *talk) {
			breaks(c, asksToBeLetIn(c))
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
