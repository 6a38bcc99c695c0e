package couch

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"couchrelay/core/peer"
)

// asked is what a server must be asked in a table test, and what it answers.
type asked struct {
	method, uri, body string
	status            int
	answer            string
}

func (a asked) serve(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.RequestURI == "/db/a?open_revs=all&revs=true" { // see TestFindRevThatIsForgotten
			says(http.StatusOK, "[]")(w, r)
			return
		}
		if r.Method != a.method || r.RequestURI != a.uri || string(body) != a.body {
			t.Errorf("asked\n%s %s %s\nwant\n%s %s %s", r.Method, r.RequestURI, body, a.method, a.uri, a.body)
		}
		log := r.Method == "PUT" && strings.HasPrefix(r.URL.Path, "/db/_local/")
		if log && r.Header.Get("X-Couch-Full-Commit") != "false" {
			t.Errorf("%s waits for a commit of its own", r.RequestURI)
		}
		says(a.status, a.answer)(w, r)
	}
}

// askedRev is how revision 1-x of document a is asked for.
const askedRev = `/db/a?open_revs=%5B%221-x%22%5D&latest=true`

// askedRevs is how revisions 1-x and 1-y of document a are asked for.
const askedRevs = `/db/a?open_revs=%5B%221-x%22%2C%221-y%22%5D&latest=true`

// askedNewest is how the newest change is asked for.
const askedNewest = `/db/_changes?descending=true&limit=1&style=all_docs`

