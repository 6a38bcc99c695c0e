package replication

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// TestBrokenReadGoesOn: rows that arrived before the connection broke are not read again. The server is left alone for
// a moment: each read may break.
func TestBrokenReadGoesOn(t *testing.T) {
	for _, came := range []int{1, 5} {
		w := newWorld(t)
		w.fill(2 * came)
		var reads []instant.Time
		w.fault = func(c Call) fault {
			if _, ok := c.Op.(peer.ReadChanges); ok {
				if reads = append(reads, w.now); len(reads) == 1 {
					return breaks
				}
			}
			return works
		}
		w.begin()
		w.wantEnd(Completed, "")
		if !slices.Contains(w.calls, fmt.Sprintf(`read changes since "%d-opaque" limit 12 normal`, came)) {
			t.Errorf("after %d rows: calls %v", came, w.calls)
		}
		if pause := reads[1].Sub(reads[0]); pause < firstPause {
			t.Errorf("read again after %s", pause)
		}
	}
}

// TestBrokenReadsWait: a feed that breaks off again and again, but brings something each time, is read no
// faster than its rows are dealt with.
func TestBrokenReadsWait(t *testing.T) {
	w := newWorld(t)
	w.fill(500)
	reads := 0
	w.fault = func(c Call) fault {
		switch c.Op.(type) {
		case peer.ReadChanges:
			reads++
			return breaks
		case peer.DiffRevs:
			return fails
		}
		return works
	}
	w.begin()
	w.wantEnd(Crashed, "http_request_failed: X http://x/: 503")
	if reads > 6 {
		t.Errorf("%d reads of up to 12 rows while the target answered nothing", reads)
	}
}

func TestFeedThatDoesNotAdvance(t *testing.T) {
	w := newWorld(t)
	w.rows = func(op peer.ReadChanges) peer.Changes {
		return peer.Changes{Rows: []peer.Change{{Seq: "0", ID: "x", Revs: []string{"1-a"}}}, Pending: -1}
	}
	w.dbs[peer.Source].write("x", "1-a")
	w.begin()
	w.wantEnd(Crashed, "changes_req_failed: the changes feed does not advance beyond 0")
}

// TestReadBetweenPolls: a read that does not wait and brings nothing leaves the pause between long polls as it is.
func TestReadBetweenPolls(t *testing.T) {
	r := New(Plan{})
	r.feed.pauseWhenIdle(peer.ReadChanges{Wait: true}, 0)
	before := r.feed.pause
	if r.feed.pauseWhenIdle(peer.ReadChanges{}, 0); before != idlePauseMin || r.feed.pause != before {
		t.Errorf("the pause was %s, and is %s", before, r.feed.pause)
	}
}

// TestLongPollThatDoesNotWait: a server whose long polls bring nothing, and that at once, is asked less and less often.
// When one has waited as it should, or has brought something, the next one follows at once.
func TestLongPollThatDoesNotWait(t *testing.T) {
	const ms = time.Millisecond
	polls := []struct {
		takes time.Duration
		rows  int
		pause time.Duration // after it
	}{
		{0, 0, 250 * ms}, {0, 0, 500 * ms}, {900 * ms, 0, 1000 * ms}, {0, 0, 2000 * ms}, {0, 0, 4000 * ms},
		{0, 0, 8000 * ms}, {0, 0, idlePauseMax}, {0, 0, idlePauseMax}, {quietRead, 0, 0},
		{0, 0, 250 * ms}, {0, 1, 0}, {0, 0, 250 * ms}, {0, 0, 500 * ms}, {},
	}
	w, n := newWorld(t), 0
	w.plan.Continuous = true
	var ended instant.Time
	w.rows = func(op peer.ReadChanges) peer.Changes {
		got := peer.Changes{End: true, LastSeq: op.Since}
		if !op.Wait {
			return got
		}
		if pause := w.run.feed.begun.Sub(ended); n > 0 && pause != polls[n-1].pause {
			t.Errorf("poll %d comes %s after the one before, want %s", n, pause, polls[n-1].pause)
		}
		if polls[n].rows > 0 {
			got.Rows, got.LastSeq = []peer.Change{{Seq: "1", ID: "d", Revs: []string{"1-a"}}}, "1"
		}
		w.now = w.now.Add(polls[n].takes)
		ended, n = w.now, n+1
		return got
	}
	w.dbs[peer.Source].write("d", "1-a")
	w.begin()
	w.dbs[peer.Source].seq = 2 // so that the world answers long polls
	for n < len(polls) {
		w.proceed(first)
	}
}

