package follow_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/peer"
)

// TestGivenUp: a worker that others gave up although it lives hears of it with its next heartbeat. It says so, and
// begins again under another lease.
func TestGivenUp(t *testing.T) {
	w := newWorld(t)
	leases := map[string]bool{}
	w.asked = func(q follow.Request) {
		if q, is := q.(follow.Join); is && leases[q.Worker] {
			t.Errorf("it joins as %s once more", q.Worker)
		} else if is {
			leases[q.Worker] = true
		}
	}
	k := w.start()
	w.settle(time.Second)
	w.perform(follow.Expire{Worker: "w1"})
	w.settle(follow.ActivityTimeout / 2)
	told := follow.Note{What: "follow_lease_lost", Text: "others have given this worker up"}
	if !slices.Contains(k.notes, told) || w.runs != 2 || len(k.open) != 1 {
		t.Errorf("operators are told %v, and the runs are %v of %d", k.notes, k.open, w.runs)
	}
}

// TestOwnLostLeases: a worker whose heartbeats do not get through gives its leases up by itself. What it held under
// any of them it runs again as soon as the store answers, and not only when others could take it for silent.
func TestOwnLostLeases(t *testing.T) {
	for leases := 1; leases <= 2; leases++ {
		w := newWorld(t)
		k := w.start()
		w.settle(time.Second)
		w.done = func(q follow.Request) bool { _, is := q.(follow.Beat); return is }
		returns := func(a follow.Ask) bool { _, is := a.Request.(follow.Expire); return is }
		unheard := func() { k.asks = slices.DeleteFunc(k.asks, returns) }
		for leasesLost(k) < leases {
			for unheard(); k.act(first); unheard() {
			}
			w.pass(250 * time.Millisecond)
		}
		w.done = nil
		w.settle(follow.ActivityTimeout / 2)
		if w.runs != 2 || len(k.open) != 1 {
			t.Errorf("after %d lost leases: %d runs, %v are open", leases, w.runs, k.open)
		}
	}
}

// leasesLost counts the notes of a worker that it has lost its lease.
func leasesLost(k *worker) (n int) {
	for _, note := range k.notes {
		if note.What == "follow_lease_lost" {
			n++
		}
	}
	return n
}

// TestLostJob: whatever a run writes whose job was taken away, it is told so.
func TestLostJob(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	w.start()
	tried := 0
	w.done = func(q follow.Request) bool {
		lost := jobs.Lock{Worker: "w0", Batch: 7}
		switch r := q.(type) {
		case follow.Opened:
			r.Lock = lost
			q = r
		case follow.Apply:
			r.Lock = lost
			q = r
		case follow.Prepare:
			r.Lock = lost
			q = r
		case follow.Sent:
			r.Lock = lost
			q = r
		default:
			return false
		}
		tried++
		_, err := kv.Run(context.Background(), w.db, func(tx kv.Tx) (follow.Result, error) {
			return follow.Perform(tx, w.store, q, w.now)
		})
		if follow.OutcomeOf(err) != follow.Halted {
			t.Errorf("%v: %v", q, err)
		}
		return false
	}
	w.settle(10 * time.Second)
	w.complete("d")
	w.settle(10 * time.Second)
	if w.expect("d", jobstore.Completed, "completed"); tried < 4 {
		t.Errorf("%d requests were tried", tried)
	}
}

// TestLostJobWithTwoRequests: a run that hears from one request that its job was taken away does not repeat another
// one, which the store could not answer.
func TestLostJobWithTwoRequests(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	k := w.start()
	for len(k.asks) < 2 || !strings.HasPrefix(k.asks[1].Request.String(), "apply") {
		if len(k.calls) > 0 {
			c := k.calls[0]
			k.calls = k.calls[1:]
			k.carry(c)
		} else if !k.act(first) {
			t.Fatal("the run comes to rest before it copies")
		}
	}
	asks := k.asks
	k.asks = nil
	k.tell(follow.Answer{ID: asks[0].ID, Outcome: follow.Halted})
	k.tell(follow.Answer{ID: asks[1].ID, Outcome: follow.StoreDown})
	w.pass(20 * time.Second)
	if again := fmt.Sprint(k.asks); len(k.asks) == 0 || strings.Contains(again, "under w1/1") {
		t.Errorf("it asks for %s", again)
	}
}

// TestStray: the followed database was put back, or a document was purged, and it knows the newest change all the same.
// Then the document whose state is to be written is not there, or is another one: its job ends, or does what the other
// one says. If a node lagged behind for a moment, nothing is read anew.
func TestStray(t *testing.T) {
	for _, c := range []struct {
		name         string
		lags, edited bool
	}{{"purged", false, false}, {"another one", false, true}, {"for a moment", true, false}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.write("d", one)
			w.write("last", other)
			k := w.start()
			w.settle(10 * time.Second)
			d := w.couch.docs["d"]
			delete(w.couch.docs, "d")
			w.complete("d")
			w.settle(2 * time.Second)
			if c.lags {
				w.couch.docs["d"] = d
			} else if c.edited {
				w.couch.docs["d"] = &document{gen: 1, seq: d.seq, made: d.made + 100, body: other}
			}
			w.settle(5 * time.Minute)
			if k.noted("follow_reread") == c.lags {
				t.Errorf("operators are told %v", k.notes)
			}
			if state, _ := w.job("d"); (state != "") != (c.lags || c.edited) {
				t.Errorf("the document's job is %q", state)
			}
			w.expect("last", jobstore.Pending, "")
			if c.edited {
				w.expect("d", jobstore.Pending, "")
			}
		})
	}
}

