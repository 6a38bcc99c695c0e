package protocol

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// Pauses that the protocol has. Those after failures double, or grow fourfold for a copy, up to the longest.
const (
	firstPause   = 250 * time.Millisecond
	firstCopy    = time.Second
	longestPause = 300 * time.Second
	longest429   = 25 * time.Second
	missingPause = 2 * time.Second  // for a source to find what it announced
	idlePause    = 10 * time.Second // of a feed that brings nothing new
	quietPoll    = time.Second      // that a long poll should take before it brings nothing new
	slack        = time.Second      // by which a run may be late
	retriesLast  = time.Minute      // since the first failure
	patience     = 150 * time.Second
)

// waiting is for what the run may wait.
type waiting struct {
	begun  bool
	rests  instant.Time // since when nothing is in flight; 0 while something is
	until  instant.Time // until then there is a reason for it
	failed []failure    // that may be repeated
	kinds  map[string]*kind
	stuck  bool // the last read of the feed brought nothing, and is not at the end
}

// failure is a request that failed and may be repeated.
type failure struct {
	op   peer.Op
	next instant.Time // the soonest
}

// kind is what is known of the failures of requests of one kind.
type kind struct {
	n, throttled    int // failures that may pass, and answers 429
	first, first429 instant.Time
}

// maxFailed is how many failures are remembered: who repeats nothing forgets them.
const maxFailed = 20

func (w *waiting) kind(op peer.Op) *kind {
	if w.kinds == nil {
		w.kinds = map[string]*kind{}
	}
	name := fmt.Sprintf("%T", op)
	if w.kinds[name] == nil {
		w.kinds[name] = &kind{}
	}
	return w.kinds[name]
}

// pauses notes a reason to wait.
func (w *waiting) pauses(now instant.Time, d time.Duration) { w.until = max(w.until, now.Add(d)) }

// answered takes an answer. A lenient run repeats all copies that failed: whether others come over tells if it may
// leave the document out.
func (w *waiting) answered(r *Run, op peer.Op, reply peer.Reply) {
	_, copies := op.(peer.CopyDoc)
	if f := reply.Failure; f != nil && (!final(f) || copies && r.Lenient) {
		w.fails(r, op, f)
	}
}

// fails notes a request that may be repeated after a pause; without a failure the target did not take a
// document.
func (w *waiting) fails(r *Run, op peer.Op, f *peer.Failure) {
	k := w.kind(op)
	least, most, times := firstPause, firstPause, 2
	if _, copies := op.(peer.CopyDoc); copies {
		least, most, times = firstCopy, firstCopy, 4
	}
	if f != nil && Throttles(f) {
		if k.throttled++; k.throttled == 1 {
			k.first429 = r.now
		}
		least, most = firstPause, longest429
	} else {
		if k.n++; k.n == 1 {
			k.first = r.now
		}
		for range min(k.n-1, r.Source.Retries) {
			most = min(time.Duration(times)*most, longestPause)
		}
	}
	if f != nil && f.RetryAfter > 0 {
		asked := min(f.RetryAfter, longestPause)
		if least, most = max(least, asked), max(most, asked); Throttles(f) {
			least = asked
		}
	}
	w.pauses(r.now, most)
	if f == nil || f.RetryAfter == 0 && !Throttles(f) {
		r.turn.tries = max(r.turn.tries, r.now.Add(most))
	}
	if f != nil && len(w.failed) < maxFailed {
		w.failed = append(w.failed, failure{op, r.now.Add(least)})
	}
}

// forgive has a request that failed be repeated at once.
func (w *waiting) forgive(op peer.Op) {
	w.failed = slices.DeleteFunc(w.failed, func(f failure) bool { return reflect.DeepEqual(f.op, op) })
}

// ambiguous reports whether several parts of a run may send the same request, each for itself.
func (r *Run) ambiguous(op peer.Op) bool {
	several := func(id, rev string) bool {
		n := name{id, rev}
		return r.list.revs[n] || r.list.refusals[n] != nil || r.twice[id]
	}
	switch op := op.(type) {
	case peer.Open, peer.Commit:
		return true
	case peer.DiffRevs:
		return several(op.Docs[0].ID, op.Docs[0].Revs[0])
	case peer.FetchDocs:
		return several(op.Docs[0].ID, op.Docs[0].Rev)
	case peer.CopyDoc:
		return several(op.ID, op.Revs[0])
	}
	return false
}

// called judges whether a request that failed is repeated too soon.
func (w *waiting) called(r *Run, op peer.Op) error {
	w.begun, w.rests = true, 0
	for i, f := range w.failed {
		if !reflect.DeepEqual(f.op, op) {
			continue
		}
		r.took(repeats)
		w.failed = append(w.failed[:i:i], w.failed[i+1:]...)
		if r.now < f.next && !r.ambiguous(op) {
			return breach(Waiting, "it repeats %s, which failed, %s too soon", op, f.next.Sub(r.now))
		}
		return nil
	}
	if len(w.failed) == maxFailed {
		w.failed = append([]failure{}, w.failed[1:]...)
	}
	return nil
}

// Rests judges a run that goes on, after a step and from time to time. Excused is a run whose node stood
// still. A run that waits for no answer, for no question to the store and for no pause does something, or
// is over.
func (r *Run) Rests(now instant.Time, excused bool) error {
	w := &r.wait
	r.now = now
	if err := r.keepsSlot(); err != nil && !excused {
		return err
	}
	waits := r.phase == naming && r.base != "" || r.list.questions > 0
	switch {
	case !w.begun || r.phase == over || len(r.flights) > 0 || waits:
		w.rests = 0
	case w.rests == 0 || excused:
		w.rests = now
	case now > max(w.rests, w.until).Add(slack):
		return breach(Waiting, "nothing is in flight since %s, and nothing hinders it to go on", w.rests)
	}
	return nil
}

// exhausted reports whether a failure that may pass was met often or long enough to give up.
func (w *waiting) exhausted(r *Run, op peer.Op, f *peer.Failure) bool {
	k := w.kind(op)
	if Throttles(f) {
		return r.now.Sub(k.first429) >= patience
	}
	return k.n > r.Source.Retries || r.now.Sub(k.first) >= retriesLast
}
