package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"couchrelay/core/kv"
)

// endless is a body that never ends, and counts what was read of it.
type endless struct {
	text string
	n    int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[e.n%len(e.text)]
		e.n++
	}
	return len(p), nil
}

// TestDepth: JSON that is nested too deep is refused before it is parsed; brackets in strings do not count.
func TestDepth(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`[{"a":`, n/2) + "1" + strings.Repeat("}]", n/2) }
	for body, bad := range map[string]bool{
		deep(20): false, deep(22): true, `"` + strings.Repeat("[", 50) + `"`: false,
		`["\"` + strings.Repeat("[", 50) + `"]`: false, `["\\",` + strings.Repeat("[", 20): true,
		strings.Repeat("[]", 50): false,
	} {
		q := &Request{Request: httptest.NewRequest("PUT", "/", strings.NewReader(body)), Limits: Limits{Depth: 20}}
		if _, err := q.ReadBody(1000); (err != nil) != bad || bad && err.Error() !=
			"bad_request: the JSON is nested more than 20 deep" {
			t.Errorf("%s: %v", body, err)
		}
	}
	text := []byte(strings.Repeat(`{"a":`, 2_000_000))
	q := &Request{Limits: Limits{}.orDefault()}
	began := time.Now()
	for range 1000 {
		if q.checkDepth(text) == nil {
			t.Fatal("accepted")
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("10 MB of nested JSON took %s to refuse 1000 times", took)
	}
}

// TestAnnouncedSize: nothing is read of a body whose Content-Length is more than the request may have.
func TestAnnouncedSize(t *testing.T) {
	body := &endless{text: "x"}
	q := &Request{Request: httptest.NewRequest("PUT", "/", body)}
	q.ContentLength = 1001
	if _, err := q.ReadBody(1000); err == nil || body.n > 0 {
		t.Errorf("%v, after %d bytes", err, body.n)
	}
}

// TestMemory: bodies of all requests together take the memory that there is for them, and give it back when the
// requests are over, whatever became of them.
func TestMemory(t *testing.T) {
	var inside func()
	r := NewRouter(nil, []Route{{Method: "PUT", Path: "/{a}", Handler: func(q *Request) error {
		if _, err := q.ReadBody(100_000); err != nil {
			return err
		}
		if inside != nil {
			again := inside
			inside = nil
			again()
		}
		return q.SendJSON(200, OK)
	}}})
	r.Limits = func() Limits { return Limits{Memory: 100_000} }
	put := func(body io.Reader) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "PUT", "/a", body))
		return w
	}
	half := strings.Repeat("x", 60_000)
	for i := range 3 {
		inner := 0
		inside = func() {
			w := put(strings.NewReader(half))
			inner = w.Code
			if w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "max_body_memory") {
				t.Errorf("%v %s", w.Header(), w.Body)
			}
		}
		if w := put(strings.NewReader(half)); w.Code != 200 || inner != 503 {
			t.Errorf("%d: %d, and within it %d", i, w.Code, inner)
		}
	}
	body := &endless{text: "x"}
	if w := put(body); w.Code != 413 || body.n > 200_000 {
		t.Errorf("%d after %d bytes", w.Code, body.n)
	}
	if left := r.bodies.taken.Load(); left != 0 {
		t.Errorf("%d bytes are not given back", left)
	}
}

// TestBodyThatIsLate: a deadline of the connection is answered as one.
func TestBodyThatIsLate(t *testing.T) {
	if err := ReadError(fmt.Errorf("read: %w", os.ErrDeadlineExceeded)); !errors.Is(err, errBodyLate) {
		t.Error(err)
	}
}

// TestCarry: of an answer the part counts that is being sent, if it is large. One that is alone always has room.
func TestCarry(t *testing.T) {
	all, hr := newBudget(), httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	a := &Request{Request: hr, budget: all, Limits: Limits{Memory: 100 << 20}}
	b := &Request{Request: hr, budget: all, Limits: Limits{Memory: 100 << 20}}
	odd := errors.New("odd")
	for i, c := range []struct {
		q           *Request
		size        int64
		fails, want error
		left        int64
	}{
		{a, 60, nil, nil, 60}, {b, 40, nil, nil, 100}, {b, 41, nil, errManyAnswers, 60}, {b, 10, nil, nil, 70},
		{a, 90, nil, nil, 100}, {a, 5, odd, odd, 10}, {b, 0, nil, nil, 0}, {a, 1000, nil, nil, 1000},
		{b, 2, nil, errManyAnswers, 1000}, {b, 1, nil, nil, 1000}, {a, 0, nil, nil, 0},
	} {
		err := c.q.Carry(func() (int64, error) { return c.size << 20, c.fails })
		if left := all.answers.Load() >> 20; !errors.Is(err, c.want) || err != nil && c.want == nil || left != c.left ||
			len(all.reading) > 0 {
			t.Errorf("%d: %v, %d MiB", i, err, left)
		}
	}
}

// TestFewRead: no more than some requests read for their answers at a time, and none waits for longer than its client,
// or than for the store.
func TestFewRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, goOn := newBudget(), make(chan struct{})
		carry := func(ctx context.Context, read func()) error {
			hr := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
			return (&Request{Request: hr, budget: all}).Carry(func() (int64, error) {
				read()
				return 0, nil
			})
		}
		never := func() { t.Error("one more reads") }
		for range maxReading {
			go func() { _ = carry(t.Context(), func() { <-goOn }) }()
		}
		synctest.Wait()
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if err := carry(ctx, never); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the client goes: %v", err)
		}
		if err := carry(t.Context(), never); !errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("the store is slow: %v", err)
		}
		close(goOn)
		if err := carry(t.Context(), func() {}); err != nil {
			t.Error(err)
		}
	})
}

// TestHoldParsed: the largest text that is parsed counts, until it is given back.
func TestHoldParsed(t *testing.T) {
	q := &Request{budget: &budget{}, Limits: Limits{Memory: 7 * perValue}}
	for _, c := range []struct {
		text string
		busy bool
		want int64
	}{
		{`[0,0,0]`, false, 4}, {`[0]`, false, 4}, {`[[{}],[[]]]`, false, 7}, {`[0,0,0,0,0,0,0]`, true, 8},
	} {
		if err := q.HoldParsed([]byte(c.text)); (err != nil) != c.busy || q.budget.taken.Load() != c.want*perValue {
			t.Errorf("%s: %v, %d bytes", c.text, err, q.budget.taken.Load())
		}
	}
	if q.Release(); q.budget.taken.Load() != 0 {
		t.Errorf("%d bytes are held", q.budget.taken.Load())
	}
}
