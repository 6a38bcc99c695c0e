package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/repid"
	"couchrelay/sim/fakefdb"

	"pgregory.net/rapid"
)

// life is a host on a real store, whose requests and calls are answered in any order, late, or with failures.
type life struct {
	*world
	t  *rapid.T
	db *fakefdb.Database
	s  *jobstore.Store
	// known are the calls that were ever made.
	known []call
}

// TestAnyOrder: in whatever order a driver that keeps its obligations answers, no machine is told of what
// it does not wait for, calls are cancelled once, links are closed once with nothing in flight, and the
// machine with the earliest deadline is known and not woken in vain. (world checks most of it as it
// drives.)
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := jobstore.DefaultConfig(repid.Server{UUID: "u"})
		l := &life{t: t, db: fakefdb.New(), s: jobstore.New(tuple.Subspace(tuple.Pack("test")), config)}
		l.do(func(tx kv.Tx) error { return l.s.Docs.Create(tx, "_replicator", tuple.UUID{1}, 1) })
		l.world = newWorld(t, nil)
		l.refuses = func(run uint64) bool { return run%7 == 0 }
		actions := []func(){
			l.answer, l.answer, l.answer, l.respond, l.respond, l.respond, l.respond, l.tooLate,
			l.sleep, l.sleep, l.write, l.write, l.notify, l.configure,
		}
		for range rapid.IntRange(50, 400).Draw(t, "actions") {
			actions[rapid.IntRange(0, len(actions)-1).Draw(t, "action")]()
			l.check()
		}
		l.tell(node.Drain{})
		for range 10_000 {
			if l.exited {
				break
			}
			l.answer()
			l.sleep()
			l.check()
		}
		if !l.exited || len(l.links) > 0 {
			t.Fatalf("it has not left, with %d links, when asked for %v", len(l.links), l.asks)
		}
		if n := len(slices.Compact(slices.Sorted(slices.Values(l.closed)))); n != len(l.closed) {
			t.Fatalf("a run was closed twice: %v", l.closed)
		}
	})
}

func (l *life) check() {
	l.t.Helper()
	due := l.h.Node().Deadline()
	for run := range l.links {
		due = min(due, l.h.Run(run).Deadline())
	}
	if l.h.Deadline() != due {
		l.t.Fatalf("due at %s, and its machines at %s", l.h.Deadline(), due)
	}
	if due <= l.now.Steady && l.h.Due(l.now.Steady) == nil {
		l.t.Fatalf("nothing is due at %s, and the deadline is %s", l.now.Steady, due)
	}
}

func (l *life) do(f func(kv.Tx) error) {
	if err := kv.Do(context.Background(), l.db, f); err != nil {
		l.t.Fatalf("%v", err)
	}
}

// answer performs a request, or lets it fail.
func (l *life) answer() {
	if len(l.asks) == 0 {
		return
	}
	i := rapid.IntRange(0, len(l.asks)-1).Draw(l.t, "ask")
	ask := l.asks[i]
	l.asks = slices.Delete(l.asks, i, i+1)
	if rapid.IntRange(0, 9).Draw(l.t, "fails") == 9 {
		l.tell(node.Done{ID: ask.ID, Fault: node.StoreDown, Text: "down"})
		return
	}
	result, err := kv.Run(context.Background(), l.db, func(tx kv.Tx) (node.Result, error) {
		return node.Perform(tx, l.s, ask.Request, l.now.Wall)
	})
	if err != nil {
		l.tell(node.Failed(ask.ID, err))
		return
	}
	l.tell(node.Done{ID: ask.ID, Result: result})
}

// respond answers a call in flight.
func (l *life) respond() {
	var all []call
	for _, run := range slices.Sorted(maps.Keys(l.links)) {
		for _, id := range l.calls(run) {
			all = append(all, call{run, id})
		}
	}
	if len(all) == 0 {
		return
	}
	c := rapid.SampledFrom(all).Draw(l.t, "call")
	l.known = append(l.known, c)
	status := rapid.SampledFrom([]int{404, 429, 500}).Draw(l.t, "status")
	r := peer.Reply{Failure: &peer.Failure{Kind: peer.Status, Status: status}}
	if rapid.IntRange(0, 9).Draw(l.t, "fails") < 8 {
		r = l.result(l.links[c.run][c.id])
	}
	l.reply(c.run, c.id, r)
}

