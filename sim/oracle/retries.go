package oracle

import (
	"fmt"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/sim/protocol"
)

// retries judge how soon and how often a run repeats a request, and after which failures it gives up.
type retries struct{ *chronicle }

var retrySubject = subject{
	invariants: []Invariant{
		{"B1g", "Beyond the first 40 requests of a minute, a run sends no request more than 40 times in " +
			"that minute. For each copy that was refused it may ask 40 times whether the target lets it in."},
		{"S28a", "A request that failed is repeated after a pause, which doubles with each failure up to " +
			"25 seconds."},
		{"S28b", "A request that is to be repeated is sent within a second of the end of its pause."},
		{"S29o", "A run that ends because of the status of an answer gives http_request_failed as its " +
			"error."},
		{"S30b", "A request that was answered 429 for more than 150 seconds is not repeated."},
		{"S30c", "A run ends for failures that may pass only after all its retries or a minute of " +
			"failures; a long poll that waited before it was cut is no failure."},
		{"S30d", "A run goes on when its source cannot count the changes to come."},
		{"S30e", "A run whose target refuses to be made looks whether the target is there before it gives " +
			"up."},
		{"S30f", "A run whose bulk read breaks off, times out or is malformed reads the documents one by " +
			"one."},
		{"S30g", "A run that ends for an answer 429 says so, and so its next run is gentler."},
		{"S30h", "A run ends for answers 429 only after 150 seconds of them."},
		{"S30i", "A document of which the source lacked a revision is asked for again with all attachments."},
	},
	begin: func(c *chronicle) {
		rt := &retries{c}
		c.on.runCalls.add(rt.called)
		c.on.runReplied.add(rt.replied)
		c.on.runSaidEnd.add(rt.checkEnd)
	},
}

// called hears of every request of a run before it leaves.
func (rt *retries) called(c call) {
	rt.checkRate(c.run, c.op)
	rt.checkPause(c.run, c.op)
	rt.checkWhole(c.run, c.op)
	if _, reads := c.op.(peer.ReadChanges); reads {
		c.failures.feed.asked = c.p.Steady()
	}
}

// replied hears of every answer to a run.
func (rt *retries) replied(a reply) {
	f, now := a.Failure, rt.w.Now()
	a.failures.note(f, now)
	if copied, is := a.Result.(peer.Copied); is {
		a.failures.noteCopied(a.op.(peer.CopyDoc).ID, copied, now)
		a.admissions.copied(a.op.(peer.CopyDoc), copied)
	}
	if _, copies := a.op.(peer.CopyDoc); copies && a.lenient() && f != nil && !protocol.Passes(f) {
		a.failures.count(now) // a lenient run repeats it, too
	}
	poll, reads := a.op.(peer.ReadChanges)
	if reads {
		a.failures.feed.note(poll, a.Reply, now, a.p.Steady())
	}
	if open, is := a.op.(peer.Open); is && f == nil {
		a.described[open.Side] = now
	}
	if changes, _ := a.Result.(peer.Changes); f == nil || len(changes.Rows) > 0 {
		delete(a.failing, a.op.String())
	}
	if f != nil {
		waited := max(now, a.p.PausedLast()).Sub(a.failures.feed.asked) >= quietPoll
		rt.noteFailing(a.run, a.op, f, reads && poll.Wait && cut(f) && waited)
	}
}

// maxAlike is how often a run may send the same request in one minute, once it has sent as many at all.
// Pauses between attempts grow, and a feed without news is read every ten seconds at most, so that honest
// runs stay far below.
const maxAlike = 40

// callRate are a run's requests in the present minute. Only retries change it.
type callRate struct {
	minute instant.Time   // its number, see thisMinute
	sent   int            // requests of all kinds
	alike  map[string]int // requests after the first maxAlike, by description
	feed   string         // changes from the feed: a document is compared as often as it is edited
	copies int            // documents copied alone: for each that is refused the target is opened
	pages  int            // of the list of refused documents: a target commits what it has got of each
}

