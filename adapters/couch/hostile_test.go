package couch

import (
	"io"
	"net/http"
	"reflect"
	"sync/atomic"
	"testing"

	"couchrelay/core/peer"

	"pgregory.net/rapid"
)

// answered is an operation and an answer to it that is right.
var answered = []struct {
	op     peer.Op
	kind   string
	answer string
}{
	{peer.Open{}, "application/json", `{"update_seq":"5-x","instance_start_time":"17"}`},
	{peer.ReadChanges{Since: peer.Zero, Limit: 100}, "application/json", feedOf(rowA, rowB)},
	{peer.DiffRevs{Docs: []peer.DocRevs{{ID: "a", Revs: []string{"1-a"}}}}, "application/json",
		`{"a":{"missing":["1-a"],"possible_ancestors":["1-x"]}}`},
	{peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"}, {ID: "c", Rev: "1-c"}}, Budget: 1000},
		"application/json",
		`{"results":[{"id":"a","docs":[{"ok":` + docA + `}]},{"id":"c","docs":[{"ok":` + docC + `}]}]}`},
	{peer.CopyDoc{ID: "doc", Revs: []string{"2-b", "3-c", "1-x"}}, `multipart/mixed; boundary="outer"`,
		new(mixed).part(docWith("2-b", attText, attZip), attText,
			attZip).part(docWith("3-c")).missing("1-x").end()},
	{peer.CopyDoc{ID: "doc", Revs: []string{"2-b", "1-x"}}, "application/json",
		`[{"ok":` + docWith("2-b") + `},{"missing":"1-x"}]`},
	{peer.GetLocal{ID: "x"}, "application/json", `{"_id":"_local/x","_rev":"0-1","a":1}`},
}

// script is an answer in pieces.
type script struct {
	kind   string
	pieces []string
}

// scripted answers everything but PUT with the script that is next.
type scripted struct{ next atomic.Pointer[script] }

func (s *scripted) serve(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err == nil && r.Method == "PUT" {
		says(201, `{"ok":true}`)(w, r)
		return
	}
	now := s.next.Load()
	w.Header().Set("Content-Type", now.kind)
	for _, piece := range now.pieces {
		_, _ = io.WriteString(w, piece)
		w.(http.Flusher).Flush()
	}
}

// TestHostileBytes damages right answers in every way: every operation still returns, with a result or a
// failure of a fitting kind.
func TestHostileBytes(t *testing.T) {
	var s scripted
	inRig(t, s.serve, s.serve, func(r *rig) {
		rapid.Check(struct{ testing.TB }{r.t}, func(t *rapid.T) {
			c := rapid.SampledFrom(answered).Draw(t, "operation")
			answer := []byte(c.answer)
			for range rapid.IntRange(1, 4).Draw(t, "damages") {
				at := rapid.IntRange(0, len(answer)).Draw(t, "at")
				to := rapid.IntRange(at, min(len(answer), at+40)).Draw(t, "to")
				with := rapid.OneOf(
					rapid.SliceOfN(rapid.Byte(), 0, 5),
					rapid.Just([]byte(`"`)), rapid.Just([]byte(`null`)), rapid.Just([]byte(`-1e999`)),
					rapid.Just([]byte("\r\n--outer")),
					rapid.Just([]byte(`[{`)), rapid.Just([]byte(`{"error":"x"}`)), rapid.Just(answer[at:to]),
				).Draw(t, "with")
				answer = append(append(append([]byte(nil), answer[:at]...), with...), answer[to:]...)
			}
			s.next.Store(&script{c.kind, []string{string(answer)}})
			reply := r.do(c.op)
			if reply.Result == nil && reply.Failure == nil {
				t.Fatalf("neither result nor failure")
			}
			if f := reply.Failure; f != nil && f.Kind != peer.Malformed && f.Kind != peer.Broken &&
				f.Kind != peer.Status {
				t.Fatalf("%s", f)
			}
		})
	})
}

// TestPieces sends right answers in pieces of any size: the result does not depend on where packets end.
func TestPieces(t *testing.T) {
	var s scripted
	inRig(t, s.serve, s.serve, func(r *rig) {
		rapid.Check(struct{ testing.TB }{r.t}, func(t *rapid.T) {
			c := rapid.SampledFrom(answered).Draw(t, "operation")
			s.next.Store(&script{c.kind, []string{c.answer}})
			want := r.do(c.op)
			var pieces []string
			for rest := c.answer; rest != ""; rest = rest[len(pieces[len(pieces)-1]):] {
				pieces = append(pieces, rest[:rapid.IntRange(1, min(len(rest), 100)).Draw(t, "size")])
			}
			s.next.Store(&script{c.kind, pieces})
			if got := r.do(c.op); want.Failure != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v %v, whole %+v %v", got.Result, got.Failure, want.Result, want.Failure)
			}
		})
	})
}
