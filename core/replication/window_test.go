package replication

import (
	"slices"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// road is two servers at the end of a line, and runs that use them. Each server does one thing at a time, in the order
// in which requests arrive, but answers small requests at once.
type road struct {
	trip  [2]time.Duration            // round trip time, by peer.Side
	cost  func(peer.Op) time.Duration // what an operation takes at its server
	free  [2]instant.Time             // when a server has done all that it has now
	runs  []*world
	due   []answer                // of all runs, in no order
	spans [2][]span               // what the servers did
	now   instant.Time            // of all runs
	throw func(instant.Time) bool // whether a server answers 429 to bulk requests at a time; may be nil
}

type answer struct {
	of *world
	at instant.Time
	Call
}

// span is the time that a request for documents was at a server, waiting or not.
type span struct{ from, to instant.Time }

// newRoad has runs with documents of 1 kB, in batches of which the source needs 40 ms, and the target 10 and 50.
func newRoad(t *testing.T, runs, docs int) *road {
	r := &road{cost: func(op peer.Op) time.Duration {
		switch op.(type) {
		case peer.DiffRevs:
			return 10 * time.Millisecond
		case peer.FetchDocs:
			return 40 * time.Millisecond
		case peer.WriteDocs:
			return 50 * time.Millisecond
		}
		return 0
	}}
	for n := range runs {
		w := newWorld(t)
		w.docSize = 1000
		w.plan.Workers, w.plan.MaxWorkers, w.plan.BatchSize, w.plan.Connections = 4, 40, 10, 50
		w.plan.CheckpointInterval, w.plan.Seed = 30*time.Second, uint64(n)
		w.fill(docs)
		r.runs = append(r.runs, w)
		r.now = w.now
	}
	return r
}

// play lets the runs work until stop says so, or all have ended.
func (r *road) play(stop func() bool) {
	for _, w := range r.runs {
		if w.run == nil {
			w.begin()
		}
	}
	for !stop() {
		r.send()
		next, from := instant.Never, -1
		for i, a := range r.due {
			if a.at < next {
				next, from = a.at, i
			}
		}
		var wakes *world
		for _, w := range r.runs {
			if at := w.run.Deadline(); w.end == nil && at < next {
				next, wakes = at, w
			}
		}
		if next == instant.Never {
			return
		}
		r.now = max(r.now, next)
		if wakes != nil {
			wakes.now = r.now
			wakes.step(Wake{})
			continue
		}
		a := r.due[from]
		r.due = slices.Delete(r.due, from, from+1)
		if !slices.ContainsFunc(a.of.flying, func(c Call) bool { return c.ID == a.ID }) {
			continue
		}
		a.of.flying = slices.DeleteFunc(a.of.flying, func(c Call) bool { return c.ID == a.ID })
		reply := peer.Reply{Failure: &peer.Failure{Kind: peer.Status, Status: 429}}
		if r.throw == nil || !ofBatches(a.Op) || !r.throw(r.now) {
			reply = a.of.perform(a.Call)
		}
		a.of.now = r.now
		a.of.step(Reply{ID: a.ID, Reply: reply})
	}
}

// send puts new requests on the line.
func (r *road) send() {
	for _, w := range r.runs {
		for _, c := range w.flying {
			if slices.ContainsFunc(r.due, func(a answer) bool { return a.of == w && a.ID == c.ID }) {
				continue
			}
			side := peer.Target
			switch op := c.Op.(type) {
			case peer.FetchDocs, peer.ReadChanges:
				side = peer.Source
			case peer.Open:
				side = op.Side
			case peer.GetLocal:
				side = op.Side
			case peer.PutLocal:
				side = op.Side
			case peer.Commit:
				side = op.Side
			}
			at := r.now.Add(r.trip[side] / 2)
			if cost := r.cost(c.Op); cost > 0 {
				done := max(at, r.free[side]).Add(cost)
				r.free[side] = done
				r.spans[side] = append(r.spans[side], span{at, done})
				at = done
			}
			r.due = append(r.due, answer{w, at.Add(r.trip[side] / 2), c})
		}
	}
}

// rate is how many documents a second were written in a span of time of the run, which must not end in it.
func (r *road) rate(t *testing.T, from, to time.Duration) float64 {
	t.Helper()
	began, before := r.now, int64(0)
	r.play(func() bool { return r.now.Sub(began) > from })
	for _, w := range r.runs {
		before += w.run.Info().Written
	}
	since := r.now
	r.play(func() bool { return r.now.Sub(began) > to })
	written := -before
	for _, w := range r.runs {
		if written += w.run.Info().Written; w.end != nil {
			t.Fatalf("ended with %v after %s", w.end, r.now.Sub(began))
		}
	}
	return float64(written) / r.now.Sub(since).Seconds()
}

// there returns how many requests for documents were at a server on average, during the last span of time.
func (r *road) there(side peer.Side, last time.Duration) float64 {
	from, sum := r.now.Add(-last), time.Duration(0)
	for _, s := range r.spans[side] {
		if s.to > from {
			sum += min(s.to, r.now).Sub(max(min(s.from, r.now), from))
		}
	}
	return float64(sum) / float64(last)
}

// TestDistance: with any round trip time the rate is that of near servers, and no more requests wait at a server than
// with CouchDB's four workers.
func TestDistance(t *testing.T) {
	near := newRoad(t, 1, 4000).rate(t, 2*time.Second, 10*time.Second)
	for _, trip := range [][2]time.Duration{
		{0, 80 * time.Millisecond}, {80 * time.Millisecond, 0}, {0, 250 * time.Millisecond},
		{250 * time.Millisecond, 250 * time.Millisecond},
	} {
		r := newRoad(t, 1, 4000)
		r.trip = trip
		far := r.rate(t, 8*time.Second, 16*time.Second)
		if far < 0.95*near {
			t.Errorf("%v: %.0f documents a second, and %.0f without a line", trip, far, near)
		}
		if n := r.there(peer.Source, 5*time.Second) + r.there(peer.Target, 5*time.Second); n > 7 {
			t.Errorf("%v: %.1f requests are at the servers", trip, n)
		}
	}
}

// TestSlowServer: a server that is slow gets no more to do since it is far away, too.
func TestSlowServer(t *testing.T) {
	r := newRoad(t, 1, 2000)
	quick := r.cost
	r.cost = func(op peer.Op) time.Duration { return 20 * quick(op) }
	r.trip = [2]time.Duration{250 * time.Millisecond, 250 * time.Millisecond}
	r.rate(t, 30*time.Second, 60*time.Second)
	if n := r.there(peer.Source, 30*time.Second) + r.there(peer.Target, 30*time.Second); n > 6 {
		t.Errorf("%.1f requests are at the servers", n)
	}
}

// TestLatencyJumps: seconds after a jump of the round trip time the run comes back to the rate that it had, though
// nothing but documents travels.
func TestLatencyJumps(t *testing.T) {
	r := newRoad(t, 1, 32000)
	r.trip = [2]time.Duration{time.Millisecond, time.Millisecond}
	near := r.rate(t, 2*time.Second, 10*time.Second)
	r.trip = [2]time.Duration{500 * time.Millisecond, 500 * time.Millisecond}
	far := r.rate(t, 6*time.Second, 27*time.Second)
	if far < 0.85*near {
		t.Errorf("%.0f documents a second, and %.0f before", far, near)
	}
	r.trip = [2]time.Duration{time.Millisecond, time.Millisecond}
	r.rate(t, 40*time.Second, 41*time.Second)
	if n := r.runs[0].run.work.window.size(); n > 6 {
		t.Errorf("%d batches at once between near servers", n)
	}
}

// TestSlowDown: a server that answers 429 gets half as much to do at once, then a quarter; and all again once it is
// well.
func TestSlowDown(t *testing.T) {
	r := newRoad(t, 1, 4000)
	r.trip = [2]time.Duration{80 * time.Millisecond, 80 * time.Millisecond}
	before := r.rate(t, 4*time.Second, 8*time.Second)
	from := r.now
	r.throw = func(at instant.Time) bool { return at.Sub(from) < 2*time.Second }
	w := &r.runs[0].run.work.window
	was, part, halved := w.size(), w.part, []instant.Time(nil)
	r.play(func() bool {
		if w.part < part {
			part, halved = w.part, append(halved, r.now)
		}
		return r.now.Sub(from) > 2*time.Second
	})
	if n := w.part; n != unit {
		t.Errorf("after two seconds of 429 there are %d millionths of a batch to be at the servers, before %d", n, was)
	}
	if len(halved) != 2 || halved[1].Sub(halved[0]) < r.trip[0] { // what was on its way says nothing new
		t.Errorf("less to do at %v", halved)
	}
	if after := r.rate(t, 8*time.Second, 12*time.Second); after < 0.9*before {
		t.Errorf("%.0f documents a second, and %.0f before the server was busy", after, before)
	}
}

// TestSharedServers: two runs between the same servers get equal parts of them, also if one of them was there first.
func TestSharedServers(t *testing.T) {
	r := newRoad(t, 2, 4000)
	r.trip = [2]time.Duration{80 * time.Millisecond, 80 * time.Millisecond}
	late := r.runs[1]
	r.runs = r.runs[:1]
	r.rate(t, 4*time.Second, 5*time.Second)
	late.now = r.now
	r.runs = append(r.runs, late)
	r.rate(t, 4*time.Second, 5*time.Second)
	began := [2]int64{r.runs[0].run.Info().Written, r.runs[1].run.Info().Written}
	r.rate(t, 0, 10*time.Second)
	first, second := r.runs[0].run.Info().Written-began[0], r.runs[1].run.Info().Written-began[1]
	if ratio := float64(first) / float64(second); ratio < 0.8 || ratio > 1.25 {
		t.Errorf("one run wrote %d documents, the other %d", first, second)
	}
}

// TestBoundOfWindow: no more batches are worked on than the user allows, however far the servers are.
func TestBoundOfWindow(t *testing.T) {
	for most, connections := range map[int]int{0: 50, 3: 50, 10: 50, 40: 20} {
		r := newRoad(t, 1, 1000)
		r.trip = [2]time.Duration{time.Second, time.Second}
		w := r.runs[0]
		w.plan.MaxWorkers, w.plan.Connections = most, connections
		widest := 0
		r.play(func() bool {
			busy := 0
			for _, b := range w.run.work.batches {
				if b.stage == diffing || b.stage == moving {
					busy++
				}
			}
			widest = max(widest, busy)
			return w.end != nil
		})
		if want := max(4, min(most, connections-2)); widest != want {
			t.Errorf("at most %d, %d connections: %d batches at once, want %d", most, connections, widest, want)
		}
	}
}

// TestOneBatchAsksAgain: when a target that lacked all is asked again after 37 seconds, one batch waits for its answer,
// and all others go on.
func TestOneBatchAsksAgain(t *testing.T) {
	r := newRoad(t, 1, 20_000)
	r.trip = [2]time.Duration{250 * time.Millisecond, 250 * time.Millisecond}
	r.rate(t, 0, 30*time.Second)
	before := r.runs[0].count("diff")
	r.rate(t, 0, 20*time.Second)
	if asked := r.runs[0].count("diff") - before; asked != 1 {
		t.Errorf("%d batches are compared with the target again, want 1", asked)
	}
}
