package couch

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"couchrelay/core/peer"
)

// attachedDoc returns a document in its third revision with attachments.
func attachedDoc(attachments ...string) string {
	return `{"_id":"a","_rev":"3-c","_revisions":{"start":3,"ids":["c","b","a"]},"_attachments":{` +
		strings.Join(attachments, ",") + `}}`
}

// Attachments of it as servers describe and send them: new came with the third revision, old with the second.
const (
	newStub = `"new":{"content_type":"text/plain","revpos":3,"digest":"md5-x","length":1000,"stub":true}`
	newData = `"new":{"content_type":"text/plain","revpos":3,"digest":"md5-x","data":"aGk="}`
	oldStub = `"old":{"content_type":"text/plain","revpos":2,"digest":"md5-x","length":10,"stub":true}`
	oldData = `"old":{"content_type":"text/plain","revpos":2,"digest":"md5-x","data":"aGk="}`
)

// TestInline: a document is taken when all that the target lacks of it is inside, and else told of with the
// size that it would have.
func TestInline(t *testing.T) {
	const newSize, oldSize = 1336, 16 // as base64
	huge := fmt.Sprintf(`"f":{"revpos":3,"length":%d,"stub":true}`, int64(1)<<52)
	for _, c := range []struct {
		name   string
		doc    string
		since  []string
		first  int // what the document would have beyond what came; -1 if it must not be read in bulk
		inside bool
	}{
		{"a stub", attachedDoc(newStub), nil, newSize, false},
		{"two stubs", attachedDoc(newStub, oldStub), nil, newSize + oldSize, false},
		{"one is there", attachedDoc(newStub, oldStub), []string{"2-b"}, newSize, false},
		{"both are there", attachedDoc(newStub, oldStub), []string{"3-c"}, 0, true},
		{"an older revision is there", attachedDoc(oldStub), []string{"1-a"}, oldSize, false},
		{"another branch is there", attachedDoc(oldStub), []string{"2-x", "9-b"}, oldSize, false},
		{"data", attachedDoc(newData), nil, 0, true},
		{"data and a stub that is there", attachedDoc(oldStub, newData), []string{"x", "2-b"}, 0, true},
		{"data and a stub that is not", attachedDoc(oldStub, newData), nil, oldSize, false},
		{"all data, though one is there", attachedDoc(oldData, newData), []string{"2-b"}, 0, true},
		{"follows", attachedDoc(`"f":{"revpos":3,"length":10,"follows":true}`), nil, -1, false},
		{"no length", attachedDoc(`"f":{"revpos":3,"stub":true}`), nil, -1, false},
		{"a negative length", attachedDoc(`"f":{"revpos":3,"length":-5,"stub":true}`), nil, -1, false},
		{"a huge length", attachedDoc(huge), nil, -1, false},
		{"many large ones", attachedDoc(strings.Repeat(`"f":{"length":100000000,"stub":true},`, 200) + newData),
			nil, -1, false},
		{"no revpos", attachedDoc(`"f":{"length":3,"stub":true}`), []string{"3-c"}, 4, false},
		{"revpos 0", attachedDoc(`"f":{"revpos":0,"length":3,"stub":true}`), []string{"3-c"}, 4, false},
		{"encoded stub", attachedDoc(`"f":{"revpos":3,"length":3,"encoding":"gzip","encoded_length":30,` +
			`"stub":true}`), nil, -1, false},
		{"encoded data", attachedDoc(`"f":{"revpos":3,"encoding":"gzip","data":"aGk="}`), nil, -1, false},
		{"encoded stub that is there", attachedDoc(newData, `"f":{"revpos":2,"length":3,"encoding":"gzip",`+
			`"encoded_length":30,"stub":true}`), []string{"2-b"}, 0, true},
		{"identity", attachedDoc(`"f":{"revpos":3,"encoding":"identity","data":"aGk="}`), nil, 0, true},
		{"data and a stub in one", attachedDoc(`"f":{"revpos":3,"stub":true,"data":"aGk=","length":1}`),
			nil, -1, false},
		{"data that is no text", attachedDoc(`"f":{"revpos":3,"data":{}}`), nil, -1, false},
		{"neither", attachedDoc(`"f":{"revpos":3,"length":3}`), nil, -1, false},
		{"no object", attachedDoc(`"f":17`), nil, -1, false},
	} {
		for _, inline := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, " ", inline), func(t *testing.T) {
				want := peer.FetchedDoc{Fate: peer.Attachments}
				if c.first >= 0 {
					want.Size = len(c.doc) + c.first
				}
				if inline && c.inside {
					want = peer.FetchedDoc{Fate: peer.Taken, Size: len(c.doc), Rev: "3-c"}
				}
				answer := `{"results":[{"id":"a","docs":[{"ok":` + c.doc + `}]}]}`
				inRig(t, says(200, answer), nil, func(r *rig) {
					docs := []peer.DocRev{{ID: "a", Rev: "3-c", Since: c.since}}
					op := peer.FetchDocs{Docs: docs, Budget: 10_000, Attachments: inline}
					got := must[peer.Fetched](r, op).Docs
					if got[0] != want {
						t.Errorf("%+v, want %+v", got[0], want)
					}
					kept := r.pair.kept[1][0]
					if (kept != nil) != (want.Fate == peer.Taken) || kept != nil && string(kept) != c.doc {
						t.Errorf("kept %s", kept)
					}
				})
			})
		}
	}
}

