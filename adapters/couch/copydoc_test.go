package couch

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

func TestCopyDoc(t *testing.T) {
	doc2, doc3 := docWith("2-b", attText, attZip, attNone), docWith("3-c")
	answer := new(mixed).part(doc2, attText, attZip, attNone).missing("1-x").part(doc3).end()
	target := &writes{t: t}
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		want := "/db/doc?open_revs=%5B%222-b%22%2C%221-x%22%2C%223-c%22%5D&revs=true&latest=true&" +
			"atts_since=%5B%221-a%22%5D"
		if r.Method != "GET" || r.RequestURI != want || r.Header.Get("Accept") != "multipart/mixed" {
			t.Errorf("asked %s %s", r.Method, r.RequestURI)
		}
		saysMixed(answer)(w, r)
	}, target.serve, func(r *rig) {
		got := must[peer.Copied](r,
			peer.CopyDoc{ID: "doc", Revs: []string{"2-b", "1-x", "3-c"}, Since: []string{"1-a"}})
		want := []peer.CopiedRev{{Rev: "2-b"}, {Rev: "1-x", Missing: true}, {Rev: "3-c"}}
		if !reflect.DeepEqual(got.Revs, want) || got.Bytes < int64(len(doc2)+len(doc3)) {
			t.Errorf("%+v", got)
		}
	})
	uri := "/db/doc?new_edits=false"
	want := []written{{uri, doc2, []att{attText, attZip, attNone}}, {uri, doc3, nil}}
	if !reflect.DeepEqual(target.list, want) {
		t.Errorf("wrote %+v\nwant  %+v", target.list, want)
	}
}

// TestCopyDocAccounts: the result lists every revision asked for, as missing if the answer did not mention
// it.
func TestCopyDocAccounts(t *testing.T) {
	newer := `{"_id":"doc","_rev":"4-d","_revisions":{"start":4,"ids":["d","c","b"]}}`
	for _, c := range []struct {
		name   string
		answer *mixed
		revs   []string
		want   []peer.CopiedRev
	}{
		{"nothing", new(mixed), []string{"2-b"}, []peer.CopiedRev{{Rev: "2-b", Missing: true}}},
		{"one of two", new(mixed).part(docWith("3-c")), []string{"2-b", "3-c"},
			[]peer.CopiedRev{{Rev: "3-c"}, {Rev: "2-b", Missing: true}}},
		{"newer leaf", new(mixed).part(newer), []string{"2-b"}, []peer.CopiedRev{{Rev: "4-d"}}},
		{"newer leaf of both", new(mixed).part(newer).part(newer), []string{"2-b", "3-c"},
			[]peer.CopiedRev{{Rev: "4-d"}, {Rev: "4-d"}}},
		{"other branch", new(mixed).part(newer), []string{"2-x"},
			[]peer.CopiedRev{{Rev: "4-d"}, {Rev: "2-x", Missing: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := &writes{t: t}
			inRig(t, saysMixed(c.answer.end()), target.serve, func(r *rig) {
				if got := must[peer.Copied](r,
					peer.CopyDoc{ID: "doc", Revs: c.revs}); !reflect.DeepEqual(got.Revs, c.want) {
					t.Errorf("%+v", got.Revs)
				}
			})
		})
	}
}

func cutAt(text, mark string) string { return text[:strings.LastIndex(text, mark)+len(mark)] }

// TestCopyDocBadSource: a broken answer of the source is a failure of the source, and the revisions before it
// are in the result.
func TestCopyDocBadSource(t *testing.T) {
	first := new(mixed).part(docWith("1-a")).end()
	start := strings.TrimSuffix(first, "--outer--")
	second := func(doc string, atts ...att) string {
		return start + strings.TrimPrefix(new(mixed).part(doc, atts...).end(), "\r\n")
	}
	long, short := attText, attText
	long.length, short.length = len(attText.data)-1, len(attText.data)+1
	for _, c := range []struct {
		name, answer string
		kind         peer.Kind
		reason       string
	}{
		{"cut in a header", start + "--outer\r\nContent-Ty", peer.Malformed, "malformed MIME header"},
		{"cut in a document", start + "--outer\r\nContent-Type: application/json\r\n\r\n{\"_id\":",
			peer.Broken, "EOF"},
		{"cut in an attachment", cutAt(second(docWith("2-b", attText), attText), "hello"),
			peer.Broken, "EOF"},
		{"no end", start, peer.Broken, "EOF"},
		{"longer attachment", second(docWith("2-b", long), attText), peer.Malformed,
			`attachment "text.txt" is longer`},
		{"shorter attachment", second(docWith("2-b", short), attText), peer.Malformed,
			`attachment "text.txt" is shorter`},
		{"no attachment", second(docWith("2-b", attText, attZip), attText), peer.Malformed,
			"announced but does not follow"},
		{"no attachment at all", second(docWith("2-b", attText)), peer.Malformed,
			`attachment "text.txt" is announced but does not follow`},
		{"no length", second(strings.Replace(docWith("2-b", attText), `"length"`, `"size"`, 1), attText),
			peer.Malformed, "has no length"},
		{"bad length", second(strings.Replace(docWith("2-b", attText), `"length":30`, `"length":-30`, 1),
			attText), peer.Malformed, "has no length"},
		{"attachment a string", second(`{"_id":"doc","_rev":"2-b","_attachments":{"a":"b"}}`, attText),
			peer.Malformed, "where an object was expected"},
		{"wrong document", second(`{"_id":"other","_rev":"2-b"}`), peer.Malformed,
			`answered document "other" instead`},
		{"wrong document in parts", second(strings.Replace(docWith("2-b", attText), "doc", "other", 1), attText),
			peer.Malformed, `answered document "other" instead`},
		{"no rev", second(`{"_id":"doc"}`), peer.Malformed, "without _id or _rev"},
		{"an array", second(`[]`), peer.Malformed, "where an object was expected"},
		{"an empty part", second(``), peer.Malformed, "answered an empty part"},
		{"not JSON", second(`<html>`), peer.Malformed, ""},
		{"no header", start + "--outer\r\nwhat is this?\r\n\r\n{}\r\n--outer--", peer.Malformed, "malformed"},
		{"many parts", start + strings.Repeat("--outer\r\n\r\n{\"missing\":\"9-z\"}\r\n", manyFor(2)) +
			"--outer--", peer.Malformed, "many more revisions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := func(w http.ResponseWriter, r *http.Request) {
				hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: multipart/mixed; boundary=outer\r\n\r\n"+c.answer).Close()
			}
			target := func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				says(201, `{"ok":true}`)(w, r)
			}
			inRig(t, answer, target, func(r *rig) {
				reply := r.do(peer.CopyDoc{ID: "doc", Revs: []string{"1-a", "2-b"}})
				if got := reply.Result.(peer.Copied).Revs; len(got) == 0 ||
					got[0] != (peer.CopiedRev{Rev: "1-a"}) || got[len(got)-1].Rev == "2-b" {
					t.Errorf("%+v", got)
				}
				f := reply.Failure
				if f == nil || f.Side != peer.Source || f.Kind != c.kind ||
					!strings.Contains(f.Reason, c.reason) {
					t.Errorf("%v", f)
				}
			})
		})
	}
}