// TestLongPollThatRepeats: a server that does not look at since answers each poll at once, with all that it has. It is
// asked less and less often, also where that is more than a poll asks for.
func TestLongPollThatRepeats(t *testing.T) {
	for _, rows := range []int{1, 50} {
		w, reads := newWorld(t), 0
		w.plan.Continuous = true
		w.fill(rows)
		w.rows = func(op peer.ReadChanges) peer.Changes {
			reads++
			all := w.dbs[peer.Source].changes(0)
			return peer.Changes{Rows: all, End: true, LastSeq: seqOf(int64(rows)), Pending: -1}
		}
		w.begin()
		w.dbs[peer.Source].seq++ // so that the world answers long polls
		for begun := w.now; w.now.Sub(begun) < 10*time.Minute; {
			w.proceed(first)
		}
		if reads > 150 {
			t.Errorf("with %d rows %d reads in ten minutes", rows, reads)
		}
	}
}

// TestFeedOfUnwantedThatBreaks: answers with changes of unwanted documents alone get the run on though they break off.
func TestFeedOfUnwantedThatBreaks(t *testing.T) {
	w := newWorld(t)
	w.fill(20)
	w.since = 20 // so that no document has to arrive
	w.reply = func(c Call) *peer.Reply {
		op, is := c.Op.(peer.ReadChanges)
		if !is {
			return nil
		}
		next := numberOf(op.Since) + 1
		reply := peer.Reply{Result: peer.Changes{LastSeq: seqOf(next), Pending: -1, End: next == 20}}
		if next < 20 {
			reply.Failure = &peer.Failure{Kind: peer.Broken}
		}
		return &reply
	}
	w.begin()
	if w.wantEnd(Completed, ""); w.end.Info.CheckpointedSeq != seqOf(20) {
		t.Errorf("checkpoint at %s", w.end.Info.CheckpointedSeq)
	}
}

// TestRunWakesToReadOn: after a pause of the feed the run reads on at once, whatever else it waits for.
func TestRunWakesToReadOn(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.rows = func(op peer.ReadChanges) peer.Changes { return peer.Changes{End: true, LastSeq: op.Since} }
	w.begin()
	w.dbs[peer.Source].seq = 1 // so that the world answers long polls
	for w.run.feed.resume <= w.now {
		w.proceed(first)
	}
	if wakes := w.run.Deadline(); wakes > w.run.feed.resume {
		t.Errorf("the run may read on at %s, and wakes at %s", w.run.feed.resume, wakes)
	}
}

// A server that words one moment anew in each answer is asked no more often.
func TestLongPollThatRewordsTheMoment(t *testing.T) {
	for words, most := range map[string]struct{ reads, batches int }{
		`"7-%d"`:   {15, 1},
		`[7,"%d"]`: {250, 250}, // nobody can tell whether it is one moment
	} {
		w := newWorld(t)
		w.plan.Continuous = true
		reads := 0
		w.rows = func(op peer.ReadChanges) peer.Changes {
			reads++
			return peer.Changes{End: true, LastSeq: peer.Seq(fmt.Sprintf(words, reads))}
		}
		w.begin()
		w.dbs[peer.Source].seq = 8 // so that the world answers long polls
		for end := w.now.Add(time.Minute); w.now < end; {
			w.proceed(first)
		}
		if reads < 5 || reads > most.reads {
			t.Errorf("%s: %d reads in a minute", words, reads)
		}
		if w.run.work.numbered > int64(most.batches) {
			t.Errorf("%s: %d batches without a row", words, w.run.work.numbered)
		}
	}
}

