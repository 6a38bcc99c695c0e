package couch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"

	"github.com/go-json-experiment/json/jsontext"
)

func feedOf(rows ...string) string {
	return "{\"results\":[\n" + strings.Join(rows, ",\n") + "\n],\n\"last_seq\":\"9-z\",\"pending\":4}\n"
}

const (
	rowA = `{"seq":"1-x","id":"a","changes":[{"rev":"1-a"},{"rev":"1-b"}]}`
	rowB = `{"seq":"2-y","id":"b","changes":[{"rev":"2-c"}],"deleted":true}`
)

var (
	changeA = peer.Change{Seq: `"1-x"`, ID: "a", Revs: []string{"1-a", "1-b"}}
	changeB = peer.Change{Seq: `"2-y"`, ID: "b", Revs: []string{"2-c"}}
)

// TestChangesAnswers: rows that came as a whole are returned, whatever follows them.
func TestChangesAnswers(t *testing.T) {
	rows := func(c ...peer.Change) []peer.Change { return c }
	for _, c := range []struct {
		name, answer string
		want         peer.Changes
		kind         peer.Kind
		reason       string // empty when it succeeds
	}{
		{"two rows", feedOf(rowA, rowB),
			peer.Changes{Rows: rows(changeA, changeB), End: true, LastSeq: `"9-z"`, Pending: 4}, 0, ""},
		{"none", feedOf(), peer.Changes{End: true, LastSeq: `"9-z"`, Pending: 4}, 0, ""},
		{"numbers", `{"results":[{"seq":7,"id":"a","changes":[{"rev":"1-a"},{"rev":"1-b"}]}],"last_seq":7}`,
			peer.Changes{Rows: rows(peer.Change{Seq: "7", ID: "a", Revs: changeA.Revs}),
				End: true, LastSeq: "7", Pending: -1}, 0, ""},
		{"BigCouch", `{"results":[{"seq":[7, "g1"],"id":"a","changes":[{"rev":"1-a"},{"rev":"1-b"}]}],` +
			`"last_seq":[7, "g1"],"pending":null}`,
			peer.Changes{Rows: rows(peer.Change{Seq: `[7,"g1"]`, ID: "a", Revs: changeA.Revs}),
				End: true, LastSeq: `[7,"g1"]`, Pending: -1}, 0, ""},
		{"other order", `{"last_seq":"3","pending":0,"results":[` + rowA + `]}`,
			peer.Changes{Rows: rows(changeA), End: true, LastSeq: `"3"`}, 0, ""},
		{"heartbeats", "\n\n\n" + feedOf(rowA),
			peer.Changes{Rows: rows(changeA), End: true, LastSeq: `"9-z"`, Pending: 4}, 0, ""},
		{"unknown members", `{"x":[{}],"results":[{"y":{"z":[]},` + rowA[1:] + `],"u":1}`,
			peer.Changes{Rows: rows(changeA), End: true, LastSeq: `"1-x"`, Pending: -1}, 0, ""},
		{"no last_seq", `{"results":[` + rowA + `,` + rowB + `]}`,
			peer.Changes{Rows: rows(changeA, changeB), End: true, LastSeq: `"2-y"`, Pending: -1}, 0, ""},
		{"no last_seq, no rows", `{"results":[]}`, peer.Changes{End: true, LastSeq: "0", Pending: -1}, 0, ""},
		{"last_seq null", `{"results":[],"last_seq":null}`,
			peer.Changes{End: true, LastSeq: "0", Pending: -1}, 0, ""},
		{"empty id", feedOf(`{"seq":"1","id":"","changes":[{"rev":"1-a"}]}`, rowB),
			peer.Changes{Rows: rows(changeB), End: true, LastSeq: `"9-z"`, Pending: 4, Skipped: 1}, 0, ""},
		{"local document", feedOf(`{"seq":"1","id":"_local/a","changes":[{"rev":"1-a"}]}`, rowB),
			peer.Changes{Rows: rows(changeB), End: true, LastSeq: `"9-z"`, Pending: 4, Skipped: 1}, 0, ""},
		{"removed", feedOf(`{"seq":"1-x","id":"a","removed":true,` +
			`"changes":[{"rev":"0-x"},{"rev":"1-a"},{"rev":"1-b"}]}`),
			peer.Changes{Rows: rows(changeA), End: true, LastSeq: `"9-z"`, Pending: 4}, 0, ""},
		{"removed, nothing left", feedOf(`{"seq":"1-x","id":"a","removed":true,"changes":[]}`),
			peer.Changes{Rows: rows(peer.Change{Seq: `"1-x"`, ID: "a"}), End: true,
				LastSeq: `"9-z"`, Pending: 4}, 0, ""},
		{"escapes", feedOf(`{"seq":"1\/x","id":"\u00fc\n\ud83c\udf89","changes":[{"rev":"1-a"}]}`),
			peer.Changes{Rows: rows(peer.Change{Seq: `"1/x"`, ID: "ü\n🎉", Revs: []string{"1-a"}}),
				End: true, LastSeq: `"9-z"`, Pending: 4}, 0, ""},

		{"no seq", feedOf(rowA, `{"id":"b","changes":[{"rev":"1-a"}]}`, rowB),
			peer.Changes{Rows: rows(changeA), LastSeq: `"1-x"`, Pending: -1},
			peer.Malformed, `changes row 1 (id "b") has no seq`},
		{"null seq", feedOf(`{"seq":null,"id":"b","changes":[{"rev":"1-a"}]}`),
			peer.Changes{Pending: -1}, peer.Malformed, `changes row 0 (id "b") has no seq`},
		{"no id", feedOf(`{"seq":1,"changes":[{"rev":"1-a"}]}`), peer.Changes{Pending: -1},
			peer.Malformed, `changes row 0 (id "") has no id`},
		{"id a number", feedOf(`{"seq":1,"id":5,"changes":[{"rev":"1-a"}]}`),
			peer.Changes{Pending: -1}, peer.Malformed, `changes row 0 (id "") has no id`},
		{"no changes", feedOf(`{"seq":1,"id":"b"}`), peer.Changes{Pending: -1}, peer.Malformed,
			`changes row 0 (id "b") has no list of changes`},
		{"changes an object", feedOf(`{"seq":1,"id":"b","changes":{}}`), peer.Changes{Pending: -1},
			peer.Malformed, `changes row 0 (id "b") has no list`},
		{"no rev", feedOf(`{"seq":1,"id":"b","changes":[{}]}`), peer.Changes{Pending: -1},
			peer.Malformed, `changes row 0 (id "b") has a change without rev`},
		{"rev a number", feedOf(`{"seq":1,"id":"b","changes":[{"rev":1}]}`),
			peer.Changes{Pending: -1}, peer.Malformed, `changes row 0 (id "b") has a change`},
		{"change a string", feedOf(`{"seq":1,"id":"b","changes":["1-a"]}`),
			peer.Changes{Pending: -1}, peer.Malformed, `changes row 0 (id "b") has a change`},
		{"row a string", feedOf(`"x"`), peer.Changes{Pending: -1}, peer.Malformed,
			`changes row 0 (id "") has no seq`},
		{"row null", feedOf(rowA, `null`), peer.Changes{Rows: rows(changeA), LastSeq: `"1-x"`, Pending: -1},
			peer.Malformed, `changes row 1`},
		{"results an object", `{"results":{}}`, peer.Changes{Pending: -1}, peer.Malformed,
			"answered JSON with { where an array was expected"},
		{"no results", `{"last_seq":1}`, peer.Changes{Pending: -1}, peer.Malformed,
			"answered JSON without results"},
		{"an error instead", `{"error":"x"}`, peer.Changes{Pending: -1}, peer.Malformed,
			"answered JSON without results"},
		{"cut in a row", feedOf(rowA, rowB)[:len(feedOf(rowA))],
			peer.Changes{Rows: rows(changeA), LastSeq: `"1-x"`, Pending: -1}, peer.Broken, "unexpected EOF"},
		{"cut between rows", feedOf(rowA, rowB)[:len("{\"results\":[\n"+rowA)+1],
			peer.Changes{Rows: rows(changeA), LastSeq: `"1-x"`, Pending: -1}, peer.Broken, ""},
		{"cut before last_seq", `{"results":[` + rowA + `]`,
			peer.Changes{Rows: rows(changeA), LastSeq: `"1-x"`, Pending: -1}, peer.Broken, ""},
		{"more behind it", feedOf(rowA) + "{}",
			peer.Changes{Rows: rows(changeA), LastSeq: `"1-x"`, Pending: -1}, peer.Malformed,
			"answered more than one"},
		{"bad syntax", feedOf(rowA, `{"seq":}`),
			peer.Changes{Rows: rows(changeA), LastSeq: `"1-x"`, Pending: -1}, peer.Malformed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			answer := func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Connection", "close") // its end is the only mark of the body's
				conn := hijack(w, "HTTP/1.1 200 OK\r\n\r\n"+c.answer)
				conn.Close()
			}
			inRig(t, answer, nil, func(r *rig) {
				reply := r.do(peer.ReadChanges{Since: peer.Zero, Limit: 10})
				if !reflect.DeepEqual(reply.Result, c.want) {
					t.Errorf("result %+v\nwant   %+v", reply.Result, c.want)
				}
				f := reply.Failure
				if (f == nil) != c.want.End ||
					f != nil && (f.Kind != c.kind || !strings.Contains(f.Reason, c.reason)) {
					t.Errorf("failure %v", f)
				}
			})
		})
	}
}

