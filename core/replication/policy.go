package replication

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// Pauses between the attempts of a call. They are those of CouchDB's replicator, where it has them.
const (
	// firstPause is the pause after the first failure; it doubles up to maxPause.
	firstPause = 250 * time.Millisecond
	maxPause   = 300 * time.Second
	// retryWindow bounds the time from the first failure of a call to its last attempt. It is half of the default
	// health_threshold.
	retryWindow = 60 * time.Second
	// copyPause is the first pause of a document copy; it grows fourfold up to maxPause.
	copyPause = time.Second
	// defaultMissingPause is the default of missing_doc_retry_msec.
	defaultMissingPause = 2 * time.Second
	// throttlePause is the first pause after 429 without Retry-After; it doubles up to throttleMax.
	throttlePause = 250 * time.Millisecond
	throttleMax   = 25 * time.Second
	// patience is how long a call is repeated while it is answered 429: about as long as with CouchDB's limiter.
	patience = 150 * time.Second
	// maxRetryAfter bounds the Retry-After of servers.
	maxRetryAfter = 300 * time.Second
)

// grantRetry schedules another attempt of a failed call, and reports whether it did. There is another attempt
// if the failure may pass by itself, the call has retries left, and its first failure is less than
// retryWindow ago. A brief call has one retry: the job may not run for as long as more of them take, and
// then nothing behind this call would ever be tried. Answers 429 and cut long polls have rules of their own.
// A run that stops retries nothing: it would only delay its end.
func (r *Run) grantRetry(c *call, f *peer.Failure) bool {
	if r.stopping {
		return false
	}
	if c.wasCut(f, r.now) {
		// Reached: a long poll is cut
		c.failed, c.throttled = 0, throttled{}
		r.again(c, max(firstPause, min(f.RetryAfter, maxRetryAfter)))
		return true
	}
	if f.Status == 429 && f.Kind == peer.Status {
		// Reached: a server asks to slow down
		return r.grantThrottled(c, f)
	}
	first, growth := firstPause, time.Duration(2)
	_, copies := c.op.(peer.CopyDoc)
	if copies {
		first, growth = copyPause, 4
	}
	// The target answers 409 to a document when a concurrent write to it got in between; it is sent again. A lenient
	// run waits whether others come over meanwhile.
	if !Transient(f) && !(copies && (f.Status == 409 || r.plan.lenient() && ofBulk(f))) {
		return false
	}
	if c.failed == 0 {
		c.since, c.wait = r.now, first
	}
	c.failed++
	retries := r.plan.Retries
	if c.brief && ofBulk(f) {
		retries = min(retries, 1)
	}
	if copies && r.plan.lenient() {
		retries = max(retries, 1)
	}
	if c.failed > retries || r.now.Sub(c.since) >= retryWindow {
		return false
	}
	r.again(c, max(c.wait, min(f.RetryAfter, maxRetryAfter)))
	c.wait = min(growth*c.wait, maxPause)
	return true
}

// wasCut reports whether a long poll was ended by something between us and the server, a load balancer say,
// that lets no answer take long. Such a poll waited as it should, so it is no failure, and ends a series of
// them. That the databases are still there shows when the watcher looks. A server that fails by itself
// answers with another status.
func (c *call) wasCut(f *peer.Failure, now instant.Time) bool {
	read, is := c.op.(peer.ReadChanges)
	return is && read.Wait && now.Sub(c.sent) >= quietRead && Cut(f)
}

// Cut reports whether a long poll failed as one does that something on the way has ended.
func Cut(f *peer.Failure) bool {
	switch f.Kind {
	case peer.Broken, peer.TimedOut:
		return true
	case peer.Status:
		return f.Status == 408 || f.Status == 504
	}
	return false
}

// grantThrottled schedules another attempt of a call that was answered 429: after Retry-After, or after
// pauses that double. Such answers use up no retries, only patience.
func (r *Run) grantThrottled(c *call, f *peer.Failure) bool {
	if c.answers == 0 {
		c.begin = r.now
	}
	if r.now.Sub(c.begin) >= patience {
		return false
	}
	pause := throttleMax
	if c.answers < 7 { // 250 ms doubled seven times is beyond throttleMax
		pause = throttlePause << c.answers
	}
	if f.RetryAfter > 0 {
		pause = min(f.RetryAfter, maxRetryAfter)
	}
	c.answers++
	r.again(c, pause)
	return true
}

// missingPause is the time given to the source to find what it announced.
func (r *Run) missingPause() time.Duration { return cmp.Or(r.plan.MissingPause, defaultMissingPause) }

// Transient reports whether a failure may pass by itself within seconds.
func Transient(f *peer.Failure) bool {
	switch f.Kind {
	case peer.Status:
		return f.Status == 408 || f.Status >= 500 && !ofOne(f)
	case peer.Unresolvable, peer.Unreachable, peer.Broken, peer.TimedOut, peer.Malformed:
		return true
	}
	return false
}