// checkRate is B1g: a run that sends the same request over and over is in a busy loop.
func (rt *retries) checkRate(r *run, op peer.Op) {
	if minute := rt.thisMinute(); minute != r.rate.minute {
		r.rate = callRate{minute: minute, alike: map[string]int{}, feed: r.rate.feed}
	}
	limit := maxAlike
	switch op := op.(type) {
	case peer.ReadChanges:
		r.rate.feed = rt.brought(r, op.Since)
	case peer.CopyDoc:
		r.rate.copies++
		r.admissions.copies(op)
	case peer.Open:
		if op.Side == peer.Target {
			limit *= max(1, r.admissions.opens())
		}
	case peer.DiffRevs:
		if r.ofList(op) {
			r.rate.pages++
		}
	}
	if r.rate.sent++; r.rate.sent <= maxAlike {
		return
	}
	what := r.rate.describe(op)
	if r.rate.alike[what]++; r.rate.alike[what] > limit {
		rt.Fail("B1g", "%s sent this request %d times in one minute: %s", r, r.rate.alike[what], what)
	}
}

// describe tells requests apart that ask for different things, also where their texts do not, and takes reads
// of the feed for the same as long as the feed brings nothing.
func (c *callRate) describe(op peer.Op) string {
	what := op.String() + " at " + c.feed + " "
	switch op := op.(type) {
	case peer.ReadChanges:
		return fmt.Sprintf("read changes, wait %v, at %s", op.Wait, c.feed)
	case peer.Open:
		what += fmt.Sprint(c.copies)
	case peer.Commit:
		what += fmt.Sprint(c.pages)
	case peer.DiffRevs:
		what += fmt.Sprint(op.Docs[0].ID, len(op.Docs[0].Revs), op.Docs[0].Revs[0])
	case peer.FetchDocs:
		what += op.Docs[0].ID + op.Docs[0].Rev
	case peer.WriteDocs:
		what += fmt.Sprint(op.Docs[0])
	}
	return what
}

// brought is how far the feed has come. It goes by the number of the change, since a source may word the same
// sequence anew in each answer.
func (rt *retries) brought(r *run, since peer.Seq) string {
	if source := rt.w.Database(r.Replication().Source.URL); source != nil {
		since = peer.Seq(fmt.Sprint(source.Number(since)))
	}
	return fmt.Sprintf("%s, %d rows", since, r.counts.rows)
}

// Pauses before a failed request is repeated, as in CouchDB's replicator. The first doubles with every
// failure.
const (
	firstPause       = 250 * time.Millisecond
	maxThrottlePause = 25 * time.Second  // after answers 429; other pauses grow to this at least
	maxPause         = 300 * time.Second // after other failures, and whatever Retry-After says
)

// Times for which requests are repeated, as in CouchDB's replicator.
const (
	retriesLast  = time.Minute       // since the first failure
	patienceLast = 150 * time.Second // since the first answer 429
	missingPause = 2 * time.Second   // that a source has to find a revision which it announced
	quietPoll    = time.Second       // that a poll has waited at least which something on the way cut
	pauseSlack   = time.Second       // by which a repetition may be late
)

// failing is a request that failed and has not succeeded since. Only retries change it.
type failing struct {
	at                instant.Time  // of the last failure after which a pause is known
	alike             int           // failures in a row like the last, 429 or not; 0 when no pause is known
	failed, throttled int           // failures in a row with a known pause: others than 429, and 429
	first429, last429 instant.Time  // first and last answer 429 of those
	allFailed, all429 int           // failures in a row that may pass, and 429, with a known pause or not
	longest           time.Duration // the pause after the last failure at most; 0 when that is not known
}

// minPause is the least pause after the last failure.
func (f failing) minPause() time.Duration { return min(firstPause<<(f.alike-1), maxThrottlePause) }

// count counts a failure of any kind.
func (f *failing) count(failure *peer.Failure) {
	switch f.longest = 0; {
	case protocol.Throttles(failure):
		f.all429++
	case protocol.Passes(failure):
		f.allFailed++
	}
}

