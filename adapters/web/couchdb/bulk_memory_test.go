package couchdb

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"couchrelay/adapters/web"
)

// TestManySmallElements: what a body is made into counts as memory for bodies, which is many times the text. A body
// that needs more than all of it is told so: it would never fit.
func TestManySmallElements(t *testing.T) {
	h := New(Options{Limits: web.Limits{Memory: 10 << 20}})
	objects, numbers := strings.Repeat("{},", 100_000)+"{}", strings.Repeat("0,", 100_000)+"0"
	nested := strings.Repeat(strings.Repeat("[", 500)+strings.Repeat("]", 500)+",", 500) + "0"
	many := strings.Repeat(`{"a":[`+numbers[:2000]+`0]},`, 100)
	strs := strings.Repeat(`"",`, 100_000) + `""`
	for to, body := range map[string]string{
		"POST /db/_bulk_docs":                    `{"docs":[` + objects + `]}`,
		"POST /db/_bulk_get":                     `{"docs":[` + objects + `]}`,
		"POST /db/_find":                         `{"selector":{"a":[` + numbers + `]}}`,
		"POST /db/_changes?filter=_selector":     `{"selector":{"a":[` + numbers + `]}}`,
		"POST /db/_find?nested":                  `{"selector":{"a":[` + nested + `]}}`,
		"POST /db/_changes?filter=_doc_ids":      `{"doc_ids":[` + strs + `]}`,
		"POST /db/_changes?filter=_selector&f":   `{"selector":{},"fields":[` + strs + `]}`,
		"PUT /db/_security":                      `{"admins":{"names":[` + strs + `]}}`,
		"PUT /db/nested":                         `{"a":[` + nested + `]}`,
		"POST /db/_bulk_get?one":                 `{"docs":[{"id":"a","atts_since":[` + strs + `]}]}`,
		"POST /db/_revs_diff":                    `{"a":[` + numbers + `]}`,
		"POST /db/_all_docs":                     `{"keys":[` + numbers + `]}`,
		"PUT /db/doc":                            `{"a":[` + numbers + `]}`,
		"POST /db/_bulk_docs?many=documents":     `{"docs":[` + many + `{}]}`,
		"POST /db/_bulk_docs?one=large_document": `{"docs":[{"a":[` + numbers + `]}]}`,
	} {
		method, path, _ := strings.Cut(to, " ")
		q := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		q.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, q)
		if w.Code != 413 || !strings.Contains(w.Body.String(), "max_body_memory") {
			t.Errorf("%s: %d %s", to, w.Code, w.Body)
		}
	}
}

// TestManyElementsTogether: what stays of the elements of a bulk request counts for all of them, though each is parsed
// by itself.
func TestManyElementsTogether(t *testing.T) {
	revs, stubs := strings.Repeat(`"1-a",`, 10_000), &strings.Builder{}
	for i := range 40_000 {
		fmt.Fprintf(stubs, `"%d":{"stub":true},`, i)
	}
	asked := strings.Repeat(`{"id":"a","rev":"1-a","atts_since":[`+revs+`"1-a"]},`, 30)
	edits := strings.Repeat(`{"_id":"a","_attachments":{`+stubs.String()+`"x":{"stub":true}}},`, 20)
	for to, c := range map[string]struct {
		memory int64
		body   string
	}{
		"/db/_bulk_get":  {10 << 20, `{"docs":[` + asked + `{}]}`},
		"/db/_bulk_docs": {120 << 20, `{"docs":[` + edits + `{}]}`},
	} {
		q := httptest.NewRequestWithContext(t.Context(), "POST", to, strings.NewReader(c.body))
		q.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if recover() != nil { // there is no store
					t.Errorf("%s: the body of %d bytes fits", to, len(c.body))
				}
			}()
			New(Options{Limits: web.Limits{Memory: c.memory}}).ServeHTTP(w, q)
		}()
		if w.Code != 413 {
			t.Errorf("%s: %d %.200s", to, w.Code, w.Body)
		}
	}
}

// leafy returns a request that makes a document "a" of so many leaves, each with so many ancestors that all have.
func leafy(leaves, ancestors int) string {
	list, common := &strings.Builder{}, strings.Repeat(`,"c"`, ancestors)
	for i := range leaves {
		fmt.Fprintf(list, `,{"_id":"a","_revisions":{"start":%d,"ids":["%d"%s]}}`, ancestors+1, i, common)
	}
	return `POST /db/_bulk_docs {"new_edits":false,"docs":[` + list.String()[1:] + `]}`
}

// parts is an answer of which only the lengths are known.
type parts struct {
	http.ResponseWriter
	all, longest int
}

func (p *parts) Write(text []byte) (int, error) {
	p.all, p.longest = p.all+len(text), max(p.longest, len(text))
	return len(text), nil
}

