package oracle

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/world"
)

func TestRetries(t *testing.T) {
	local := peer.GetLocal{ID: "log"}
	failed := replication.Trouble{Error: "http_request_failed"}
	slow := replication.Trouble{Error: "http_request_failed", Throttled: true}
	// repeat has a run send a request n times in a row, each of which is answered with a status.
	repeat := func(r *rig, run *world.Run, op peer.Op, n, code int, pause time.Duration) {
		for range n {
			r.fails(run, op, status(code))
			r.pass(pause)
		}
	}
	// waits has a run repeat a request a while after its server has asked for a pause.
	waits := func(asked, pause time.Duration) func(*rig) {
		return func(r *rig) {
			run, f := r.run(nil), status(503)
			f.RetryAfter = asked
			r.fails(run, local, f)
			r.pass(pause)
			r.call(run, local)
		}
	}
	// doubts has a run copy revisions some times, which are refused, and then open a database again and again.
	doubts := func(revs, times, code int, side peer.Side, opens int) func(*rig) {
		return func(r *rig) {
			run := r.run(nil)
			for i := range revs * times {
				op := peer.CopyDoc{ID: "doc", Revs: []string{fmt.Sprint(i % revs), fmt.Sprint(i%revs, " too")}}
				got := peer.CopiedRev{Rev: op.Revs[0], Refused: &peer.Refusal{Status: code}}
				r.does(run, op, peer.Copied{Revs: []peer.CopiedRev{got}})
			}
			for range maxAlike - revs*times + opens {
				r.does(run, peer.Open{Side: side}, peer.Opened{})
			}
		}
	}
	check(t, along(&retrySubject), []case_{
		{"80 equal requests in a minute", func(r *rig) {
			run := r.run(nil)
			for range 80 {
				r.does(run, local, peer.Local{})
			}
		}, ""},
		{"81 equal requests in a minute", func(r *rig) {
			run := r.run(nil)
			for range 81 {
				r.does(run, local, peer.Local{})
			}
		}, "B1g"},
		{"81 equal requests in two minutes", func(r *rig) {
			run := r.run(nil)
			for i := range 81 {
				r.does(run, local, peer.Local{})
				if i == 40 {
					r.pass(time.Minute)
				}
			}
		}, ""},
		{"three copies that may be refused for the credentials", doubts(3, 1, 401, peer.Target, 120), ""},
		{"likewise, and the target is opened once more", doubts(3, 1, 403, peer.Target, 121), "B1g"},
		{"likewise, and the source is opened", doubts(3, 1, 403, peer.Source, 41), "B1g"},
		{"three copies that are refused once more", doubts(3, 2, 403, peer.Target, 41), "B1g"},
		{"three copies that are refused by later passes", doubts(3, 3, 400, peer.Target, 120), ""},
		{"three copies that are too large", doubts(3, 1, 413, peer.Target, 41), "B1g"},
		{"repeated at once", func(r *rig) { repeat(r, r.run(nil), local, 2, 500, 0) }, "S28a"},
		{"repeated after a pause", func(r *rig) { repeat(r, r.run(nil), local, 2, 500, firstPause) }, ""},
		{"a checkpoint behind an empty log that was refused", func(r *rig) {
			run, put := r.run(nil), peer.PutLocal{}
			repeat(r, run, put, 1, 500, firstPause)
			r.fails(run, put, status(403))
			r.pass(time.Minute)
			repeat(r, run, put, 2, 500, firstPause)
		}, ""},
		{"a pause that does not double", func(r *rig) {
			repeat(r, r.run(nil), local, 3, 500, firstPause)
		}, "S28a"},
		{"repeated late", func(r *rig) {
			repeat(r, r.run(nil), local, 2, 500, firstPause+pauseSlack+time.Millisecond)
		}, "S28b"},
		{"repeated a second late", func(r *rig) {
			repeat(r, r.run(nil), local, 2, 500, firstPause+pauseSlack)
		}, ""},
		{"a log that waits for its database", func(r *rig) {
			run := r.run(nil)
			r.fails(run, local, status(500))
			r.pass(time.Minute)
			r.does(run, peer.Open{}, peer.Opened{})
			r.pass(firstPause)
			r.does(run, local, peer.Local{})
		}, ""},
		{"a log that is late behind its database", func(r *rig) {
			run := r.run(nil)
			r.fails(run, local, status(500))
			r.does(run, peer.Open{}, peer.Opened{})
			r.pass(firstPause + pauseSlack + time.Millisecond)
			r.does(run, local, peer.Local{})
		}, "S28b"},
		{"a feed that is read late", func(r *rig) { repeat(r, r.run(nil), read, 2, 500, time.Minute) }, ""},
		{"a newest change that the next checkpoint looks for", func(r *rig) {
			repeat(r, r.run(nil), peer.FindRev{ID: "d"}, 2, 500, time.Minute)
		}, ""},
		{"a newest change that is there as far as is known, and is looked for again", func(r *rig) {
			run, find := r.run(nil), peer.FindRev{ID: "d"}
			r.fails(run, find, status(500))
			r.pass(firstPause)
			r.fails(run, find, status(401))
			r.pass(time.Minute)
			r.fails(run, find, status(500))
			r.pass(firstPause)
			r.does(run, find, peer.RevFound{})
		}, ""},
		{"repeated late on a node that stood still", func(r *rig) {
			run := r.run(nil)
			r.fails(run, local, status(500))
			r.node(1).StandStill(time.Minute)
			r.pass(time.Minute)
			r.fails(run, local, status(500))
		}, ""},
		{"a pause as long as the server asks for", waits(time.Minute, time.Minute), ""},
		{"a longer pause than the server asks for", waits(time.Minute, time.Minute+2*time.Second), "S28b"},
		{"five minutes, where the server asks for an hour", waits(time.Hour, maxPause), ""},
		{"longer, where the server asks for an hour", waits(time.Hour, maxPause+2*time.Second), "S28b"},
		{"429 for 170 seconds", func(r *rig) {
			run, pause := r.run(nil), firstPause
			for range 14 {
				r.fails(run, local, status(429))
				r.pass(pause)
				pause = min(2*pause, maxThrottlePause)
			}
		}, "S30b"},
		{"429 for 145 seconds", func(r *rig) {
			run, pause := r.run(nil), firstPause
			for range 12 {
				r.fails(run, local, status(429))
				r.pass(pause)
				pause = min(2*pause, maxThrottlePause)
			}
		}, ""},
		{"given up at once", func(r *rig) {
			r.crashes(r.run(nil), local, peer.Reply{Failure: status(500)}, failed)
		}, "S30c"},
		{"given up after all retries", func(r *rig) {
			run := r.run(nil)
			repeat(r, run, peer.Open{}, 3, 500, 0)
			r.crashes(run, peer.Open{}, peer.Reply{Failure: status(500)}, failed)
		}, ""},
		{"a copy that is given up after another kind of failure", func(r *rig) {
			run := r.run(nil)
			r.fails(run, peer.CopyDoc{}, status(401))
			r.crashes(run, peer.CopyDoc{}, peer.Reply{Failure: status(500)}, failed)
		}, "S30c"},
		{"likewise of a lenient run, which repeats all copies", func(r *rig) {
			run := r.run(map[string]any{"retries_per_request": 1})
			run.Record().ErrorCount = 5
			r.fails(run, peer.CopyDoc{}, status(401))
			r.crashes(run, peer.CopyDoc{}, peer.Reply{Failure: status(500)}, failed)
		}, ""},
		{"given up after a minute", func(r *rig) {
			run := r.run(nil)
			repeat(r, run, peer.Open{}, 1, 500, time.Minute)
			r.crashes(run, peer.Open{}, peer.Reply{Failure: status(500)}, failed)
		}, ""},
		{"given up for a poll that was cut", func(r *rig) {
			run := r.run(nil)
			r.call(run, poll)
			r.pass(quietPoll)
			r.crashes(run, poll, peer.Reply{Failure: kind(peer.Broken)}, failed)
		}, "S30c"},
		{"given up for a feed that fails", func(r *rig) {
			run := r.run(nil)
			for range 3 {
				r.fails(run, read, kind(peer.Broken))
				r.pass(2 * time.Second)
			}
			r.crashes(run, read, peer.Reply{Failure: kind(peer.Broken)}, failed)
		}, ""},
		{"given up for a write in the way", func(r *rig) {
			r.crashes(r.run(nil), copyOf("a"), peer.Reply{Result: refused(409)}, failed)
		}, "S30c"},
		{"given up for a refusal", func(r *rig) {
			r.crashes(r.run(nil), copyOf("a"), peer.Reply{Result: refused(401)}, failed)
		}, ""},
		{"given up for a refusal, before the copy failed", func(r *rig) {
			cut := peer.Reply{Result: refused(400), Failure: kind(peer.Broken)}
			r.crashes(r.run(nil), copyOf("a"), cut, replication.Trouble{Error: "doc_write_failed"})
		}, ""},
		{"given up for a copy that failed behind a refusal", func(r *rig) {
			cut := peer.Reply{Result: refused(400), Failure: kind(peer.Broken)}
			r.crashes(r.run(nil), copyOf("a"), cut, failed)
		}, "S30c"},
		{"given up without a count", func(r *rig) {
			r.crashes(r.run(nil), peer.CountPending{}, peer.Reply{Failure: status(404)}, failed)
		}, "S30d"},
		{"another error for a status", func(r *rig) {
			r.crashes(r.run(nil), peer.Open{}, peer.Reply{Failure: status(500)},
				replication.Trouble{Error: "timeout"})
		}, "S29o"},
		{"given up without a look at the target", func(r *rig) {
			r.crashes(r.run(nil), peer.Create{}, peer.Reply{Failure: status(412)}, failed)
		}, "S30e"},
		{"given up when the target knows us not", func(r *rig) {
			r.crashes(r.run(nil), peer.Create{}, peer.Reply{Failure: status(401)}, failed)
		}, ""},
		{"given up for a bulk read", func(r *rig) {
			r.crashes(r.run(nil), reads("a"), peer.Reply{Failure: kind(peer.Malformed)}, failed)
		}, "S30f"},
		{"given up for 429, which is not said", func(r *rig) {
			r.crashes(r.run(nil), local, peer.Reply{Failure: status(429)}, failed)
		}, "S30g"},
		{"given up for the first 429", func(r *rig) {
			r.crashes(r.run(nil), local, peer.Reply{Failure: status(429)}, slow)
		}, "S30h"},
		{"given up for 429 after 150 seconds", func(r *rig) {
			run := r.run(nil)
			r.fails(run, peer.Open{}, status(429))
			r.pass(patienceLast)
			r.crashes(run, peer.Open{}, peer.Reply{Failure: status(429)}, slow)
		}, ""},
		{"a feed with news, given up for 429", func(r *rig) {
			run := r.run(nil)
			r.fails(run, read, status(429))
			r.pass(patienceLast)
			r.does(run, read, rows(from, "a"))
			r.crashes(run, read, peer.Reply{Failure: status(429)}, slow)
		}, "S30h"},
		{"asked again without attachments", func(r *rig) {
			run := r.run(nil)
			r.does(run, copyOf("a"), lackingCopy)
			r.pass(missingPause)
			r.call(run, peer.CopyDoc{ID: "a", Revs: []string{"1-a"}, Since: []string{"0-a"}})
		}, "S30i"},
		{"asked again with attachments", func(r *rig) {
			run := r.run(nil)
			r.does(run, copyOf("a"), lackingCopy)
			r.pass(missingPause)
			r.call(run, copyOf("a"))
		}, ""},
	})
}