// pauses notes a failure after which the length of the pause is known.
func (f *failing) pauses(failure *peer.Failure, now instant.Time) {
	f.at = now
	if protocol.Throttles(failure) {
		if f.throttled++; f.throttled == 1 {
			f.first429 = now
		}
		f.alike, f.last429 = f.throttled, now
		f.longest = min(firstPause<<min(f.all429-1, 20), maxThrottlePause)
		return
	}
	f.failed++
	f.alike, f.longest = f.failed, min(firstPause<<min(max(f.allFailed-1, 0), 20), maxPause)
}

// waits notes a failure with Retry-After: the pause is as long as the server asks for, up to a bound.
func (f *failing) waits(failure *peer.Failure, now instant.Time) {
	f.at, f.alike = now, 0
	f.longest = max(min(failure.RetryAfter, maxPause), min(firstPause<<min(f.allFailed, 20), maxPause))
}

// noteFailing notes a request that failed. No pause is known after a failure that is final, for requests about
// documents, since several batches may send the same one, and for opening a database and committing the target's
// writes, for which there are several reasons. A long poll that was cut begins the count anew. A log that was refused
// for good is not sent again: a run that goes on writes another one. Nor is the newest change looked for again before
// the next checkpoint.
func (rt *retries) noteFailing(r *run, op peer.Op, f *peer.Failure, cutPoll bool) {
	if r.failing == nil {
		r.failing = map[string]failing{}
	}
	name := op.String()
	s := r.failing[name]
	s.count(f)
	final := f.Kind == peer.Status && f.Status < 500 && f.Status != 429 && !cutPoll
	commit, _ := op.(peer.Commit)
	if commit.Side == peer.Target {
		final = true
	}
	_, puts := op.(peer.PutLocal)
	if _, finds := op.(peer.FindRev); (puts || finds) && final && f.Status != 408 {
		delete(r.failing, name)
		return
	}
	switch op.(type) {
	case peer.Open, peer.DiffRevs, peer.FetchDocs, peer.WriteDocs, peer.CopyDoc:
	default:
		switch {
		case final:
		case f.RetryAfter > 0:
			s.waits(f, rt.w.Now())
		case cutPoll:
			s = failing{at: rt.w.Now(), alike: 1}
		default:
			s.pauses(f, rt.w.Now())
		}
	}
	r.failing[name] = s
}

// checkPause is S28a, S28b and S30b: pauses keep a run from hammering a server in trouble, and end soon
// enough to notice that the trouble is over. A node that was paused since the failure is excused from sending
// late and from its patience; the feed is excused from sending late too, since the run reads it again only
// when it has room for more changes. So is the look for the newest change, which counts as there after some failures:
// then the next checkpoint looks for it. A log may wait for the description of its database.
func (rt *retries) checkPause(r *run, op peer.Op) {
	if len(r.failing) == 0 {
		return
	}
	s, failed := r.failing[op.String()]
	if s.last429.Sub(s.first429) > patienceLast && r.p.PausedLast() < s.first429 {
		rt.Fail("S30b", "%s repeats %s, which was answered 429 for %s", r, op, s.last429.Sub(s.first429))
	}
	if !failed {
		return
	}
	since := rt.w.Now().Sub(s.at)
	_, reads := op.(peer.ReadChanges)
	_, finds := op.(peer.FindRev)
	late := since
	if log, is := op.(peer.GetLocal); is {
		late = min(since, rt.w.Now().Sub(r.described[log.Side]))
	}
	if !reads && !finds && s.longest > 0 && r.p.PausedLast() < s.at && late > s.longest+pauseSlack {
		rt.Fail("S28b", "%s repeats %s only after %s; it should after %s", r, op, since, s.longest)
	}
	if s.alike > 0 && since < s.minPause() {
		rt.Fail("S28a", "%s repeats %s after %s, which failed %d times and was answered 429 %d times",
			r, op, since, s.failed, s.throttled)
	}
}