// TestChangesRequests checks what is asked for under each kind of filter.
func TestChangesRequests(t *testing.T) {
	for _, c := range []struct {
		name                string
		op                  peer.ReadChanges
		filter              spec.Filter
		winning             bool
		method, query, body string
	}{
		{"normal", peer.ReadChanges{Since: peer.Zero, Limit: 10}, spec.Filter{}, false,
			"GET", "feed=normal&heartbeat=10000&style=all_docs&since=0", ""},
		{"winning", peer.ReadChanges{Since: `"1-a b"`, Limit: 10}, spec.Filter{}, true,
			"GET", "feed=normal&heartbeat=10000&style=main_only&since=1-a+b", ""},
		{"array", peer.ReadChanges{Since: `[1,"a"]`, Limit: 10}, spec.Filter{}, false,
			"GET", "feed=normal&heartbeat=10000&style=all_docs&since=%5B1%2C%22a%22%5D", ""},
		{"wait", peer.ReadChanges{Since: "5", Limit: 10, Wait: true}, spec.Filter{}, false, "GET",
			"feed=longpoll&heartbeat=10000&style=all_docs&since=5&limit=10", ""},
		{"function", peer.ReadChanges{Since: "5", Limit: 10},
			spec.Filter{Kind: spec.FunctionFilter, Name: "d/f",
				QueryParams: jsontext.Value(`{"a":"x y","n":1}`)},
			false, "GET", "filter=d%2Ff&a=x+y&n=1&feed=normal&heartbeat=10000&style=all_docs&since=5", ""},
		{"view", peer.ReadChanges{Since: "5", Limit: 10},
			spec.Filter{Kind: spec.BuiltinFilter, Name: "_view",
				QueryParams: jsontext.Value(`{"view":"d/v","key":"k"}`)},
			false, "GET", "filter=_view&view=d%2Fv&key=%22k%22&feed=normal&heartbeat=10000&style=all_docs&since=5", ""},
		{"selector", peer.ReadChanges{Since: "5", Limit: 10},
			spec.Filter{Kind: spec.Selector, Selector: jsontext.Value(`{"a":1}`)},
			false, "POST", "filter=_selector&feed=normal&heartbeat=10000&style=all_docs&since=5",
			`{"selector":{"a":1}}`},
		{"doc_ids", peer.ReadChanges{Since: "5", Limit: 10, Wait: true},
			spec.Filter{Kind: spec.DocIDs, DocIDs: []string{"a", "b\"c"}},
			false, "POST", "filter=_doc_ids&feed=longpoll&heartbeat=10000&style=all_docs&since=5&limit=10",
			`{"doc_ids":["a","b\"c"]}`},
		{"no doc_ids", peer.ReadChanges{Since: "5", Limit: 10}, spec.Filter{Kind: spec.DocIDs},
			false, "POST", "filter=_doc_ids&feed=normal&heartbeat=10000&style=all_docs&since=5",
			`{"doc_ids":[]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.Method != c.method || r.URL.Path != "/db/_changes" || r.URL.RawQuery != c.query ||
					string(body) != c.body {
					t.Errorf("asked %s %s %s\nwant %s %s %s", r.Method, r.RequestURI, body, c.method,
						c.query, c.body)
				}
				if got := r.Header.Get("Accept-Encoding"); got != "identity" {
					t.Errorf("asked for encoding %q", got)
				}
				says(200, feedOf())(w, r)
			}, nil, func(r *rig) { must[peer.Changes](r, c.op) }, func(rep *spec.Replication) {
				rep.Filter, rep.WinningRevsOnly = c.filter, c.winning
			})
		})
	}
}

// TestHeartbeats: a silent feed shows several times within the timeout that it lives, and in time for proxies.
func TestHeartbeats(t *testing.T) {
	for timeout, want := range map[time.Duration]string{
		time.Millisecond: "1", testTimeout: "10000", time.Hour: "20000",
	} {
		inRig(t, func(w http.ResponseWriter, r *http.Request) {
			if got := r.URL.Query().Get("heartbeat"); got != want {
				t.Errorf("timeout %s: a heartbeat in %s ms, want %s", timeout, got, want)
			}
			says(200, feedOf())(w, r)
		}, nil, func(r *rig) { must[peer.Changes](r, peer.ReadChanges{Since: peer.Zero, Limit: 10}) },
			func(rep *spec.Replication) { rep.Source.Timeout = timeout })
	}
}

// numbered is a feed of n rows with the sequences 1 to n.
func numbered(from, n int) string {
	var rows []string
	for i := from; i <= n; i++ {
		rows = append(rows, fmt.Sprintf(`{"seq":%d,"id":"doc%d","changes":[{"rev":"1-a"}]}`, i, i))
	}
	return fmt.Sprintf(`{"results":[%s],"last_seq":%d,"pending":0}`, strings.Join(rows, ","), n)
}

// TestFeedGoesOn: a normal feed is one request, read in steps.
func TestFeedGoesOn(t *testing.T) {
	requests := 0
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		says(200, numbered(1, 25))(w, r)
	}, nil, func(r *rig) {
		since, read := peer.Zero, []int{}
		for end := false; !end; {
			got := must[peer.Changes](r, peer.ReadChanges{Since: since, Limit: 10})
			since, end, read = got.LastSeq, got.End, append(read, len(got.Rows))
		}
		if fmt.Sprint(read) != "[10 10 5]" || since != "25" || requests != 1 {
			t.Errorf("read %v to %s in %d requests", read, since, requests)
		}
		must[peer.Changes](r, peer.ReadChanges{Since: since, Limit: 10})
		if requests != 2 {
			t.Errorf("%d requests after the end", requests)
		}
	})
}

// TestFeedOfLargeRows: one read returns a bounded number of bytes, whichever members they are in; the next
// read continues the feed.
func TestFeedOfLargeRows(t *testing.T) {
	mib := strings.Repeat("x", 1<<20)
	for name, row := range map[string]string{
		"ids":  `{"seq":%d,"id":"` + mib + `","changes":[{"rev":"1-a"}]}`,
		"revs": `{"seq":%d,"id":"a","changes":[{"rev":"1-` + mib + `"}]}`,
		"seqs": `{"seq":"%d-` + mib + `","id":"a","changes":[{"rev":"1-a"}]}`,
		"many": `{"seq":%d,"id":"a","changes":[` + strings.Repeat(`{"rev":"1-a"},`, 1<<20/19) +
			`{"rev":"1-a"}]}`,
	} {
		for _, wait := range []bool{false, true} {
			t.Run(fmt.Sprint(name, wait), func(t *testing.T) {
				requests := 0
				inRig(t, func(w http.ResponseWriter, r *http.Request) {
					requests++
					_, _ = io.WriteString(w, `{"results":[`)
					for i := range 12 {
						if i > 0 {
							_, _ = io.WriteString(w, ",")
						}
						_, _ = fmt.Fprintf(w, row, i)
					}
					_, _ = io.WriteString(w, `]}`)
				}, nil, func(r *rig) {
					since, read := peer.Zero, []int{}
					for end := false; !end; {
						got := must[peer.Changes](r, peer.ReadChanges{Since: since, Limit: 2000, Wait: wait})
						since, end, read = got.LastSeq, got.End, append(read, len(got.Rows))
					}
					if fmt.Sprint(read) != "[8 4]" || requests != 1 {
						t.Errorf("read %v in %d requests", read, requests)
					}
				})
			})
		}
	}
}

// TestSlowFeed: a read returns its rows after a while, however far the end or the limit is, and the feed
// stays open.
func TestSlowFeed(t *testing.T) {
	const pause = 300 * time.Millisecond
	requests := 0
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		_, _ = io.WriteString(w, `{"results":[`)
		for i := 1; i <= 10; i++ {
			if i == 6 {
				time.Sleep(20 * time.Second) // in virtual time
			}
			_, _ = fmt.Fprintf(w, `{"seq":%d,"id":"doc%d","changes":[{"rev":"1-a"}]},`, i, i)
			w.(http.Flusher).Flush()
			time.Sleep(pause)
		}
		_, _ = io.WriteString(w, `{"seq":11,"id":"doc11","changes":[{"rev":"1-a"}]}],"last_seq":11}`)
	}, nil, func(r *rig) {
		since, read, begun := peer.Zero, []int{}, time.Now()
		for end := false; !end; {
			got := must[peer.Changes](r, peer.ReadChanges{Since: since, Limit: 2000})
			since, end, read = got.LastSeq, got.End, append(read, len(got.Rows))
			if took := time.Since(begun); len(read) == 1 && took > slowRead+pause {
				t.Errorf("the first rows came after %s", took)
			}
		}
		if fmt.Sprint(read) != "[4 1 4 2]" || since != "11" || requests != 1 {
			t.Errorf("read %v to %s in %d requests", read, since, requests)
		}
	})
}

// TestFeedLeftInTheMiddle: a feed that is closed between two reads ends, though its server sends nothing.
func TestFeedLeftInTheMiddle(t *testing.T) {
	var gone atomic.Int32
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"results":[`+rowA+",\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		gone.Add(1)
	}, nil, func(r *rig) {
		pair, err := r.client.Pair(testReplication())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second one begins anew
			if reply := pair.Do(context.Background(), 1,
				peer.ReadChanges{Since: peer.Zero, Limit: 10}); reply.Failure != nil {
				t.Fatal(reply.Failure)
			}
		}
		pair.Close()
		time.Sleep(time.Second)
		if gone.Load() != 2 {
			t.Errorf("%d of 2 answers were given up", gone.Load())
		}
	})
}

