package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"couchrelay/adapters/couch"
	"couchrelay/adapters/embedded"
	"couchrelay/adapters/web/couchdb"
	"couchrelay/core/docs"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/peer"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// rig is a server with two databases, a and b, and what must not be told of them.
type rig struct {
	t       rapid.TB
	handler atomic.Pointer[http.Handler] // between the client and the server
	server  *httptest.Server
	found   []string // as "kind id rev rev"
}

func newRig(t rapid.TB) (r *rig, end func()) {
	db, err := embedded.Open("test", embedded.Options{FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r = &rig{t: t}
	r.behind(couchdb.New(couchdb.Options{
		Store: db, Docs: docs.New(tuple.Subspace(tuple.Pack("test"))), UUID: "0123456789abcdef0123456789abcdef",
		Members: docs.ReplicationMembers,
	}))
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		(*r.handler.Load()).ServeHTTP(w, q)
	}))
	r.send("PUT", "a", nil)
	r.send("PUT", "b", nil)
	return r, func() { r.server.Close(); _ = db.Close() }
}

// behind puts a handler before the server, or in its place.
func (r *rig) behind(h http.Handler) { r.handler.Store(&h) }

func (r *rig) send(method, path string, body any) {
	raw, _ := json.Marshal(body)
	q, _ := http.NewRequest(method, r.server.URL+"/"+path, bytes.NewReader(raw))
	q.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode > 299 || bytes.Contains(text, []byte(`"error"`)) {
		r.t.Fatalf("%s %s: %s %s", method, path, answer.Status, text)
	}
}

// write writes a revision with its history, the newest first.
func (r *rig) write(db, id string, revs ...string) {
	var ids []string
	for _, rev := range revs {
		_, hash, _ := strings.Cut(rev, "-")
		ids = append(ids, hash)
	}
	r.send("POST", db+"/_bulk_docs", map[string]any{"new_edits": false, "docs": []any{map[string]any{
		"_id": id, "_rev": revs[0], "_revisions": map[string]any{"start": len(revs), "ids": ids},
	}}})
}

// comparison compares a with b.
func (r *rig) comparison() *Comparison {
	body := fmt.Sprintf(`{"source": "%s/a", "target": "%s/b", "winning_revs_only": false}`, r.server.URL, r.server.URL)
	rep, err := spec.ParseRequest([]byte(body), spec.DefaultConfig())
	if err != nil {
		r.t.Fatal(err)
	}
	return &Comparison{
		Client: couch.New(couch.Options{Version: "test"}), Replication: *rep, Clock: clock.New(), Retries: 3,
		Found: func(d Difference) error {
			slices.Sort(d.Revs)
			r.found = append(r.found, fmt.Sprint(d.Kind, " ", d.ID, " ", strings.Join(d.Revs, " ")))
			return nil
		},
	}
}

// run compares, and returns what was found.
func (r *rig) run(c *Comparison) []string {
	defer c.Client.Close()
	r.found = nil
	var read [2]atomic.Int64
	observed := c.Progress == nil
	if observed {
		c.Progress = func(side peer.Side, rows int) { read[side].Add(int64(rows)) }
	}
	n, err := c.Run(context.Background())
	if err != nil {
		r.t.Fatal(err)
	}
	if observed && (read[0].Load() != n.Source || read[1].Load() != n.Target) {
		r.t.Errorf("progress tells of %d and %d rows, and %d and %d are counted", read[0].Load(), read[1].Load(),
			n.Source, n.Target)
	}
	told := int64(0)
	for _, n := range n.Difference {
		told += n
	}
	if int(told) != len(r.found) {
		r.t.Errorf("%d differences are counted, %d were told", told, len(r.found))
	}
	slices.Sort(r.found)
	return r.found
}

// rev is a revision in the tests: the path of a document's edits, such as "ab", has a first one "a" and then "ab".
func rev(path string) string { return fmt.Sprintf("%d-%032x", len(path), path) }

