package oracle

import (
	"errors"

	"couchrelay/core/docs"
	"couchrelay/sim/world"
)

var replicatedSubject = subject{
	invariants: []Invariant{
		{"S92a", "A document that is replicated into the service is not refused for what it asks for."},
		{"S92d", "A revision that is replicated once more changes nothing."},
	},
	begin: func(c *chronicle) {
		c.on.documentRepeated.add(func(f world.DocumentRepeated) {
			if f.Changed {
				c.Fail("S92d", "document %s was sent again as %d, and that changed it", f.Doc.ID(), f.Token)
			}
		})
		c.on.replicatedRefused.add(func(f world.ReplicatedRefused) {
			if !errors.Is(f.Err, docs.ErrNoDatabase) {
				c.Fail("S92a", "replicated document %s is refused: %v", f.Doc.ID(), f.Err)
			}
		})
	},
}
