package oracle

import (
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/world"
)

func TestLooks(t *testing.T) {
	local := peer.GetLocal{Side: peer.Target, ID: logID}
	// saved has a run with a checkpoint interval, in ms, write a checkpoint, and do something a while later.
	saved := func(interval int, pause time.Duration, then func(*saver)) func(*rig) {
		return func(r *rig) {
			s := r.savesIn(map[string]any{"continuous": true, "checkpoint_interval": interval})
			s.has(r.db("s1", "a1").Last())
			s.pass(time.Hour)
			s.saves("one")
			s.pass(pause)
			then(s)
		}
	}
	looks := func(s *saver) { s.does(s.run, local, peer.Local{}) }
	fails := func(s *saver) { s.fails(s.run, local, status(500)) }
	both := func(one, other func(*saver)) func(*saver) { return func(s *saver) { one(s); other(s) } }
	// ends has the run end by the failure of a request, with a count of failed checkpoints.
	ends := func(op peer.Op, counted int64) func(*saver) {
		return func(s *saver) {
			s.see(world.RunSaidEnd{
				Run: s.run, Asked: op, Event: replication.Reply{Reply: peer.Reply{Failure: status(404)}},
				End:   replication.End{Cause: replication.Crashed},
				Tally: replication.Tally{CheckpointFailures: counted},
			})
		}
	}
	put := peer.PutLocal{Side: peer.Source, ID: logID}
	puts := func(s *saver) { s.call(s.run, put) }
	check(t, along(&savingKept, &lookSubject, &feedSubject), []case_{
		{"a look within a minute", saved(1, time.Minute-1000, looks), "S21m"},
		{"a look after a minute", saved(1, time.Minute, looks), ""},
		{"a look within ten intervals", saved(10_000, 100*time.Second-1000, looks), "S21m"},
		{"a look after ten intervals", saved(10_000, 100*time.Second, looks), ""},
		{"two looks", saved(1, time.Minute, both(looks, looks)), "S21m"},
		{"a look that is repeated", saved(1, time.Minute, both(fails, looks)), ""},
		{"a log that is read again while it is written", saved(1, 0, both(puts, looks)), ""},
		{"a look that fails", saved(1, time.Minute, ends(local, 0)), ""},
		{"a look that fails and counts", saved(1, time.Minute, ends(local, 1)), "S21n"},
		{"a checkpoint that fails", saved(1, 0, both(puts, ends(put, 1))), ""},
		{"a checkpoint that fails uncounted", saved(1, 0, both(puts, ends(put, 0))), "S21n"},
		{"the disks fail a checkpoint", saved(1, 0, both((*saver).commits, ends(peer.Commit{}, 1))), ""},
	})
}
