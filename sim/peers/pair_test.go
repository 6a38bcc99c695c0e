package peers

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/ratelimit"
	"couchrelay/core/spec"
	"couchrelay/sim/engine"
)

// calm is a network with one server, in which a fault meets the first request.
type calm struct {
	server   *Server
	fault    Fault
	redirect *Redirect
	method   string // of the requests that are redirected
}

func (n *calm) Server(string) *Server { return n.server }
func (n *calm) Fate(*engine.Process, *Server, peer.Op) (Fault, time.Duration, time.Duration) {
	f := n.fault
	n.fault = ""
	return f, time.Second, time.Second
}
func (n *calm) Cut(*engine.Process, *Server) bool                                { return false }
func (n *calm) Deaf(*engine.Process, *Server) bool                               { return false }
func (n *calm) Carry(context.Context, *engine.Process, *Server, int) error       { return nil }
func (n *calm) Narrow(*engine.Process, *Server) bool                             { return false }
func (n *calm) Arrives(*Server, string, peer.Op, spec.Credentials) *peer.Failure { return nil }
func (n *calm) Silent(*Server) bool                                              { return false }
func (n *calm) Redirect(_ *Server, method string) *Redirect {
	if method != n.method {
		return nil
	}
	return n.redirect
}
func (n *calm) Wished(*engine.Process, ratelimit.Key, instant.Time)               {}
func (n *calm) Welcomed(*engine.Process, ratelimit.Key)                           {}
func (n *calm) Sends(*engine.Process, ratelimit.Key, instant.Time, time.Duration) {}
func (n *calm) Withheld(*engine.Process, ratelimit.Key, time.Duration)            {}
func (n *calm) Torn(*DB, string)                                                  {}
func (n *calm) Refused(string, string, string)                                    {}

// TestSilences: an answer that is silent in its middle comes late, or what came of it counts when it is given up.
func TestSilences(t *testing.T) {
	read := func(p *Pair, since peer.Seq) peer.Reply {
		return p.Do(context.Background(), 1, peer.ReadChanges{Since: since, Limit: 10})
	}
	for _, c := range []struct {
		fault Fault
		want  []string // what each read brings, and when
	}{
		{"", []string{"4 rows true at 2s"}},
		{FeedPauses, []string{"2 rows false at 2s", "2 rows true at 31s"}},
		{FeedStalls, []string{"2 rows false at 2s", "2 rows true at 34s"}},
	} {
		if got := play(&calm{fault: c.fault}, func(e *engine.Engine, p *Pair) (got []string) {
			for since, end := peer.Zero, false; !end && len(got) < 5; {
				rows := read(p, since).Result.(peer.Changes)
				since, end = rows.LastSeq, rows.End
				got = append(got, fmt.Sprintf("%d rows %v at %s", len(rows.Rows), end, e.Now().Sub(0)))
			}
			return got
		}); !slices.Equal(got, c.want) {
			t.Errorf("%s: read %q, want %q", c.fault, got, c.want)
		}
	}
	for _, c := range []struct {
		fault Fault
		want  string
	}{
		{"", "3 fetched, <nil> at 2s"},
		{Pauses, "3 fetched, <nil> at 31s"},
		{Stalls, "0 fetched, timeout at 32s"},
	} {
		play(&calm{fault: c.fault}, func(e *engine.Engine, p *Pair) []string {
			reply := p.Do(context.Background(), 1, peer.FetchDocs{Budget: 1000, Docs: []peer.DocRev{
				{ID: "a", Rev: "1-0"}, {ID: "b", Rev: "1-0"}, {ID: "c", Rev: "1-0"},
			}})
			fetched, _ := reply.Result.(peer.Fetched)
			why := "<nil>"
			if reply.Failure != nil {
				why = reply.Failure.Kind.String()
			}
			got := fmt.Sprintf("%d fetched, %s at %s", len(fetched.Docs), why, e.Now().Sub(0))
			if got != c.want {
				t.Errorf("%s: %s, want %s", c.fault, got, c.want)
			}
			return nil
		})
	}
}

// TestRedirects: what is redirected is asked for elsewhere, and a document that is streamed with the next attempt.
func TestRedirects(t *testing.T) {
	diff := peer.DiffRevs{Docs: []peer.DocRevs{{ID: "a", Revs: []string{"1-0"}}}}
	for _, c := range []struct {
		to     Whither
		stops  bool // nothing is redirected after the first attempt
		copies bool
		want   []string // what each attempt brings, and when
	}{
		{Elsewhere, false, false, []string{"ok at 4s", "ok at 8s"}},
		{InCircle, false, false, []string{"malformed_response 0 at 10s", "malformed_response 0 at 20s"}},
		{Nowhere, false, false, []string{"status 307 at 2s", "status 307 at 4s"}},
		{Nowhere, true, false, []string{"status 307 at 2s", "ok at 4s"}},
		{Elsewhere, false, true, []string{"connection_closed 307 at 4s", "ok at 8s"}},
		{InCircle, false, true, []string{"connection_closed 307 at 4s", "connection_closed 307 at 8s"}},
		{InCircle, true, true, []string{"connection_closed 307 at 4s", "ok at 8s"}},
		{Nowhere, false, true, []string{"status 307 at 4s", "status 307 at 8s"}},
	} {
		n := &calm{redirect: &Redirect{307, c.to}, method: "POST"}
		got := play(n, func(e *engine.Engine, p *Pair) (got []string) {
			op := peer.Op(diff)
			if c.copies {
				row, _ := n.server.DB("a").changes(0, spec.Filter{}, false)
				op, n.method = peer.CopyDoc{ID: row[0].ID, Revs: row[0].Revs}, "PUT"
			}
			for range 2 {
				said := "ok"
				if f := p.Do(context.Background(), 1, op).Failure; f != nil {
					said = fmt.Sprint(f.Kind, " ", f.Status)
				}
				got = append(got, fmt.Sprint(said, " at ", e.Now().Sub(0)))
				if c.stops {
					n.redirect = nil
				}
			}
			return got
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("to %q, copies %v: %q, want %q", c.to, c.copies, got, c.want)
		}
	}
}

// play runs a conversation with a source of four documents.
func play(n *calm, talk func(*engine.Engine, *Pair) []string) (said []string) {
	e := engine.New(0)
	s := NewServer("s", Traits{}, e.Now)
	db := s.Create("a")
	s.Create("b")
	for _, id := range []string{"a", "b", "c", "d"} {
		db.Write([]docs.Edit{{Document: docs.Document{ID: id, Body: []byte(`{}`)}}})
	}
	owner := &engine.Process{Name: "n1"}
	limiter := Limiter{Limiter: &ratelimit.Limiter{}, Now: e.Now}
	rep := &spec.Replication{Source: spec.Endpoint{URL: "http://s/a/"}, Target: spec.Endpoint{URL: "http://s/b/"}}
	n.server = s
	p := NewPair(e, n, owner, limiter, rep)
	e.Go(owner, "talk", func() { said = talk(e, p) })
	e.Run(instant.Never, nil)
	return said
}
