package protocol

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// talk is a conversation of a run with its databases; err is the first breach.
type talk struct {
	r   *Run
	now instant.Time
	id  uint64
	err error
	// logs are those that the run has read or written last, by side.
	logs [2]peer.Local
}

func (c *talk) note(err error) {
	if c.err == nil {
		c.err = err
	}
}

// asks sends a request, and answers its id.
func (c *talk) asks(op peer.Op) uint64 {
	c.id++
	c.note(c.r.Call(c.now, c.id, op))
	return c.id
}

func (c *talk) hears(ev replication.Event) { c.note(c.r.Hear(c.now, ev)) }

// gets has a request be answered.
func (c *talk) gets(id uint64, result peer.Result) {
	c.hears(replication.Reply{ID: id, Reply: peer.Reply{Result: result}})
}

// does sends a request that is answered at once.
func (c *talk) does(op peer.Op, result peer.Result) uint64 {
	id := c.asks(op)
	c.gets(id, result)
	switch op := op.(type) {
	case peer.GetLocal:
		if got := result.(peer.Local); got.Found {
			c.logs[op.Side] = got
		}
	case peer.PutLocal:
		if got, is := result.(peer.LocalWritten); is {
			c.logs[op.Side] = peer.Local{Found: true, Rev: got.Rev, Body: op.Body}
		}
	}
	return id
}

// fails sends a request that fails at once.
func (c *talk) fails(op peer.Op, status int) {
	f := &peer.Failure{Kind: peer.Status, Status: status}
	c.hears(replication.Reply{ID: c.asks(op), Reply: peer.Reply{Failure: f}})
}

func (c *talk) ends(cause replication.Cause, word string) {
	c.note(c.r.End(c.now, replication.End{Cause: cause, Trouble: replication.Trouble{Error: word}}))
}

func (c *talk) pass(d time.Duration) { c.now = c.now.Add(d) }

// named takes a run to where it opens its databases.
func (c *talk) named() {
	c.note(c.r.Does(replication.Identify{ID: "base", Base: "base"}))
	c.hears(replication.Identified{})
}

func (c *talk) opened() {
	c.named()
	c.does(peer.Open{Side: peer.Source}, peer.Opened{UpdateSeq: `"9-x"`, InstanceStartTime: "1"})
	c.does(peer.Open{Side: peer.Target}, peer.Opened{UpdateSeq: `"9-x"`, InstanceStartTime: "2"})
}

// finds has a side answer with a log, or with none.
func (c *talk) finds(on peer.Side, log string) {
	if log != "" {
		c.does(peer.GetLocal{Side: on, ID: "base"}, peer.Local{Found: true, Rev: "0-1", Body: []byte(log)})
		return
	}
	for _, id := range []string{"base", "v3", "v2", "v1"} {
		c.does(peer.GetLocal{Side: on, ID: id}, peer.Local{})
	}
}

// located takes a run without checkpoints to where it begins to read.
func (c *talk) located() {
	c.opened()
	c.finds(peer.Source, "")
	c.finds(peer.Target, "")
}

// row is the change of a document.
func row(n int, id string, revs ...string) peer.Change {
	return peer.Change{Seq: seq(n), ID: id, Revs: revs}
}

func seq(n int) peer.Seq { return peer.Seq(fmt.Sprintf(`"%d-x"`, n)) }

// begun takes a run to where it has read these rows, to the end of the feed.
func (c *talk) begun(rows ...peer.Change) {
	c.located()
	c.does(peer.ReadChanges{Since: peer.Zero, Limit: 10},
		peer.Changes{Rows: rows, End: true, LastSeq: rows[len(rows)-1].Seq})
}

func diff(id string, revs ...string) peer.DiffRevs {
	return peer.DiffRevs{Docs: []peer.DocRevs{{ID: id, Revs: revs}}}
}

func lacks(id string, revs ...string) peer.Diff {
	return peer.Diff{Docs: []peer.DocMissing{{ID: id, Missing: revs}}}
}

