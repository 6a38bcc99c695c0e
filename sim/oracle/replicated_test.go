package oracle

import (
	"testing"

	"couchrelay/core/docs"
	"couchrelay/sim/world"
)

func TestReplicated(t *testing.T) {
	checkDocuments(t, &replicatedSubject, []case_{
		{"refused", func(r *rig) {
			r.see(world.ReplicatedRefused{Doc: r.w.NewDocument("doc", nil), Err: docs.Forbidden("no")})
		}, "S92a"},
		{"refused without a database", func(r *rig) {
			r.see(world.ReplicatedRefused{Doc: r.w.NewDocument("doc", nil), Err: docs.ErrNoDatabase})
		}, ""},
		{"once more", func(r *rig) { r.see(world.DocumentRepeated{Doc: r.document("doc", nil)}) }, ""},
		{"once more, and changed", func(r *rig) {
			r.see(world.DocumentRepeated{Doc: r.document("doc", nil), Changed: true})
		}, "S92d"},
	})
}
