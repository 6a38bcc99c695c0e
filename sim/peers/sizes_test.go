package peers

import (
	"testing"

	"couchrelay/core/docs"
	"couchrelay/core/peer"
)

// TestSizes: what has documents is as large as these, and compressed a part of that.
func TestSizes(t *testing.T) {
	doc := &docs.Document{ID: "a", Body: make([]byte, 300), Attachments: []docs.Attachment{{Data: make([]byte, 300)}}}
	p := &Pair{kept: map[uint64][]*docs.Document{1: {doc, doc}}}
	kept := []peer.Kept{{Fetch: 1, Index: 0}, {Fetch: 1, Index: 1}}
	for _, c := range []struct {
		op   peer.Op
		want int
	}{
		{peer.WriteDocs{Docs: kept}, 1600},
		{peer.WriteDocs{Docs: kept, Gzip: true}, 400},
		{peer.EditDocs{Docs: []peer.NewEdit{{Body: make([]byte, 10)}}}, 10},
		{peer.DiffRevs{Docs: []peer.DocRevs{{Revs: []string{"1-a", "1-b"}}, {Revs: []string{"1-c"}}}}, 120},
		{peer.FetchDocs{Docs: make([]peer.DocRev, 3)}, 120},
		{peer.PutLocal{Body: make([]byte, 20)}, 20},
		{peer.Open{}, 0},
	} {
		if got := p.sent(c.op); got != c.want {
			t.Errorf("%s sends %d bytes, want %d", c.op, got, c.want)
		}
	}
	for _, c := range []struct {
		result peer.Result
		want   int
	}{
		{peer.Fetched{Docs: []peer.FetchedDoc{{Fate: peer.Taken, Size: 7}, {Fate: peer.Attachments, Size: 9}}}, 7},
		{peer.DocsRead{Docs: []peer.DocRead{{Body: make([]byte, 10)}}}, 10},
		{peer.Diff{Docs: []peer.DocMissing{{Missing: []string{"1-a"}}}}, 40},
		{peer.Local{Body: make([]byte, 20)}, 20},
		{peer.Opened{}, 0},
		{nil, 0},
	} {
		if got := brought(c.result); got != c.want {
			t.Errorf("%T brings %d bytes, want %d", c.result, got, c.want)
		}
	}
}