func fetch(id, rev string) peer.FetchDocs {
	return peer.FetchDocs{Docs: []peer.DocRev{{ID: id, Rev: rev}}, Budget: 1000}
}

func came(rev string) peer.Fetched {
	return peer.Fetched{Docs: []peer.FetchedDoc{{Fate: peer.Taken, Size: 10, Rev: rev}}}
}

func write(id uint64) peer.WriteDocs { return peer.WriteDocs{Docs: []peer.Kept{{Fetch: id}}} }

// copiesDoc has a revision be compared, read and written.
func (c *talk) copiesDoc(id, rev string) {
	c.does(diff(id, rev), lacks(id, rev))
	c.does(write(c.does(fetch(id, rev), came(rev))), peer.Written{})
}

func logAt(session string, n int, start string) string {
	entry := fmt.Sprintf(`{"session_id":"%s","start_last_seq":%s,"end_last_seq":%s,"recorded_seq":%s}`,
		session, start, seq(n), seq(n))
	return fmt.Sprintf(`{"session_id":"%s","source_last_seq":%s,"history":[%s]}`, session, seq(n), entry)
}

func put(on peer.Side, n int) peer.PutLocal {
	return peer.PutLocal{Side: on, ID: "base", Body: []byte(madeFor(fmt.Sprint(int(on)+1), logAt("s1", n, "0")))}
}

// madeFor is a log that was written for the database with an instance_start_time.
func madeFor(start, log string) string {
	return fmt.Sprintf(`%s,"instance_start_time":"%s"}`, log[:len(log)-1], start)
}

func (c *talk) durable() {
	c.does(peer.Commit{Side: peer.Source}, peer.Committed{InstanceStartTime: "1"})
	c.does(peer.Commit{Side: peer.Target}, peer.Committed{InstanceStartTime: "2"})
	c.looks()
}

// looks has the run look at the logs that it is about to replace.
func (c *talk) looks() {
	for side, log := range c.logs {
		if log.Found {
			c.does(peer.GetLocal{Side: peer.Side(side), ID: "base"}, log)
		}
	}
}

// saves has a checkpoint be written.
func (c *talk) saves(n int) {
	c.durable()
	c.does(put(peer.Target, n), peer.LocalWritten{Rev: "0-1"})
	c.does(put(peer.Source, n), peer.LocalWritten{Rev: "0-1"})
}

// legal and none are conversations without a breach.
const legal = Rule(255)

type conversation struct {
	name   string
	about  spec.Replication
	talk   func(*talk)
	breaks Rule
}

func check(t *testing.T, all []conversation) {
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			about := c.about
			about.UseCheckpoints, about.UseBulkGet, about.Source.Retries = true, true, 2
			about.WorkerBatchSize = 1
			said := &talk{r: New(Terms{Replication: &about, MaxListed: 10}), now: instant.Seconds(100)}
			c.talk(said)
			b, _ := said.err.(*Breach)
			switch {
			case c.breaks == legal && b != nil:
				t.Errorf("breaks %d: %s", b.Rule, b)
			case c.breaks != legal && (b == nil || b.Rule != c.breaks):
				t.Errorf("breaks %v, and should break %d", said.err, c.breaks)
			}
		})
	}
}