// failures are the failures of all requests of a run together. Only retries change them.
type failures struct {
	n         int          // failures that may pass, and refused documents, since the run began
	first     instant.Time // the first of those
	throttled instant.Time // the run's first answer 429; 0 when there was none
	feed      feedFailures
	lacking   lacking
}

// feedFailures are the failures of the feed since it last brought something or a poll waited long enough.
type feedFailures struct {
	n         int           // failures that may pass, without answers 429
	since     instant.Time  // the first of those
	throttled instant.Time  // the first answer 429; 0 when there was none
	last      *peer.Failure // of the last answer, nil when that was none
	asked     instant.Time  // when the feed was last read, by the node's steady clock
}

// lacking is a document of which the last copy told only that the source lacks revisions of it.
type lacking struct {
	id string
	at instant.Time // of that answer
}

// cut reports whether a poll may have failed because of how long it took.
func cut(f *peer.Failure) bool {
	switch f.Kind {
	case peer.Broken, peer.TimedOut:
		return true
	}
	return f.Kind == peer.Status && (f.Status == 408 || f.Status == 504)
}

// note counts a failure; nil is none.
func (t *failures) note(f *peer.Failure, now instant.Time) {
	switch {
	case f == nil:
	case protocol.Throttles(f) && t.throttled == 0:
		t.throttled = now
	case protocol.Passes(f):
		t.count(now)
	}
}

func (t *failures) count(now instant.Time) {
	if t.n++; t.n == 1 {
		t.first = now
	}
}

// noteCopied counts a copy whose revisions the target refused, since the run may repeat it, as after a
// conflict.
func (t *failures) noteCopied(id string, copied peer.Copied, now instant.Time) {
	refused := slices.ContainsFunc(copied.Revs, func(rev peer.CopiedRev) bool { return rev.Refused != nil })
	if refused {
		t.count(now)
	}
	t.lacking = lacking{}
	if !refused && slices.ContainsFunc(copied.Revs, func(rev peer.CopiedRev) bool { return rev.Missing }) {
		t.lacking = lacking{id, now}
	}
}

// note counts an answer of the feed. A long poll that was cut after a while is no failure: balancers let no
// answer take as long as it likes. How long it took is told by the node's steady clock, as the run does.
func (t *feedFailures) note(op peer.ReadChanges, reply peer.Reply, now, steady instant.Time) {
	t.last = reply.Failure
	waited := t.last != nil && op.Wait && cut(t.last) && steady.Sub(t.asked) >= quietPoll
	if changes, is := reply.Result.(peer.Changes); t.last == nil || is && len(changes.Rows) > 0 || waited {
		t.n, t.throttled = 0, 0
	}
	switch {
	case t.last == nil || waited:
	case protocol.Throttles(t.last):
		if t.throttled == 0 {
			t.throttled = now
		}
	case protocol.Passes(t.last):
		if t.n++; t.n == 1 {
			t.since = now
		}
	}
}