// TestLeavesOfManyQuestions: a small request that names a document with many leaves again and again has a large answer,
// which is never in memory as a whole.
func TestLeavesOfManyQuestions(t *testing.T) {
	s := newSite(t)
	s.Want(leafy(1000, 0), 201, "[]")
	asked := "{" + strings.Repeat(`"a":["2-x"],`, 299) + `"a":["2-x"]}`
	for _, path := range []string{"/db/_revs_diff", "/db/_missing_revs"} {
		q := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(asked))
		q.Header.Set("Content-Type", "application/json")
		w := &parts{ResponseWriter: httptest.NewRecorder()}
		s.Config.Handler.ServeHTTP(w, q)
		if w.all < 300*len(`"a":["2-x"],`) || w.longest > 10_000 {
			t.Errorf("%s: %d bytes, %d at once", path, w.all, w.longest)
		}
	}
}

// TestManyRevisions: what a request costs does not grow with the square of the revisions that it names, nor with those
// times the ancestors of all leaves.
func TestManyRevisions(t *testing.T) {
	s := newSite(t)
	s.Want(leafy(300, 900), 201, "[]")
	revs := &strings.Builder{}
	for i := range 400_000 {
		fmt.Fprintf(revs, `"7-%d",`, i)
	}
	for path, body := range map[string]string{
		"_revs_diff": `{"a":[` + revs.String() + `"901-0"]}`,
		"_bulk_get":  `{"docs":[{"id":"a","atts_since":[` + revs.String() + `"900-c"]}]}`,
	} {
		answer := s.Ask("POST /db/" + path + " " + body)
		if n, err := io.Copy(io.Discard, answer.Body); answer.StatusCode != 200 || n < 10_000 || err != nil {
			t.Errorf("%s: %d with %d bytes, %v", path, answer.StatusCode, n, err)
		}
	}
}

// stuck is a client that takes nothing of an answer until it is let go.
type stuck struct {
	http.ResponseWriter
	begun, goOn chan struct{}
	once        sync.Once
}

func (s *stuck) Write(text []byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.goOn
	return len(text), nil
}

// TestSlowClients: documents that are read for answers count as memory until the clients have taken them.
func TestSlowClients(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Limits.Memory = 5 << 20 })
	for i := range 3 {
		s.Want(fmt.Sprintf(`POST /db/_bulk_docs {"new_edits":false,"docs":[{"_id":"a","_rev":"1-%d","x":"%s"}]}`, i,
			strings.Repeat("x", 1_000_000)), 201, "[]")
	}
	many := fmt.Sprintf(`{"docs":[%s{"id":"a"}]}`, strings.Repeat(`{"id":"a"},`, 3))
	for _, request := range []string{
		"GET /db/a?open_revs=all", "POST /db/_bulk_get " + many,
		`POST /db/_all_docs?include_docs=true {"keys":["a","a","a"]}`,
	} {
		method, rest, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(rest, " ")
		ask := func(w http.ResponseWriter) {
			q := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			q.Header.Set("Content-Type", "application/json")
			q.Header.Set("Accept", "application/json")
			s.Config.Handler.ServeHTTP(w, q)
		}
		first := &stuck{begun: make(chan struct{}), goOn: make(chan struct{})}
		first.ResponseWriter = httptest.NewRecorder()
		var done sync.WaitGroup
		done.Go(func() { ask(first) })
		<-first.begun
		w := httptest.NewRecorder()
		ask(w)
		if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "answers") {
			t.Errorf("%s: %d %v %.100s", request, w.Code, w.Header(), w.Body)
		}
		s.Want("GET /db/_local_docs", 200, `{"total_rows":null,"offset":null,"rows":[`+"\n\n]}")
		close(first.goOn)
		done.Wait()
		w = httptest.NewRecorder()
		if ask(w); w.Code != 200 {
			t.Errorf("%s: %d after the first client has its answer", request, w.Code)
		}
	}
}

// TestManyAskedFor: a page of a long _bulk_get answer copies no entries of the pages after it.
func TestManyAskedFor(t *testing.T) {
	s := newSite(t)
	allocated := func(entries int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		body := `{"docs":[` + strings.Repeat(`{"id":"a"},`, entries-1) + `{"id":"a"}]}`
		text := s.Text(s.Ask("POST /db/_bulk_get " + body))
		if runtime.ReadMemStats(&after); strings.Count(text, `"not_found"`) != entries {
			t.Fatalf("%d entries: %.300s", entries, text)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	few := allocated(5_000)
	if many := allocated(50_000); many > 15*few {
		t.Errorf("ten times as many entries take %d bytes instead of %d", many, few)
	}
}
