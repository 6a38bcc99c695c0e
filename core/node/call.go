package node

import (
	"time"

	"couchrelay/core/instant"
)

// Pauses between attempts of a request while the store is down.
const (
	firstPause = 250 * time.Millisecond
	maxPause   = 10 * time.Second
	// maxBeatPause is shorter: the lease hangs on it.
	maxBeatPause = time.Second
)

// call is a request with its attempts.
type call struct {
	req    Request
	run    *run // whose request it is, nil for the node's own
	id     uint64
	flying bool
	sent   instant.Time // when the present attempt was
	due    instant.Time // of the next attempt
	pause  time.Duration
}

func (n *Node) ask(q Request) { n.issue(&call{req: q}) }

// askOnce asks for a request of the node's own unless one of its kind is under way.
func askOnce[T Request](n *Node, q T) {
	if !asking[T](n) {
		n.ask(q)
	}
}

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

// dropCalls forgets requests; what they do to the store they may still do.
func (n *Node) dropCalls(match func(*call) bool) {
	kept := n.calls[:0:0]
	for _, c := range n.calls {
		if !match(c) {
			kept = append(kept, c)
		}
	}
	n.calls = kept
}

func (n *Node) onDone(e Done) {
	for _, c := range n.calls {
		if c.id == e.ID {
			n.answered(c, e)
			return
		}
	}
}

func (n *Node) answered(c *call, e Done) {
	if e.Fault == StoreDown {
		if c.pause == 0 {
			n.note("store_error", "", "%s: %s", c.req, e.Text)
		}
		c.pause = min(max(2*c.pause, firstPause), maxPause)
		if _, beat := c.req.(Beat); beat {
			c.pause = min(c.pause, maxBeatPause)
		}
		c.flying, c.due = false, n.clock.Steady.Add(n.jitter(c.pause))
		return
	}
	n.dropCalls(func(o *call) bool { return o == c })
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
