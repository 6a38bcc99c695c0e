package replication

import (
	"cmp"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
)

// call is one operation, with all the attempts that it takes.
type call struct {
	op peer.Op
	// absorb, if set, takes what an answer brought before another attempt is considered, also if the answer
	// broke off: so that the next attempt asks for the rest only. It returns the answer without a failure
	// that it has dealt with.
	absorb func(peer.Reply) peer.Reply
	// then takes the answer after which there is no other attempt. The call is over by then, unless it is
	// held.
	then func(peer.Reply)
	// held is set for calls that then may repeat. Then itself finishes them.
	held bool
	// survives is set for the parts of a checkpoint and of a look, which a stop lets finish.
	survives bool
	// brief is set for calls that have one retry at most if what fails may be this one document, or that it is
	// compressed.
	brief bool
	// doubt is set for the question whether the target still lets us in, for which a copy waits.
	doubt bool

	id    uint64       // of the attempt in flight, 0 between attempts
	began instant.Time // when its documents were asked for first: a write, and a copy, has this from the read before
	sent  instant.Time // when the newest attempt began
	due   instant.Time // when the next attempt begins, if id is 0; Never while then has to decide

	failed  int           // attempts that failed and use up retries, at most Retries+1
	since   instant.Time  // when the first of them failed; without meaning while failed is 0
	wait    time.Duration // the pause after the next one; without meaning while failed is 0
	failure *peer.Failure // of the last attempt, nil if it did not fail
	throttled
}

// throttled counts the answers 429 of one call.
type throttled struct {
	answers int          // those since the call last made progress
	begin   instant.Time // when the first of them came; without meaning while answers is 0
}

// ask issues an operation, whose answer goes to then.
func (r *Run) ask(op peer.Op, then func(peer.Reply)) { r.issue(&call{op: op, then: then}) }

// insist is ask for an operation that a stop lets finish.
func (r *Run) insist(op peer.Op, then func(peer.Reply)) {
	r.issue(&call{op: op, then: then, survives: true})
}

// issue makes the first attempt of a call.
func (r *Run) issue(c *call) {
	r.calls = append(r.calls, c)
	if c.began = cmp.Or(c.began, r.now); ofDocuments(c.op) {
		r.turn.first = cmp.Or(r.turn.first, r.now)
	}
	r.attempt(c)
}

func (r *Run) attempt(c *call) {
	r.nextID++
	c.id, c.sent = r.nextID, r.now
	r.emit(Call{ID: c.id, Op: c.op})
}

// retryDue makes the attempts that are due.
func (r *Run) retryDue() {
	for _, c := range r.calls {
		if c.id == 0 && r.now >= c.due && !r.opener.premature(c) {
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

// answered makes another attempt if the policy grants one, and else hands the answer to the part that asked.
func (r *Run) answered(c *call, reply peer.Reply) {
	r.work.window.answered(c, reply.Failure)
	if c.absorb != nil {
		reply = c.absorb(reply)
	}
	if c.failure = reply.Failure; c.failure != nil && r.grantRetry(c, c.failure) {
		return
	}
	if c.held {
		c.id, c.due = 0, instant.Never // nothing is in flight until then decides
	} else {
		r.finish(c)
	}
	c.then(reply)
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

// cancelCalls gives up the calls that match, also those between two attempts.
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
