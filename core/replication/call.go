package replication

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// call is one operation with its attempts.
type call struct {
	op      peer.Op
	id      uint64       // of the attempt under way, 0 between attempts
	due     instant.Time // of the next attempt, when id is 0
	sent    instant.Time // when the attempt under way began
	failed  int          // attempts that failed and count
	since   instant.Time // when the first of them failed
	wait    time.Duration
	failure *peer.Failure // of the last attempt, nil when it did not fail
	throttled
	batch   *batch   // whose work it is, nil for others
	fetched *fetched // whose bodies a WriteDocs writes
	commits bool     // part of a checkpoint
	doubted *call    // the copy that waits for this Open
	copyState
}

// throttled counts the answers 429 of one call.
type throttled struct {
	answers int
	begin   instant.Time // of the first
}

// start issues an operation.
func (r *Run) start(c *call) *call {
	r.calls = append(r.calls, c)
	r.attempt(c)
	return c
}

func (r *Run) attempt(c *call) {
	r.nextID++
	c.id, c.sent = r.nextID, r.now
	r.emit(Call{ID: c.id, Op: c.op})
}

// retryDue issues the calls whose waiting time is over.
func (r *Run) retryDue() {
	for _, c := range r.calls {
		if c.id == 0 && r.now >= c.due {
			r.attempt(c)
		}
	}
}

// again repeats a call after a pause.
func (r *Run) again(c *call, pause time.Duration) {
	c.id, c.due = 0, r.now.Add(pause)
}

func (r *Run) onReply(e Reply) {
	for _, c := range r.calls {
		if c.id == e.ID {
			r.answered(c, e.Reply)
			return
		}
	}
}

// answered hands a reply to whoever asked, after the retries that the policy grants.
func (r *Run) answered(c *call, reply peer.Reply) {
	c.obstacle, c.lacking = nil, nil
	r.absorb(c, reply)
	if c.obstacle != nil && skippable(c.obstacle) && reply.Failure != nil && transient(reply.Failure) {
		// Reached: a copy breaks off, and the target may know us no longer
		reply.Failure = nil // first it is opened, or else no attempt would get further
	}
	if got, is := reply.Result.(peer.Changes); is && len(got.Rows) > 0 && reply.Failure != nil {
		// Reached: a feed that broke off has brought something
		// It goes on as after a part of an answer: behind that, and no further than there is need.
		reply.Failure, r.feed.resume = nil, r.now.Add(firstPause)
	}
	if c.failure = reply.Failure; c.failure != nil && r.grantRetry(c, c.failure) {
		return
	}
	if _, copies := c.op.(peer.CopyDoc); copies {
		c.id, c.due = 0, instant.Never // nothing is under way, until onCopied decides
		r.onCopied(c, reply)
		return
	}
	r.finish(c)
	r.dispatch(c, reply)
}

// absorb takes what arrived, also of an answer that broke off, so that a retry asks for the rest only.
func (r *Run) absorb(c *call, reply peer.Reply) {
	switch result := reply.Result.(type) {
	case peer.Changes:
		r.takeRows(result)
	case peer.Copied:
		r.takeCopied(c, result, reply.Failure == nil)
	}
}

// finish forgets a call.
func (r *Run) finish(c *call) {
	for i := range r.calls {
		if r.calls[i] == c {
			r.calls = append(r.calls[:i:i], r.calls[i+1:]...)
			return
		}
	}
}

func (r *Run) dispatch(c *call, reply peer.Reply) {
	switch op := c.op.(type) {
	case peer.GetFilter:
		r.onFilter(c, reply)
	case peer.Create:
		r.onCreate(reply)
	case peer.Open:
		switch {
		case c.doubted != nil:
			r.onAdmitted(c.doubted, op, reply)
		case c.commits:
			r.sawDatabase(op.Side, op, reply)
		default:
			r.onOpen(op, reply)
		}
	case peer.GetLocal:
		r.onLocal(c, op, reply)
	case peer.PutLocal:
		r.onLocalWritten(c, op, reply)
	case peer.ReadChanges:
		r.onChanges(op, reply)
	case peer.CountPending:
		r.onPending(reply)
	case peer.DiffRevs:
		r.onDiff(c.batch, op, reply)
	case peer.FetchDocs:
		r.onFetched(c, op, reply)
	case peer.WriteDocs:
		r.onWritten(c, op, reply)
	case peer.Commit:
		r.onCommitted(op, reply)
	}
}

// cancelCalls gives up the calls that match.
func (r *Run) cancelCalls(match func(*call) bool) {
	kept := r.calls[:0:0]
	for _, c := range r.calls {
		switch {
		case !match(c):
			kept = append(kept, c)
		case c.id != 0:
			r.emit(Cancel{ID: c.id})
		}
	}
	r.calls = kept
}
