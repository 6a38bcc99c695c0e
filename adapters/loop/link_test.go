package loop

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"couchrelay/adapters/couch"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
)

// replicationOf is a replication between two databases of a server.
func replicationOf(t *testing.T, url string) *spec.Replication {
	body := `{"source":"` + url + `/db","target":"` + url + `/db"}`
	rep, err := spec.ParseRequest([]byte(body), spec.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// linked is a link to two databases of a server, whose replies it passes on.
func linked(t *testing.T, url string) (*link, <-chan replication.Reply) {
	client := couch.New(couch.Options{Version: "x", Clock: clock.New()})
	t.Cleanup(client.Close)
	pair, err := client.Pair(*replicationOf(t, url))
	if err != nil {
		t.Fatal(err)
	}
	replies := make(chan replication.Reply, 10)
	return newLink(t.Context(), pair, func(r replication.Reply) { replies <- r }), replies
}

// TestCancelEndsOneRequest: a call that is cancelled ends its request, and no other one.
func TestCancelEndsOneRequest(t *testing.T) {
	server := answers(t, nil)
	asked, open := make(chan string, 2), make(chan struct{})
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		select {
		case <-r.Context().Done():
		case <-open:
			http.Error(w, `{"error":"not_found","reason":"missing"}`, http.StatusNotFound)
		}
	})
	k, replies := linked(t, server.URL)
	for id := range uint64(2) {
		k.perform(replication.Call{ID: id + 1, Op: peer.GetLocal{ID: "a"}})
		<-asked
	}
	k.perform(replication.Cancel{ID: 2})
	if r := <-replies; r.ID != 2 || r.Failure == nil {
		t.Errorf("after the cancel comes %s", r)
	}
	k.perform(replication.Cancel{ID: 2}) // it has been answered
	close(open)
	if r := <-replies; r.ID != 1 || r.Failure != nil {
		t.Errorf("of the other call comes %s", r)
	}
	k.calls.Range(func(id, _ any) bool {
		t.Errorf("call %d is kept", id)
		return true
	})
	k.close()
}

// TestReleaseForgetsBodies: bodies can be written until they are released.
func TestReleaseForgetsBodies(t *testing.T) {
	k, replies := linked(t, answers(t, map[string]string{
		"/_bulk_get":  `{"results":[{"id":"a","docs":[{"ok":{"_id":"a","_rev":"1-a"}}]}]}`,
		"/_bulk_docs": `[]`,
	}).URL)
	ask := func(id uint64, op peer.Op) replication.Reply {
		k.perform(replication.Call{ID: id, Op: op})
		return <-replies
	}
	if r := ask(1, peer.FetchDocs{Docs: []peer.DocRev{{ID: "a", Rev: "1-a"}}, Budget: 1000}); r.Failure != nil {
		t.Fatal(r)
	}
	write := peer.WriteDocs{Docs: []peer.Kept{{Fetch: 1}}}
	if r := ask(2, write); r.Failure != nil {
		t.Fatal(r)
	}
	k.perform(replication.Release{ID: 1})
	if r := ask(3, write); r.Failure == nil || !strings.Contains(r.Failure.String(), "no longer kept") {
		t.Errorf("after the release comes %s", r)
	}
	k.close()
}

// TestCloseEndsTheFeed: a feed stays open between two reads, and ends with the run.
func TestCloseEndsTheFeed(t *testing.T) {
	server, gone := answers(t, nil), make(chan struct{})
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"results":[{"seq":1,"id":"a","changes":[{"rev":"1-a"}]}`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	})
	k, replies := linked(t, server.URL)
	k.perform(replication.Call{ID: 1, Op: peer.ReadChanges{Since: peer.Zero, Limit: 1}})
	if r := <-replies; r.Failure != nil {
		t.Fatal(r)
	}
	k.close()
	awaited(t, "the end of the feed", gone)
}