// history returns the revisions of a path, the newest first.
func history(path string) (revs []string) {
	for ; path != ""; path = path[:len(path)-1] {
		revs = append(revs, rev(path))
	}
	return revs
}

// lacks returns which leaves of one set of paths are in no path of another.
func lacks(has, other []string) (revs []string) {
	for _, p := range has {
		leaf := !slices.ContainsFunc(has, func(o string) bool { return o != p && strings.HasPrefix(o, p) })
		if leaf && !slices.ContainsFunc(other, func(o string) bool { return strings.HasPrefix(o, p) }) {
			revs = append(revs, rev(p))
		}
	}
	slices.Sort(revs)
	return slices.Compact(revs)
}

// TestDifferences compares databases of any trees of revisions with what the trees say.
func TestDifferences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, end := newRig(t)
		defer end()
		oneWay := rapid.Bool().Draw(t, "one way")
		paths := rapid.SliceOfN(rapid.StringMatching(`[ab]{1,3}`), 0, 3)
		var want []string
		for i := range rapid.IntRange(0, 8).Draw(t, "documents") {
			id := fmt.Sprint("doc", i)
			var sides [2][]string
			for side, db := range []string{"a", "b"} {
				sides[side] = paths.Draw(t, db+" "+id)
				for _, path := range sides[side] {
					r.write(db, id, history(path)...)
				}
			}
			if revs := lacks(sides[0], sides[1]); revs != nil {
				want = append(want, fmt.Sprint("missing ", id, " ", strings.Join(revs, " ")))
			}
			if revs := lacks(sides[1], sides[0]); revs != nil && !oneWay {
				want = append(want, fmt.Sprint("only_on_target ", id, " ", strings.Join(revs, " ")))
			}
		}
		slices.Sort(want)
		c := r.comparison()
		c.OneWay = oneWay
		if got := r.run(c); !slices.Equal(got, want) {
			t.Fatalf("found\n%s\nand not\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestChangedMeanwhile: a document that is written after the beginning is never missing, and one that was missing
// before still is.
func TestChangedMeanwhile(t *testing.T) {
	r, end := newRig(t)
	defer end()
	for i := range 3 {
		r.write("a", fmt.Sprint("old", i), rev("a"))
	}
	r.write("b", "old1", rev("a"))
	c := r.comparison()
	var once sync.Once
	c.Progress = func(peer.Side, int) {
		once.Do(func() {
			r.write("a", "new", rev("a"))
			r.write("a", "old1", history("ab")...)
			r.write("b", "newer", rev("a"))
		})
	}
	got := r.run(c)
	for _, must := range []string{"missing old0 " + rev("a"), "missing old2 " + rev("a")} {
		if !slices.Contains(got, must) {
			t.Errorf("%q is not told", must)
		}
	}
	for _, line := range got {
		if strings.Contains(line, "new") && !strings.HasPrefix(line, "changed_meanwhile") ||
			strings.HasPrefix(line, "missing old1") {
			t.Errorf("%q is told", line)
		}
	}
}

// TestChangedWithoutFilter: a source that does not let its changes be filtered by documents still tells which of them
// were changed meanwhile, in whatever order its feed has them.
func TestChangedWithoutFilter(t *testing.T) {
	r, end := newRig(t)
	defer end()
	server := *r.handler.Load()
	r.behind(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPost && strings.HasSuffix(q.URL.Path, "/_changes") {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		server.ServeHTTP(w, q)
	}))
	c := r.comparison()
	var once sync.Once
	c.OneWay = true
	r.write("a", "before", rev("a"))
	c.Client.Close()
	c.Client = couch.New(couch.Options{Version: "test", Attempted: func(a couch.Attempt) {
		if a.Operation == couch.OfChanges {
			return
		}
		once.Do(func() { // behind the sequence at which the comparison begins
			for _, id := range []string{"z", "y", "x"} {
				r.write("a", id, rev("a"))
			}
		})
	}})
	for _, line := range r.run(c) {
		if !strings.HasPrefix(line, "changed_meanwhile") && line != "missing before "+rev("a") {
			t.Errorf("%q is told", line)
		}
	}
}

// TestFeedThatBreaks: answers of the feed that break off count as failures only where they bring nothing, be it of
// documents that were not asked for.
func TestFeedThatBreaks(t *testing.T) {
	r, end := newRig(t)
	defer end()
	for i := range 7 {
		r.write("a", fmt.Sprint("doc", i), rev("a"))
	}
	server := *r.handler.Load()
	r.behind(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !strings.HasSuffix(q.URL.Path, "a/_changes") {
			server.ServeHTTP(w, q)
			return
		}
		if q.Method == http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		whole := httptest.NewRecorder()
		server.ServeHTTP(whole, q)
		lines := strings.SplitAfter(whole.Body.String(), "\n")
		if len(lines) > 5 {
			lines = lines[:3]
		}
		_, _ = io.WriteString(w, strings.Join(lines, ""))
	}))
	c := r.comparison()
	c.Retries = 1
	c.Replication.Filter = spec.Filter{Kind: spec.DocIDs, DocIDs: []string{"doc6"}}
	if got := r.run(c); !slices.Equal(got, []string{"missing doc6 " + rev("a")}) {
		t.Errorf("found %q", got)
	}
}

