package oracle

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/ratelimit"
	"couchrelay/sim/world"
)

// quiet is S20.
type quiet struct {
	*chronicle
	wishes map[wishKey]wish
}

var quietSubject = subject{
	invariants: []Invariant{{"S20", "A server that asked for quiet has it, and one that has not for long is not held back from."}},
	begin: func(c *chronicle) {
		o := &quiet{c, map[wishKey]wish{}}
		c.on.wished.add(o.wished)
		c.on.sends.add(o.checkQuiet)
		c.on.nodeUp.add(func(p *process) { o.forgetWishes(p.Node) })
	},
}

// wish is what a server asked a node for by Retry-After: said and until by the node's clock, quiet by the server's.
type (
	wishKey struct {
		n *world.Node
		ratelimit.Key
	}
	wish struct{ said, until, quiet instant.Time }
)

func (o *quiet) wished(f world.Wished) {
	k, now := wishKey{f.Node, f.Key}, f.Node.Steady()
	was := o.wishes[k]
	o.wishes[k] = wish{said: now, until: max(f.Until, was.until), quiet: max(o.w.Now().Add(f.Until.Sub(now)), was.quiet)}
}

// checkQuiet is S20.
func (o *quiet) checkQuiet(f world.Sends) {
	w := o.wishes[wishKey{f.Node, f.Key}]
	if w.said < f.Asked && o.w.Now() < w.quiet {
		o.Fail("S20", "%s sends %s to %s, which asked at %s for quiet until %s", f.Node.Name, f.Key.Method, f.Key.Endpoint, w.said, w.quiet)
	}
	if f.Held > 0 && f.Asked.Sub(max(w.said, w.until)) > forgiven {
		o.Fail("S20", "%s holds %s to %s back for %s, which has not complained since %s", f.Node.Name, f.Key.Method, f.Key.Endpoint, f.Held, w.said)
	}
}

// forgiven is how long after a server's last complaint nothing is held back any more, though few requests come.
const forgiven = 10 * time.Minute

// forgetWishes drops what a node knew.
func (o *quiet) forgetWishes(n *world.Node) {
	for k := range o.wishes { // order does not matter: each is judged alone
		if k.n == n {
			delete(o.wishes, k)
		}
	}
}
