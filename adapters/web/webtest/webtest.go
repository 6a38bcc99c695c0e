// Package webtest is a client for tests of servers of CouchDB's interface.
package webtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// Site is a server under test and a client that remembers revisions and sequences of its answers.
type Site struct {
	*testing.T
	*httptest.Server
	Rev string // the last that an answer had; requests name it $rev
	seq string // likewise, $seq
}

// New starts a server of a handler.
func New(t *testing.T, handler http.Handler) *Site {
	s := &Site{T: t, Server: httptest.NewServer(handler)}
	t.Cleanup(s.Close)
	return s
}

// Ask sends a request: method, path and, separated by spaces, a body. $rev and $seq stand for the last
// that were seen. Bodies are declared as JSON unless a header says otherwise; headers are names and
// values in turn.
func (s *Site) Ask(request string, headers ...string) *http.Response {
	s.Helper()
	request = strings.NewReplacer("$rev", s.Rev, "$seq", s.seq).Replace(request)
	method, rest, _ := strings.Cut(request, " ")
	path, body, _ := strings.Cut(rest, " ")
	return s.Send(method, path, strings.NewReader(body), headers...)
}

// Send sends a request with a body of any kind.
func (s *Site) Send(method, path string, body io.Reader, headers ...string) *http.Response {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.URL+path, body)
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Accept-Encoding", "identity")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := (&http.Client{CheckRedirect: stay}).Do(r)
	if err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
	s.Cleanup(func() { answer.Body.Close() })
	return answer
}

var (
	madeRev  = regexp.MustCompile(`(\d+)-[0-9a-f]{32}`)
	anyRev   = regexp.MustCompile(`"_?rev":"([^"]+)"`)
	anySeq   = regexp.MustCompile(`"(seq|last_seq|update_seq|_local_seq)":"(\d+-[0-9a-f]{16}|0)"`)
	random32 = regexp.MustCompile(`[0-9a-f]{32}`)
	times    = regexp.MustCompile(`"instance_start_time":"\d+"`)
)

// Text reads an answer and hides the parts that differ every time: made revisions are N-*, sequences S,
// other random ids H.
func (s *Site) Text(answer *http.Response) string {
	s.Helper()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		s.Fatal(err)
	}
	text := strings.TrimSuffix(string(raw), "\n")
	if found := anyRev.FindAllStringSubmatch(text, -1); found != nil {
		s.Rev = found[len(found)-1][1]
	}
	if found := anySeq.FindAllStringSubmatch(text, -1); found != nil {
		s.seq = found[len(found)-1][2]
	}
	return Plain(text)
}

// Plain hides the parts of a text that differ every time, as Text does.
func Plain(text string) string {
	text = madeRev.ReplaceAllString(text, "$1-*")
	text = anySeq.ReplaceAllString(text, `"$1":S`)
	text = times.ReplaceAllString(text, `"instance_start_time":T`)
	return random32.ReplaceAllString(text, "H")
}

// Want compares an answer. An error is written as its word and its reason.
func (s *Site) Want(request string, status int, want string, headers ...string) {
	s.Helper()
	answer := s.Ask(request, headers...)
	if got := s.Text(answer); answer.StatusCode != status || got != want {
		s.Errorf("%s\n got %d %s\nwant %d %s", request, answer.StatusCode, got, status, want)
	}
}

// Fails compares the status and the words of an error.
func (s *Site) Fails(request string, status int, name, reason string, headers ...string) {
	s.Helper()
	s.Want(request, status, `{"error":"`+name+`","reason":"`+reason+`"}`, headers...)
}
