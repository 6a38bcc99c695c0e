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
	// maxOdd is how many attempts in a row to store the end of a run must fail, since its job or its document cannot be
	// read, until the node tries to store the end without the document.
	maxOdd = 6
)

// call is a request with its attempts. A request is repeated until its transaction commits or fails for
// good, with no limit: while the store is down there is nothing better to do, and leases take care of what
// must not wait.
type call struct {
	req    Request
	run    *run          // the run that asks, nil for the node itself
	number uint64        // of this node's calls, from 1
	id     uint64        // of the last attempt; answers to earlier ones are ignored
	sent   instant.Time  // when that was sent, by the steady clock; leases count from here
	due    instant.Time  // when the next attempt is, by the steady clock; only while it waits for that
	pause  time.Duration // before the last repetition; it doubles up to maxPause, 0 before the first failure
	failed bool          // it has failed, and not since a job could not be read: the store is not down for that
	odd    int           // how many attempts in a row have failed since a job or its document could not be read
}

// ends reports whether the call stores the end of a run.
func (c *call) ends() bool { return c.run != nil && c.run.writing() }

// requests are what the node has asked of the store.
type requests struct {
	flying   map[uint64]*call // those that wait for an answer, by the id of the attempt
	waiting  agenda[*call]    // those that wait for their next attempt
	own      []*call          // of both, those of the node itself, oldest first: there is one or so of a type
	failed   int              // of both, those that have failed
	nextID   uint64           // of the last Ask; every attempt has its own, so that an answer is matched to its attempt
	nextCall uint64           // number of the last call
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
	return slices.ContainsFunc(n.own, func(c *call) bool { _, is := c.req.(T); return is })
}

func (n *Node) issue(c *call) *call {
	n.attempt(n.made(c))
	return c
}

// made gives a new call its number.
func (q *requests) made(c *call) *call {
	q.nextCall++
	if c.number = q.nextCall; c.run == nil {
		q.own = append(q.own, c)
	}
	return c
}

func (n *Node) attempt(c *call) {
	n.nextID++
	c.id, c.sent = n.nextID, n.clock.Steady
	n.flying[c.id] = c
	if q, is := c.req.(renewed); is {
		c.req = q.renew(n)
	}
	n.emit(Ask{ID: c.id, Request: c.req})
}

// wait has a call that is not in flight attempted after a pause.
func (n *Node) wait(c *call, pause time.Duration) {
	c.due = n.clock.Steady.Add(pause)
	n.waiting.add(c)
}

// comesDue is when the next attempt of a call that waits is.
func (c *call) comesDue() (at instant.Time, number uint64) { return c.due, c.number }

func (n *Node) retryDue() {
	for _, c := range n.waiting.take(n.clock.Steady) {
		n.attempt(c)
	}
}

// drop forgets a request, nil for none. Its transaction may still commit.
func (q *requests) drop(c *call) {
	if c == nil {
		return
	}
	delete(q.flying, c.id)
	q.waiting.remove(c)
	q.markFailed(c, false)
	if c.run == nil {
		q.own = slices.DeleteFunc(q.own, func(o *call) bool { return o == c })
	}
}

// markFailed notes whether a call counts as failed.
func (q *requests) markFailed(c *call, failed bool) {
	if c.failed {
		q.failed--
	}
	if c.failed = failed; failed {
		q.failed++
	}
}

// onDone finds the call that an answer belongs to. There is none if the call was dropped meanwhile.
func (n *Node) onDone(e Done) {
	if c := n.flying[e.ID]; c != nil {
		n.answered(c, e)
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
		odd := told || passesOver(n, e)
		switch {
		case told:
		case odd:
			c.pause = 0
		case !n.failing:
			n.failing = true
			n.note("store_error", "", "%s: %s; it is tried again until it gets through", called(c.req), e.Text)
		}
		if c.run != nil && c.run.end != nil {
			// Reached: a run has ended, and what it asked for before does not get through
			c.req, c.odd = c.run.itsEnd(n), 0
		}
		if c.odd++; e.Unreadable == "" {
			c.odd = 0
		}
		if c.odd == maxOdd && c.run != nil {
			c.req = c.run.withoutDocument(n, c.req, e.Text)
		}
		c.pause = min(max(2*c.pause, firstPause), maxPause)
		if _, beat := c.req.(Beat); beat {
			c.pause = min(c.pause, maxBeatPause)
		}
		delete(n.flying, c.id)
		n.markFailed(c, !odd)
		n.wait(c, n.jitter(c.pause))
		return
	}
	n.drop(c)
	if n.failing && n.failed == 0 {
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
