package couch

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/peer"
)

// leaves returns the names of n revisions.
func leaves(n int) []string {
	revs := make([]string, n)
	for i := range revs {
		revs[i] = fmt.Sprintf("2-%032x", i)
	}
	return revs
}

// TestManyLeaves: a document with hundreds of thousands of conflicts is read from the feed, compared and copied. Its
// row of the feed, and the answer of _revs_diff, have several MB each.
func TestManyLeaves(t *testing.T) {
	revs := leaves(200_000)
	row := `{"seq":1,"id":"doc","changes":[{"rev":"` + strings.Join(revs, `"},{"rev":"`) + `"}]}`
	feed := says(200, `{"results":[`+row+`],"last_seq":1}`)
	diff := says(200, `{"doc":{"missing":["`+strings.Join(revs, `","`)+`"]}}`)
	target := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		diff(w, r)
	}
	inRig(t, feed, target, func(r *rig) {
		rows := must[peer.Changes](r, peer.ReadChanges{Since: "0", Limit: 100}).Rows
		if len(rows) != 1 || !slices.Equal(rows[0].Revs, revs) {
			t.Fatalf("%d rows", len(rows))
		}
		docs := must[peer.Diff](r, peer.DiffRevs{Docs: []peer.DocRevs{{ID: "doc", Revs: revs}}}).Docs
		if len(docs) != 1 || !slices.Equal(docs[0].Missing, revs) {
			t.Errorf("%d documents", len(docs))
		}
		op := peer.CopyDoc{ID: "doc", Revs: revs, Since: revs}
		c := copying{pair: r.pair, op: op, line: maxRequestLine, left: revs}
		if r, n := c.fit(); n < 100 || c.length(r) > maxRequestLine {
			t.Errorf("asks for %d revisions", n)
		}
	})
}

// TestManyAncestors: of revisions that each have thousands of possible ancestors not all are named to the source.
func TestManyAncestors(t *testing.T) {
	since := leaves(10_000)
	op := peer.FetchDocs{Attachments: true}
	for range 1000 {
		op.Docs = append(op.Docs, peer.DocRev{ID: "doc", Rev: "3-a", Since: since})
	}
	body := string(bulkGetBody(op))
	if n := strings.Count(body, "atts_since"); n == 0 || len(body) > maxAncestors+100*len(op.Docs) {
		t.Errorf("a request of %d bytes, with the ancestors of %d", len(body), n)
	}
	if strings.Count(body, `"rev":"3-a"`) != len(op.Docs) {
		t.Error("not all revisions are asked for")
	}
}

// TestManyAttachments: a document may have tens of thousands of attachments.
func TestManyAttachments(t *testing.T) {
	for n, ok := range map[int]bool{20_000: true, maxAttachments: true, maxAttachments + 1: false} {
		var members []string
		for i := range n {
			members = append(members, fmt.Sprintf(`"%d":{"length":1,"follows":true}`, i))
		}
		list, err := readAttachments([]byte("{" + strings.Join(members, ",") + "}"))
		if (err == nil) != ok || ok && len(list) != n {
			t.Errorf("%d attachments of %d, %v", len(list), n, err)
		}
	}
}