func TestBeginning(t *testing.T) {
	function := spec.Replication{Filter: spec.Filter{Kind: spec.FunctionFilter, Name: "d/f"}}
	makes := spec.Replication{CreateTarget: true}
	read := func(since peer.Seq) peer.ReadChanges { return peer.ReadChanges{Since: since, Limit: 10} }
	both := func(source, target string) func(*talk) {
		return func(c *talk) {
			c.opened()
			c.finds(peer.Source, source)
			c.finds(peer.Target, target)
		}
	}
	check(t, []conversation{
		{"without checkpoints", spec.Replication{}, func(c *talk) { c.located(); c.asks(read("0")) }, legal},
		{"a name without a filter", function, func(c *talk) { c.named() }, Beginning},
		{"logs before databases", spec.Replication{}, func(c *talk) {
			c.named()
			c.asks(peer.GetLocal{ID: "base"})
		}, Beginning},
		{"changes before logs", spec.Replication{}, func(c *talk) { c.opened(); c.asks(read("0")) }, Beginning},
		{"one log only", spec.Replication{}, func(c *talk) {
			c.opened()
			c.finds(peer.Source, "")
			c.asks(read("0"))
		}, Beginning},
		{"no look under older ids", spec.Replication{}, func(c *talk) {
			c.opened()
			c.finds(peer.Source, "")
			c.does(peer.GetLocal{Side: peer.Target, ID: "base"}, peer.Local{})
			c.asks(read("0"))
		}, Beginning},
		{"a target before it is made", makes, func(c *talk) {
			c.named()
			c.asks(peer.Open{Side: peer.Target})
		}, Beginning},
		{"a target made before the source is seen", makes, func(c *talk) {
			c.named()
			c.asks(peer.Create{})
		}, Beginning},
		{"a common checkpoint", spec.Replication{}, func(c *talk) {
			both(logAt("a", 5, "0"), logAt("a", 5, "0"))(c)
			c.asks(read(seq(5)))
		}, legal},
		{"the source's checkpoint alone", spec.Replication{}, func(c *talk) {
			both(logAt("a", 5, "0"), "")(c)
			c.asks(read(seq(5)))
		}, Beginning},
		{"one session at two sequences", spec.Replication{}, func(c *talk) {
			both(logAt("a", 5, "0"), logAt("a", 4, "0"))(c)
			c.asks(read(seq(5)))
		}, Beginning},
		{"since_seq", spec.Replication{SinceSeq: []byte("7")}, func(c *talk) { c.located(); c.asks(read("7")) },
			legal},
		{"since_seq left out", spec.Replication{SinceSeq: []byte("7")}, func(c *talk) {
			c.located()
			c.asks(read("0"))
		}, Beginning},
		{"writes before the feed", spec.Replication{}, func(c *talk) { c.located(); c.asks(write(1)) }, Beginning},
	})
}

