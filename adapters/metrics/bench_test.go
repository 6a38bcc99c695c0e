package metrics

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"couchrelay/adapters/couch"
	"couchrelay/core/host"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// engine is a host whose runs copy documents between servers that answer at once, so that nothing takes time but the
// engine itself.
type engine struct {
	b     *testing.B
	host  *host.Host
	meter *Meter // nil for none
	now   node.Clock
	seq   int
	left  int // changes to come
}

// newEngineWith is a host with one continuous run, whose source has some changes.
func newEngineWith(b *testing.B, m *Meter, changes int64) *engine {
	start := instant.Seconds(1_700_000_000)
	e := &engine{b: b, meter: m, left: int(changes), now: node.Clock{Steady: start, Wall: start}}
	c := host.Config{Server: repid.Server{UUID: "u"}, Node: node.Config{Settings: node.DefaultSettings(), Name: "n",
		Roles: node.AllRoles, Worker: "w", Exclusive: true, Seed: 1}}
	if m != nil {
		c.Observer = m.Engine
	}
	e.host = host.New(c)
	e.tell(node.Start{})
	return e
}

// tell tells the host an event, as a loop does.
func (e *engine) tell(ev host.Event) {
	var replies []host.Event
	for e.host.Tell(ev); e.host.Next() != nil; {
		for _, effect := range e.host.Step(e.now) {
			switch effect := effect.(type) {
			case node.Ask:
				replies = append(replies, node.Done{ID: effect.ID, Result: e.perform(effect.Request)})
			case host.RunEffect:
				if call, is := effect.Effect.(replication.Call); is {
					if reply, now := e.answer(call.Op); now {
						replies = append(replies, host.RunEvent{Run: effect.Run,
							Event: replication.Reply{ID: call.ID, Reply: peer.Reply{Result: reply}}})
					}
				}
			}
		}
	}
	if e.meter != nil {
		e.meter.Engine.Tallied(e.host.Tally())
	}
	for _, reply := range replies {
		e.tell(reply)
	}
}

// perform answers a request of the node. The first accept brings the job.
func (e *engine) perform(q node.Request) node.Result {
	switch q.(type) {
	case node.Accept:
		if e.seq > 0 {
			return node.Accepted{}
		}
		e.seq = 1
		rep, err := spec.ParseRequest([]byte(`{"source":"http://h/a","target":"http://h/b","continuous":true}`),
			spec.DefaultConfig())
		if err != nil {
			e.b.Fatal(err)
		}
		return node.Accepted{Work: []jobstore.Work{{JobID: "a", Lock: jobs.Lock{Worker: "w", Batch: 1},
			Record: &jobstore.Record{Database: "_replicator"}, Replication: rep}}}
	case node.Claim:
		return node.Claimed{}
	case node.Beat:
		return node.Beaten{}
	case node.ListOwned:
		return node.Owned{}
	case node.ListLeases:
		return node.Leases{}
	case node.Survey:
		return node.Surveyed{}
	case node.Promote:
		return node.Promoted{Next: instant.Never}
	case node.Sweep:
		return node.Progressed{Done: true}
	}
	return node.Ok{}
}

// answer answers an operation, but for a long poll while there are no changes.
func (e *engine) answer(op peer.Op) (peer.Result, bool) {
	if e.meter != nil {
		e.meter.Attempted(couch.Attempt{Server: "h", Operation: "bulk_get", Status: 200, Took: time.Millisecond})
	}
	switch op := op.(type) {
	case peer.ReadChanges:
		n := min(op.Limit, e.left)
		if e.left -= n; n == 0 && op.Wait {
			return nil, false
		}
		rows := make([]peer.Change, n)
		for i := range rows {
			e.seq++
			rows[i] = peer.Change{Seq: peer.Seq(fmt.Sprint(e.seq)), ID: fmt.Sprint("doc", e.seq), Revs: []string{"1-a"}}
		}
		return peer.Changes{Rows: rows, End: true, LastSeq: peer.Seq(fmt.Sprint(e.seq)), Pending: int64(e.left)}, true
	case peer.DiffRevs:
		diff := peer.Diff{}
		for _, d := range op.Docs {
			diff.Docs = append(diff.Docs, peer.DocMissing{ID: d.ID, Missing: d.Revs})
		}
		return diff, true
	case peer.FetchDocs:
		docs := make([]peer.FetchedDoc, len(op.Docs))
		for i := range docs {
			docs[i] = peer.FetchedDoc{Fate: peer.Taken, Size: 1000, Rev: "1-a"}
		}
		return peer.Fetched{Docs: docs}, true
	case peer.Open:
		return peer.Opened{UpdateSeq: "1", InstanceStartTime: "1"}, true
	case peer.GetLocal:
		return peer.Local{}, true
	case peer.PutLocal:
		return peer.LocalWritten{Rev: "0-1"}, true
	case peer.WriteDocs:
		return peer.Written{}, true
	case peer.Commit:
		return peer.Committed{InstanceStartTime: "1"}, true
	}
	return peer.Pending{}, true
}

// pass lets time pass, in which changes come and are copied.
func (e *engine) pass(d time.Duration) {
	e.now.Steady, e.now.Wall = e.now.Steady.Add(d), e.now.Wall.Add(d)
	for ev := e.host.Due(e.now.Steady); ev != nil; ev = e.host.Due(e.now.Steady) {
		e.tell(ev)
	}
}

// copies copies documents in a run of its own, and returns how long that took.
func copies(b *testing.B, m *Meter, count int64) time.Duration {
	began := time.Now()
	e := newEngineWith(b, m, count)
	for steps := 0; e.host.Tally().DocsWritten < count; steps++ {
		if steps > 10_000 {
			b.Fatalf("%+v after %d steps", e.host.Tally(), steps)
		}
		e.pass(100 * time.Millisecond)
	}
	return time.Since(began)
}

// BenchmarkMetered copies documents with an engine that is metered and with one that is not, between servers that
// answer at once, and reports how many times as long the former takes (medians).
func BenchmarkMetered(b *testing.B) {
	const count = 20_000
	var plain, metered []time.Duration
	for b.Loop() {
		plain = append(plain, copies(b, nil, count))
		m := New("1.2.3", time.Now())
		metered = append(metered, copies(b, m, count))
	}
	slices.Sort(plain)
	slices.Sort(metered)
	b.ReportMetric(metered[len(metered)/2].Seconds()/plain[len(plain)/2].Seconds(), "times")
	b.ReportMetric(float64(plain[len(plain)/2].Nanoseconds())/count, "ns/doc")
	b.ReportMetric(0, "ns/op")
}
