package protocol

import (
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

func TestWaiting(t *testing.T) {
	forever := spec.Replication{Continuous: true}
	rests := func(after time.Duration) func(*talk) {
		return func(c *talk) {
			c.begun(row(1, "a", "1-a"))
			c.note(c.r.Rests(c.now, false))
			c.pass(after)
			c.note(c.r.Rests(c.now, false))
		}
	}
	repeats := func(after time.Duration) func(*talk) {
		return func(c *talk) {
			c.begun(row(1, "a", "1-a"))
			c.fails(diff("a", "1-a"), 500)
			c.pass(after)
			c.asks(diff("a", "1-a"))
		}
	}
	// polled has a long poll bring a row after a while, and the run pause for almost as long as it may.
	polled := func(after time.Duration, got peer.Changes) func(*talk) {
		return func(c *talk) {
			c.begun(row(1, "a", "1-a"))
			poll := c.asks(peer.ReadChanges{Since: seq(1), Limit: 10, Wait: true})
			c.pass(after)
			got.End = true
			c.gets(poll, got)
			c.note(c.r.Rests(c.now, false))
			c.pass(idlePause)
			c.note(c.r.Rests(c.now, false))
		}
	}
	again := peer.Changes{Rows: []peer.Change{{Seq: `"1-y"`, ID: "a", Revs: []string{"1-b"}}}, LastSeq: `"1-z"`}
	more := peer.Changes{Rows: []peer.Change{row(2, "a", "1-b")}, LastSeq: seq(2)}
	check(t, []conversation{
		{"after a poll without a row", forever, polled(0, peer.Changes{LastSeq: seq(1)}), legal},
		{"after a long poll without a row", forever, polled(quietPoll, peer.Changes{LastSeq: seq(1)}), Waiting},
		{"after a poll with a row at the same number", forever, polled(0, again), legal},
		{"after a long poll with a row at the same number", forever, polled(quietPoll, again), Waiting},
		{"after a poll with another row", forever, polled(0, more), Waiting},
		{"nothing in flight", spec.Replication{}, rests(2 * time.Second), Waiting},
		{"for a moment", spec.Replication{}, rests(time.Millisecond), legal},
		{"repeated at once", spec.Replication{}, repeats(0), Waiting},
		{"repeated after a pause", spec.Replication{}, repeats(firstPause), legal},
		{"never repeated", spec.Replication{}, func(c *talk) {
			c.begun(row(1, "a", "1-a"))
			c.fails(diff("a", "1-a"), 500)
			c.note(c.r.Rests(c.now, false))
			c.pass(3 * time.Second)
			c.note(c.r.Rests(c.now, false))
		}, Waiting},
	})
}