func TestCopying(t *testing.T) {
	a := row(1, "a", "1-a")
	compared := func(c *talk) { c.begun(a); c.does(diff("a", "1-a"), lacks("a", "1-a")) }
	alone := func(of peer.CopiedRev) func(*talk) {
		return func(c *talk) {
			compared(c)
			c.does(peer.CopyDoc{ID: "a", Revs: []string{"1-a"}}, peer.Copied{Revs: []peer.CopiedRev{of}})
		}
	}
	locked := &peer.Refusal{ID: "a", Rev: "1-a", Status: 403, Error: "forbidden"}
	// inTurn has the target refuse one of two revisions, let the run in, and refuse the first again, or the other one.
	inTurn := func(last string) func(*talk) {
		return func(c *talk) {
			c.begun(row(1, "a", "1-a", "1-b"))
			c.does(diff("a", "1-a", "1-b"), lacks("a", "1-a", "1-b"))
			copy := peer.CopyDoc{ID: "a", Revs: []string{"1-a", "1-b"}}
			refuses := func(rev string) peer.Reply {
				r := peer.Refusal{ID: "a", Rev: rev, Status: 403, Error: "forbidden"}
				return peer.Reply{Result: peer.Copied{Revs: []peer.CopiedRev{{Rev: rev, Refused: &r}}},
					Failure: &peer.Failure{Kind: peer.Broken}}
			}
			c.hears(replication.Reply{ID: c.asks(copy), Reply: refuses("1-a")})
			c.does(peer.Open{Side: peer.Target}, peer.Opened{UpdateSeq: `"9-x"`, InstanceStartTime: "2"})
			c.hears(replication.Reply{ID: c.asks(copy), Reply: refuses(last)})
			c.note(c.r.Does(replication.Refused{Findings: []replication.Finding{
				{Refusal: peer.Refusal{ID: "a", Rev: last, Status: 403, Error: "forbidden"}}}}))
		}
	}
	check(t, []conversation{
		{"a document", spec.Replication{}, func(c *talk) { c.begun(a); c.copiesDoc("a", "1-a") }, legal},
		{"refused before and after the target let it in", spec.Replication{}, inTurn("1-a"), legal},
		{"refused only after the target let it in", spec.Replication{}, inTurn("1-b"), Covering},
		{"a revision that the feed did not tell", spec.Replication{}, func(c *talk) {
			c.begun(a)
			c.asks(diff("a", "2-b"))
		}, Copying},
		{"compared twice", spec.Replication{}, func(c *talk) { compared(c); c.asks(diff("a", "1-a")) }, Copying},
		{"read though it is there", spec.Replication{}, func(c *talk) {
			c.begun(a)
			c.does(diff("a", "1-a"), peer.Diff{})
			c.asks(fetch("a", "1-a"))
		}, Copying},
		{"read without a comparison", spec.Replication{}, func(c *talk) {
			c.begun(a)
			c.asks(fetch("a",
				"1-a"))
		}, Copying},
		{"read twice", spec.Replication{}, func(c *talk) {
			compared(c)
			c.asks(fetch("a", "1-a"))
			c.asks(fetch("a", "1-a"))
		}, Copying},
		{"written though it was not read", spec.Replication{}, func(c *talk) { compared(c); c.asks(write(99)) },
			Copying},
		{"written twice", spec.Replication{}, func(c *talk) {
			compared(c)
			id := c.does(fetch("a", "1-a"), came("1-a"))
			c.does(write(id), peer.Written{})
			c.asks(write(id))
		}, Copying},
		{"written again after a failure", spec.Replication{}, func(c *talk) {
			compared(c)
			id := c.does(fetch("a", "1-a"), came("1-a"))
			c.fails(write(id), 500)
			c.pass(time.Second)
			c.does(write(id), peer.Written{})
		}, legal},
		{"ancestors that the target does not have", spec.Replication{}, func(c *talk) {
			compared(c)
			c.asks(peer.CopyDoc{ID: "a", Revs: []string{"1-a"}, Since: []string{"0-z"}})
		}, Copying},
		{"copied again before the target was asked", spec.Replication{}, func(c *talk) {
			alone(peer.CopiedRev{Rev: "1-a", Refused: locked})(c)
			c.asks(peer.CopyDoc{ID: "a", Revs: []string{"1-a"}})
		}, Copying},
		{"copied again after that", spec.Replication{}, func(c *talk) {
			alone(peer.CopiedRev{Rev: "1-a", Refused: locked})(c)
			c.does(peer.Open{Side: peer.Target}, peer.Opened{InstanceStartTime: "2"})
			c.asks(peer.CopyDoc{ID: "a", Revs: []string{"1-a"}})
		}, legal},
		{"changes behind the end", spec.Replication{}, func(c *talk) {
			c.begun(a)
			c.asks(peer.ReadChanges{Since: seq(1), Limit: 10})
		}, Copying},
		{"changes with a gap", spec.Replication{Continuous: true}, func(c *talk) {
			c.begun(a)
			c.asks(peer.ReadChanges{Since: seq(2), Limit: 10, Wait: true})
		}, Copying},
		{"two reads of the feed", spec.Replication{Continuous: true}, func(c *talk) {
			c.begun(a)
			c.asks(peer.ReadChanges{Since: seq(1), Limit: 10, Wait: true})
			c.asks(peer.ReadChanges{Since: seq(1), Limit: 10, Wait: true})
		}, Copying},
		{"reads after a stop", spec.Replication{}, func(c *talk) {
			compared(c)
			c.hears(replication.Stop{})
			c.asks(fetch("a", "1-a"))
		}, Copying},
		{"an answer to what was given up", spec.Replication{}, func(c *talk) {
			compared(c)
			id := c.asks(fetch("a", "1-a"))
			c.note(c.r.Cancel(id))
			c.gets(id, came("1-a"))
			c.asks(write(id))
		}, Copying},
	})
}