// result is the answer of databases that hold one document and take everything.
func (l *life) result(op peer.Op) peer.Reply {
	var result peer.Result
	switch op := op.(type) {
	case peer.Open:
		result = peer.Opened{UpdateSeq: "5", InstanceStartTime: "0"}
	case peer.Create:
		result = peer.Created{}
	case peer.GetLocal:
		result = peer.Local{}
	case peer.PutLocal:
		result = peer.LocalWritten{Rev: "0-1"}
	case peer.ReadChanges:
		changes := peer.Changes{End: true, LastSeq: "5", Pending: 0}
		if op.Since != "5" {
			changes.Rows = []peer.Change{{Seq: "5", ID: "d", Revs: []string{"1-a"}}}
		}
		result = changes
	case peer.DiffRevs:
		result = peer.Diff{Docs: []peer.DocMissing{{ID: "d", Missing: []string{"1-a"}}}}
	case peer.FetchDocs:
		result = peer.Fetched{Docs: []peer.FetchedDoc{{Fate: peer.Taken, Size: 10, Rev: "1-a"}}}
	case peer.WriteDocs:
		result = peer.Written{}
	case peer.Commit:
		result = peer.Committed{InstanceStartTime: "0"}
	case peer.CountPending:
		result = peer.Pending{}
	default:
		return peer.Reply{Failure: &peer.Failure{Kind: peer.Broken}}
	}
	return peer.Reply{Result: result}
}

// tooLate answers a call again, or one that was cancelled: no machine is stepped.
func (l *life) tooLate() {
	all := append(slices.Clone(l.known), l.over...)
	if len(all) == 0 {
		return
	}
	c, n := rapid.SampledFrom(all).Draw(l.t, "late"), len(l.steps)
	if l.reply(c.run, c.id, peer.Reply{Result: peer.Created{}}); len(l.steps) != n {
		l.t.Fatalf("a late reply is told: %q", l.steps[n:])
	}
}

// sleep passes time to the deadline, or a little.
func (l *life) sleep() {
	d := time.Duration(rapid.IntRange(0, 3000).Draw(l.t, "ms")) * time.Millisecond
	if at := l.h.Deadline(); at != instant.Never && rapid.Bool().Draw(l.t, "exactly") {
		d = max(0, at.Sub(l.now.Steady))
	}
	l.pass(d)
	if at := l.h.Deadline(); at <= l.now.Steady {
		l.t.Fatalf("at %s all were woken, and due at %s is %s", l.now.Steady, at, l.h.Due(l.now.Steady))
	}
}

// write makes, replaces or deletes a replication document.
func (l *life) write() {
	id := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(l.t, "document")
	source := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(l.t, "source")
	const format = `{"_id":%q,"source":"http://h/%s","target":"http://x/x","continuous":%v,"retries_per_request":%d}`
	body := fmt.Sprintf(format, id, source, rapid.Bool().Draw(l.t, "continuous"), len(l.steps)%7)
	if rapid.IntRange(0, 3).Draw(l.t, "what") == 3 {
		body = fmt.Sprintf(`{"_id":%q,"_deleted":true}`, id)
	}
	l.do(func(tx kv.Tx) error {
		db, err := l.s.Docs.Open(tx, "_replicator")
		if err != nil {
			return err
		}
		doc, err := docs.ParseDocument([]byte(body), docs.ReplicationMembers...)
		if err != nil {
			return err
		}
		if old, err := db.Read(id, docs.Want{Deleted: true}); err == nil {
			doc.Rev = old.Rev
		}
		_, err = l.s.WriteDocs(tx, db, []docs.Edit{{Document: *doc}}, jobstore.Writer{Admin: true}, l.now.Wall)
		return err
	})
}

// notify answers an Await, as when its watch was lost.
func (l *life) notify() {
	if len(l.awaits) == 0 {
		return
	}
	topic := l.awaits[0].Topic
	l.awaits = l.awaits[1:]
	l.tell(node.Notified{Topic: topic})
}

func (l *life) configure() {
	s := node.DefaultSettings()
	s.Maintenance = rapid.IntRange(0, 3).Draw(l.t, "maintenance") == 3
	s.MaxJobs = rapid.IntRange(0, 4).Draw(l.t, "max jobs")
	l.tell(node.Configure{Settings: s})
}
