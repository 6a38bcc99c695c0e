package couch

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// TestNoDocIDs: a source that refuses POST _changes once is asked for all changes from then on.
func TestNoDocIDs(t *testing.T) {
	var asked []string
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RawQuery)
		if r.Method == http.MethodPost {
			says(405, `{"error":"method_not_allowed"}`)(w, r)
			return
		}
		says(200, numbered(1, 25))(w, r)
	}, nil, func(r *rig) {
		got := must[peer.Changes](r, peer.ReadChanges{Since: "0", Limit: 1})
		if len(got.Rows) != 1 || got.Rows[0].ID != "doc12" || got.End {
			t.Errorf("%+v", got)
		}
		got = must[peer.Changes](r, peer.ReadChanges{Since: got.LastSeq, Limit: 10})
		if len(got.Rows) != 0 || !got.End || got.LastSeq != "25" {
			t.Errorf("%+v", got)
		}
		must[peer.Changes](r, peer.ReadChanges{Since: "0", Limit: 10})
		want := "[POST filter=_doc_ids&feed=normal&heartbeat=10000&style=all_docs&since=0 " +
			"GET feed=normal&heartbeat=10000&style=all_docs&since=0 " +
			"GET feed=normal&heartbeat=10000&style=all_docs&since=0]"
		if fmt.Sprint(asked) != want {
			t.Errorf("asked %v", asked)
		}
	}, func(rep *spec.Replication) {
		rep.Filter = spec.Filter{Kind: spec.DocIDs, DocIDs: []string{"doc12", "doc99"}}
	})
}

// TestOnlyDocIDs: no row of another document comes, whatever the source makes of the list, be it too long for a proxy
// or one that lets us read only, and none if it is empty.
func TestOnlyDocIDs(t *testing.T) {
	for _, post := range []int{200, 401, 403, 405, 413} {
		for _, ids := range [][]string{nil, {"doc12", "doc3"}, {"doc3", "doc1", "doc20"}} {
			inRig(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost && post != 200 {
					says(post, `{"error":"method_not_allowed"}`)(w, r)
					return
				}
				says(200, numbered(1, 25))(w, r)
			}, nil, func(r *rig) {
				got := must[peer.Changes](r, peer.ReadChanges{Since: "0", Limit: 10})
				var came []string
				for _, row := range got.Rows {
					came = append(came, row.ID)
				}
				slices.Sort(came)
				if !slices.Equal(came, slices.Sorted(slices.Values(ids))) || !got.End || got.LastSeq != "25" {
					t.Errorf("POST answers %d: %v of %v, %+v", post, came, ids, got)
				}
			}, func(rep *spec.Replication) { rep.Filter = spec.Filter{Kind: spec.DocIDs, DocIDs: ids} })
		}
	}
}

// TestUnwantedThatBreaks: an answer that breaks off behind changes of other documents tells how far it came.
func TestUnwantedThatBreaks(t *testing.T) {
	inRig(t, says(200, `{"results":[`+rowA+","+rowB), nil, func(r *rig) {
		reply := r.do(peer.ReadChanges{Since: "0", Limit: 10})
		got, _ := reply.Result.(peer.Changes)
		if f := reply.Failure; f == nil || f.Kind != peer.Broken || len(got.Rows) > 0 || got.LastSeq != `"2-y"` {
			t.Errorf("%+v, %v", got, f)
		}
	}, func(rep *spec.Replication) { rep.Filter = spec.Filter{Kind: spec.DocIDs, DocIDs: []string{"c"}} })
}

// TestLockedOutOfChanges: a source that shows no changes at all for a while is asked for those of the documents again.
func TestLockedOutOfChanges(t *testing.T) {
	locked, asked := true, ""
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		if asked += r.Method + " "; locked {
			says(403, `{"error":"forbidden"}`)(w, r)
			return
		}
		says(200, numbered(1, 25))(w, r)
	}, nil, func(r *rig) {
		if f := r.do(peer.ReadChanges{Since: "0", Limit: 10}).Failure; f == nil || f.Status != 403 {
			t.Errorf("%v", f)
		}
		locked = false
		must[peer.Changes](r, peer.ReadChanges{Since: "0", Limit: 10})
		if asked != "POST GET POST " {
			t.Errorf("asked %s", asked)
		}
	}, func(rep *spec.Replication) { rep.Filter = spec.Filter{Kind: spec.DocIDs, DocIDs: []string{"doc12"}} })
}