// checkEnd judges a run that gives up because of an answer.
func (rt *retries) checkEnd(e ending) {
	answer, is := e.ev.(replication.Reply)
	if !is || e.end.Cause != replication.Crashed || e.end.Trouble.Error == "stalled" {
		return
	}
	f := answer.Failure
	copied, copies := answer.Result.(peer.Copied)
	if f == nil || copies && e.end.Trouble.Error == "doc_write_failed" { // refused before the rest of the copy failed
		if copies && inTheWay(copied) {
			rt.checkRetried(e, "a write that was in the way", e.failures.n, e.failures.first)
		}
		return
	}
	_, bulk := e.asked.(peer.FetchDocs)
	_, creates := e.asked.(peer.Create)
	_, counts := e.asked.(peer.CountPending)
	switch {
	case counts:
		rt.Fail("S30d", "%s gave up when its source did not count the changes to come: %s",
			e.run, e.end.Trouble)
	case protocol.Passes(f) && f.Kind == peer.Status && e.end.Trouble.Error != "http_request_failed" &&
		tellsStatus(e.asked):
		rt.Fail("S29o", "%s was answered %s, and ended with %s", e.run, f, e.end.Trouble)
	case creates && refusesToCreate(f):
		rt.Fail("S30e", "%s gave up when its target was not made, and did not look whether it is there: %s",
			e.run, e.end.Trouble)
	case bulk && (f.Kind == peer.Broken || f.Kind == peer.TimedOut || f.Kind == peer.Malformed):
		rt.Fail("S30f", "%s gave up when a bulk read failed, and read nothing alone: %s",
			e.run, e.end.Trouble)
	case protocol.Throttles(f) && !e.end.Trouble.Throttled:
		rt.Fail("S30g", "%s was asked to slow down, and does not say so: %s", e.run, e.end.Trouble)
	case e.end.Trouble.Throttled || protocol.Throttles(f):
		rt.checkPatience(e, f)
	case protocol.Passes(f) && f == e.failures.feed.last:
		rt.checkRetried(e, "its feed", e.failures.feed.n, e.failures.feed.since)
	case protocol.Passes(f):
		rt.checkRetried(e, e.asked.String(), e.failures.n, e.failures.first)
	}
}

// checkRetried is S30c: a failure that may pass is no reason to give up before all retries are used or their
// time is over. Failures of all requests count together, although each request has its own retries, so the
// bound is a lenient one. Failures of the feed, which is read for as long as the run lasts, count alone.
func (rt *retries) checkRetried(e ending, what string, failures int, since instant.Time) {
	most, lasted := e.Replication().Source.Retries, rt.w.Now().Sub(since)
	if failures == 0 || failures <= most && lasted < retriesLast {
		rt.Fail("S30c", "%s gave up after %d failures in %s, with %d retries, for %s: %s",
			e.run, failures, lasted, most, what, e.end.Trouble)
	}
}

// checkPatience is S30h: answers 429 use up no retries, since the server will have time again. Answers to the
// feed count from when it brought something.
func (rt *retries) checkPatience(e ending, f *peer.Failure) {
	since := e.failures.throttled
	if f == e.failures.feed.last && protocol.Throttles(f) {
		since = e.failures.feed.throttled
	}
	if lasted := rt.w.Now().Sub(since); lasted < patienceLast {
		rt.Fail("S30h", "%s was first asked to slow down %s ago, and gave up: %s",
			e.run, lasted, e.end.Trouble)
	}
}

// refusesToCreate reports whether a failure to make a target leaves open whether the target is there.
// Credentials that are wrong end the run, and a request whose failure may pass is repeated.
func refusesToCreate(f *peer.Failure) bool {
	return f.Kind == peer.Status && f.Status < 500 && !slices.Contains([]int{401, 403, 408, 429}, f.Status)
}

// tellsStatus reports whether a run that ends for the failure of a request has no more to tell than its
// status.
func tellsStatus(op peer.Op) bool {
	switch op.(type) {
	case peer.Open, peer.Create, peer.ReadChanges, peer.DiffRevs, peer.WriteDocs:
		return true
	}
	return false
}

// checkWhole is S30i: the target may lack older revisions after all, and then stubs of their attachments
// would be refused.
func (rt *retries) checkWhole(r *run, op peer.Op) {
	again, is := op.(peer.CopyDoc)
	lacked := &r.failures.lacking
	if is && again.ID == lacked.id && rt.w.Now() == lacked.at.Add(missingPause) && len(again.Since) > 0 {
		rt.Fail("S30i", "%s asks again for %s, without the attachments of %v", r, again.ID, again.Since)
	}
}

// inTheWay reports whether all that a target refused of a document was for a write at the same time, which
// passes, and the source lacked nothing of it.
func inTheWay(c peer.Copied) bool {
	refused := slices.ContainsFunc(c.Revs, func(rev peer.CopiedRev) bool { return rev.Refused != nil })
	return refused && !slices.ContainsFunc(c.Revs, func(rev peer.CopiedRev) bool {
		return rev.Missing || rev.Refused != nil && rev.Refused.Status != 409
	})
}
