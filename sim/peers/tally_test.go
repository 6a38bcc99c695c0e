package peers

import (
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/peer"
)

// TestGivenUp: a revision whose bulk write brought no answer is read once more if it is copied alone, but not if
// another batch has copied it, and the write is repeated.
func TestGivenUp(t *testing.T) {
	rev, err := revtree.ParseRev("1-0000000000000000000000000000000a")
	if err != nil {
		t.Fatal(err)
	}
	doc := &docs.Document{ID: "a", Rev: rev, Body: []byte(`{}`)}
	lost := &peer.Failure{Kind: peer.Status, Status: 500}
	copies := peer.CopyDoc{ID: "a", Revs: []string{rev.String()}}
	later := peer.Copied{Revs: []peer.CopiedRev{{Rev: "2-0000000000000000000000000000000b"}}}
	copied := peer.Copied{Revs: []peer.CopiedRev{{Rev: rev.String()}}}
	for name, c := range map[string]struct {
		story func(*Tally)
		want  int64
	}{
		"copied alone":                     {func(t *Tally) { t.sent(1, doc, lost); t.copied(copies, copied) }, 1},
		"copied alone in a later revision": {func(t *Tally) { t.sent(1, doc, lost); t.copied(copies, later) }, 1},
		"repeated":                         {func(t *Tally) { t.sent(1, doc, lost); t.sent(1, doc, nil) }, 0},
		"copied by another batch": {
			func(t *Tally) { t.sent(1, doc, lost); t.copied(copies, copied); t.sent(1, doc, nil) }, 0,
		},
		"copied by another batch, twice": {func(t *Tally) {
			for range 2 {
				t.sent(1, doc, lost)
				t.copied(copies, copied)
			}
			t.sent(1, doc, nil)
		}, 0},
		"copied alone, and read again later": {
			func(t *Tally) { t.sent(1, doc, lost); t.copied(copies, copied); t.sent(2, doc, nil) }, 1,
		},
	} {
		var tally Tally
		c.story(&tally)
		if tally.Failed != c.want || (tally.Bytes > 0) != (c.want > 0) {
			t.Errorf("%s: %d read again, %d bytes; want %d", name, tally.Failed, tally.Bytes, c.want)
		}
	}
}
