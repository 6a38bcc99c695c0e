package couch

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"couchrelay/core/peer"
)

// TestFindRevThatIsForgotten: of a document that has been edited more than revs_limit times since, the source does not
// know the revision any more. Each leaf stands for one revision.
func TestFindRevThatIsForgotten(t *testing.T) {
	const leaf = `{"ok":{"_id":"a","_rev":"%d-%s","_revisions":{"start":%d,"ids":[%s]}}}`
	edited := func(n int, ids string) string {
		all := strings.Split(ids, "")
		return fmt.Sprintf(leaf, n, all[0], n, `"`+strings.Join(all, `","`)+`"`)
	}
	var leaves string
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("open_revs") != "all" {
			says(200, `[{"missing":"5-x"},{"missing":"2-y"}]`)(w, r)
			return
		}
		accepts := r.Header.Get("Accept") // without it CouchDB answers in parts
		if r.RequestURI != "/db/a?open_revs=all&revs=true" || accepts != "application/json" {
			t.Errorf("asked %s, for %q", r.RequestURI, accepts)
		}
		says(map[bool]int{true: 200, false: 404}[leaves[0] == '['], leaves)(w, r)
	}, nil, func(r *rig) {
		for answer, found := range map[string]bool{
			edited(9, "ihg") + "," + edited(7, "mlk"):               true,
			edited(7, "gfxd") + "," + edited(7, "mlk"):              true, // one of them is known by now
			edited(9, "ihgfedcya") + `,{"missing":"1-z"}`:           false,
			edited(4, "ml") + "," + edited(9, "ihg"):                true,
			edited(5, "xd") + "," + edited(2, "y"):                  true,
			edited(9, "ihg"):                                        false, // the other leaf is gone
			edited(5, "xd") + "," + edited(2, "z"):                  false,
			edited(5, "x"):                                          false,
			edited(9, "ihgfe") + "," + edited(9, "mlkjo"):           false, // 5-x has never been there
			edited(9, "ihgfed") + "," + edited(9, "mlk"):            true,
			edited(4, "dc") + "," + edited(4, "ml"):                 false, // a backup
			edited(6, "fedcba") + "," + edited(4, "mlkj"):           false, // made anew
			`{"ok":{"_id":"a","_rev":"9-i"}}`:                       false,
			`{"ok":{"_id":"a","_rev":"9-i","_revisions":[9]}},null`: false,
			"": false,
		} {
			leaves = "[" + answer + "]"
			op := peer.FindRev{ID: "a", Revs: []string{"5-x", "2-y"}}
			if got := must[peer.RevFound](r, op); got.Found != found {
				t.Errorf("%s: found %t", answer, got.Found)
			}
		}
		leaves = `{"error":"not_found","reason":"deleted"}`
		if must[peer.RevFound](r, peer.FindRev{ID: "a", Revs: []string{"5-x"}}).Found {
			t.Error("found in no document")
		}
		leaves = "[" + edited(9, "i") + "," + edited(9, "k")
		op := peer.FindRev{ID: "a", Revs: []string{"5-x"}}
		if f := r.do(op).Failure; f == nil || f.Kind != peer.Broken {
			t.Errorf("an answer that breaks off: %v", f)
		}
		leaves = "[" + edited(9, "i") + "]"
		if must[peer.RevFound](r, peer.FindRev{ID: "a", Revs: []string{"x"}}).Found {
			t.Error("found what is no revision")
		}
		leaves = "[" + edited(2, "bx") + "]"
		if !must[peer.RevFound](r, peer.FindRev{ID: "a", Revs: []string{"1-x"}}).Found {
			t.Error("the first revision of all is not found in the history")
		}
	})
}

// TestFindRevThatCannotBeRead: a source that fails on a document, or breaks off its answer, may know all the same that
// it has the revisions. That it lacks them it has to say of the document itself.
func TestFindRevThatCannotBeRead(t *testing.T) {
	for _, unread := range []http.HandlerFunc{
		says(500, `{"error":"error","reason":"eacces"}`),
		raw("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n[{\"ok\":{"),
		says(200, `[{"ok":{"_id":?}}]`), says(200, `{"_id":"a"}`),
	} {
		for _, c := range []struct {
			status int
			answer string
			found  bool
		}{{200, `{}`, true}, {200, `{"a":{"missing":["1-x"]}}`, false}, {405, `{}`, false}} {
			inRig(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/db/_revs_diff" {
					says(c.status, c.answer)(w, r)
					return
				}
				unread(w, r)
			}, nil, func(r *rig) {
				reply := r.do(peer.FindRev{ID: "a", Revs: []string{"1-x"}})
				if has, _ := reply.Result.(peer.RevFound); has.Found != c.found || (reply.Failure == nil) != c.found {
					t.Errorf("%d %s: found %t, and failed with %v", c.status, c.answer, has.Found, reply.Failure)
				}
			})
		}
	}
}

// TestFindRevRefused: a firewall refuses a document for its contents. So the source is asked whether it has the
// revisions by a question that sends no contents.
func TestFindRevRefused(t *testing.T) {
	for _, c := range []struct {
		word, answer string
		status       int
		found, fails bool
	}{
		{``, `{}`, 200, true, false}, {``, `{"a":{"missing":["1-x"]}}`, 200, false, false},
		{``, `{}`, 403, false, true}, {`{"error":"forbidden"}`, `{}`, 200, false, true},
	} {
		inRig(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				says(c.status, c.answer)(w, r)
				return
			}
			says(403, c.word)(w, r)
		}, nil, func(r *rig) {
			reply := r.do(peer.FindRev{ID: "a", Revs: []string{"1-x"}})
			if has, _ := reply.Result.(peer.RevFound); has.Found != c.found || (reply.Failure != nil) != c.fails {
				t.Errorf("%+v: found %t, and failed with %v", c, has.Found, reply.Failure)
			}
		})
	}
}

// TestFindRevBehindDecoder: a proxy that decodes %2F in paths asks for an attachment of another document. Whether the
// source has the revisions is then asked in a body, unless it takes none.
func TestFindRevBehindDecoder(t *testing.T) {
	for _, c := range []struct {
		id, answer   string
		status       int
		found, fails bool
	}{
		{"a/b", `{}`, 200, true, false}, {"a/b", `{"a/b":{"missing":["1-x"]}}`, 200, false, false},
		{"a/b", `{}`, 401, false, false}, {"a/b", `{}`, 403, false, false}, {"a/b", `{}`, 405, false, false},
		{"a/b", `{}`, 503, false, true},
		{"a", `{}`, 200, false, false}, {"_design/b", `{}`, 200, false, false},
	} {
		inRig(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				says(c.status, c.answer)(w, r)
				return
			}
			says(404, `{"error":"not_found","reason":"Document is missing attachment"}`)(w, r)
		}, nil, func(r *rig) {
			reply := r.do(peer.FindRev{ID: c.id, Revs: []string{"1-x"}})
			got, _ := reply.Result.(peer.RevFound)
			if got.Found != c.found || (reply.Failure != nil) != c.fails {
				t.Errorf("%+v: found %t, %v", c, got.Found, reply.Failure)
			}
		})
	}
}