// TestFeedThatEndsEarly: a feed of which only the beginning can be read ends the comparison with an error, whether one
// way is compared or both.
func TestFeedThatEndsEarly(t *testing.T) {
	r, end := newRig(t)
	defer end()
	for i := range 7 {
		r.write("a", fmt.Sprint("doc", i), rev("a"))
	}
	server := *r.handler.Load()
	for _, oneWay := range []bool{false, true} {
		asked := atomic.Int64{}
		r.behind(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			switch {
			case !strings.HasSuffix(q.URL.Path, "a/_changes"):
				server.ServeHTTP(w, q)
			case asked.Add(1) > 1:
				panic(http.ErrAbortHandler)
			default:
				whole := httptest.NewRecorder()
				server.ServeHTTP(whole, q)
				_, _ = io.WriteString(w, strings.Join(strings.SplitAfter(whole.Body.String(), "\n")[:4], ""))
			}
		}))
		c := r.comparison()
		c.Retries, c.OneWay = 1, oneWay
		n, err := c.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "a/_changes") || n.OneWay != oneWay {
			t.Errorf("one way %t: %+v, %v", oneWay, n, err)
		}
		c.Client.Close()
	}
}

// TestFilters: only what the filter lets pass counts, and nothing that only the target has.
func TestFilters(t *testing.T) {
	r, end := newRig(t)
	defer end()
	for i := range 4 {
		r.write("a", fmt.Sprint("doc", i), rev("a"))
	}
	r.write("b", "doc2", rev("a"))
	r.write("b", "other", rev("a"))
	for _, f := range []spec.Filter{
		{Kind: spec.DocIDs, DocIDs: []string{"doc1", "doc2"}},
		{Kind: spec.Selector, Selector: []byte(`{"_id":{"$in":["doc1","doc2"]}}`)},
	} {
		c := r.comparison()
		c.Replication.Filter = f
		if got := r.run(c); !slices.Equal(got, []string{"missing doc1 " + rev("a")}) {
			t.Errorf("%s: %q", f.Kind, got)
		}
	}
	c := r.comparison()
	opened, _ := couchOf(t, c).Do(t.Context(), 0, peer.Open{Side: peer.Source}).Result.(peer.Opened)
	c.Replication.SinceSeq = []byte(opened.UpdateSeq)
	r.write("a", "late", rev("a"))
	if got := r.run(c); !slices.Equal(got, []string{"missing late " + rev("a")}) {
		t.Errorf("behind a sequence: %q", got)
	}
}

// couchOf is a pair for a comparison's databases.
func couchOf(t *testing.T, c *Comparison) *couch.Pair {
	pair, err := c.Client.Pair(c.Replication)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pair.Close)
	return pair
}