// TestFeedStartsAnew: a read that does not start where the previous one stopped opens a new feed.
func TestFeedStartsAnew(t *testing.T) {
	var since []string
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		since = append(since, r.URL.Query().Get("since"))
		says(200, numbered(1, 25))(w, r)
	}, nil, func(r *rig) {
		must[peer.Changes](r, peer.ReadChanges{Since: "0", Limit: 10})
		must[peer.Changes](r, peer.ReadChanges{Since: "3", Limit: 10})
		must[peer.Changes](r, peer.ReadChanges{Since: "10", Limit: 10}) // goes on
		must[peer.Changes](r, peer.ReadChanges{Since: "20", Limit: 10, Wait: true})
		if fmt.Sprint(since) != "[0 3 20]" {
			t.Errorf("asked since %v", since)
		}
	})
}

// TestFeedThatBreaksOffLater: when a feed breaks between two reads, the second read opens a new one, and
// fails only if that fails.
func TestFeedThatBreaksOffLater(t *testing.T) {
	var since []string
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		since = append(since, r.URL.Query().Get("since"))
		if n := len(since); n < 3 {
			_, _ = fmt.Fprintf(w, `{"results":[{"seq":%d,"id":"doc","changes":[{"rev":"1-a"}]},`, n)
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Second) // in virtual time
		}
		panic(http.ErrAbortHandler)
	}, nil, func(r *rig) {
		for _, c := range []struct{ since, until peer.Seq }{{"0", "1"}, {"1", "2"}} {
			if got := must[peer.Changes](r,
				peer.ReadChanges{Since: c.since, Limit: 10}); got.LastSeq != c.until || got.End {
				t.Errorf("%+v", got)
			}
		}
		if f := r.do(peer.ReadChanges{Since: "2", Limit: 10}).Failure; f == nil || f.Kind != peer.Broken {
			t.Errorf("%v", f)
		}
		if fmt.Sprint(since) != "[0 1 2]" {
			t.Errorf("asked since %v", since)
		}
	})
}

