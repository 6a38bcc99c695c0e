package oracle

import "couchrelay/core/peer"

var makingSubject = subject{
	invariants: []Invariant{
		{"S81", "A run makes its target only after its source was opened."},
	},
	begin: func(c *chronicle) {
		c.on.runReplied.add(func(a reply) {
			if op, is := a.op.(peer.Open); is && op.Side == peer.Source && a.Failure == nil {
				a.begin.opened = true
			}
		})
		c.on.runCalls.add(func(call call) {
			if _, makes := call.op.(peer.Create); makes && !call.begin.opened {
				c.Fail("S81", "%s makes its target, and has not opened its source", call.run)
			}
		})
	},
}
