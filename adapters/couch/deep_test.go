package couch

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"couchrelay/core/peer"
)

// deepValue is nested deeper than JSON is read.
var deepValue = strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)

// TestCopyDocTooDeep: a revision that is nested too deep counts as refused, however the source sends it, and the others
// are copied.
func TestCopyDocTooDeep(t *testing.T) {
	deep := strings.Replace(docWith("3-c"), "1.0", deepValue, 1)
	docs := map[string]string{"1-a": docWith("1-a"), "3-c": deep, "2-b": docWith("2-b"), "4-d": deep}
	for name, answer := range map[string]func(revs []string) http.HandlerFunc{
		"parts": func(revs []string) http.HandlerFunc {
			m := new(mixed)
			for _, rev := range revs {
				m.part(docs[rev])
			}
			return saysMixed(m.end())
		},
		"array": func(revs []string) http.HandlerFunc {
			var list []string
			for _, rev := range revs {
				list = append(list, `{"ok":`+docs[rev]+`}`)
			}
			return says(200, "["+strings.Join(list, ",")+"]")
		},
	} {
		t.Run(name, func(t *testing.T) {
			target, asked := &writes{t: t}, 0
			inRig(t, func(w http.ResponseWriter, r *http.Request) {
				asked++
				var revs []string
				_ = json.Unmarshal([]byte(r.URL.Query().Get("open_revs")), &revs)
				answer(revs)(w, r)
			}, target.serve, func(r *rig) {
				revs := []string{"1-a", "3-c", "2-b", "4-d"}
				got := must[peer.Copied](r, peer.CopyDoc{ID: "doc", Revs: revs})
				refused := map[string]bool{}
				for _, rev := range got.Revs {
					v := rev.Refused
					refused[rev.Rev] = v != nil && v.Status == 413 && v.Rev == rev.Rev
				}
				want := map[string]bool{"1-a": false, "2-b": false, "3-c": true, "4-d": true}
				if !reflect.DeepEqual(refused, want) || len(target.list) != 2 || asked != 4 {
					t.Errorf("%+v, %d requests, wrote %+v", got.Revs, asked, target.list)
				}
			})
		})
	}
}

// TestFetchDocsTooDeep: a document that is nested too deep is left out, those before it are taken, and those behind it
// are asked for again.
func TestFetchDocsTooDeep(t *testing.T) {
	deep := `{"_id":"b","_rev":"1-a","x":` + deepValue + `}`
	answer := `{"results":[{"id":"a","docs":[{"ok":` + docA + `}]},{"id":"b","docs":[{"ok":` + deep + `}]},` +
		`{"id":"c","docs":[{"ok":{"_id":"c","_rev":"1-a"}}]}]}`
	inRig(t, says(200, answer), nil, func(r *rig) {
		op := peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"}, {ID: "b", Rev: "1-a"}, {ID: "c", Rev: "1-a"}}}
		op.Budget = 1 << 20
		var fates []peer.Fate
		for _, d := range must[peer.Fetched](r, op).Docs {
			fates = append(fates, d.Fate)
		}
		if want := []peer.Fate{peer.Taken, peer.Unreadable, peer.Left}; !slices.Equal(fates, want) {
			t.Errorf("%v", fates)
		}
	})
}

// TestFindRevOfDeepDocument: a revision that is nested too deep to be read is found nevertheless.
func TestFindRevOfDeepDocument(t *testing.T) {
	deep := `[{"ok":{"_id":"a","_rev":"1-x","x":` + deepValue + `}},`
	for answer, found := range map[string]bool{`{}`: true, `{"a":{"missing":["1-y"]}}`: false} {
		inRig(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/db/_revs_diff" {
				says(200, answer)(w, r)
				return
			}
			says(200, deep+`{"missing":"1-y"}]`)(w, r)
		}, nil, func(r *rig) {
			if got := must[peer.RevFound](r, peer.FindRev{ID: "a", Revs: []string{"1-x", "1-y"}}); got.Found != found {
				t.Errorf("%s: found %t", answer, got.Found)
			}
		})
	}
}
