package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"couchrelay/core/follow"
	"couchrelay/core/invariant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/repid"
	"couchrelay/sim/fakefdb"

	"github.com/benbjohnson/clock"
)

const (
	odd  invariant.ID = "loop.odd: n is odd"
	even invariant.ID = "loop.even: n is even"
)

// TestBreachesCountAndDoNotFlood: every breach counts, and the log has one line of each invariant a minute,
// which says how often it broke and where.
func TestBreachesCountAndDoNotFlood(t *testing.T) {
	var out bytes.Buffer
	wall := clock.NewMock()
	b := NewBreaches(slog.New(slog.NewJSONHandler(&out, nil)), wall)
	lines := func() (said []struct {
		Msg, ID, Text, Stack string
		Count                int64
	}) {
		for d := json.NewDecoder(&out); d.More(); {
			said = append(said, struct {
				Msg, ID, Text, Stack string
				Count                int64
			}{})
			if err := d.Decode(&said[len(said)-1]); err != nil {
				t.Fatal(err)
			}
		}
		return said
	}
	breakIt := func(id invariant.ID, times int) {
		for range times {
			if invariant.Guard(b.Report, func() { invariant.Check(false, id, 4) }) == nil {
				t.Fatal("nothing broke")
			}
		}
	}

	breakIt(odd, 100)
	breakIt(even, 1)
	said := lines()
	if len(said) != 2 || said[0].ID != "loop.odd" || said[1].ID != "loop.even" {
		t.Fatalf("the log has %+v", said)
	}
	if s := said[0]; s.Msg != "invariant_broken" || s.Count != 1 ||
		s.Text != "loop.odd: n is odd; found [4]" ||
		!strings.Contains(s.Stack, "TestBreachesCountAndDoNotFlood") {
		t.Errorf("the line is %+v", s)
	}
	wall.Add(quietAfterBreach - time.Second)
	breakIt(odd, 10)
	if said := lines(); len(said) > 0 {
		t.Errorf("within a minute the log has %+v", said)
	}
	wall.Add(time.Second)
	breakIt(odd, 10)
	if said := lines(); len(said) != 1 || said[0].Count != 111 {
		t.Errorf("after a minute the log has %+v", said)
	}
}

// breaching is a store in whose transactions every read breaks an invariant.
type breaching struct{ kv.Database }

type breachingTx struct{ kv.Transaction }

func (d breaching) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return breachingTx{d.Database.Begin(ctx, o)}
}

func (breachingTx) Get([]byte) ([]byte, error) {
	invariant.Check(false, odd)
	return nil, nil
}

// TestBreachRollsBack: a transaction of the node, or of one that follows databases, in which an invariant breaks is
// reported and answered as failed, and the process goes on.
func TestBreachRollsBack(t *testing.T) {
	db, wall := breaching{fakefdb.New()}, clock.NewMock()
	var reported []*invariant.Broken
	report := func(b *invariant.Broken) { reported = append(reported, b) }
	store := jobstore.New(tuple.Subspace("x"), jobstore.DefaultConfig(repid.Server{}))
	l := New(Options{Clock: wall, DB: db, Store: store, Broken: report})
	l.ctx = t.Context()
	l.ask(node.Ask{ID: 7, Request: node.Beat{Worker: "w"}})
	done, is := (<-l.events).(node.Done)
	if !is || done.ID != 7 || done.Fault != node.StoreDown || !strings.Contains(done.Text, "loop.odd") {
		t.Errorf("the node is told %+v", done)
	}
	f := NewFollower(FollowOptions{
		Clock: wall, DB: db, Store: follow.NewStore(tuple.Subspace("x"), store), Broken: report,
		Logger: slog.New(slog.DiscardHandler),
	})
	f.ctx = t.Context()
	f.ask(follow.Ask{ID: 8, Request: follow.Beat{Worker: "w"}})
	answer, is := (<-f.events).(follow.Answer)
	if !is || answer.ID != 8 || answer.Outcome != follow.StoreDown || !strings.Contains(answer.Text, "loop.odd") {
		t.Errorf("the follower is told %+v", answer)
	}
	if len(reported) != 2 || reported[0].ID != odd || reported[1].ID != odd {
		t.Errorf("reported are %v", reported)
	}
}
