package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"couchrelay/core/kv"
)

// TestStoreGoesAway: requests that wait are answered when the store goes away: feeds in order, with the place
// to go on from, others with the reason. /_up tells it.
func TestStoreGoesAway(t *testing.T) {
	available, leave := context.WithCancelCause(t.Context())
	s := newService(t, func(o *Options) { o.Available = func() context.Context { return available } })
	s.Want("PUT /_replicator", 201, `{"ok":true}`)
	s.Want("GET /_up", 200, `{"status":"ok"}`)
	answers := make(chan string)
	waiting := []string{"POST /_replicate " + oneShot, "GET /_replicator/_changes?feed=longpoll",
		"GET /_replicator/_changes?feed=continuous&heartbeat=10000"}
	for _, request := range waiting {
		go func() {
			method, rest, _ := strings.Cut(request, " ")
			path, body, _ := strings.Cut(rest, " ")
			r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
			if err != nil {
				answers <- err.Error()
				return
			}
			r.Header.Set("Content-Type", "application/json")
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				answers <- err.Error()
				return
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			answers <- fmt.Sprintf("%s: %d %s %v", path, answer.StatusCode, text, err)
		}()
	}
	for made := false; !made; time.Sleep(10 * time.Millisecond) { // the feeds wait by then, or are refused
		body, _ := io.ReadAll(s.Ask("GET /_scheduler/jobs?limit=0").Body)
		made = strings.HasPrefix(string(body), `{"total_rows":1,`)
	}
	leave(errors.Join(kv.ErrUnavailable, errors.New("switched off")))
	for range waiting {
		got := <-answers
		feed := strings.Contains(got, ": 200") && strings.Contains(got, `"last_seq":"`)
		refused := strings.Contains(got, ": 503") && strings.Contains(got, "switched off")
		if !strings.HasSuffix(got, "<nil>") || !feed && !refused {
			t.Error(got)
		}
		if strings.HasPrefix(got, "/_replicate:") && !strings.Contains(got, "look before you repeat it") {
			t.Error(got)
		}
	}
	up := s.Ask("GET /_up")
	body, _ := io.ReadAll(up.Body)
	if up.StatusCode != 503 || up.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "switched off") {
		t.Errorf("_up: %d %s", up.StatusCode, body)
	}
	s.Want("GET /_uuids", 200, `{"uuids":["H"]}`) // needs no store
	s.Fails("GET /_nope/x", 404, "not_found", "Database does not exist.")
}
