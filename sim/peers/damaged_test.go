package peers

import (
	"context"
	"slices"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/docs/revtree"
	"couchrelay/core/peer"
	"couchrelay/sim/engine"
)

// TestDamaged: what cannot be read fails each request for it, in bulk and alone, until it is repaired.
func TestDamaged(t *testing.T) {
	n := &calm{fault: RevDamaged}
	got := play(n, func(_ *engine.Engine, p *Pair) (got []string) {
		source := p.net.Server("s").DB("a")
		ask := func(op peer.Op) {
			word := "ok"
			if f := p.Do(context.Background(), 2, op).Failure; f != nil {
				word = f.Error
			}
			got = append(got, word)
		}
		rev := func(id string) string { return source.Latest(id).Rev.String() }
		a, b := peer.DocRev{ID: "a", Rev: rev("a")}, peer.DocRev{ID: "b", Rev: rev("b")}
		ask(peer.FetchDocs{Budget: 1000, Docs: []peer.DocRev{a, b}})
		n.fault = ""
		ask(peer.FetchDocs{Budget: 1000, Docs: []peer.DocRev{b, a}})
		ask(peer.FetchDocs{Budget: 1000, Docs: []peer.DocRev{b}})
		ask(peer.CopyDoc{ID: "a", Revs: []string{a.Rev}})
		Repair(source)
		ask(peer.CopyDoc{ID: "a", Revs: []string{a.Rev}})
		n.fault = RevDamaged // of a request that was sent before
		ask(peer.CopyDoc{ID: "a", Revs: []string{a.Rev}})
		return got
	})
	bad := "unknown_error"
	if want := []string{bad, bad, "ok", bad, "ok", "ok"}; !slices.Equal(got, want) {
		t.Errorf("answered %q, want %q", got, want)
	}

	list := []*docs.Document{nil}
	for _, id := range []string{"0", "1", "2"} { // the first one is damaged
		list = append(list, &docs.Document{ID: "d", Rev: revtree.Rev{Gen: 1, ID: id}})
	}
	var s damaged
	s.damage(list[:1])
	if n, f := s.readable(list); n != 4 || f != nil {
		t.Errorf("%d can be read, then %v", n, f)
	}
	s.damage(list[1:])
	if n, f := s.readable(list); n != 1 || f == nil || f.Kind != peer.Broken {
		t.Errorf("%d can be read, then %v", n, f)
	}
}
