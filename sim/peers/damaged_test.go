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

// TestReadDamaged: a document that cannot be read fails a request for several, and one for it alone. What is wrecked
// stays so, and nothing else is damaged any more.
func TestReadDamaged(t *testing.T) {
	n := &calm{}
	play(n, func(_ *engine.Engine, p *Pair) []string {
		db := p.net.Server("s").DB("a")
		read := func(ids ...string) string {
			if f := p.Do(context.Background(), 2, peer.ReadDocs{IDs: ids, Budget: 1000}).Failure; f != nil {
				return f.Kind.String() + f.Error
			}
			return "ok"
		}
		Damage(db, "a")
		Wreck(db)
		Damage(db, "b")
		got := []string{read("a"), read("b", "a"), read("b"), read()}
		if want := []string{"statusunknown_error", peer.Broken.String(), "ok", "ok"}; !slices.Equal(got, want) {
			t.Errorf("answered %q, want %q", got, want)
		}
		if !Unreadable(db, "a") || Unreadable(db, "b") || Unreadable(db, "none") {
			t.Error("other documents are damaged")
		}
		return nil
	})
}