// TestInlineLarger: a document that is larger than all that was asked for is left to be copied alone, though it
// is the first; others stay within the budget as ever.
func TestInlineLarger(t *testing.T) {
	body := func(id string, size int) string {
		return fmt.Sprintf(`{"id":%q,"docs":[{"ok":{"_id":%q,"_rev":"1-a","_attachments":{"f":{"data":%q}}}}]},`,
			id, id, strings.Repeat("x", size))
	}
	for answer, want := range map[string]string{
		body("a", 5000) + body("b", 100):                                   "[2 1 4]", // c is left out
		body("a", 900) + body("b", 900) + body("c", 900):                   "[1 1 0]",
		body("a", 100) + body("b", 5000) + body("c", 100):                  "[1 2 1]",
		body("a", 100) + body("b", 100) + strings.Repeat(body("c", 9), 20): "[1 1 1]",
	} {
		answer = `{"results":[` + strings.TrimSuffix(answer, ",") + `]}`
		inRig(t, says(200, answer), nil, func(r *rig) {
			op := peer.FetchDocs{Budget: 1500, Attachments: true}
			for _, id := range []string{"a", "b", "c"} {
				op.Docs = append(op.Docs, peer.DocRev{ID: id, Rev: "1-a"})
			}
			var fates []peer.Fate
			for _, d := range must[peer.Fetched](r, op).Docs {
				fates = append(fates, d.Fate)
			}
			if got := fmt.Sprint(fates); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// TestInlineEndless: a source that sends far more than it has announced is cut off. What is allocated for it
// stays in proportion to what was asked for.
func TestInlineEndless(t *testing.T) {
	chunk := strings.Repeat("A", 1<<16)
	endless := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"results":[{"id":"a","docs":[{"ok":{"_id":"a","_rev":"1-a",`+
			`"_attachments":{"f":{"data":"`)
		for range 2000 { // 128 MiB
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, `"}}}}]}]}`)
	}
	inRig(t, endless, nil, func(r *rig) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		op := peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"}}, Budget: 1 << 20, Attachments: true}
		f := r.do(op).Failure
		runtime.ReadMemStats(&after)
		if f == nil || f.Kind != peer.Malformed || len(r.pair.kept) > 0 {
			t.Errorf("%v, kept %d", f, len(r.pair.kept))
		}
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 64<<20 {
			t.Errorf("took %d MiB", taken>>20)
		}
	})
}

// TestInlineWritten: the bytes of attachments go to the target as they came from the source, and its answer
// about a stub is told with status and words.
func TestInlineWritten(t *testing.T) {
	doc := attachedDoc(oldStub, newData)
	source := says(200, `{"results":[{"id":"a","docs":[{"ok":`+doc+`}]}]}`)
	for status, answer := range map[int]string{201: `[]`, 412: `{"error":"missing_stub","reason":"old"}`} {
		target := asked{"POST", "/db/_bulk_docs", `{"new_edits":false,"docs":[` + doc + `]}`, status, answer}
		inRig(t, source, target.serve(t), func(r *rig) {
			docs := []peer.DocRev{{ID: "a", Rev: "3-c", Since: []string{"2-b"}}}
			must[peer.Fetched](r, peer.FetchDocs{Docs: docs, Budget: 10_000, Attachments: true})
			f := r.do(peer.WriteDocs{Docs: []peer.Kept{{Fetch: 1}}}).Failure
			told := f != nil && f.Status == 412 && f.Error == "missing_stub"
			if fails := status == 412; told != fails || (f != nil) != fails {
				t.Errorf("%d is told as %v", status, f)
			}
		})
	}
}
