package oracle

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/ratelimit"
	"couchrelay/sim/world"
)

// quiet judges whether nodes give servers that have too much to do the time that they ask for.
type quiet struct {
	*chronicle
	wishes map[wishKey]wish
}

var quietSubject = subject{
	invariants: []Invariant{
		{"S20a", "A server that asked for quiet is sent nothing of that kind until the time is over."},
		{"S20b", "Ten minutes after the quiet that a server asked for, no request to it is held back."},
	},
	begin: func(c *chronicle) {
		q := &quiet{c, map[wishKey]wish{}}
		c.on.wished.add(q.wished)
		c.on.sends.add(q.check)
		c.on.nodeUp.add(func(p *process) { q.forget(p.Node) })
	},
}

// wishKey is a node with the endpoint and method that its limiter counts together.
type wishKey struct {
	n *world.Node
	ratelimit.Key
}

// wish is the pause for which a server asked a node by Retry-After.
type wish struct {
	said, until instant.Time // when it last asked, and for how long at most, by the node's steady clock
	quiet       instant.Time // the same end by the server's clock
}

func (q *quiet) wished(f world.Wished) {
	k, now := wishKey{f.Node, f.Key}, f.Node.Steady()
	was := q.wishes[k]
	end := q.w.Now().Add(f.Until.Sub(now))
	q.wishes[k] = wish{said: now, until: max(f.Until, was.until), quiet: max(end, was.quiet)}
}

// forgiven is how long after the end of a server's quiet nothing is held back any more, though few requests
// come.
const forgiven = 10 * time.Minute

// check is S20a and S20b. A request that was to leave before the server asked may be under way.
func (q *quiet) check(f world.Sends) {
	w := q.wishes[wishKey{f.Node, f.Key}]
	if w.said < f.Asked && q.w.Now() < w.quiet {
		q.Fail("S20a", "%s sends %s to %s, which asked at %s for quiet until %s",
			f.Node.Name, f.Key.Method, f.Key.Endpoint, w.said, w.quiet)
	}
	if f.Held > 0 && f.Asked.Sub(max(w.said, w.until)) > forgiven {
		q.Fail("S20b", "%s holds %s to %s back for %s, which has not complained since %s",
			f.Node.Name, f.Key.Method, f.Key.Endpoint, f.Held, w.said)
	}
}

// forget drops the knowledge of a node before its new life.
func (q *quiet) forget(n *world.Node) {
	for k := range q.wishes { // order does not matter: each is judged alone
		if k.n == n {
			delete(q.wishes, k)
		}
	}
}
