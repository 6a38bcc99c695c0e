package couchdb

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/sim/fakefdb"

	"pgregory.net/rapid"
)

func TestLimits(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Limits = web.Limits{Document: 100, Attachment: 1000, Request: 2000} })
	long := strings.Repeat("x", 100)
	s.Fails(`PUT /db/a {"t":"`+long+`"}`, 413, "document_too_large", "")
	s.Fails(`POST /db {"_id":"b","t":"`+long+`"}`, 413, "document_too_large", "b")
	s.Fails(`POST /db/_bulk_docs {"docs":[{"_id":"b","t":"`+long+`"}]}`, 413, "document_too_large", "b")
	s.Fails(`PUT /db/a {"t":"`+strings.Repeat("x", 2000)+`"}`, 413, "too_large",
		"the request entity is too large: it may have 2000 bytes")
	s.Fails(`PUT /db/a/f `+strings.Repeat("x", 1001), 413, "attachment_too_large", "f")
	chunked := func(path, body string) string {
		return s.Text(s.Send("PUT", path, io.MultiReader(strings.NewReader(body))))
	}
	if got := chunked("/db/a/f", strings.Repeat("x", 1001)); got != `{"error":"attachment_too_large","reason":"f"}` {
		t.Errorf("chunked: %s", got)
	}
	want := `{"error":"too_large","reason":"the request entity is too large: it may have 2000 bytes"}`
	if got := chunked("/db/a", `{"t":"`+strings.Repeat("x", 2000)); got != want {
		t.Errorf("chunked: %s", got)
	}
	bomb := gzipped(strings.Repeat(" ", 1<<20))
	s.Fails("POST /db/_bulk_docs "+bomb, 413, "too_large", "the request entity is too large: it may have 2000 bytes",
		"Content-Encoding", "gzip")
	s.Want("PUT /db/a "+gzipped(`{"n":1}`), 201, `{"ok":true,"id":"a","rev":"1-*"}`, "Content-Encoding", "gzip")
	s.Want("GET /db/a", 200, `{"_id":"a","_rev":"1-*","n":1}`)
	s.Fails("PUT /db/a x", 400, "bad_request", "the request body cannot be read: unexpected EOF", "Content-Encoding",
		"gzip")
	s.Fails("PUT /db/a x", 415, "bad_content_type", "Only gzip and identity content-encodings are supported",
		"Content-Encoding", "br")
}

// TestPaths: whatever a path says, it names a database, a document and an attachment, or nothing.
func TestPaths(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		request string
		status  int
	}{
		{"GET /..", 404}, {"GET /../etc/passwd", 404}, {"GET /db/../db", 404}, {"GET /db/..", 404},
		{"GET /db/%2e%2e%2fx", 404}, {"GET /db//", 200}, {"GET //db", 200},
		{"GET /db/a/../../x", 404}, {"GET /%00", 404}, {"GET /db/%00", 404}, {"PUT /db/%ff {}", 400},
		{"PUT /db/_x {}", 400}, {"GET /db/%ff", 404},
		{"PUT /db/" + strings.Repeat("x", 5000) + " {}", 400}, {"GET /db/" + strings.Repeat("x", 9000), 404},
		{"GET /" + strings.Repeat("x", 20000), 404}, {"PUT /" + strings.Repeat("x", 20000), 400},
		{"GET /db/" + strings.Repeat("x", 9000) + "/f", 404}, {"GET /db/_local/" + strings.Repeat("x", 9000), 404},
		{"DELETE /db/" + strings.Repeat("x", 9000), 404},
		{"PUT /db/" + strings.Repeat("x", 4096) + " {}", 201}, {"PUT /db/%00%00 {}", 201},
		{"PUT /db/a%2Fb/c%2Fd x", 201}, {"GET /db/a%2Fb/c/d", 200}, {"GET /db/a%2Fb/c%2Fd", 200},
		{"PUT /db/.. {}", 201}, {"GET /db/..", 200}, {"PUT /db/a%0Ab {}", 201}, {"GET /db?x=%zz", 400},
		{"GET /db/a;b", 404}, {"GET /db?a;b", 400},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		path, body, _ := strings.Cut(path, " ")
		w := httptest.NewRecorder()
		s.Config.Handler.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		if w.Code != c.status || !json.Valid(w.Body.Bytes()) && c.status != 200 {
			t.Errorf("%.60s: %d %.200s, want %d", c.request, w.Code, w.Body, c.status)
		}
	}
}

