package peers

import (
	"context"

	"couchrelay/core/peer"
)

// Redirect is the answer of a server that has a request sent elsewhere.
type Redirect struct {
	Status int
	To     Whither
}

// Whither is where a redirect leads.
type Whither string

// Where redirects lead. The core sees no more of them than what adapters/couch makes of each.
const (
	Elsewhere Whither = "elsewhere" // to where the request is carried out
	InCircle  Whither = "circle"    // to another redirect
	Nowhere   Whither = ""          // its place is missing, so that its status is all there is
)

// maxHops bounds the redirects that one request follows.
const maxHops = 5

// meets reports whether a request is redirected that may have been before.
func (r *Redirect) meets(elsewhere bool) bool { return r != nil && (!elsewhere || r.To == InCircle) }

func (r *Redirect) answer() *peer.Failure { return answer(r.Status, string(r.To), "") }

// redirects reports whether a failure is a redirect that leads on.
func redirects(f *peer.Failure) bool {
	return f != nil && f.Kind == peer.Status && f.Status/100 == 3 && f.Error != string(Nowhere)
}

// follow sends a request, and on to where redirects lead it. A document that is streamed to the target cannot be sent
// twice: its request fails, and the next one goes there at once, until a connection breaks.
func (p *Pair) follow(ctx context.Context, side peer.Side, method string, op peer.Op, do effect) peer.Reply {
	_, copies := op.(peer.CopyDoc)
	streams := copies && side == peer.Target
	elsewhere := streams && p.moved
	for range maxHops {
		reply := p.exchange(ctx, side, method, op, elsewhere, do)
		f := reply.Failure
		switch {
		case !redirects(f):
			if streams && f != nil && f.Kind != peer.Status {
				p.moved = false
			}
			return reply
		case streams:
			p.moved = true
			return peer.Reply{Failure: &peer.Failure{Kind: peer.Broken, Status: f.Status}}
		}
		elsewhere = true
	}
	return peer.Reply{Failure: &peer.Failure{Kind: peer.Malformed, Reason: "the server redirects in a circle"}}
}