// TestSmallOperations are those with one request and a small answer.
func TestSmallOperations(t *testing.T) {
	for _, c := range []struct {
		name string
		op   peer.Op
		asked
		want    peer.Result // nil when it fails
		failure string      // as printed, without method and URL
	}{
		{"open", peer.Open{}, asked{"GET", "/db/", "", 200,
			`{"update_seq":"5-x","instance_start_time":"17"}`},
			peer.Opened{UpdateSeq: `"5-x"`, InstanceStartTime: "17"}, ""},
		{"open numeric", peer.Open{},
			asked{"GET", "/db/", "", 200, `{"update_seq": 5, "instance_start_time": 1795244272817}`},
			peer.Opened{UpdateSeq: "5", InstanceStartTime: "1795244272817"}, ""},
		{"open BigCouch", peer.Open{}, asked{"GET", "/db/", "", 200, `{"update_seq": [5, "abc"]}`},
			peer.Opened{UpdateSeq: `[5,"abc"]`, InstanceStartTime: "0"}, ""},
		{"open nothing", peer.Open{},
			asked{"GET", "/db/", "", 404, `{"error":"not_found","reason":"no_db_file"}`},
			nil, "404 not_found: no_db_file"},
		{"open root", peer.Open{}, asked{"GET", "/db/", "", 200, `{"couchdb":"Welcome"}`},
			nil, "malformed_response: answered a server's greeting: the URL names no database"},
		{"open other JSON", peer.Open{}, asked{"GET", "/db/", "", 200, `{"a":1}`},
			nil, "malformed_response: answered JSON without update_seq, so it is not a database"},
		{"open array", peer.Open{}, asked{"GET", "/db/", "", 200, `[1]`}, nil,
			"malformed_response: answered JSON of another shape"},
		{"open HTML", peer.Open{},
			asked{"GET", "/db/", "", 200, "<!DOCTYPE html><title>Log in &amp; go\n</title><p>x"},
			nil, "malformed_response: answered HTML, not a CouchDB: Log in & go"},
		{"open HTML without title", peer.Open{},
			asked{"GET", "/db/", "", 200, "\n<html><script>var x</script><h1>It works!</h1></html>"},
			nil, "malformed_response: answered HTML, not a CouchDB: It works!"},
		{"open text", peer.Open{}, asked{"GET", "/db/", "", 200, "hello"}, nil,
			"malformed_response: answered something that is not JSON: hello"},
		{"open empty", peer.Open{}, asked{"GET", "/db/", "", 200, ""}, nil,
			"malformed_response: answered nothing"},
		{"error as HTML", peer.Open{},
			asked{"GET", "/db/", "", 502, "<html><head><title>502 Bad Gateway</title></head></html>"},
			nil, "502: answered HTML: 502 Bad Gateway"},
		{"error in odd types", peer.Open{}, asked{"GET", "/db/", "", 500, `{"error":{"x":1},"reason":["a"]}`},
			nil, `500 {"x":1}: ["a"]`},
		{"error echoes the password", peer.Open{},
			asked{"GET", "/db/", "", 401, `{"error":"unauthorized","reason":"not s3cr3t+pa/ss"}`},
			nil, "401 unauthorized: not *****"},

		{"create", peer.Create{Params: []peer.Param{{Name: "q", Value: "2"}, {Name: "n", Value: "a b&"}}},
			asked{"PUT", "/db/?q=2&n=a+b%26", "", 201, `{"ok":true}`}, peer.Created{}, ""},
		{"create existing", peer.Create{}, asked{"PUT", "/db/", "", 412, `{"error":"file_exists"}`},
			peer.Created{}, ""},
		{"create forbidden", peer.Create{},
			asked{"PUT", "/db/", "", 403, `{"error":"forbidden","reason":"no"}`}, nil, "403 forbidden: no"},

		{"commit", peer.Commit{},
			asked{"POST", "/db/_ensure_full_commit", "", 201, `{"ok":true,"instance_start_time":"0"}`},
			peer.Committed{InstanceStartTime: "0"}, ""},
		{"create HTML", peer.Create{}, asked{"PUT", "/db/", "", 200, "<html>"}, nil,
			"malformed_response: answered HTML"},
		{"create nothing", peer.Create{}, asked{"PUT", "/db/", "", 201, ""}, nil,
			"malformed_response: answered nothing"},
		{"create or not", peer.Create{}, asked{"PUT", "/db/", "", 201, `{"ok":false}`},
			nil, "malformed_response: answered JSON that does not say"},
		{"create null", peer.Create{}, asked{"PUT", "/db/", "", 201, `null`}, nil,
			"malformed_response: answered JSON that does not say"},

		{"commit without time", peer.Commit{},
			asked{"POST", "/db/_ensure_full_commit", "", 201, `{"ok":true}`},
			peer.Committed{InstanceStartTime: "0"}, ""},
		{"commit or not", peer.Commit{}, asked{"POST", "/db/_ensure_full_commit", "", 201, `{}`},
			nil, "malformed_response: answered JSON that does not say"},
		{"commit that failed", peer.Commit{}, asked{"POST", "/db/_ensure_full_commit", "", 201, `{"ok":false}`},
			nil, "malformed_response: answered JSON that does not say"},
		{"commit null", peer.Commit{}, asked{"POST", "/db/_ensure_full_commit", "", 201, `null`},
			nil, "malformed_response: answered JSON that does not say"},
		{"commit HTML", peer.Commit{}, asked{"POST", "/db/_ensure_full_commit", "", 200, "<html>"},
			nil, "malformed_response: answered HTML"},
		{"commit refused", peer.Commit{}, asked{"POST", "/db/_ensure_full_commit", "", 404, `{}`},
			nil, "404"},

		{"get local", peer.GetLocal{ID: "a+b/c"},
			asked{"GET", "/db/_local/a%2Bb%2Fc", "", 200, `{"_id":"_local/a","_rev":"0-3","x":1}`},
			peer.Local{Found: true, Rev: "0-3", Body: []byte(`{"_id":"_local/a","_rev":"0-3","x":1}`)}, ""},
		{"get local absent", peer.GetLocal{ID: "a"},
			asked{"GET", "/db/_local/a", "", 404, `{"error":"not_found","reason":"missing"}`},
			peer.Local{}, ""},
		{"get local of no database", peer.GetLocal{ID: "a"},
			asked{"GET", "/db/_local/a", "", 404, `{"error":"not_found","reason":"no_db_file"}`},
			nil, "404 not_found: no_db_file"},
		{"get local from a proxy", peer.GetLocal{ID: "a"},
			asked{"GET", "/db/_local/a", "", 404, `no such page`}, nil, "404: no such page"},
		{"get local no object", peer.GetLocal{ID: "a"}, asked{"GET", "/db/_local/a", "", 200, `[]`},
			nil, "malformed_response"},

		{"find rev", peer.FindRev{ID: "a", Revs: []string{"1-x"}},
			asked{"GET", askedRev, "", 200, `[{"ok":{"_id":"a/b","_rev":"2-y"}}]`},
			peer.RevFound{Found: true}, ""},
		{"find rev missing", peer.FindRev{ID: "a", Revs: []string{"1-x"}},
			asked{"GET", askedRev, "", 200, `[{"missing":"1-x"}]`}, peer.RevFound{}, ""},
		{"find rev that one node lacks", peer.FindRev{ID: "a", Revs: []string{"1-x"}},
			asked{"GET", askedRev, "", 200, `[{"ok":{"_id":"a/b","_rev":"2-y"}},{"missing":"1-x"}]`},
			peer.RevFound{Found: true}, ""},
		{"find revs", peer.FindRev{ID: "a", Revs: []string{"1-x", "1-y"}},
			asked{"GET", askedRevs, "", 200, `[{"ok":{"_id":"a/b","_rev":"2-y"}},{"ok":{"_id":"a/b","_rev":"1-y"}}]`},
			peer.RevFound{Found: true}, ""},
		{"find revs, the first missing", peer.FindRev{ID: "a", Revs: []string{"1-x", "1-y"}},
			asked{"GET", askedRevs, "", 200, `[{"missing":"1-x"},{"ok":{"_id":"a/b","_rev":"1-y"}}]`},
			peer.RevFound{}, ""},
		{"find revs, the last missing", peer.FindRev{ID: "a", Revs: []string{"1-x", "1-y"}},
			asked{"GET", askedRevs, "", 200, `[{"ok":{"_id":"a/b","_rev":"1-x"}},{"missing":"1-y"}]`},
			peer.RevFound{}, ""},
		{"find revs in an empty list", peer.FindRev{ID: "a", Revs: []string{"1-x", "1-y"}},
			asked{"GET", askedRevs, "", 200, `[]`}, peer.RevFound{}, ""},
		{"find rev of no document", peer.FindRev{ID: "a", Revs: []string{"1-x"}},
			asked{"GET", askedRev, "", 404, `{"error":"not_found","reason":"missing"}`},
			peer.RevFound{}, ""},
		{"find rev of no database", peer.FindRev{ID: "a", Revs: []string{"1-x"}},
			asked{"GET", askedRev, "", 404, `{"error":"not_found","reason":"no_db_file"}`},
			nil, "404 not_found: no_db_file"},

		{"newest", peer.ReadNewest{}, asked{"GET", askedNewest, "", 200,
			`{"results":[{"seq":"5-x","id":"a","changes":[{"rev":"2-x"},{"rev":"2-w"}]}],"last_seq":"4-x",` +
				`"pending":7}`},
			peer.NewestChange{Doc: peer.DocRevs{ID: "a", Revs: []string{"2-x", "2-w"}}}, ""},
		{"newest without limit", peer.ReadNewest{}, asked{"GET", askedNewest, "", 200,
			`{"results":[{"seq":5,"id":"a","changes":[{"rev":"2-x"}]},{"seq":4`},
			peer.NewestChange{Doc: peer.DocRevs{ID: "a", Revs: []string{"2-x"}}}, ""},
		{"newest of none", peer.ReadNewest{}, asked{"GET", askedNewest, "", 200, `{"results":[],"last_seq":"0"}`},
			peer.NewestChange{}, ""},
		{"newest without document", peer.ReadNewest{}, asked{"GET", askedNewest, "", 200,
			`{"results":[{"seq":5,"id":"","changes":[{"rev":"2-x"}]}]}`}, peer.NewestChange{}, ""},
		{"newest local document", peer.ReadNewest{}, asked{"GET", askedNewest, "", 200,
			`{"results":[{"seq":5,"id":"_local/a","changes":[{"rev":"0-1"}]}]}`}, peer.NewestChange{}, ""},
		{"newest without revision", peer.ReadNewest{}, asked{"GET", askedNewest, "", 200,
			`{"results":[{"seq":5,"id":"a","changes":[]}]}`}, peer.NewestChange{}, ""},
		{"newest broken off", peer.ReadNewest{}, asked{"GET", askedNewest, "", 200, `{"results":[`},
			nil, "connection_closed"},
		{"newest refused", peer.ReadNewest{}, asked{"GET", askedNewest, "", 403, `{}`}, nil, "403"},

		{"put local", peer.PutLocal{ID: "a", Body: []byte(`{"x":1}`)},
			asked{"PUT", "/db/_local/a", `{"_id":"_local/a","x":1}`, 201, `{"ok":true,"rev":"0-1"}`},
			peer.LocalWritten{Rev: "0-1"}, ""},
		{"put local again", peer.PutLocal{ID: "a", Rev: "0-1", Body: []byte(` {} `)},
			asked{"PUT", "/db/_local/a", `{"_id":"_local/a","_rev":"0-1"}`, 201, `{"ok":true,"rev":"0-2"}`},
			peer.LocalWritten{Rev: "0-2"}, ""},
		{"put local conflict", peer.PutLocal{ID: "a", Body: []byte(`{}`)},
			asked{"PUT", "/db/_local/a", `{"_id":"_local/a"}`, 409, `{"error":"conflict","reason":"x"}`}, nil,
			"409 conflict: x"},
		{"put local HTML", peer.PutLocal{ID: "a", Body: []byte(`{}`)},
			asked{"PUT", "/db/_local/a", `{"_id":"_local/a"}`, 200, `<html>`}, nil,
			"malformed_response: answered HTML"},
		{"put local without rev", peer.PutLocal{ID: "a", Body: []byte(`{}`)},
			asked{"PUT", "/db/_local/a", `{"_id":"_local/a"}`, 201, `{"ok":true}`}, nil,
			"malformed_response: answered no rev"},

		{"get filter", peer.GetFilter{DesignDoc: "a b", Name: "f"},
			asked{"GET", "/db/_design/a%20b", "", 200, `{"_rev":"2-a","filters":{"f":"function(){}"}}`},
			peer.Filter{Code: "function(){}", Rev: "2-a"}, ""},
		{"get filter absent", peer.GetFilter{DesignDoc: "d", Name: "f"},
			asked{"GET", "/db/_design/d", "", 200, `{"filters":{"g":""}}`},
			nil, "404 not_found: the design document has no filter function f"},
		{"get filter of a wrong type", peer.GetFilter{DesignDoc: "d", Name: "f"},
			asked{"GET", "/db/_design/d", "", 200, `{"filters":{"f":1}}`},
			nil, "404 not_found"},

		{"pending", peer.CountPending{Since: `"5-x"`},
			asked{"GET", "/db/_changes?since=5-x&limit=0", "", 200,
				`{"results":[],"last_seq":"5-x","pending":7}`},
			peer.Pending{Count: 7}, ""},
		{"pending unknown", peer.CountPending{Since: `"5-x"`},
			asked{"GET", "/db/_changes?since=5-x&limit=0", "", 200, `{"results":[]}`},
			peer.Pending{Count: -1}, ""},
		{"pending absurd", peer.CountPending{Since: `[1,"a"]`},
			asked{"GET", "/db/_changes?since=%5B1%2C%22a%22%5D&limit=0", "", 200, `{"pending":-4}`},
			peer.Pending{Count: -1}, ""},
		{"pending numeric", peer.CountPending{Since: "5"}, asked{"GET", "/db/", "", 200, `{"update_seq":12}`},
			peer.Pending{Count: 7}, ""},
		{"pending numeric behind", peer.CountPending{Since: "15"},
			asked{"GET", "/db/", "", 200, `{"update_seq":12}`}, peer.Pending{Count: 0}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, creates := c.op.(peer.Create)
			source, target := c.serve(t), http.HandlerFunc(nil)
			if creates {
				source, target = nil, source
			}
			inRig(t, source, target, func(r *rig) {
				reply := r.do(c.op)
				switch {
				case c.want != nil && reply.Failure != nil:
					t.Fatalf("failed: %s", reply.Failure)
				case c.want != nil && !reflect.DeepEqual(reply.Result, c.want):
					t.Fatalf("%+v, want %+v", reply.Result, c.want)
				case c.want == nil && reply.Failure == nil:
					t.Fatalf("%+v, want failure %s", reply.Result, c.failure)
				case c.want == nil:
					_, text, _ := strings.Cut(reply.Failure.String(), ": ")
					if !strings.HasPrefix(text, c.failure) {
						t.Fatalf("failure %q, want %q", text, c.failure)
					}
				}
			})
		})
	}
}