// ofOne reports whether a request with many documents may have failed for one of them, which the target cannot read.
func ofOne(f *peer.Failure) bool {
	v := peer.Refusal{Status: f.Status, Error: f.Error}
	return f.Kind == peer.Status && (f.Status == 400 || v.Thrown())
}

// ofOneAtLast reports whether a lenient run assumes that one of many documents made a request fail, though the failure
// does not say so: the target may fail on that document at each attempt, or a firewall may refuse its contents, with no
// word for the error.
func (p *Plan) ofOneAtLast(f *peer.Failure) bool {
	return p.lenient() && ofBulk(f) && !ofOne(f) && !isTooLong(f) && (Transient(f) || f.Error == "")
}

// isTooLong reports whether a server, or a proxy before it, takes no request that has as many bytes: nginx takes 1 MB
// unless it is told otherwise.
func isTooLong(f *peer.Failure) bool { return f.Kind == peer.Status && f.Status == 413 }

// skippable reports whether a refused document is counted and left out while the replication goes on: the
// target decided about this document alone. For some that has to be made sure of first (see aboutUs). With 400
// targets refuse JSON, members, ids and revisions that their sources took: CouchDB takes no half of a surrogate
// pair, as PouchDB does. A proxy that answers 400 has no word for the error.
func skippable(f *peer.Refusal) bool {
	switch f.Status {
	case 401:
		return f.Error == "unauthorized"
	case 403:
		return f.Error == "forbidden"
	case 413, 414, 415:
		return true
	case 400:
		return f.Error != ""
	}
	// Reached: a validation function throws an exception
	return f.Thrown()
}

// aboutUs reports whether a refusal may concern us rather than the document: a validation function and a server
// whose password was changed both answer 401 or 403, and 400 and what CouchDB has no word for may be for each of our
// requests.
func aboutUs(f *peer.Refusal) bool {
	return f.Status == 400 || f.Status == 401 || f.Status == 403 || f.Vague()
}

// mayPass reports whether a document that was refused may be taken later, as it is. Between us and the target something
// may spoil requests for a while, as a proxy whose disk is full cuts them, and the target then answers 400. A proxy
// that takes no body of that size has no word for the error: that is not the database's own limit. What CouchDB has no
// word for may be trouble of its own.
func mayPass(f *peer.Refusal) bool {
	return f.Status == 400 || f.Status == 413 && f.Error == "" || f.Vague()
}

// trouble words a failure that ends the run as CouchDB does.
func trouble(op peer.Op, f *peer.Failure) Trouble {
	t := Trouble{Reason: f.String()}
	switch {
	case f.Kind == peer.Status && f.Status == 429:
		t.Error, t.Throttled = "max_backoff", true
	case f.Kind == peer.Unresolvable:
		t.Error, t.Reason = "nxdomain", "could not resolve "+f.URL
	case f.Kind != peer.Status:
		t.Error = f.Kind.String()
	default:
		t.Error = statusError(op, f)
		switch {
		case ofLogin(f):
		case t.Error == "unauthorized":
			t.Reason = "unauthorized to access or create database " + f.URL
		case t.Error == "db_not_found":
			t.Reason = "could not open " + f.URL
		}
	}
	return t
}

// ofLogin reports whether a failure is one of authentication by a session, which says nothing about a database.
func ofLogin(f *peer.Failure) bool {
	return strings.HasPrefix(f.Error, "session_") || f.Error == "no_more_auth_plugins_left_to_try"
}

// statusError returns CouchDB's error word for an operation that was answered with an unexpected status.
func statusError(op peer.Op, f *peer.Failure) string {
	switch {
	case f.Status == 401:
		return "unauthorized"
	case f.Status == 403:
		return "forbidden"
	case f.Status == 408 || f.Status >= 500:
		return "http_request_failed"
	case ofLogin(f):
		return "http_request_failed"
	}
	switch op.(type) {
	case peer.Open, peer.Create:
		return "db_not_found"
	case peer.ReadChanges:
		return "changes_req_failed"
	case peer.DiffRevs:
		return "revs_diff_failed"
	case peer.WriteDocs:
		return "bulk_docs_failed"
	case peer.CopyDoc:
		return "open_doc_revs_failed"
	case peer.GetFilter:
		return "filter_fetch_error"
	case peer.GetLocal, peer.PutLocal, peer.Commit:
		return "checkpoint_commit_failure"
	}
	return fmt.Sprintf("http_error_%d", f.Status)
}

// TroubleOf words a failure for other users of the operations than runs.
func TroubleOf(op peer.Op, f *peer.Failure) Trouble { return trouble(op, f) }