// TestRaw sends what no client library would.
func TestRaw(t *testing.T) {
	s := newSite(t)
	for name, c := range map[string]struct {
		request string
		status  int
	}{
		"cut off body": {"PUT /db/a HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{\"a\":", 400},
		"cut off chunk": {"PUT /db/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{\"a\":",
			400},
		"bad chunk": {"PUT /db/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"zz\r\n{}\r\n0\r\n\r\n", 400},
		"cut off attachment": {"PUT /db/a/f HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nxxx", 400},
		"giant header":       {"GET /db/a HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n", 431},
		"bad escape":         {"GET /db/%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		"absolute":           {"GET http://other/db HTTP/1.1\r\nHost: h\r\n\r\n", 200},
		"no path":            {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 200},
		"broken accept":      {"GET /db HTTP/1.1\r\nHost: h\r\nAccept: ;;;,q=x/\xff\r\n\r\n", 200},
		"broken content type": {"PUT /db/b HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/related;;boundary\r\n" +
			"Content-Length: 2\r\n\r\n{}", 201},
		"broken if-none-match": {"GET /db HTTP/1.1\r\nHost: h\r\nIf-None-Match: ,,\"\r\n\r\n", 200},
		"long boundary": {"PUT /db/c HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/related; boundary=" +
			strings.Repeat("b", 5000) + "\r\nContent-Length: 2\r\n\r\n{}", 400},
		"expect": {"PUT /db/d HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}", 100},
	} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = io.WriteString(conn, c.request)
			if strings.HasPrefix(name, "cut off") {
				_ = conn.(*net.TCPConn).CloseWrite()
			}
		}()
		answers := bufio.NewReader(conn)
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			if name != "cut off body" && name != "cut off chunk" && name != "cut off attachment" {
				t.Errorf("%s: %v", name, err)
			}
		} else if answer.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", name, answer.StatusCode, c.status)
		} else if c.status == http.StatusContinue {
			if answer, err = http.ReadResponse(answers, nil); err != nil || answer.StatusCode != http.StatusCreated {
				t.Errorf("%s: afterwards %v, %v", name, answer, err)
			}
		}
		conn.Close()
	}
	s.Want(`GET /db/_all_docs`, 200,
		`{"total_rows":2,"offset":0,"rows":[`+"\n"+`{"id":"b","key":"b","value":{"rev":"1-*"}},`+"\r\n"+
			`{"id":"d","key":"d","value":{"rev":"1-*"}}`+"\n]}")
}

// TestHostileBodies sends random and damaged bodies everywhere: every answer is JSON with a status that
// blames the client, or a success.
func TestHostileBodies(t *testing.T) {
	s := newSite(t)
	seeds := []string{`{"docs":[{"_id":"a","_rev":"1-a"}],"new_edits":false}`,
		`{"docs":[{"id":"a","rev":"1-a","atts_since":["1-a"]}]}`, `{"a":["1-a"]}`,
		`{"keys":["a"]}`, `{"selector":{"a":1},"doc_ids":["a"]}`, `7`,
		`{"_attachments":{"f":{"data":"YQ==","follows":true,"length":1}}}`,
		multi(`{"_attachments":{"f":{"follows":true,"length":1}}}`, "x")}
	paths := []string{"POST /db", "PUT /db/x", "PUT /db/x?new_edits=false", "POST /db/_bulk_docs",
		"POST /db/_bulk_get", "POST /db/_revs_diff", "POST /db/_all_docs?include_docs=true",
		"POST /db/_changes?filter=_selector", "POST /db/_changes?filter=_doc_ids", "PUT /db/_security",
		"PUT /db/_revs_limit", "PUT /db/_local/x",
		"POST /db/_find", "POST /db/_explain", "POST /db/_missing_revs", "POST /db/_all_docs/queries",
		"POST /db/_local_docs",
		"POST /db/_changes?filter=d/f", "POST /_dbs_info", "POST /db/_compact", "POST /db/_index"}
	rapid.Check(t, func(t *rapid.T) {
		body := []byte(rapid.SampledFrom(seeds).Draw(t, "seed"))
		for range rapid.IntRange(0, 3).Draw(t, "damage") {
			switch at := rapid.IntRange(0, len(body)-1).Draw(t, "at"); rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				body[at] = rapid.Byte().Draw(t, "byte")
			case 1:
				body = body[:max(at, 1)]
			default:
				body = append(body[:at:at],
					append([]byte(rapid.SampledFrom([]string{`{`, `]`, `"`, `null`, `1e9`, `\u0000`, `[[`,
						`_`}).Draw(t, "insert")), body[at:]...)...)
			}
		}
		method, path, _ := strings.Cut(rapid.SampledFrom(paths).Draw(t, "path"), " ")
		kind := rapid.SampledFrom([]string{"application/json", "multipart/related; boundary=b"}).Draw(t, "type")
		r := httptest.NewRequest(method, path, bytes.NewReader(body))
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		s.Config.Handler.ServeHTTP(w, r)
		if w.Code >= 500 && w.Code != 501 || !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s %q: %d %s", method, path, body, w.Code, w.Body)
		}
	})
}

