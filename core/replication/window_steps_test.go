package replication

import (
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// newWindow returns the window of a run between near servers: four batches at once.
func newWindow() *window {
	r := New(Plan{Options: Options{Workers: 4, MaxWorkers: 40, Connections: 50}})
	r.now, r.phase = instant.Seconds(1000), copying
	w := &r.work.window
	w.begin()
	return w
}

// fails has a request fail that was sent some time ago.
func (w *window) fails(op peer.Op, f peer.Failure, ago time.Duration) {
	w.answered(&call{op: op, sent: w.now.Add(-ago)}, &f)
}

// works has a request answered that was sent some time ago.
func (w *window) works(op peer.Op, ago time.Duration) {
	w.answered(&call{op: op, sent: w.now.Add(-ago)}, nil)
}

// does has some batches done, one after the other, each of which took some time.
func (w *window) does(n int, took time.Duration) {
	for range n {
		began := w.now
		w.now = w.now.Add(took)
		b := batch{began: began}
		b.trips[peer.Source], b.trips[peer.Target] = 1, 2
		w.done(&b)
	}
}

// TestHalvedOnce: however many requests fail of those that were under way at once, they halve the window
// once. It is never below one batch.
func TestHalvedOnce(t *testing.T) {
	broken := peer.Failure{Kind: peer.Broken}
	for _, f := range []peer.Failure{status(429), status(503), broken} {
		for _, op := range []peer.Op{peer.FetchDocs{}, peer.WriteDocs{}, peer.CopyDoc{}, peer.DiffRevs{}} {
			w := newWindow()
			for want := int64(4); want > 0; want /= 2 {
				if w.part != want*unit || w.size() != int(want) {
					t.Fatalf("%v: %T: %d millionths, %d batches; want %d", f, op, w.part, w.size(), want)
				}
				w.now = w.now.Add(time.Second)
				for range 5 {
					w.fails(op, f, time.Millisecond)
				}
				w.now = w.now.Add(time.Millisecond)
				w.fails(op, f, 2*time.Millisecond) // sent before the others failed
			}
			if w.part != unit {
				t.Errorf("%v: %T: %d millionths", f, op, w.part)
			}
		}
	}
}

// TestNotHalved: what says nothing of the load that batches are does not halve the window.
func TestNotHalved(t *testing.T) {
	w := newWindow()
	w.now = w.now.Add(time.Second)
	for _, op := range []peer.Op{peer.ReadChanges{}, peer.PutLocal{}, peer.Open{}, peer.Commit{}, peer.CountPending{}} {
		w.fails(op, status(429), time.Millisecond)
	}
	w.fails(peer.WriteDocs{}, status(413), time.Millisecond)
	w.fails(peer.FetchDocs{}, status(404), time.Millisecond)
	if w.part != 4*unit {
		t.Errorf("%d millionths", w.part)
	}
}

// TestGivenBack: only batches that began after the server was slow give something back: about one when all of
// the window are done, up to the number of workers.
func TestGivenBack(t *testing.T) {
	w := newWindow()
	old := batch{began: w.now, trips: [2]int{1, 2}}
	w.now = w.now.Add(time.Second)
	w.fails(peer.WriteDocs{}, status(429), time.Millisecond)
	w.now = w.now.Add(time.Second)
	w.done(&old)
	w.done(&batch{began: w.now}) // without documents
	if w.part != 2*unit {
		t.Errorf("%d millionths after batches that tell nothing", w.part)
	}
	w.does(2, 100*time.Millisecond)
	if w.part < 2.7*unit || w.part > 3*unit {
		t.Errorf("%d millionths after two batches", w.part)
	}
	for range 20 {
		w.done(&batch{began: w.now, alone: true})
	}
	if w.part != 4*unit {
		t.Errorf("%d millionths at last", w.part)
	}
}

// TestSizeFollows: each request of a batch that follows another is a time on the line. Where that is not
// known to the batch, or the servers need no time at all, the window remains as it should be.
func TestSizeFollows(t *testing.T) {
	w := newWindow()
	w.works(peer.DiffRevs{}, 100*time.Millisecond)
	w.works(peer.GetLocal{Side: peer.Source}, 50*time.Millisecond)
	w.begin()
	if n := w.size(); n != 14 { // 4 + 4*(2*100+50)/100
		t.Errorf("%d batches with what is guessed of the servers", n)
	}
	w.does(1000, 350*time.Millisecond)
	if n := w.size(); n != 14 {
		t.Errorf("%d batches with 250 ms on the line and 100 ms of work", n)
	}
	w.does(1000, 750*time.Millisecond)
	if n := w.size(); n != 6 { // 4 + 4*250/500
		t.Errorf("%d batches with 250 ms on the line and 500 ms of work", n)
	}
	for range 100 {
		w.done(&batch{began: w.now.Add(-time.Minute), alone: true, trips: [2]int{1, 1}})
	}
	if n := w.size(); n != 6 {
		t.Errorf("%d batches after some that were copied alone", n)
	}
	w.works(peer.FetchDocs{}, 10*time.Millisecond)
	w.works(peer.WriteDocs{}, 10*time.Millisecond)
	w.does(2000, 230*time.Millisecond)
	if n := w.size(); n != 5 { // 4 + 4*30/200
		t.Errorf("%d batches after answers that took 10 ms", n)
	}
	w = newWindow()
	if w.does(10_000, 0); w.size() != 4 {
		t.Errorf("%d batches with servers that answer at once", w.size())
	}
}

// TestCrowdedServers: batches that wait at the servers for each other, since there are too many, are no
// reason to have less on the line than the distance demands.
func TestCrowdedServers(t *testing.T) {
	for busy, took := range map[int]time.Duration{40: 2000, 25: 1250, 19: 950} { // the servers do one in 50 ms
		w := newWindow()
		w.works(peer.DiffRevs{}, 250*time.Millisecond)
		w.works(peer.GetLocal{Side: peer.Source}, 250*time.Millisecond)
		for n := range busy - 1 {
			w.Run.work.batches = append(w.Run.work.batches, &batch{stage: []stage{diffing, moving}[n%2]})
		}
		w.Run.work.batches = append(w.Run.work.batches, &batch{stage: queued}, &batch{stage: done})
		if w.does(1000, took*time.Millisecond); w.size() != 19 { // 4 + 750/50
			t.Errorf("%d batches that take %d ms: a window of %d", busy, took, w.size())
		}
	}
}

// TestSizeWaitsForBatches: what small requests tell of the line has an effect when a batch is done, and not
// in the middle of whatever they were sent for, such as a checkpoint.
func TestSizeWaitsForBatches(t *testing.T) {
	w := newWindow()
	for _, op := range []peer.Op{
		peer.Commit{Side: peer.Source}, peer.Commit{Side: peer.Target},
		peer.GetLocal{}, peer.PutLocal{Side: peer.Target},
	} {
		if w.works(op, time.Second); w.size() != 4 {
			t.Errorf("%v: %d batches", op, w.size())
		}
	}
	if w.does(10, 3*time.Second); w.size() < 10 {
		t.Errorf("%d batches later", w.size())
	}
}

// replies has all requests that are under way answered that long after they were sent.
func (w *window) replies(after time.Duration, reply peer.Reply) {
	w.now = w.now.Add(after)
	for _, c := range slices.Clone(w.calls) {
		w.onReply(Reply{ID: c.id, Reply: reply})
	}
}

// TestFirstLineIsMeasuredOnceMore: before the first batch is done, what is asked once more can only make the
// guess of the line shorter, and a failure tells nothing of it.
func TestFirstLineIsMeasuredOnceMore(t *testing.T) {
	opened, gone := peer.Reply{Result: peer.Opened{}}, status(404)
	for _, c := range []struct {
		after time.Duration
		reply peer.Reply
		want  int
	}{
		{20 * time.Millisecond, opened, 6},                      // 4 + 4*3*20/100
		{500 * time.Millisecond, opened, 10},                    // as before: 4 + 4*3*50/100
		{20 * time.Millisecond, peer.Reply{Failure: &gone}, 10}, // as before
	} {
		w := newWindow()
		w.works(peer.Open{Side: peer.Source}, 50*time.Millisecond)
		w.works(peer.Open{Side: peer.Target}, 50*time.Millisecond)
		w.begin()
		w.Run.work.numbered = 5 // the first answer of the feed had more batches than one
		w.measureFar()
		if w.replies(c.after, c.reply); w.size() != c.want {
			t.Errorf("%d batches after %+v in %s, want %d", w.size(), c.reply, c.after, c.want)
		}
	}
}

// TestProbe: a batch that takes very long has both sides asked three times, and not again within ten seconds.
// What they tell has an effect as further batches are done, unless they fail. A window that cannot grow asks
// for nothing.
func TestProbe(t *testing.T) {
	opened, gone := peer.Reply{Result: peer.Opened{}}, status(404)
	for _, c := range []struct {
		most, probes int
		reply        peer.Reply
		wider        bool
	}{{40, 3, opened, true}, {40, 1, peer.Reply{Failure: &gone}, false}, {4, 0, opened, false}} {
		w := newWindow()
		w.plan.MaxWorkers = c.most
		w.works(peer.Open{Side: peer.Source}, 50*time.Millisecond)
		w.works(peer.Open{Side: peer.Target}, 50*time.Millisecond)
		w.begin()
		w.Run.work.furthest = 1
		w.does(1, 3*time.Second)
		was, rounds := w.size(), 0
		for ; len(w.calls) > 0; rounds++ {
			if len(w.calls) != 2 {
				t.Fatalf("%d requests at once", len(w.calls))
			}
			w.replies(time.Second, c.reply)
		}
		if w.does(1, 9*time.Second-time.Duration(rounds)*time.Second); len(w.calls) > 0 || rounds != c.probes {
			t.Errorf("at most %d: asked %d times, and %d more", c.most, rounds, len(w.calls))
		}
		if w.does(10, 3*time.Second); (w.size() > was+2) != c.wider {
			t.Errorf("%+v: %d batches, before %d", c, w.size(), was)
		}
	}
}

// TestTrip: the shortest time counts for ten seconds at least, and for twenty at most once there is a newer
// one.
func TestTrip(t *testing.T) {
	var r trip
	begin := instant.Seconds(1000)
	for _, step := range []struct{ at, took, want time.Duration }{
		{0, 100, 100}, {5, 50, 50}, {9, 80, 50}, {10, 80, 50}, {19, 80, 50}, {20, 90, 80}, {30, 90, 90},
		{31, 40, 40}, {51, 95, 95}, {52, 0, 1},
	} {
		if r.observe(step.took, begin.Add(step.at*time.Second)); r.time() != step.want {
			t.Errorf("%d after %d s, want %d", r.time(), step.at, step.want)
		}
	}
	r = trip{}
	if r.bound(7); r.time() != 0 {
		t.Errorf("%d, and nothing is known", r.time())
	}
}

// TestSmallRequests: the time until the answer to a request is that of the line if there is hardly any work
// to do for it, at the side that has been asked.
func TestSmallRequests(t *testing.T) {
	for _, side := range []peer.Side{peer.Source, peer.Target} {
		small := []peer.Op{
			peer.Open{Side: side}, peer.GetLocal{Side: side}, peer.PutLocal{Side: side}, peer.Commit{Side: side},
		}
		if side == peer.Target {
			small = append(small, peer.DiffRevs{})
		}
		for _, op := range small {
			w := newWindow()
			w.works(op, time.Second)
			w.fails(op, status(404), time.Millisecond) // which tells nothing
			if w.trips[side].time() != time.Second || w.trips[1-side].time() != 0 {
				t.Errorf("%v: %v", op, w.trips)
			}
		}
	}
	for _, op := range []peer.Op{peer.FetchDocs{}, peer.WriteDocs{}, peer.CopyDoc{}, peer.ReadChanges{}} {
		w := newWindow()
		w.works(op, time.Second)
		if w.trips != [2]trip{} {
			t.Errorf("%v: %v", op, w.trips)
		}
	}
}

// TestCopiesTellNothing: a batch whose documents are copied one by one says nothing of how long a batch takes at the
// servers.
func TestCopiesTellNothing(t *testing.T) {
	w := newWorld(t)
	w.plan.UseBulkGet = false
	w.fill(40)
	w.begin()
	w.wantEnd(Completed, "")
	if n := &w.run.work.window; n.told || n.work != firstWork {
		t.Errorf("batches have told that they take %s at the servers", n.work)
	}
}