// A run whose long polls are cut, because something on the way lets no answer take as long as it likes, goes
// on.
func TestCutLongPolls(t *testing.T) {
	for _, c := range []struct {
		name    string
		between *peer.Failure // of every second poll, at once
		cut     peer.Failure
		after   time.Duration
	}{
		{"by a balancer", nil, peer.Failure{Kind: peer.Broken}, 30 * time.Second},
		{"by a proxy that keeps signs of life to itself", nil, peer.Failure{Kind: peer.TimedOut}, 30 * time.Second},
		{"by a gateway", nil, status(504), time.Minute},
		{"by a server that had enough", nil, status(408), time.Minute},
		{"once in a while", nil, peer.Failure{Kind: peer.Broken}, 20 * time.Hour},
		{"soon", nil, peer.Failure{Kind: peer.Broken}, quietRead},
		{"among answers 429", new(status(429)), peer.Failure{Kind: peer.Broken}, time.Hour},
		{"among refusals", new(status(503)), peer.Failure{Kind: peer.Broken}, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.plan.Continuous = true
			w.begin()
			cuts, pauses := 0, time.Duration(0)
			for poll := uint64(0); cuts < 10; {
				i := slices.IndexFunc(w.flying,
					func(c Call) bool { r, is := c.Op.(peer.ReadChanges); return is && r.Wait })
				if i < 0 || len(w.flying) > 1 {
					before := w.now
					w.proceed(first)
					pauses += w.now.Sub(before)
					continue
				}
				fail := func(after time.Duration, f peer.Failure) {
					call := w.flying[i]
					w.flying = slices.Delete(w.flying, i, i+1)
					w.now = w.now.Add(after)
					w.step(Reply{ID: call.ID, Reply: peer.Reply{Failure: &f}})
				}
				if poll++; c.between != nil && poll%2 == 0 {
					fail(0, *c.between)
					continue
				}
				fail(c.after, c.cut)
				if cuts++; w.end != nil {
					t.Fatalf("%s after %d cuts", w.end, cuts)
				}
			}
			if pauses > 10*time.Second {
				t.Errorf("nobody listened for %s", pauses)
			}
		})
	}
}

// Polls that break at once, that the server fails, or that do not reach it are failures however long they are tried.
func TestPollsThatFail(t *testing.T) {
	for after, failure := range map[time.Duration]peer.Failure{
		0:               {Kind: peer.Broken},
		5 * time.Second: status(500),
		quietRead:       {Kind: peer.Unreachable},
	} {
		w := newWorld(t)
		w.plan.Continuous = true
		w.rows = func(op peer.ReadChanges) peer.Changes { return peer.Changes{End: true, LastSeq: op.Since} }
		w.answer = func(c Call) *peer.Failure {
			if read, is := c.Op.(peer.ReadChanges); is && read.Wait {
				w.now = w.now.Add(after)
				return &failure
			}
			return nil
		}
		w.begin()
		w.dbs[peer.Source].seq = 1 // so that the world answers long polls
		w.wantEnd(Crashed, "")
	}
}

// An idle run notices that a database is not the one any more to which it sent everything.
func TestIdleRunLooksAfterItsDatabases(t *testing.T) {
	for name, c := range map[string]struct {
		checkpoints bool
		change      func(*database)
		want        string
	}{
		"made again": {true, func(d *database) { *d = *newDatabase() },
			"checkpoint_commit_failure: the checkpoint document on the target"},
		"put back": {true, func(d *database) {
			d.local["four"] = localDoc{rev: 1, body: []byte(`{"session_id":"x","source_last_seq":1,"history":[]}`)}
		}, "checkpoint_commit_failure: the checkpoint document on the target"},
		"made again, without checkpoints": {false, func(d *database) { d.start = "2" },
			"checkpoint_commit_failure: instance_start_time on target"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.plan.Continuous, w.plan.UseCheckpoints = true, c.checkpoints
			w.fill(2)
			w.begin()
			for end := w.now.Add(2 * leastLook); w.now < end; {
				w.proceed(first)
			}
			c.change(w.dbs[peer.Target])
			w.wantEnd(Crashed, c.want)
			if n := w.run.Tally().CheckpointFailures; n > 0 {
				t.Errorf("%d checkpoints count as failed, and none was written", n)
			}
			if n := w.count("find"); n > 0 { // the source has a log, or there are no checkpoints
				t.Errorf("the source is asked for its last change %d times", n)
			}
		})
	}
}