// TestFeedOutlivesOperations: a feed does not end with the context of the operation that opened it, only with
// that of a read in progress. Between two reads the server's silence does not count.
func TestFeedOutlivesOperations(t *testing.T) {
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		whole := numbered(1, 2000) // more than what is read ahead
		half := strings.Index(whole, `,{"seq":1001,`)
		_, _ = io.WriteString(w, whole[:half])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, nil, func(r *rig) {
		ctx, cancel := context.WithCancel(context.Background())
		if reply := r.pair.Do(ctx, 1, peer.ReadChanges{Since: peer.Zero, Limit: 5}); reply.Failure != nil {
			t.Fatal(reply.Failure)
		}
		cancel()
		time.Sleep(time.Hour) // in virtual time
		if got := must[peer.Changes](r, peer.ReadChanges{Since: "5", Limit: 995}); len(got.Rows) != 995 {
			t.Errorf("%+v", got)
		}
		ctx, cancel = context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if f := r.pair.Do(ctx, 1, peer.ReadChanges{Since: "1000", Limit: 5}).Failure; f == nil ||
			f.Kind != peer.Cancelled {
			t.Errorf("%v", f)
		}
	})
}

// closing is a body that calls a function when it is closed.
type closing func()

func (c closing) Close() error             { c(); return nil }
func (c closing) Read([]byte) (int, error) { return 0, io.EOF }

