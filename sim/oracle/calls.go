package oracle

import (
	"fmt"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// retries are the invariants of requests that are repeated.
type retries struct{ *chronicle }

var retrySubject = subject{
	invariants: []Invariant{
		{"S28", "What failed is not asked for again at once, and later the more often it failed."},
		{"S30", "A run does as its replication says: it asks for nothing that this rules out, for no more at once than this allows, and gives up after all the retries only."},
	},
	begin: func(c *chronicle) {
		o := &retries{c}
		c.on.runCalls.add(o.called)
		c.on.runReplied.add(o.replied)
		c.on.runSaidEnd.add(func(e ending) { o.checkGivenUp(e.run, e.asked, e.ev, e.end) })
	},
}

// called is told of every request of a run before it leaves.
func (o *retries) called(c call) {
	o.checkRepeats(c.run, c.op)
	o.checkPause(c.run, c.op)
	o.checkWhole(c.run, c.op)
	if _, reads := c.op.(peer.ReadChanges); reads {
		o.checkFeedPause(c.run)
		c.attempts.asked = c.p.Steady()
	}
}

// maxRepeats is how often a run may ask for the same in one minute, once it has asked for as much at all: pauses
// between attempts grow, and a feed without news is read at most every ten seconds.
const maxRepeats = 40

// repeats counts the calls of a run in one minute.
type repeats struct {
	minute instant.Time
	all    int
	alike  map[string]int // behind the first maxRepeats
	since  string         // what the feed has brought: a document that is changed again and again is looked at as often
	copies int            // each may be refused, and then the target is opened to see who is refused
}

// checkRepeats is a part of B1: no run asks for the same again and again.
func (o *retries) checkRepeats(r *run, op peer.Op) {
	if minute := o.thisMinute(); minute != r.repeats.minute {
		r.repeats = repeats{minute: minute, alike: map[string]int{}, since: r.repeats.since}
	}
	switch op := op.(type) {
	case peer.ReadChanges:
		r.repeats.since = o.brought(r, op.Since)
	case peer.CopyDoc:
		r.repeats.copies++
	}
	if r.repeats.all++; r.repeats.all <= maxRepeats {
		return
	}
	what := op.String() + " at " + r.repeats.since + " "
	switch op := op.(type) { // these do not print all
	case peer.ReadChanges: // and this one more than that it brought nothing
		what = fmt.Sprintf("read changes, wait %v, at %s", op.Wait, r.repeats.since)
	case peer.Open:
		what += fmt.Sprint(r.repeats.copies)
	case peer.DiffRevs:
		what += fmt.Sprint(op.Docs[0].ID, len(op.Docs[0].Revs), op.Docs[0].Revs[0])
	case peer.FetchDocs:
		what += op.Docs[0].ID + op.Docs[0].Rev
	case peer.WriteDocs:
		what += fmt.Sprint(op.Docs[0])
	}
	if r.repeats.alike[what]++; r.repeats.alike[what] > maxRepeats {
		o.Fail("B1", "run %d of %s asked %d times in one minute: %s", r.ID(), r.p.Name, r.repeats.alike[what], what)
	}
}

// brought is how far the feed has come, in whatever words.
func (o *retries) brought(r *run, since peer.Seq) string {
	if source := o.w.Database(r.Replication().Source.URL); source != nil {
		since = peer.Seq(fmt.Sprint(source.Number(since)))
	}
	return fmt.Sprintf("%s, %d rows", since, r.numbers.rows)
}

// shortPause is the shortest one before a failed call is repeated, CouchDB's; it doubles up to more than longPause.
const (
	shortPause   = 250 * time.Millisecond
	longPause    = 25 * time.Second
	longestPause = 300 * time.Second
)

// idlePause is the longest one of a feed that brings nothing.
const idlePause = 10 * time.Second

// checkFeedPause is a part of L8: a run that waits for nothing but changes asks for them.
func (o *retries) checkFeedPause(r *run) {
	s, now := &r.saved, o.w.Now()
	if s.fed != 0 && s.fed == s.worked && r.p.PausedLast() < s.fed && now.Sub(s.fed) > idlePause+time.Second {
		o.Fail("L8", "run %d of %s reads changes again after %s, and did nothing in between", r.ID(), r.p.Name, now.Sub(s.fed))
	}
}

// setback is how often in a row a call failed and may be repeated.
type setback struct {
	at               instant.Time  // of the last one
	first, last      instant.Time  // of those with 429
	failed, answered int           // answered: 429
	n                int           // of these, the ones like the last
	all              [2]int        // failures of any kind: those that may pass, and 429
	most             time.Duration // the longest pause after the last one; 0 when nobody knows
}

// count counts a failure.
func (s *setback) count(f *peer.Failure) {
	switch s.most = 0; {
	case f.Kind == peer.Status && f.Status == 429:
		s.all[1]++
	case passes(f):
		s.all[0]++
	}
}

// pause is the least one after it.
func (s setback) pause() time.Duration {
	return min(shortPause<<(s.n-1), longPause)
}

// replied notes a call that failed in a way that may pass. Calls for documents are left out, since several batches
// may have the same one, and so is opening, for which there are several reasons, and what tells when to come again.
func (o *retries) replied(a reply) {
	r, op, reply := a.run, a.op, a.Reply
	f, now := reply.Failure, o.w.Now()
	if f != nil {
		r.noteFailure(op, f, now)
	}
	if copied, is := reply.Result.(peer.Copied); is {
		refused := slices.ContainsFunc(copied.Revs, func(c peer.CopiedRev) bool { return c.Refused != nil })
		if refused {
			r.attempts.noteFailed(now) // it may be repeated, as after a conflict
		}
		r.attempts.lacking = lacking{}
		if !refused && slices.ContainsFunc(copied.Revs, func(c peer.CopiedRev) bool { return c.Missing }) {
			r.attempts.lacking = lacking{op.(peer.CopyDoc).ID, now}
		}
	}
	if read, is := op.(peer.ReadChanges); is {
		r.attempts.noteFeed(read, reply, now, r.p.Steady().Sub(r.attempts.asked))
	}
	changes, _ := reply.Result.(peer.Changes)
	if f == nil || len(changes.Rows) > 0 {
		delete(r.failed, op.String())
	}
	read, is := op.(peer.ReadChanges)
	wasCut := is && f != nil && read.Wait && cut(f) && max(now, r.p.PausedLast()).Sub(r.attempts.asked) >= quietPoll
	if f == nil {
		return
	}
	s := r.failed[op.String()]
	s.count(f)
	if r.failed == nil {
		r.failed = map[string]setback{}
	}
	r.failed[op.String()] = s
	if f.RetryAfter > 0 || f.Kind == peer.Status && f.Status < 500 && f.Status != 429 && !wasCut {
		return
	}
	switch op.(type) {
	case peer.Open, peer.DiffRevs, peer.FetchDocs, peer.WriteDocs, peer.CopyDoc:
		return
	}
	s.at = now
	switch {
	case wasCut:
		s = setback{at: now, n: 1}
	case f.Kind == peer.Status && f.Status == 429:
		if s.answered++; s.answered == 1 {
			s.first = now
		}
		s.n, s.last, s.most = s.answered, now, min(shortPause<<min(s.all[1]-1, 20), longPause)
	default:
		s.failed++
		s.n, s.most = s.failed, min(shortPause<<min(max(s.all[0]-1, 0), 20), longestPause)
	}
	r.failed[op.String()] = s
}

// checkPause is S28: what failed is not repeated at once, and the more often it failed the later. A part of S30 is that what
// is answered 429 is given up one day.
func (o *retries) checkPause(r *run, op peer.Op) {
	if len(r.failed) == 0 {
		return
	}
	name, now := op.String(), o.w.Now()
	s, failed := r.failed[name]
	if s.last.Sub(s.first) > throttledLast && r.p.PausedLast() < s.first {
		o.Fail("S30", "run %d of %s goes on with %s, which has been answered 429 for %s", r.ID(), r.p.Name, name, s.last.Sub(s.first))
	}
	if _, reads := op.(peer.ReadChanges); !reads && failed && s.most > 0 && r.p.PausedLast() < s.at && now.Sub(s.at) > s.most+time.Second {
		o.Fail("S28", "run %d of %s repeats %s after %s only, and should after %s", r.ID(), r.p.Name, name, now.Sub(s.at), s.most)
	}
	if failed && s.n > 0 && now.Sub(s.at) < s.pause() {
		o.Fail("S28", "run %d of %s repeats %s after %s, which failed %d times and was answered 429 %d times", r.ID(), r.p.Name, name, now.Sub(s.at), s.failed, s.answered)
	}
}

// attempts are a run's failures that may pass, of all its requests, and when it was first asked to slow down.
type attempts struct {
	failed                      int
	firstFailed, firstThrottled instant.Time
	unsaved                     bool // since the run was stopped, a request for its checkpoint failed
	stuck                       int  // failures of the feed since it brought something
	stuckSince                  instant.Time
	feed                        *peer.Failure // the last of them
	slowed                      instant.Time  // since when the feed was asked to slow down
	asked                       instant.Time  // when by the run's clock it was asked last
	lacking                     lacking
}

// Times that requests are repeated for, those of CouchDB's replicator: 429 is waited out.
const (
	retriesLast   = time.Minute
	throttledLast = 150 * time.Second
)

// passes says whether a failure may pass.
func passes(f *peer.Failure) bool {
	switch f.Kind {
	case peer.Status:
		return f.Status == 408 || f.Status >= 500
	case peer.Unresolvable, peer.Unreachable, peer.Broken, peer.TimedOut, peer.Malformed:
		return true
	}
	return false
}

func (t *attempts) noteFailed(now instant.Time) {
	if t.failed++; t.failed == 1 {
		t.firstFailed = now
	}
}

// quietPoll is how long a poll has waited at least that something on the way cut.
const quietPoll = time.Second

// cut says whether a poll may have failed because of how long it took.
func cut(f *peer.Failure) bool {
	return f.Kind == peer.Broken || f.Kind == peer.TimedOut || f.Kind == peer.Status && (f.Status == 408 || f.Status == 504)
}

// noteFeed counts the failures of the feed in a row, those of polls that were cut after a while, by the run's clock, not
// among them.
func (t *attempts) noteFeed(op peer.ReadChanges, reply peer.Reply, now instant.Time, took time.Duration) {
	t.feed = reply.Failure
	waited := t.feed != nil && op.Wait && cut(t.feed) && took >= quietPoll
	if changes, is := reply.Result.(peer.Changes); t.feed == nil || is && len(changes.Rows) > 0 || waited {
		t.stuck, t.slowed = 0, 0
	}
	switch {
	case t.feed == nil || waited:
	case t.feed.Kind == peer.Status && t.feed.Status == 429:
		if t.slowed == 0 {
			t.slowed = now
		}
	case passes(t.feed):
		if t.stuck++; t.stuck == 1 {
			t.stuckSince = now
		}
	}
}

// noteFailure counts a failure of a run.
func (r *run) noteFailure(op peer.Op, f *peer.Failure, now instant.Time) {
	t := &r.attempts
	switch {
	case f.Kind == peer.Status && f.Status == 429 && t.firstThrottled == 0:
		t.firstThrottled = now
	case passes(f):
		t.noteFailed(now)
	}
	switch op.(type) {
	case peer.Open, peer.Commit, peer.PutLocal, peer.GetLocal, peer.GetFilter:
		t.unsaved = t.unsaved || r.stopped || f.Status == 409 // another job wrote the log meanwhile
	}
}

// checkGivenUp is a part of S30: a run ends for a failure that may pass after all the retries only, and for none of a bulk
// read that reads of single documents may do without.
func (o *retries) checkGivenUp(r *run, asked peer.Op, ev replication.Event, e replication.End) {
	reply, is := ev.(replication.Reply)
	t, now := &r.attempts, o.w.Now()
	if copied, copies := reply.Result.(peer.Copied); copies && reply.Failure == nil && e.Cause == replication.Crashed && inTheWay(copied) &&
		t.failed <= r.Replication().Source.Retries && now.Sub(t.firstFailed) < retriesLast {
		o.Fail("S30", "run %d of %s gave up after %d failures for a write that was in the way: %s", r.ID(), r.p.Name, t.failed, e.Trouble)
	}
	if !is || reply.Failure == nil || e.Cause != replication.Crashed {
		return
	}
	_, bulk := asked.(peer.FetchDocs)
	_, creates := asked.(peer.Create)
	_, counts := asked.(peer.CountPending)
	switch f := reply.Failure; {
	case counts:
		o.Fail("S30", "run %d of %s gave up when its source did not count what is to come: %s", r.ID(), r.p.Name, e.Trouble)
	case passes(f) && f.Kind == peer.Status && e.Trouble.Error != "http_request_failed" && tellsStatus(asked):
		o.Fail("S29", "run %d of %s was answered %s, and says %s", r.ID(), r.p.Name, f, e.Trouble)
	case creates && f.Kind == peer.Status && f.Status < 500 && !slices.Contains([]int{401, 403, 408, 429}, f.Status):
		o.Fail("S30", "run %d of %s gave up when its target was not made, and did not look whether it is there: %s", r.ID(), r.p.Name, e.Trouble)
	case bulk && (f.Kind == peer.Broken || f.Kind == peer.TimedOut || f.Kind == peer.Malformed):
		o.Fail("S30", "run %d of %s gave up when a bulk read failed, and read nothing by itself: %s", r.ID(), r.p.Name, e.Trouble)
	case f.Kind == peer.Status && f.Status == 429 && !e.Trouble.Throttled:
		o.Fail("S30", "run %d of %s was asked to slow down, and its next run is not: %s", r.ID(), r.p.Name, e.Trouble)
	case f == t.feed && f.Kind == peer.Status && f.Status == 429 && now.Sub(t.slowed) < throttledLast:
		o.Fail("S30", "run %d of %s was asked to slow down its feed %s ago, and gave up: %s", r.ID(), r.p.Name, now.Sub(t.slowed), e.Trouble)
	case e.Trouble.Throttled || f.Kind == peer.Status && f.Status == 429:
		if now.Sub(t.firstThrottled) < throttledLast {
			o.Fail("S30", "run %d of %s was asked to slow down %s ago, and gave up: %s", r.ID(), r.p.Name, now.Sub(t.firstThrottled), e.Trouble)
		}
	case f == t.feed && passes(f) && t.stuck == 0:
		o.Fail("S30", "run %d of %s gave up when a poll was cut that had waited: %s", r.ID(), r.p.Name, e.Trouble)
	case f == t.feed && passes(f) && t.stuck <= r.Replication().Source.Retries && now.Sub(t.stuckSince) < retriesLast:
		o.Fail("S30", "run %d of %s gave up after %d failures of a feed that went on, with %d retries: %s", r.ID(), r.p.Name, t.stuck, r.Replication().Source.Retries, e.Trouble)
	case passes(f) && t.failed <= r.Replication().Source.Retries && now.Sub(t.firstFailed) < retriesLast:
		o.Fail("S30", "run %d of %s gave up after %d failures with %d retries: %s", r.ID(), r.p.Name, t.failed, r.Replication().Source.Retries, e.Trouble)
	}
}

// tellsStatus says whether a run that ends for the failure of a request tells no more than its status.
func tellsStatus(op peer.Op) bool {
	switch op.(type) {
	case peer.Open, peer.Create, peer.ReadChanges, peer.DiffRevs, peer.WriteDocs:
		return true
	}
	return false
}

// lacking is a document of which the source lacked what it had announced.
type lacking struct {
	id string
	at instant.Time
}

// checkWhole is a part of S30: what the source is asked for again for that is asked for with all attachments.
func (o *retries) checkWhole(r *run, op peer.Op) {
	again, is := op.(peer.CopyDoc)
	if is && again.ID == r.attempts.lacking.id && o.w.Now() == r.attempts.lacking.at.Add(missingPause) && len(again.Since) > 0 {
		o.Fail("S30", "run %d of %s asks again for %s, without the attachments of %v", r.ID(), r.p.Name, again.ID, again.Since)
	}
}

// inTheWay says whether all that a target refused of a document was for a write at the same time, which passes. What the
// source lacks is another matter.
func inTheWay(c peer.Copied) bool {
	return slices.ContainsFunc(c.Revs, func(r peer.CopiedRev) bool { return r.Refused != nil }) &&
		!slices.ContainsFunc(c.Revs, func(r peer.CopiedRev) bool { return r.Missing || r.Refused != nil && r.Refused.Status != 409 })
}
