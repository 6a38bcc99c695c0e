package replication

import (
	"fmt"
	"strings"
	"time"

	"couchrelay/core/peer"
)

// Pauses between attempts, those of CouchDB's replicator.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 300 * time.Second
	// retryWindow bounds the time from the first failure of a request to its last attempt: half of the
	// default health_threshold.
	retryWindow = 60 * time.Second
	// copyPause is the first pause of a document copy; it grows fourfold.
	copyPause = time.Second
	// missingPause is the time given to a source cluster to find a revision that it announced
	// (missing_doc_retry_msec).
	missingPause = 2 * time.Second
	// throttlePause is the first pause after 429 without Retry-After; it doubles up to throttleMax.
	throttlePause = 250 * time.Millisecond
	throttleMax   = 25 * time.Second
	// patience is how long a request is repeated while it is answered 429: about what CouchDB's
	// limiter allows before it gives up.
	patience = 150 * time.Second
	// maxRetryAfter bounds the server's wish to be left alone.
	maxRetryAfter = 300 * time.Second
)

// grantRetry schedules another attempt of a failed call when the failure may pass and the budget
// allows it.
func (r *Run) grantRetry(c *call, f *peer.Failure) bool {
	if r.stopping {
		return false
	}
	if r.wasCut(c, f) {
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
	// A document that a concurrent write got in the way of (409) comes again like one that failed.
	if !transient(f) && !(copies && f.Status == 409) {
		return false
	}
	if c.failed == 0 {
		c.since, c.wait = r.now, first
	}
	c.failed++
	if c.failed > r.plan.Retries || r.now.Sub(c.since) >= retryWindow {
		return false
	}
	r.again(c, max(c.wait, min(f.RetryAfter, maxRetryAfter)))
	c.wait = min(growth*c.wait, maxPause)
	return true
}

// wasCut says that a long poll ended because something on the way lets no answer take as long as it likes. It
// waited as it should, so that it counts neither as a failure nor among those before it; whether both
// databases are there is looked at anyway (see lookDue). A server that failed says so.
func (r *Run) wasCut(c *call, f *peer.Failure) bool {
	read, is := c.op.(peer.ReadChanges)
	if !is || !read.Wait || r.now.Sub(c.sent) < quietRead {
		return false
	}
	switch f.Kind {
	case peer.Broken, peer.TimedOut:
		return true
	case peer.Status:
		return f.Status == 408 || f.Status == 504
	}
	return false
}

// grantThrottled waits out answers 429. They use up no retries, only patience.
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

// transient says whether a failure may pass by itself within seconds.
func transient(f *peer.Failure) bool {
	switch f.Kind {
	case peer.Status:
		return f.Status == 408 || f.Status >= 500
	case peer.Unresolvable, peer.Unreachable, peer.Broken, peer.TimedOut, peer.Malformed:
		return true
	}
	return false
}

// skippable says whether a refused document is counted and left out while the rest goes on: the target
// decided about this document, not about the replication.
func skippable(f *peer.Refusal) bool {
	switch f.Status {
	case 401:
		return f.Error == "unauthorized"
	case 403:
		return f.Error == "forbidden"
	case 413, 415:
		return true
	case 400:
		return f.Error == "bad_request" && strings.HasPrefix(f.Reason, "Attachment name ")
	}
	// Reached: a validation function throws an exception
	return f.Thrown()
}

// aboutUs says whether a refusal may be of who we are rather than of the document: validation functions
// answer as servers do whose password was changed.
func aboutUs(f *peer.Refusal) bool { return f.Status == 401 || f.Status == 403 }

// trouble words a failure that ends the run, as CouchDB does.
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
		switch t.Error {
		case "unauthorized":
			t.Reason = "unauthorized to access or create database " + f.URL
		case "db_not_found":
			t.Reason = "could not open " + f.URL
		}
	}
	return t
}

func statusError(op peer.Op, f *peer.Failure) string {
	switch {
	case f.Status == 401:
		return "unauthorized"
	case f.Status == 403:
		return "forbidden"
	case f.Status == 408 || f.Status >= 500:
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