func TestEnding(t *testing.T) {
	a := row(1, "a", "1-a")
	completes := func(before func(*talk)) func(*talk) {
		return func(c *talk) { before(c); c.ends(replication.Completed, "") }
	}
	done := func(c *talk) { c.begun(a); c.copiesDoc("a", "1-a"); c.saves(1) }
	check(t, []conversation{
		{"all done", spec.Replication{}, completes(done), legal},
		{"no checkpoint", spec.Replication{}, completes(func(c *talk) { c.begun(a); c.copiesDoc("a", "1-a") }),
			Ending},
		{"not copied", spec.Replication{}, completes(func(c *talk) { c.begun(a) }), Ending},
		{"continuous", spec.Replication{Continuous: true}, completes(done), Ending},
		{"before the end of the feed", spec.Replication{}, completes(func(c *talk) {
			c.located()
			c.does(peer.ReadChanges{Since: "0", Limit: 1}, peer.Changes{LastSeq: "0"})
		}), Ending},
		{"stopped by nobody", spec.Replication{}, func(c *talk) { done(c); c.ends(replication.Stopped, "") },
			Ending},
		{"stopped", spec.Replication{}, func(c *talk) {
			done(c)
			c.hears(replication.Stop{})
			c.ends(replication.Stopped, "")
		}, legal},
		{"changed", spec.Replication{}, func(c *talk) { done(c); c.ends(replication.Changed, "") }, Ending},
		{"failed without a refusal", spec.Replication{OnRefusal: spec.FailRefused},
			func(c *talk) { done(c); c.ends(replication.Failed, "refused") }, Ending},
		{"crashed by itself", spec.Replication{}, func(c *talk) {
			done(c)
			c.hears(replication.Wake{})
			c.ends(replication.Crashed, "oops")
		}, Ending},
		{"too few failures", spec.Replication{}, func(c *talk) {
			c.begun(a)
			c.fails(diff("a", "1-a"), 500)
			c.ends(replication.Crashed, "http_request_failed")
		}, Ending},
		{"a failure for good", spec.Replication{}, func(c *talk) {
			c.begun(a)
			c.fails(diff("a", "1-a"), 404)
			c.ends(replication.Crashed, "revs_diff_failed")
		}, legal},
		{"documents copied that the target cannot be asked about", spec.Replication{}, func(c *talk) {
			c.begun(a)
			c.fails(diff("a", "1-a"), 400)
			c.does(peer.CopyDoc{ID: "a", Revs: []string{"1-a"}}, peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a"}}})
			c.saves(1)
			c.ends(replication.Completed, "")
		}, legal},
		{"documents left out that the target cannot be asked about", spec.Replication{}, func(c *talk) {
			c.begun(a)
			c.fails(diff("a", "1-a"), 400)
			c.ends(replication.Completed, "")
		}, Ending},
		{"a good answer", spec.Replication{}, func(c *talk) {
			c.begun(a)
			c.does(diff("a", "1-a"), peer.Diff{})
			c.ends(replication.Crashed, "revs_diff_failed")
		}, Ending},
	})
}

// TestNever: what no run did is told in the order of a run.
func TestNever(t *testing.T) {
	var c Counts
	if n := len(c.Never()); n != int(transitions) {
		t.Errorf("%d transitions were never taken, of %d", n, transitions)
	}
	for i, word := range words {
		if word == "" {
			t.Errorf("transition %d has no words", i)
		}
	}
	c.Add(&Counts{readsFilter: 2})
	if c.Never()[0] != words[names] {
		t.Errorf("%q", c.Never()[0])
	}
}