// TestCopyDocVerdicts: an answer of the target that concerns one document is a refusal, one that concerns the
// server a failure.
func TestCopyDocVerdicts(t *testing.T) {
	for _, c := range []struct {
		status  int
		answer  string
		refused *peer.Refusal
		fails   bool
	}{
		{200, "[]", nil, false}, {201, `{"ok":true,"id":"doc","rev":"1-a"}`, nil, false},
		{202, `{"rev":"1-a"}`, nil, false}, {201, `{"ok":true,"id":"doc","rev":"1-A"}`, nil, false},
		{400, `{"error":"bad_request","reason":"Attachment name '_x' starts with prohibited character"}`,
			&peer.Refusal{ID: "doc", Rev: "1-a", Status: 400, Error: "bad_request",
				Reason: "Attachment name '_x' starts with prohibited character"}, false},
		{401, `{"error":"unauthorized","reason":"x"}`,
			&peer.Refusal{ID: "doc", Rev: "1-a", Status: 401, Error: "unauthorized", Reason: "x"}, false},
		{403, `{"error":"forbidden","reason":"x"}`,
			&peer.Refusal{ID: "doc", Rev: "1-a", Status: 403, Error: "forbidden", Reason: "x"}, false},
		{409, `{"error":"conflict"}`, &peer.Refusal{ID: "doc", Rev: "1-a", Status: 409, Error: "conflict"},
			false},
		{412, `{"error":"missing_stub","reason":"x"}`,
			&peer.Refusal{ID: "doc", Rev: "1-a", Status: 412, Error: "missing_stub", Reason: "x"}, false},
		{413, `<html>Too large`, &peer.Refusal{ID: "doc", Rev: "1-a", Status: 413,
			Reason: "answered HTML: Too large"}, false},
		{500, `{"error":"TypeError","reason":"{[]}"}`,
			&peer.Refusal{ID: "doc", Rev: "1-a", Status: 500, Error: "TypeError", Reason: "{[]}"}, false},
		{500, `{"error":"InternalError","reason":"{[]}"}`, nil, true},
		{500, `{"error":"unknown_error","reason":"no twos"}`,
			&peer.Refusal{ID: "doc", Rev: "1-a", Status: 500, Error: "unknown_error", Reason: "no twos"}, false},
		{500, `{"error":"unknown_error","reason":"badarg"}`, nil, true},
		{503, `{"error":"TypeError"}`, nil, true},
		{408, "{}", nil, true}, {429, "{}", nil, true}, {500, "{}", nil, true}, {503, "{}", nil, true},
		{304, "", nil, true},
	} {
		inRig(t, saysMixed(new(mixed).part(docWith("1-a")).part(docWith("2-b")).end()),
			func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if strings.Contains(string(body), "2-b") {
					says(201, `{"ok":true}`)(w, r)
					return
				}
				says(c.status, c.answer)(w, r)
			}, func(r *rig) {
				reply := r.do(peer.CopyDoc{ID: "doc", Revs: []string{"1-a", "2-b"}})
				got := reply.Result.(peer.Copied).Revs
				if f := reply.Failure; (f != nil) != c.fails ||
					f != nil && (f.Side != peer.Target || f.Kind != peer.Status || f.Status != c.status) {
					t.Errorf("%d: %v", c.status, f)
				}
				want := []peer.CopiedRev{{Rev: "1-a", Refused: c.refused}, {Rev: "2-b"}}
				if !c.fails && !reflect.DeepEqual(got, want) {
					t.Errorf("%d: %+v", c.status, got)
				}
			})
	}
}

