package oracle

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/ratelimit"
	"couchrelay/sim/world"
)

// quiet judges whether nodes give servers that have too much to do the time that they ask for, and no more.
type quiet struct {
	*chronicle
	heard map[heardKey]heard
}

var quietSubject = subject{
	invariants: []Invariant{
		{"S20a", "A server that asked for quiet is sent nothing of that kind until the time is over."},
		{"S20b", "Ten minutes after the quiet that a server asked for, no request to it is held back."},
		{"S20c", "A server that has answered nothing but 429 for 40 times is sent one request of the kind in " +
			"25 seconds."},
		{"S20d", "A request fails unsent only while a server wants more than 25 seconds of quiet, or within " +
			"25 seconds of the last request to one that has answered 429 for 40 times."},
		{"S20e", "A server that takes a request after 13 seconds without an answer 429 is sent all requests at once."},
	},
	begin: func(c *chronicle) {
		q := &quiet{c, map[heardKey]heard{}}
		c.on.wished.add(q.wished)
		c.on.welcomed.add(q.welcomed)
		c.on.sends.add(q.sends)
		c.on.withheld.add(q.withheld)
		c.on.nodeUp.add(func(p *process) { q.forget(p.Node) })
	},
}

// heardKey is a node with the endpoint and method that its limiter counts together.
type heardKey struct {
	n *world.Node
	ratelimit.Key
}

// heard is what a server told a node about one kind of requests. Times are by the node's steady clock but for quiet.
//
// The pause between requests is 24 ms after the first answer 429, and longer by a fifth with each, so that it is at its
// most, 25 s, after 40. Of answers within 80 ms the first counts, and after 50 s without any the pause is forgotten. An
// answer that comes a second or more after the one before, and is none of 429, shortens the pause by twice that time.
type heard struct {
	said, until instant.Time // when the server last asked for quiet, and for how long at most
	quiet       instant.Time // the same end by the server's clock
	answered    instant.Time // when it last answered
	taken       instant.Time // when it last took a request
	counted     instant.Time // when the last answer 429 came that surely counts
	sure        int          // answers 429 in a row that surely count
	most        int          // answers 429 that may count
	asked       instant.Time // when the limiter was asked for the last request that left
	probed      instant.Time // the same for one that was let through at once after sure was atMost
	free        instant.Time // when the pause was surely over, and no answer 429 came since; 0 without that
}

const (
	// longest is the pause that 40 answers 429 in a row lead to.
	longest = 25 * time.Second
	atMost  = 40
	// remembered is how long a pause is without answers, burst the time within which one answer 429 counts.
	remembered = 2 * longest
	burst      = 80 * time.Millisecond
	// forgiven is how long after the end of a server's quiet nothing is held back any more, though few requests
	// come.
	forgiven = 10 * time.Minute
)

func (q *quiet) wished(f world.Wished) {
	k, now := heardKey{f.Node, f.Key}, f.Node.Steady()
	h := q.heard[k]
	h.quiet = max(h.quiet, q.w.Now().Add(f.Until.Sub(now)))
	if now.Sub(h.counted) > remembered-5*time.Second {
		h.sure = 0
	}
	if now.Sub(h.answered) > remembered && h.until <= now {
		h.most = 0
	}
	if now.Sub(max(h.counted, h.taken)) > burst+20*time.Millisecond {
		h.sure, h.counted = h.sure+1, now
	}
	h.most++
	h.said, h.until = now, max(h.until, f.Until)
	h.answered, h.free = now, 0
	q.heard[k] = h
}

func (q *quiet) welcomed(f world.Welcomed) {
	k, now := heardKey{f.Node, f.Key}, f.Node.Steady()
	h, is := q.heard[k]
	if !is {
		return
	}
	if now.Sub(h.answered) >= longest/2+time.Second/2 {
		h.most, h.free = 0, now
	}
	h.answered, h.taken, h.sure = now, now, 0
	q.heard[k] = h
}

// sends is S20a, S20b, S20c and S20e. A request that was to leave before the server asked may be under way.
func (q *quiet) sends(f world.Sends) {
	k := heardKey{f.Node, f.Key}
	h, is := q.heard[k]
	if !is {
		return
	}
	if h.said < f.Asked && q.w.Now() < h.quiet {
		q.Fail("S20a", "%s sends %s to %s, which asked at %s for quiet until %s",
			f.Node.Name, f.Key.Method, f.Key.Endpoint, h.said, h.quiet)
	}
	if f.Held > 0 && f.Asked.Sub(max(h.said, h.until)) > forgiven {
		q.Fail("S20b", "%s holds %s to %s back for %s, which has not complained since %s",
			f.Node.Name, f.Key.Method, f.Key.Endpoint, f.Held, h.said)
	}
	if f.Held > 0 && h.free != 0 && h.free < f.Asked && h.until <= f.Asked {
		q.Fail("S20e", "%s holds %s to %s back for %s, which takes requests since %s",
			f.Node.Name, f.Key.Method, f.Key.Endpoint, f.Held, h.free)
	}
	counted := h.counted.Add(-burst) // at the earliest
	forgotten := f.Asked.Sub(counted) > remembered
	if closed := h.sure >= atMost && h.said < f.Asked && f.Held == 0 && !forgotten; closed {
		last := max(counted, h.probed)
		if f.Asked.Sub(last) < longest {
			q.Fail("S20c", "%s sends %s to %s %s after the one before, the last %d were answered 429",
				f.Node.Name, f.Key.Method, f.Key.Endpoint, f.Asked.Sub(last), h.sure)
		}
		h.probed = f.Asked
	}
	h.asked = f.Asked
	q.heard[k] = h
}

// withheld is S20d and S20e.
func (q *quiet) withheld(f world.Withheld) {
	now, h := f.Node.Steady(), q.heard[heardKey{f.Node, f.Key}]
	till := instant.Time(0)
	if h.most >= atMost {
		till = max(h.asked, h.said).Add(longest)
	}
	if h.until.Sub(now) > longest || h.most >= atMost {
		till = max(till, h.until)
	}
	if now.Add(f.Wait) > till {
		q.Fail("S20d", "%s sends no %s to %s for %s more, with %d answers 429, the last at %s, and quiet until %s",
			f.Node.Name, f.Key.Method, f.Key.Endpoint, f.Wait, h.most, h.said, h.until)
	}
	if h.free != 0 && h.until <= now {
		q.Fail("S20e", "%s sends no %s to %s, which takes requests since %s",
			f.Node.Name, f.Key.Method, f.Key.Endpoint, h.free)
	}
}

// forget drops the knowledge of a node before its new life.
func (q *quiet) forget(n *world.Node) {
	for k := range q.heard { // order does not matter: each is judged alone
		if k.n == n {
			delete(q.heard, k)
		}
	}
}