// TestAccess: the owner of databases takes part in what is done with them.
func TestAccess(t *testing.T) {
	var happened []string
	s := newSite(t, func(o *Options) {
		o.Access = func(q *web.Request) error {
			if q.Header.Get("X-User") == "nobody" {
				return web.Unauthorized("You are not authorized to access this db.")
			}
			return nil
		}
		o.List = o.Access
		o.Members = []string{"_replication_state"}
		o.Write = func(q *web.Request, tx kv.Tx, db *docs.Database, edits []docs.Edit) ([]docs.Written, error) {
			db.Validate = func(next, _ *docs.Document, _ bool) error {
				if bytes.Contains(next.Body, []byte("bad")) {
					return docs.Forbidden("bad")
				}
				return nil
			}
			results, err := db.Update(edits)
			for _, w := range results {
				happened = append(happened, fmt.Sprint(q.Param("db"), "/", w.ID, " ", w.Changed))
			}
			return results, err
		}
		o.Drop = func(_ kv.Tx, db *docs.Database) { happened = append(happened, "drop "+db.Name) }
		o.Dropped = func(context.Context) { happened = append(happened, "dropped") }
	})
	s.Fails("GET /db", 401, "unauthorized", "You are not authorized to access this db.", "X-User", "nobody")
	s.Want("GET /_all_dbs", 200, `["db"]`)
	s.Fails("GET /_all_dbs", 401, "unauthorized", "You are not authorized to access this db.", "X-User", "nobody")
	s.Want(`PUT /db/a {"_replication_state":1}`, 201, `{"ok":true,"id":"a","rev":"1-*"}`)
	s.Fails(`PUT /db/b {"bad":1}`, 403, "forbidden", "bad")
	s.Want(`POST /db/_bulk_docs {"docs":[{"_id":"b","bad":1}]}`, 201, `[{"id":"b","error":"forbidden","reason":"bad"}]`)
	s.Want("GET /db/a", 200, `{"_id":"a","_rev":"1-*","_replication_state":1}`)
	s.Want("DELETE /db", 200, `{"ok":true}`)
	happened = slices.Compact(happened) // a transaction may run more than once
	if got := fmt.Sprint(happened); got != "[db/a true db/b false drop db dropped]" {
		t.Errorf("happened: %s", got)
	}
}

// TestStoreErrors: what the store fails with is no success and no crash.
func TestStoreErrors(t *testing.T) {
	h := New(Options{Store: failing{fakefdb.New()}, Docs: docs.New(tuple.Subspace("docs"))})
	for _, request := range []string{
		"PUT /db", "GET /db", "DELETE /db", "GET /_all_dbs", "GET /db/a", "PUT /db/a {}", "GET /db/_changes",
		"GET /db/_all_docs", `POST /db/_bulk_docs {"docs":[{}]}`, "PUT /db/a/f x",
	} {
		method, path, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(path, " ")
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 503 || !strings.Contains(w.Body.String(), `"service_unavailable"`) {
			t.Errorf("%s: %d %s", request, w.Code, w.Body)
		}
	}
}

// failing is a store that gives up at every read.
type failing struct{ kv.Database }

type failingTx struct{ kv.Transaction }

func (f failingTx) Get([]byte) ([]byte, error) { return nil, kv.NewError(kv.TransactionTimedOut) }

func (f failingTx) GetRange(kv.Range, kv.RangeOptions) ([]kv.KeyValue, error) {
	return nil, kv.NewError(kv.TransactionTimedOut)
}

func (f failing) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return failingTx{f.Database.Begin(ctx, o)}
}

// once is a store of which one read fails, with an error after which it is repeated.
type once struct {
	kv.Database
	left *int // reads up to that one
}

type onceTx struct {
	kv.Transaction
	left *int
}

func (o once) Begin(ctx context.Context, options kv.Options) kv.Transaction {
	return onceTx{o.Database.Begin(ctx, options), o.left}
}

func (tx onceTx) Get(key []byte) ([]byte, error) {
	if *tx.left--; *tx.left == 0 {
		return nil, kv.NewError(kv.TransactionTooOld)
	}
	return tx.Transaction.Get(key)
}

// TestDropIsToldOf: a deletion whose transaction is repeated does not go by without Drop.
func TestDropIsToldOf(t *testing.T) {
	for n := 1; n <= 6; n++ {
		left, dropped := 0, 0
		s := newSite(t, func(o *Options) {
			o.Store = once{o.Store, &left}
			o.Drop = func(kv.Tx, *docs.Database) { dropped++ }
		})
		left = n
		s.Want("DELETE /db", 200, `{"ok":true}`)
		if dropped == 0 {
			t.Errorf("read %d failed: the database is deleted without Drop", n)
		}
	}
}