// TestPendingFromZeroOnACluster: the sequence 0 is a number on clusters too, where a difference to it means
// nothing.
func TestPendingFromZeroOnACluster(t *testing.T) {
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/db/" {
			says(200, `{"update_seq":"5-x"}`)(w, r)
		} else {
			says(200, `{"pending":5}`)(w, r)
		}
	}, nil, func(r *rig) {
		if got := must[peer.Pending](r, peer.CountPending{Since: peer.Zero}); got.Count != 5 {
			t.Errorf("%+v", got)
		}
	})
}

// TestLargeLog: a log of fifty entries, each with three sequences of a database with hundreds of shards, is
// read back.
func TestLargeLog(t *testing.T) {
	for size, fits := range map[int]bool{2 << 20: true, maxLog + 1: false} {
		log := `{"_id":"_local/a","_rev":"0-1","history":"` + strings.Repeat("x", size) + `"}`
		inRig(t, says(200, log), nil, func(r *rig) {
			reply := r.do(peer.GetLocal{ID: "a"})
			got, _ := reply.Result.(peer.Local)
			if fits && string(got.Body) != log || !fits && reply.Failure == nil {
				t.Errorf("%d bytes: %d are read, %v", size, len(got.Body), reply.Failure)
			}
		})
	}
}

// TestPendingOfAllChanges: a source to which a limit of 0 is none, as Sync Gateway, tells no number, and is not asked
// for its changes again and again.
func TestPendingOfAllChanges(t *testing.T) {
	asked := 0
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		all := strings.Repeat(rowA+",\n", 2*maxSmall/len(rowA)) + rowB
		says(200, `{"results":[`+all+`],"last_seq":"5:7"}`)(w, r)
	}, nil, func(r *rig) {
		if got := must[peer.Pending](r, peer.CountPending{Since: `"5:2"`}); got.Count != -1 || asked != 1 {
			t.Errorf("%+v, asked %d times", got, asked)
		}
	})
}

