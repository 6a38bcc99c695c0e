package peers

import (
	"context"
	"slices"
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
	"couchrelay/sim/engine"
)

// TestUnreadable: a target that cannot read a document answers 400 to the bulk write and the question that it is in,
// and to its copy; a proxy has no word for that.
func TestUnreadable(t *testing.T) {
	ask := func(p *Pair, op peer.Op) string {
		reply := p.Do(context.Background(), 2, op)
		if got, is := reply.Result.(peer.Copied); is && got.Revs[0].Refused != nil {
			v := got.Revs[0].Refused
			reply.Failure = answer(v.Status, v.Error, "")
		}
		if f := reply.Failure; f != nil {
			return f.Error + " " + string(rune('0'+f.Status/100))
		}
		return "ok"
	}
	for _, word := range []string{"bad_request", ""} {
		got := play(&calm{}, func(_ *engine.Engine, p *Pair) []string {
			source, target := p.net.Server("s").DB("a"), p.net.Server("s").DB("b")
			target.Deny["b"] = &docs.Error{Kind: docs.Invalid, Name: word}
			p.kept[1] = []*docs.Document{source.Latest("a"), source.Latest("b")}
			question := func(ids ...string) (op peer.DiffRevs) {
				for _, id := range ids {
					op.Docs = append(op.Docs, peer.DocRevs{ID: id, Revs: []string{"1-0"}})
				}
				return op
			}
			return []string{
				ask(p, question("a", "b")), ask(p, question("a")),
				ask(p, peer.WriteDocs{Docs: []peer.Kept{{Fetch: 1, Index: 0}, {Fetch: 1, Index: 1}}}),
				ask(p, peer.WriteDocs{Docs: []peer.Kept{{Fetch: 1, Index: 0}}}),
				ask(p, peer.CopyDoc{ID: "b", Revs: []string{source.Latest("b").Rev.String()}}),
			}
		})
		fails := word + " 4"
		if want := []string{fails, "ok", fails, "ok", fails}; !slices.Equal(got, want) {
			t.Errorf("%q: answered %q, want %q", word, got, want)
		}
	}
}
