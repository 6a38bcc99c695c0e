package node

import (
	"slices"
	"time"

	"couchrelay/core/instant"
)

// Pauses between attempts of a request while the store is down.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
	// maxBeatPause is shorter, since the lease ends when no heartbeat commits in time.
	maxBeatPause = time.Second
)

// call is a request with its attempts. A request is repeated until its transaction commits or fails for
// good, with no limit: while the store is down there is nothing better to do, and leases take care of what
// must not wait.
type call struct {
	req    Request
	run    *run          // the run that asks, nil for the node itself
	id     uint64        // of the present attempt; answers to earlier ones are ignored
	flying bool          // an attempt waits for its answer; if not, the next one is due
	sent   instant.Time  // when the present attempt was sent, by the steady clock; leases count from here
	due    instant.Time  // when the next attempt is, by the steady clock; only while not flying
	pause  time.Duration // before the last repetition; it doubles up to maxPause, 0 before the first failure
	odd    bool          // the present attempt could not read a job; the store is not down for that
}

// ends reports whether the call stores the end of a run.
func (c *call) ends() bool { return c.run != nil && c.run.writing() }

// requests are what the node has asked of the store.
type requests struct {
	calls  []*call // that wait for an answer or for their next attempt, oldest first
	nextID uint64  // of the last Ask; every attempt has its own, so that an answer is matched to its attempt
	// failing is whether a request has failed, and not all that failed have got through since. An outage
	// makes every kind of request fail, and is told once.
	failing bool
}

func (n *Node) ask(q Request) { n.issue(&call{req: q}) }

// askOnce makes a request of the node's own, unless one of the same type is in flight or waits for its next
// attempt.
func askOnce[T Request](n *Node, q T) {
	if !asking[T](n) {
		n.ask(q)
	}
}

// asking reports whether a request of the type is in flight or waits for its next attempt.
func asking[T Request](n *Node) bool {
	for _, c := range n.calls {
		if _, is := c.req.(T); is {
			return true
		}
	}
	return false
}

func (n *Node) issue(c *call) *call {
	n.calls = append(n.calls, c)
	n.attempt(c)
	return c
}

func (n *Node) attempt(c *call) {
	n.nextID++
	c.id, c.flying, c.sent = n.nextID, true, n.clock.Steady
	if q, is := c.req.(renewed); is {
		c.req = q.renew(n)
	}
	n.emit(Ask{ID: c.id, Request: c.req})
}

func (n *Node) retryDue() {
	for _, c := range n.calls {
		if !c.flying && n.clock.Steady >= c.due {
			n.attempt(c)
		}
	}
}

// dropCalls forgets requests. Their transactions may still commit.
func (n *Node) dropCalls(match func(*call) bool) {
	kept := n.calls[:0:0]
	for _, c := range n.calls {
		if !match(c) {
			kept = append(kept, c)
		}
	}
	n.calls = kept
}

// onDone finds the call that an answer belongs to. There is none if the call was dropped meanwhile.
func (n *Node) onDone(e Done) {
	for _, c := range n.calls {
		if c.id == e.ID {
			n.answered(c, e)
			return
		}
	}
}

// answered repeats a request after a pause if the store failed, and otherwise has it handled by its run or
// its type.
func (n *Node) answered(c *call, e Done) {
	if _, resumes := c.req.(Resume); e.Unreadable != "" && (resumes || n.draining && c.ends()) {
		// Reached: a job to resume cannot be read
		// A job to resume is looked for again, and no accept waits for it meanwhile. A node that drains does not wait
		// until the job of a run that has ended can be read: its lease stays behind, as expired, and others give the
		// job back then.
		e.Fault = Halted
		passesOver(n, e)
	}
	if e.Fault == StoreDown {
		told := slices.Contains(n.unreadable, e.Unreadable)
		c.odd = told || passesOver(n, e)
		switch {
		case told:
		case c.odd:
			c.pause = 0
		case !n.failing:
			n.failing = true
			n.note("store_error", "", "%s: %s; it is tried again until it gets through", called(c.req), e.Text)
		}
		c.pause = min(max(2*c.pause, firstPause), maxPause)
		if _, beat := c.req.(Beat); beat {
			c.pause = min(c.pause, maxBeatPause)
		}
		c.flying, c.due = false, n.clock.Steady.Add(n.jitter(c.pause))
		return
	}
	n.dropCalls(func(o *call) bool { return o == c })
	if n.failing && !slices.ContainsFunc(n.calls, func(c *call) bool { return c.pause > 0 && !c.odd }) {
		n.failing = false
		n.note("store_back", "", "all requests that had failed have got through")
	}
	switch {
	case c.run != nil:
		n.runAnswered(c, e)
	case e.Fault == LeaseLost:
		// Reached: a worker learns that others expired it
		n.loseLease("expired by another worker")
	default:
		c.req.answered(n, c, e)
	}
}

// passesOver has requests leave out a job of which one could not read a row, and tells operators.
func passesOver(n *Node, e Done) bool {
	if !n.passOver(e.Unreadable) {
		return false
	}
	n.note("job_unreadable", e.Unreadable, "%s; other jobs go on, and this one is looked at now and then", e.Text)
	n.lookOwned() // it may be one of the node's own
	return true
}