// TestFindRevOfLongID: a line that no server takes is not sent, since the answer would be the same for ever.
func TestFindRevOfLongID(t *testing.T) {
	id, has := strings.Repeat("日", 900), `{}`
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		if len(r.RequestURI) > 8000 {
			w.WriteHeader(http.StatusRequestURITooLong)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/db/_revs_diff" || string(body) != `{"`+id+`":["1-x","1-y"]}` {
			t.Errorf("asked %s %s", r.URL.Path, body)
		}
		says(200, has)(w, r)
	}, nil, func(r *rig) {
		for answer, found := range map[string]bool{`{}`: true, `{"` + id + `":{"missing":["1-y"]}}`: false} {
			has = answer
			if got := must[peer.RevFound](r, peer.FindRev{ID: id, Revs: []string{"1-x", "1-y"}}); got.Found != found {
				t.Errorf("%s: found %t", answer, got.Found)
			}
		}
	})
}

// TestFindRevAtItsPlace: a source with numbers that was filled again from a copy has the last change, and others before
// it. It may have been edited since, and then its number is in no feed any more.
func TestFindRevAtItsPlace(t *testing.T) {
	const row = `{"results":[{"seq":%s,"id":"%s","changes":[{"rev":"1-x"}]}],"last_seq":9}`
	var feed string
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.RequestURI {
		case askedRev:
			says(200, `[{"ok":{"_id":"a","_rev":"1-x"}}]`)(w, r)
		case "/db/_changes?since=4&limit=1":
			says(200, feed)(w, r)
		default:
			t.Errorf("asked %s", r.RequestURI)
		}
	}, nil, func(r *rig) {
		for answer, found := range map[string]bool{
			fmt.Sprintf(row, "5", "a"):        true,
			fmt.Sprintf(row, "7", "b"):        true,
			fmt.Sprintf(row, `"6:2"`, "b"):    true, // Sync Gateway, of a channel that was opened later
			fmt.Sprintf(row, "5", "b"):        false,
			`{"results":[],"last_seq":3}`:     false,
			`{"results":[],"last_seq":"4-x"}`: false,
		} {
			feed = answer
			op := peer.FindRev{ID: "a", Revs: []string{"1-x"}, At: "5"}
			if got := must[peer.RevFound](r, op); got.Found != found {
				t.Errorf("%s: found %t", answer, got.Found)
			}
		}
		feed = ""
		if !must[peer.RevFound](r, peer.FindRev{ID: "a", Revs: []string{"1-x"}}).Found {
			t.Error("without a number the feed is read")
		}
	})
}

// TestLogOnASlowLine: a log that takes longer than the timeout, and comes all the time, is read.
func TestLogOnASlowLine(t *testing.T) {
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"x":"`)
		for range 60 {
			_, _ = io.WriteString(w, strings.Repeat("x", 10<<10))
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Second)
		}
		_, _ = io.WriteString(w, `"}`)
	}, nil, func(r *rig) {
		if got := must[peer.Local](r, peer.GetLocal{ID: "x"}); len(got.Body) < 60*10<<10 {
			t.Errorf("%d bytes", len(got.Body))
		}
	})
}