// TestCopyDocTargetLies: a good status counts for nothing when the body does not say that the document
// was written.
func TestCopyDocTargetLies(t *testing.T) {
	for _, answer := range []string{
		"<html><title>Please log in</title></html>", "", "null", "{}", "17", `"ok"`, `{"ok":false}`,
		`{"ok":"true"}`, `{"rev":1}`, `{"rev":""}`, `{"id":"doc"}`,
		`[{"id":"doc","rev":"1-a","error":"forbidden"}]`, "[null]", `{"error":"forbidden","reason":"x"}`,
		`{"ok":true}{"ok":true}`,
		strings.Repeat(" ", maxSmall) + `{"ok":true}`,
		// Proxies that decode %2F in the path, or drop new_edits=false.
		`{"ok":true,"id":"d","rev":"1-a"}`, `{"ok":true,"id":"doc","rev":"1-b"}`, `{"rev":"2-a"}`,
	} {
		for _, status := range []int{200, 201, 202} {
			inRig(t, saysMixed(new(mixed).part(docWith("1-a")).end()), says(status, answer), func(r *rig) {
				reply := r.do(peer.CopyDoc{ID: "doc", Revs: []string{"1-a"}})
				if f := reply.Failure; f == nil || f.Side != peer.Target || f.Kind != peer.Malformed {
					t.Errorf("%d %s: %v", status, clip(answer, 60), f)
				}
				if got := reply.Result.(peer.Copied).Revs; len(got) != 0 {
					t.Errorf("%d %s: %+v", status, clip(answer, 60), got)
				}
			})
		}
	}
}

// TestCopyDocSplits: a request line is never too long; many revisions take several requests.
func TestCopyDocSplits(t *testing.T) {
	var revs, since []string
	for i := range 400 {
		revs, since = append(revs, fmt.Sprintf("2-%032x", i)), append(since, fmt.Sprintf("1-%032x", i))
	}
	for _, limit := range []int{8000, 3000, 300, 100, -3000, -100} {
		asked, status, oversized := map[string]int{}, 414, peer.Oversized
		if limit < 0 { // as servers in Node, which bound the line and the headers together
			limit, status, oversized = -limit, 431, peer.Status
		}
		longest := 0
		inRig(t, func(w http.ResponseWriter, r *http.Request) {
			line := len(r.Method + " " + r.RequestURI + " HTTP/1.1\r\n")
			if longest = max(longest, line); line > limit {
				says(status, `{"error":"x"}`)(w, r)
				return
			}
			var open []string
			_ = json.Unmarshal([]byte(r.URL.Query().Get("open_revs")), &open)
			answer := new(mixed)
			for _, rev := range open {
				asked[rev]++
				answer.part(fmt.Sprintf(`{"_id":"doc","_rev":%q}`, rev))
			}
			saysMixed(answer.end())(w, r)
		}, says(201, `{"ok":true}`), func(r *rig) {
			reply := r.do(peer.CopyDoc{ID: "doc", Revs: revs, Since: since})
			got := reply.Result.(peer.Copied)
			if limit == 100 {
				if reply.Failure == nil || reply.Failure.Kind != oversized {
					t.Errorf("limit %d, %d: %v", limit, status, reply.Failure)
				}
				return
			}
			if reply.Failure != nil || len(got.Revs) != len(revs) || len(asked) != len(revs) ||
				longest > maxRequestLine {
				t.Errorf("limit %d: %v, %d revisions, asked for %d, longest line %d", limit,
					reply.Failure, len(got.Revs), len(asked), longest)
			}
		})
	}
}