// TestRepair: what was missing is asked about again after it was copied.
func TestRepair(t *testing.T) {
	r, end := newRig(t)
	defer end()
	for _, id := range []string{"doc1", "doc2", "doc0"} {
		r.write("a", id, rev("a"))
	}
	r.write("b", "more", rev("a"))
	c := r.comparison()
	c.Repair = func(_ context.Context, ids []string) error {
		if !slices.Equal(ids, []string{"doc0", "doc1", "doc2"}) {
			t.Errorf("repairs %q", ids)
		}
		r.write("b", "doc1", rev("a"))
		return nil
	}
	a := rev("a")
	want := []string{"missing doc0 " + a, "missing doc2 " + a, "only_on_target more " + a, "repaired doc1 " + a}
	if got := r.run(c); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	c = r.comparison()
	full := errors.New("full")
	c.Repair = func(context.Context, []string) error { return full }
	if _, err := c.Run(t.Context()); !errors.Is(err, full) {
		t.Errorf("a repair that fails: %v", err)
	}
}

// TestTrouble: a server that fails now and then changes nothing; one that is gone ends the comparison.
func TestTrouble(t *testing.T) {
	r, end := newRig(t)
	defer end()
	for i := range 20 {
		r.write("a", fmt.Sprint("doc", i), rev("a"))
	}
	server, n := *r.handler.Load(), atomic.Int64{}
	r.behind(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch n.Add(1) % 4 {
		case 1:
			http.Error(w, "<html>busy</html>", http.StatusServiceUnavailable)
		case 2:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			server.ServeHTTP(w, q)
		}
	}))
	if got := r.run(r.comparison()); len(got) != 20 {
		t.Errorf("found %q", got)
	}
	fails := func(text string, h http.HandlerFunc) {
		t.Helper()
		r.behind(h)
		c := r.comparison()
		c.Retries = 1
		defer c.Client.Close()
		if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not %q", err, text)
		}
	}
	fails("malformed_response", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })
	fails("db_not_found", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "{}", http.StatusNotFound) })
	fails("unauthorized", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "{}", http.StatusUnauthorized) })
	fails("a/_changes", func(w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, "a/_changes") {
			panic(http.ErrAbortHandler)
		}
		server.ServeHTTP(w, q)
	})
	r.behind(server)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("interrupted")
	c := r.comparison()
	defer c.Client.Close()
	c.Progress = func(peer.Side, int) { cancel(gone) }
	if _, err := c.Run(ctx); !errors.Is(err, gone) && !errors.Is(err, context.Canceled) {
		t.Errorf("an interrupted comparison ends with %v", err)
	}
}

// TestSums: the order of rows and the spelling of revisions do not count, each revision does.
func TestSums(t *testing.T) {
	sumsOf := func(rows ...peer.Change) *sums {
		s := newSums([16]byte{1})
		for _, row := range rows {
			s.add(row)
		}
		return s
	}
	row := func(id string, revs ...string) peer.Change { return peer.Change{ID: id, Revs: revs} }
	base := sumsOf(row("x", "1-a", "2-b"), row("y", "1-c"))
	for _, c := range []struct {
		name string
		s    *sums
		n    int
	}{
		{"the same", sumsOf(row("y", "1-c"), row("x", "2-B", "1-a")), 0},
		{"a revision less", sumsOf(row("x", "2-b"), row("y", "1-c")), 1},
		{"another one", sumsOf(row("x", "1-a", "2-d"), row("y", "1-c")), 1},
		{"moved to another document", sumsOf(row("x", "1-a"), row("y", "1-c", "2-b")), 2},
		{"cut elsewhere", sumsOf(row("x", "1-a2-b"), row("y", "1-c")), 1},
		{"twice", sumsOf(row("x", "1-a", "2-b"), row("y", "1-c"), row("y", "1-c")), 1},
		{"empty", sumsOf(), 2},
	} {
		if _, n := base.differs(c.s); n != c.n {
			t.Errorf("%s: %d parts differ, not %d", c.name, n, c.n)
		}
	}
}
