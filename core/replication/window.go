package replication

import (
	"math"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

const (
	// firstWork is the guess of the time that the servers work on a batch, before the first batch is done.
	firstWork = 100 * time.Millisecond
	// leastWork bounds what is measured of it from below.
	leastWork = time.Millisecond
	// tripAge is how long a round trip time counts at least, and twice that at most once there is a newer one.
	tripAge = 10 * time.Second
	// probes is how many answers tell that the line has become longer: one may be late for another reason.
	probes = 3
	// farTrip is a round trip time from which on it matters that the first requests have also waited for their
	// connections.
	farTrip = 10 * time.Millisecond
)

// window says how many batches the run works on at once.
//
// Options.Workers batches are to be at the servers, so that these have always something to do, and no more wait there
// than CouchDB's replicator would have them. The longer the line, the more batches are on it instead: by Little's law,
// of n batches that each take the time work at the servers and the time line on the way, n*work/(work+line) are at the
// servers. So with near servers the window is Workers, with a line of 750 ms and work of 100 ms it is 8.5 times that,
// and with slow servers Workers again, however far away they are. It never exceeds Options.MaxWorkers.
//
// The time on the line is the number of a batch's requests that follow each other, times the round trip time of their
// side: the shortest time in which the side has lately answered a request that is little work. What is left of a
// batch's time is work: that of the servers, and also what it waited for memory, since more batches would not help
// there either.
//
// A server that asks to slow down, or fails, halves the part at the servers; every batch that is done gives a bit of
// it back (additive increase, multiplicative decrease). So runs that share a server come to equal parts of it.
type window struct {
	*Run

	part  int64         // batches to have at the servers, in millionths: from unit to Workers*unit
	work  time.Duration // average of what a batch takes at the servers, at least leastWork
	line  time.Duration // average of what a batch takes on the line
	trips [2]trip       // by peer.Side
	// slowed is when part was last halved. What was sent before that says nothing of how the server is since.
	slowed instant.Time
	probed instant.Time // when the run last asked for the round trip times
	asked  bool         // measureFar has done its work
	told   bool         // a batch has told what it takes, so that the guesses do not count any more
}

// trip is the round trip time of a side: the shortest of the present span of time and the one before, each of tripAge.
type trip struct {
	now, before time.Duration // 0 while nothing is known
	since       instant.Time  // when the present span began
}

// observe takes a time that a small request took.
func (t *trip) observe(took time.Duration, now instant.Time) {
	took = max(took, 1)
	switch {
	case t.now == 0, now.Sub(t.since) >= 2*tripAge:
		t.since, t.before, t.now = now, 0, took
	case now.Sub(t.since) >= tripAge:
		t.since, t.before, t.now = now, t.now, took
	default:
		t.now = min(t.now, took)
	}
}

// bound takes a time that another request took.
func (t *trip) bound(took time.Duration) {
	t.now, t.before = min(t.now, max(took, 1)), min(t.before, max(took, 1))
}

// time is the round trip time as it is known; 0 if it is not.
func (t *trip) time() time.Duration {
	if t.before == 0 {
		return t.now
	}
	return min(t.now, t.before)
}

func (w *window) begin() {
	w.part, w.work, w.line = int64(w.plan.Workers)*unit, firstWork, w.firstLine()
}

// firstLine is the guess of what a batch takes on the line, for _revs_diff, _bulk_get and _bulk_docs.
func (w *window) firstLine() time.Duration {
	return 2*w.trips[peer.Target].time() + w.trips[peer.Source].time()
}

// measureFar asks both sides for little as the run begins its first batch with documents.
func (w *window) measureFar() {
	if w.asked {
		return
	}
	w.asked = true
	for side := range w.trips {
		if known := w.trips[side].time(); known >= farTrip && w.plan.MaxWorkers > w.plan.Workers {
			w.measure(peer.Side(side), 1, known)
		}
	}
}

// size is the number of batches that the run may work on at once, from 1, as part is unit at least, to MaxWorkers.
func (w *window) size() int {
	n := w.part + w.part*int64(w.line/time.Microsecond)/int64(w.work/time.Microsecond)
	return min(int((n+unit/2)/unit), w.plan.MaxWorkers)
}

// answered takes what an answer tells about its server.
func (w *window) answered(c *call, f *peer.Failure) {
	if f != nil {
		if w.phase == copying && ofBatches(c.op) && (Transient(f) || f.Status == 429) && c.sent > w.slowed {
			// Reached: fewer batches are worked on after a failure
			w.part, w.slowed = max(unit, w.part/2), w.now
		}
		return
	}
	switch side, small := isSmall(c.op); {
	case small:
		w.trips[side].observe(w.now.Sub(c.sent), w.now)
	case ofBatches(c.op) && side != both: // nothing is answered sooner than a round trip takes
		w.trips[side].bound(w.now.Sub(c.sent))
	}
}

// probe asks both sides for little, to learn whether a batch has taken so long because the line has become longer.
// While the target lacks all and no checkpoint is due, no other request would tell.
func (w *window) probe() {
	if w.plan.MaxWorkers == w.plan.Workers || w.now.Sub(w.probed) < tripAge {
		return
	}
	// Reached: a batch takes much longer than those before
	w.probed = w.now
	w.measure(peer.Source, probes, math.MaxInt64)
	w.measure(peer.Target, probes, math.MaxInt64)
}

// measure asks a side so many times, one after the other. Then the shortest time, or best, takes the place of what was
// known.
func (w *window) measure(side peer.Side, times int, best time.Duration) {
	began := w.now
	w.ask(peer.Open{Side: side}, func(reply peer.Reply) {
		if reply.Failure != nil {
			return // it shows where it matters
		}
		if best = min(best, w.now.Sub(began)); times > 1 {
			w.measure(side, times-1, best)
			return
		}
		w.trips[side] = trip{now: max(best, 1), since: w.now}
		if !w.told {
			w.line = w.firstLine()
		}
	})
}

// both stands for the sides of an operation that is carried out at both of them, or is none of the window's.
const both peer.Side = 2

// isSmall returns the side at which an operation is carried out, and reports whether it is little work there, so that
// the time until its answer is that of the line.
func isSmall(op peer.Op) (side peer.Side, small bool) {
	switch op := op.(type) {
	case peer.FetchDocs:
		return peer.Source, false
	case peer.WriteDocs:
		return peer.Target, false
	case peer.Open:
		return op.Side, true
	case peer.GetLocal:
		return op.Side, true
	case peer.PutLocal:
		return op.Side, true
	case peer.Commit:
		return op.Side, true
	case peer.DiffRevs:
		return peer.Target, true
	}
	return both, false
}

// ofBatches reports whether an operation is about the documents of a batch.
func ofBatches(op peer.Op) bool {
	_, diff := op.(peer.DiffRevs)
	return diff || ofDocuments(op)
}

// done takes how long a batch has taken. Of one whose documents were copied alone it is not known how many requests
// followed each other.
func (w *window) done(b *batch) {
	if !b.alone && b.trips == [2]int{} {
		return // it had no documents, so no server was asked
	}
	if b.began > w.slowed {
		w.part = min(w.part+unit/int64(w.size()), int64(w.plan.Workers)*unit) // 1 when all have been done
	}
	if b.alone {
		return
	}
	w.told = true
	line := time.Duration(0)
	for side, n := range b.trips {
		line += time.Duration(n) * w.trips[side].time()
	}
	took := w.now.Sub(b.began)
	if took > 2*(w.work+w.line) {
		w.probe()
	}
	line = min(line, took)
	// What the present size does shows in a batch that has not begun yet, so the averages are over two times as many.
	n := time.Duration(2 * w.size())
	w.work += (max(min(took-line, w.undisturbed(took)), leastWork) - w.work) / n
	w.line += (line - w.line) / n
}

// undisturbed is what a batch that took so long would take at the servers if no more batches than part were
// there, which then do as much in a second as now: part/busy of its time, by Little's law. When more are
// there than should be, as after the first guess, they wait for each other. Taken for work, that wait would
// make the window too small.
func (w *window) undisturbed(took time.Duration) time.Duration {
	busy := int64(1) // the one that is done
	for _, b := range w.Run.work.batches {
		if b.stage == diffing || b.stage == moving {
			busy++
		}
	}
	return time.Duration(int64(took/time.Microsecond)*w.part/unit/busy) * time.Microsecond
}
