package replication

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"couchrelay/core/peer"
)

// TestPendingOfStoppedRun: before anything was read nobody knows what is pending, and what was read and not
// copied is to come again.
func TestPendingOfStoppedRun(t *testing.T) {
	w := newWorld(t)
	w.fill(12)
	w.begin()
	w.step(Stop{})
	if w.end == nil || w.end.Info.ChangesPending != -1 {
		t.Errorf("ended with %+v", w.end)
	}
	w.begin()
	for !strings.HasPrefix(w.calls[len(w.calls)-1], "diff") {
		w.proceed(first)
	}
	w.step(Stop{})
	if end := w.runToEnd(first); end.Cause != Stopped || end.Info.ChangesPending != 12 {
		t.Errorf("%s with %d pending", end, end.Info.ChangesPending)
	}
}

// TestPendingWhileCatchingUp: what is to come is known from the first count on, though reads go on while it
// is asked for, and is counted anew now and then.
func TestPendingWhileCatchingUp(t *testing.T) {
	w := newWorld(t)
	w.fill(10_000)
	w.begin()
	known, counts := false, 0
	for w.end == nil {
		w.proceed(func(n int) int { // the count takes as long as two reads
			at := slices.IndexFunc(w.flying, func(c Call) bool { _, is := c.Op.(peer.CountPending); return is })
			if at < 0 || at >= n {
				return 0
			}
			if w.run.feed.rows >= w.run.feed.counted+24 || n == 1 {
				known, counts = true, counts+1
				return at
			}
			return (at + 1) % n
		})
		info := w.run.Info()
		left := 10_000 - numberOf(info.ThroughSeq)
		if known && w.end == nil && (info.ChangesPending < left || info.ChangesPending > left+500) {
			t.Fatalf("%d pending at %s", info.ChangesPending, info.ThroughSeq)
		}
	}
	if counts < 2 {
		t.Errorf("counted %d times in %s", counts, w.now)
	}
}

// TestUncountedSource: a source that does not tell how many changes are to come is asked once.
func TestUncountedSource(t *testing.T) {
	w, asked := newWorld(t), 0
	w.fill(200)
	w.reply = func(c Call) *peer.Reply {
		w.now = w.now.Add(time.Second)
		if _, is := c.Op.(peer.CountPending); !is {
			return nil
		}
		asked++
		return &peer.Reply{Result: peer.Pending{Count: -1}}
	}
	w.begin()
	began := w.now
	w.wantEnd(Completed, "")
	if took := w.now.Sub(began); asked != 1 || took < 2*countEvery {
		t.Errorf("asked %d times in %s", asked, took)
	}
}

// TestPendingOfLateCount: a count that was asked for before the end of an answer tells nothing any more when
// it comes after it.
func TestPendingOfLateCount(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.fill(30)
	w.begin()
	count := func(c Call) bool { _, is := c.Op.(peer.CountPending); return is }
	for w.run.Info().ThroughSeq != seqOf(30) || !w.run.feed.caught {
		w.proceed(w.but(count))
	}
	at := slices.IndexFunc(w.flying, count)
	if at < 0 {
		t.Fatal("there is no count under way")
	}
	w.step(Reply{ID: w.flying[at].ID, Reply: peer.Reply{Result: peer.Pending{Count: 25}}})
	if got := w.run.Info().ChangesPending; got != 0 {
		t.Errorf("%d pending of a feed that is read to its end", got)
	}
}

// TestPendingOfFullAnswer: an answer with as many rows as were asked for tells nothing of those that may
// follow.
func TestPendingOfFullAnswer(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	rows := []peer.Change{}
	for n := range w.plan.BatchSize * w.plan.Workers {
		rows = append(rows, peer.Change{Seq: seqOf(int64(n + 1)), ID: fmt.Sprint("doc", n)})
	}
	last := rows[len(rows)-1].Seq
	w.rows = func(op peer.ReadChanges) peer.Changes {
		if !op.Wait {
			return peer.Changes{End: true, LastSeq: op.Since, Pending: -1}
		}
		return peer.Changes{End: true, Rows: rows, LastSeq: last, Pending: -1}
	}
	w.dbs[peer.Source].seq = 1
	w.begin()
	for w.run.Info().ThroughSeq != last {
		w.proceed(first)
	}
	if got := w.run.Info().ChangesPending; got != -1 {
		t.Errorf("%d pending", got)
	}
	w.rows = func(peer.ReadChanges) peer.Changes {
		return peer.Changes{End: true, LastSeq: last, Pending: -1}
	}
	for !w.run.feed.caught {
		w.proceed(first)
	}
	if got := w.run.Info().ChangesPending; got != 0 {
		t.Errorf("%d pending of a feed that is read to its end", got)
	}
	if d := numericDistance("5", "3"); d != -1 { // a goal that was passed tells nothing either
		t.Errorf("distance %d", d)
	}
}

// TestPendingOfChosenDocuments: at the end of a feed of chosen documents CouchDB tells how many others it has, which
// are not to come.
func TestPendingOfChosenDocuments(t *testing.T) {
	w := newWorld(t)
	w.plan.Continuous = true
	w.fill(30)
	w.rows = func(op peer.ReadChanges) peer.Changes {
		rows := []peer.Change{{Seq: seqOf(5), ID: "doc"}}
		return peer.Changes{End: true, Rows: rows, LastSeq: seqOf(30), Pending: 29}
	}
	w.begin()
	for w.run.Info().ThroughSeq != seqOf(30) {
		w.proceed(first)
	}
	if got := w.run.Info().ChangesPending; got != 0 {
		t.Errorf("%d pending of a feed that is read to its end", got)
	}
}

// TestPendingByNumbers: sequences that are numbers tell at most how many changes are to come, since documents that were
// written again have left theirs, and nothing behind the last one that the source had when it was opened.
func TestPendingByNumbers(t *testing.T) {
	w := newWorld(t)
	w.begin()
	f := &w.run.feed
	f.goal, f.pending = "41", -1
	for _, c := range []struct {
		since peer.Seq
		want  int64
	}{{"0", 41}, {"33", 8}, {"41", 0}, {"53", -1}, {"60", -1}} {
		f.takeRows(peer.Changes{Rows: []peer.Change{{Seq: c.since, ID: "d"}}})
		f.estimatePending(peer.Changes{Pending: -1})
		if f.pending != c.want {
			t.Errorf("at %s %d changes are pending, want %d", c.since, f.pending, c.want)
		}
	}
}