// TestForeignState: a document whose state is to be written is as it was earlier, with a state of another replicator,
// since the followed database was put back. That is read anew.
func TestForeignState(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	w.write("last", other)
	k := w.start()
	w.settle(10 * time.Second)
	was := *w.couch.docs["d"]
	was.made, was.body = was.made+100, one[:len(one)-1]+`,"_replication_state":"error"}`
	w.couch.docs["d"] = &was
	w.complete("d")
	w.settle(5 * time.Minute)
	if !k.noted("follow_reread") {
		t.Errorf("operators are told %v", k.notes)
	}
}

// TestStraysAreRare: for the second document that was purged within an hour the database is not read anew before that
// is over.
func TestStraysAreRare(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	w.write("e", `{"source":"http://a/x","target":"http://b/z"}`)
	w.write("last", other)
	w.start()
	w.settle(10 * time.Second)
	for _, id := range []string{"d", "e"} {
		delete(w.couch.docs, id)
		w.complete(id)
		w.settle(5 * time.Minute)
	}
	if state, _ := w.job("e"); state != jobstore.Completed {
		t.Errorf("the job of e is %q before the hour is over", state)
	}
	w.settle(time.Hour + 30*time.Minute)
	if state, _ := w.job("e"); state != "" {
		t.Errorf("the job of a document that was purged is %s", state)
	}
}

// TestPassedInFeed: all is read anew, and the feed does not tell of a document that the followed database has, as if
// that was put back meanwhile. The document keeps a job, which does what the document says. If only a node that lagged
// behind had the document, or no node has it, the job is removed.
func TestPassedInFeed(t *testing.T) {
	for _, lags := range []bool{false, true} {
		w := newWorld(t)
		for _, id := range []string{"d", "gone", "last"} {
			w.write(id, one)
		}
		w.start()
		w.settle(10 * time.Second)
		w.couch = newCouch("2")
		w.write("last", other)
		w.write("d", other)
		w.couch.docs["d"].seq, w.couch.seq = 0, 1 // no row of the feed has a sequence as low
		reads := 0
		w.fault = func(op peer.Op) fault {
			if read, is := op.(peer.ReadDocs); is && slices.Contains(read.IDs, "d") {
				if reads++; reads == 2 && lags {
					delete(w.couch.docs, "d")
				}
			}
			return ""
		}
		for _, k := range w.workers {
			k.cut()
		}
		w.settle(time.Minute)
		for id, stays := range map[string]bool{"d": !lags, "gone": false, "last": true} {
			if state, _ := w.job(id); (state != "") != stays {
				t.Errorf("lags %v: the job of %s is %q", lags, id, state)
			}
		}
		if !lags && w.target("d") != "http://b/y/" {
			t.Errorf("the job of d has target %s", w.target("d"))
		}
	}
}

// TestArrivedAndLost: a state arrives, its answer is lost, and the feed brings it. Then a backup from before it is put
// back. The job does not run again, and the state is written again.
func TestArrivedAndLost(t *testing.T) {
	w := newWorld(t)
	w.write("d", one)
	k := w.start()
	w.settle(10 * time.Second)
	backup := w.couch.backup()
	w.complete("d")
	w.loseEdits(1, lost)
	w.settle(time.Minute)
	w.expect("d", jobstore.Completed, "completed")
	if due := w.due(); due != 0 {
		t.Errorf("%d states are due, which the feed has brought", due)
	}
	w.restore(backup)
	k.cut()
	w.settle(time.Minute)
	w.expect("d", jobstore.Completed, "completed")
}

// due is how many states are to be written back.
func (w *world) due() (n int) {
	w.do(func(tx kv.Tx) error {
		views, err := follow.List(tx, w.store)
		if err == nil {
			n = views[0].States
		}
		return err
	})
	return n
}

// TestLocksAreNew: each run has a lock that none before it had, also of the same worker and database. So what an
// earlier run has asked for, and lands late, changes nothing.
func TestLocksAreNew(t *testing.T) {
	w := newWorld(t)
	held := map[follow.Held]bool{}
	var early follow.Held
	w.asked = func(q follow.Request) {
		if q, is := q.(follow.Opened); is {
			if held[q.Held] = true; len(held) == 1 {
				early = q.Held
			}
		}
	}
	w.start()
	for range 3 {
		w.settle(10 * time.Second)
		w.follow(w.list...)
	}
	w.settle(10 * time.Second)
	if len(held) != w.runs || w.runs != 4 {
		t.Errorf("%d runs have %d locks", w.runs, len(held))
	}
	late := follow.Release{Held: early, Error: "timeout", Reason: "of an earlier run"}
	err := kv.Do(t.Context(), w.db, func(tx kv.Tx) error {
		_, err := follow.Perform(tx, w.store, late, w.now)
		return err
	})
	if follow.OutcomeOf(err) != follow.Halted || w.followed().Error != "" {
		t.Errorf("a late request of the first run: %v; the job has the error %q", err, w.followed().Error)
	}
}
