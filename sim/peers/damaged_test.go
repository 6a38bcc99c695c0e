package peers

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// TestSpoiled: in which ways a document of a followed database cannot be read, when it is read and when it is asked for
// by its revisions, and how long that takes. Other documents can be read.
func TestSpoiled(t *testing.T) {
	n := &calm{}
	play(n, func(e *engine.Engine, p *Pair) []string {
		db := p.net.Server("s").DB("a")
		ask := func(op peer.Op) string {
			began := e.Now()
			reply := p.Do(context.Background(), 2, op)
			word := fmt.Sprintf("%+v", reply.Result)
			if f := reply.Failure; f != nil {
				word = f.Kind.String() + f.Error
			}
			return fmt.Sprintf("%s late %v", word, e.Now().Sub(began) >= patience)
		}
		rev := db.Latest("a").Rev.String()
		for how, want := range map[damage][2]string{
			torn:   {"statusunknown_error late false", "{Found:true} late false"},
			barred: {"statusunknown_error late false", "statusunknown_error late false"},
			slow:   {"timeout late true", "timeout late true"},
			absent: {
				"{Docs:[{ID:a Rev: Deleted:false Body:[] TooLarge:false}]} late false", "{Found:false} late false",
			},
		} {
			Repair(db)
			db.sound = false
			db.set(db.Latest("a"), how)
			got := [2]string{
				ask(peer.ReadDocs{IDs: []string{"a"}, Budget: 1000}), ask(peer.FindRev{ID: "a", Revs: []string{rev}}),
			}
			if got != want || !Unreadable(db, "a") || Unreadable(db, "b") {
				t.Errorf("%d: answered %q, want %q", how, got, want)
			}
			if b := ask(peer.ReadDocs{IDs: []string{"b"}, Budget: 1000}); !strings.Contains(b, "Rev:1-") {
				t.Errorf("%d: of another document: %s", how, b)
			}
		}
		return nil
	})
	ways := map[damage]bool{}
	for _, c := range "0123" {
		var s damaged
		d := &docs.Document{ID: "d", Rev: revtree.Rev{Gen: 1, ID: string(c)}}
		s.spoil(nil)
		s.spoil(d)
		ways[s.how(d)] = true
	}
	if len(ways) != 4 || ways[0] {
		t.Errorf("documents are damaged in the ways %v", ways)
	}
}