// TestCopyDocAsksShorter: after 414 the next request is shorter than the one that was too long.
func TestCopyDocAsksShorter(t *testing.T) {
	var revs, asked []string
	for i := range 20 {
		revs = append(revs, fmt.Sprintf("2-%032x", i))
	}
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		if asked = append(asked, r.RequestURI); len(r.RequestURI) > 900 {
			says(414, `{"error":"x"}`)(w, r)
			return
		}
		saysMixed(new(mixed).end())(w, r)
	}, nil, func(r *rig) {
		must[peer.Copied](r, peer.CopyDoc{ID: "doc", Revs: revs})
		if n := len(slices.Compact(slices.Clone(asked))); n != len(asked) || n < 3 {
			t.Errorf("%d requests, of which %d differ", len(asked), n)
		}
	})
}

// TestCopyDocInflates: a target that ignores Content-Encoding gets plain bytes.
func TestCopyDocInflates(t *testing.T) {
	plain := strings.Repeat("hello ", 1000/6) + "1234"
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, plain)
	z.Close()
	a := att{name: "a.txt", kind: "text/plain", encoding: "gzip", data: zipped.String()}
	target := &writes{t: t}
	inRig(t, saysMixed(new(mixed).part(docWith("2-b", a), a).end()),
		func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "GET" {
				says(200, `{"update_seq":1,"backend_adapter":"MemDOWN"}`)(w, r)
				return
			}
			target.serve(w, r)
		}, func(r *rig) {
			must[peer.Opened](r, peer.Open{Side: peer.Target})
			must[peer.Copied](r, peer.CopyDoc{ID: "doc", Revs: []string{"2-b"}})
		})
	want := []att{{name: "a.txt", kind: "text/plain", data: plain}}
	if len(target.list) != 1 || !reflect.DeepEqual(target.list[0].atts, want) ||
		strings.Contains(target.list[0].doc, "encod") || strings.Contains(target.list[0].doc, "digest") {
		t.Errorf("%+v", target.list)
	}
}

// TestCopyDocsTogether: copies that wait for slots on both sides do not deadlock.
func TestCopyDocsTogether(t *testing.T) {
	var now, most atomic.Int32
	source := func(w http.ResponseWriter, r *http.Request) {
		most.Store(max(most.Load(), now.Add(1)))
		time.Sleep(time.Millisecond) // in false time
		saysMixed(new(mixed).part(docWith("2-b", attText), attText).end())(w, r)
		now.Add(-1)
	}
	inRig(t, source, says(201, `{"ok":true}`), func(r *rig) {
		done := make(chan peer.Reply)
		for range 20 {
			go func() {
				done <- r.pair.Do(context.Background(), 1,
					peer.CopyDoc{ID: "doc", Revs: []string{"2-b"}})
			}()
			go func() { done <- r.pair.Do(context.Background(), 1, peer.Commit{Side: peer.Target}) }()
		}
		for range 40 {
			if reply := <-done; reply.Failure != nil {
				t.Errorf("%s", reply.Failure)
			}
		}
		if most.Load() != 1 || r.net.dials != 2 {
			t.Errorf("%d copies at one time, %d connections", most.Load(), r.net.dials)
		}
	}, func(rep *spec.Replication) { rep.Source.Connections, rep.Target.Connections = 1, 1 })
}

// TestHeaderNames: an attachment's name with line ends in it cannot add headers.
func TestHeaderNames(t *testing.T) {
	h := string(attachment{name: "a\r\nX: 1\"", contentType: "t\r\n\r\nbody",
		encoding: "g\nz", size: 5}.header("b"))
	want := "\r\n--b\r\nContent-Disposition: attachment; filename=\"a__X: 1\\\"\"\r\n" +
		"Content-Type: t____body\r\nContent-Length: 5\r\nContent-Encoding: g_z\r\n\r\n"
	if h != want {
		t.Errorf("%q", h)
	}
}

func TestFill(t *testing.T) {
	for limit := range 20 {
		for most := range 25 {
			if got := fill(limit, func(n int) bool { return n <= most }); got != min(limit, most) {
				t.Errorf("fill(%d) up to %d: %d", limit, most, got)
			}
		}
	}
}