// TestLooksCompareWithTheLast: a database that has fewer changes than at the last look was put back, however few it had
// before.
func TestLooksCompareWithTheLast(t *testing.T) {
	r := New(Plan{})
	r.phase, r.watch.answers = copying, 3
	for _, seq := range []peer.Seq{"5", "15", "7"} {
		r.watch.sawDatabase(peer.Open{Side: peer.Target}, peer.Reply{Result: peer.Opened{UpdateSeq: seq}})
		if ends := r.phase == ended; ends != (seq == "7") {
			t.Errorf("at %s the run ends: %t", seq, ends)
		}
	}
}

// However short its checkpoint interval is, an idle run leaves its databases alone.
func TestIdleRunWithShortInterval(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous, w.plan.CheckpointInterval = true, time.Millisecond
	w.fill(2)
	w.begin()
	for w.run.commits.committed != `"2-opaque"` {
		w.proceed(first)
	}
	if at := w.run.watch.next; at != w.now.Add(leastLook) { // the checkpoint has looked
		t.Errorf("the run looks %s after a checkpoint", at.Sub(w.now))
	}
	before := len(w.calls)
	for end := w.now.Add(10 * time.Minute); w.now < end; {
		w.proceed(first)
	}
	if n := len(w.calls) - before; n < 10 || n > 50 {
		t.Errorf("%d requests in ten minutes of nothing", n)
	}
}

// TestFullLongPoll: behind a long poll that brings as many rows as it may there are others.
func TestFullLongPoll(t *testing.T) {
	for rows, pending := range map[int]int64{1: 0, 2: 3} {
		r := New(Plan{Options: Options{Continuous: true}})
		r.feed.begin("0")
		got := peer.Changes{Rows: make([]peer.Change, rows), End: true, LastSeq: "2", Pending: 3}
		r.feed.onChanges(peer.ReadChanges{Wait: true, Limit: 2}, peer.Reply{Result: got})
		if r.feed.caught != (pending == 0) || r.feed.pending != pending {
			t.Errorf("behind %d rows: caught up %t, %d are pending", rows, r.feed.caught, r.feed.pending)
		}
	}
}

// TestRowsHeld: nothing is read while rows, as those of documents with thousands of leaves, take as much memory as
// documents may, though more batches could wait.
func TestRowsHeld(t *testing.T) {
	r := New(Plan{Options: Options{Workers: 32, BatchSize: 4, Connections: 40}})
	r.work.window.begin()
	r.feed.begin(peer.Zero)
	for range 17 {
		leafs := make([]string, 1<<20/50)
		r.work.queueBatch([]peer.Change{{ID: "doc", Seq: "1", Revs: leafs}}, "1")
	}
	if r.feed.readMore(); r.feed.reading != nil {
		t.Fatal("reads more")
	}
	r.work.batches[15].stage, r.work.batches[16].stage = done, done
	if r.feed.readMore(); r.feed.reading == nil {
		t.Error("reads no more")
	}
}

// TestManyRowsOfOne: rows of one document, which is changed while the feed is read and has many leaves, become one in
// no time that others would notice.
func TestManyRowsOfOne(t *testing.T) {
	const leaves, changes = 200_000, 20_000
	var revs []string
	for i := range leaves {
		revs = append(revs, fmt.Sprint("1-", i))
	}
	rows := []peer.Change{{ID: "doc", Seq: "0", Revs: revs}}
	for i := range changes {
		both := []string{"1-0", fmt.Sprint("2-", i)}
		rows = append(rows, peer.Change{ID: "doc", Seq: seqOf(int64(i + 1)), Revs: both})
	}
	r := New(Plan{Options: Options{Workers: 1, BatchSize: len(rows), Connections: 6}})
	r.work.queueBatch(rows, seqOf(changes))
	if b := r.work.batches[0]; len(b.docs) != 1 || len(b.docs[0].Revs) != leaves+changes || len(revs) != leaves {
		t.Errorf("%d documents, of which the first has %d leaves", len(b.docs), len(b.docs[0].Revs))
	}
}