// TestFeedLeftAtClose: a feed that a read leaves in a closed pair is closed too.
func TestFeedLeftAtClose(t *testing.T) {
	inRig(t, nil, nil, func(r *rig) {
		pair, err := r.client.Pair(testReplication())
		if err != nil {
			t.Fatal(err)
		}
		leave := func(then func()) *answer {
			a := &answer{Response: &http.Response{Body: closing(then)}, cancel: func(error) {}}
			f := &feed{answer: a, cancel: a.cancel, rows: make(chan row), closing: make(chan struct{})}
			go func() {
				<-f.closing
				a.close()
				close(f.rows)
			}()
			pair.leaveFeed(f)
			return a
		}
		var late *answer
		first := leave(func() { late = leave(func() {}) })
		pair.Close()
		if !first.closed || late == nil || !late.closed || pair.feed != nil {
			t.Errorf("closed %v, the late one %v", first.closed, late)
		}
	})
}

// TestLongPoll waits for as long as the server sends heartbeats.
func TestLongPoll(t *testing.T) {
	inRig(t, func(w http.ResponseWriter, r *http.Request) {
		for range 100 {
			time.Sleep(testTimeout / heartbeats) // in virtual time
			_, _ = io.WriteString(w, "\n")
			w.(http.Flusher).Flush()
		}
		_, _ = io.WriteString(w, `{"results":[`+rowA+`],"last_seq":"1-x"}`)
	}, nil, func(r *rig) {
		start := time.Now()
		got := must[peer.Changes](r, peer.ReadChanges{Since: peer.Zero, Limit: 1, Wait: true})
		if len(got.Rows) != 1 || !got.End || time.Since(start) != 100*testTimeout/heartbeats {
			t.Errorf("%+v after %v", got, time.Since(start))
		}
	})
}
