package protocol

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// page has the feed and the list of refused documents be read. The list has one revision, and the feed does not answer:
// page returns the id of the request.
func (c *talk) page(id, rev string) (feed uint64) {
	c.located()
	feed = c.asks(peer.ReadChanges{Since: peer.Zero, Limit: 10})
	c.note(c.r.Does(replication.ReadRefused{}))
	c.hears(replication.RefusedPage{Docs: []replication.Listed{{ID: id, Rev: rev, Attempts: 1}}})
	return feed
}

func (c *talk) lists(f replication.Finding) {
	c.note(c.r.Does(replication.Refused{Findings: []replication.Finding{f}}))
}

func TestListed(t *testing.T) {
	a := row(1, "a", "1-a")
	over := replication.Finding{Refusal: peer.Refusal{ID: "a", Rev: "1-a"}, Over: true}
	refusal := peer.Refusal{ID: "a", Rev: "1-a", Status: 413, Error: "too_large"}
	check(t, []conversation{
		{"off the list before it is durable", spec.Replication{}, func(c *talk) {
			c.page("a", "1-a")
			c.does(diff("a", "1-a"), peer.Diff{})
			c.lists(over)
		}, Covering},
		{"off the list", spec.Replication{}, func(c *talk) {
			c.page("a", "1-a")
			c.does(diff("a", "1-a"), peer.Diff{})
			c.does(peer.Commit{Side: peer.Target}, peer.Committed{InstanceStartTime: "2"})
			c.lists(over)
		}, legal},
		{"off the list, and the feed tells of it meanwhile", spec.Replication{}, func(c *talk) {
			feed := c.page("a", "1-a")
			c.does(diff("a", "1-a"), peer.Diff{})
			c.does(peer.Commit{Side: peer.Target}, peer.Committed{InstanceStartTime: "2"})
			c.gets(feed, peer.Changes{Rows: []peer.Change{a}, End: true, LastSeq: a.Seq})
			c.does(diff("a", "1-a"), peer.Diff{})
			c.lists(over)
		}, legal},
		{"listed twice, since the feed told of it again", spec.Replication{}, func(c *talk) {
			c.r.Lenient = true
			c.located()
			since := peer.Zero
			for n := range 2 {
				at := row(n+1, "a", "1-a")
				c.does(peer.ReadChanges{Since: since, Limit: 10},
					peer.Changes{Rows: []peer.Change{at}, End: n == 1, LastSeq: at.Seq})
				c.does(diff("a", "1-a"), lacks("a", "1-a"))
				c.fails(peer.CopyDoc{ID: "a", Revs: []string{"1-a"}}, 500)
				c.lists(replication.Finding{Refusal: peer.Refusal{ID: "a", Rev: "1-a", Status: 500}, Failed: true})
				c.hears(replication.Stored{})
				since = at.Seq
			}
			c.saves(2)
		}, legal},
		{"tried again, after its listed ancestor brought it", spec.Replication{}, func(c *talk) {
			c.r.Lenient = true
			feed := c.page("a", "1-a")
			newer := row(2, "a", "2-b")
			refused := peer.CopiedRev{Rev: "2-b", Refused: &refusal}
			c.does(diff("a", "1-a"), lacks("a", "1-a"))
			c.gets(feed, peer.Changes{Rows: []peer.Change{newer}, End: true, LastSeq: newer.Seq})
			c.does(diff("a", "2-b"), lacks("a", "2-b"))
			c.fails(peer.CopyDoc{ID: "a", Revs: []string{"2-b"}}, 500)
			c.does(peer.CopyDoc{ID: "a", Revs: []string{"1-a"}}, peer.Copied{Revs: []peer.CopiedRev{refused}})
			c.lists(replication.Finding{Refusal: peer.Refusal{ID: "a", Rev: "2-b", Status: 413}})
			c.hears(replication.Stored{})
			c.asks(peer.CopyDoc{ID: "a", Revs: []string{"2-b"}})
		}, legal},
		{"compared for the list and for the feed at once", spec.Replication{}, func(c *talk) {
			feed := c.page("a", "1-a")
			c.fails(diff("a", "1-a"), 500)
			c.gets(feed, peer.Changes{Rows: []peer.Change{a}, End: true, LastSeq: a.Seq})
			late := c.asks(diff("a", "1-a"))
			c.pass(time.Second)
			c.does(diff("a", "1-a"), lacks("a", "1-a"))
			c.does(peer.CopyDoc{ID: "a", Revs: []string{"1-a"}},
				peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a", Refused: &refusal}}})
			c.lists(replication.Finding{Refusal: refusal})
			c.hears(replication.Stored{})
			c.note(c.r.Does(replication.ReadRefused{}))
			c.hears(replication.RefusedPage{})
			c.gets(late, lacks("a", "1-a"))
			c.asks(fetch("a", "1-a"))
		}, legal},
	})
}

// TestPartsOfListAndFeed: the page of the list and the rows begin with the same documents, and the target takes neither
// question whole. Which of them a part is about is not known then.
func TestPartsOfListAndFeed(t *testing.T) {
	about := func(ids ...string) (op peer.DiffRevs, lacks peer.Diff) {
		for _, id := range ids {
			op.Docs = append(op.Docs, peer.DocRevs{ID: id, Revs: []string{"1-a"}})
			lacks.Docs = append(lacks.Docs, peer.DocMissing{ID: id, Missing: []string{"1-a"}})
		}
		return op, lacks
	}
	lacks := func(c *talk, ids ...string) { c.does(about(ids...)) }
	fails := func(c *talk, status int, ids ...string) {
		op, _ := about(ids...)
		c.fails(op, status)
	}
	parts := func(last ...string) func(*talk) {
		return func(c *talk) {
			c.located()
			feed := c.asks(peer.ReadChanges{Since: peer.Zero, Limit: 10})
			c.note(c.r.Does(replication.ReadRefused{}))
			var page replication.RefusedPage
			for _, id := range []string{"a", "b", "c", "d"} {
				page.Docs = append(page.Docs, replication.Listed{ID: id, Rev: "1-a", Attempts: 1})
			}
			c.hears(page)
			fails(c, 413, "a", "b", "c", "d")
			fails(c, 500, "a", "b")
			c.gets(feed, peer.Changes{End: true, LastSeq: seq(5), Rows: []peer.Change{
				row(1, "a", "1-a"), row(2, "b", "1-a"), row(3, "e", "1-a"), row(4, "c", "1-a"), row(5, "d", "1-a"),
			}})
			fails(c, 413, "a", "b", "e", "c", "d")
			op, _ := about("a", "b")
			rows := c.asks(op)
			c.pass(time.Second)
			lacks(c, "a", "b")
			lacks(c, "c", "d")
			c.hears(replication.Reply{ID: rows, Reply: peer.Reply{Failure: &peer.Failure{Kind: peer.Broken}}})
			c.pass(time.Second)
			lacks(c, "a", "b")
			lacks(c, last...)
		}
	}
	check(t, []conversation{
		{"the rest of the rows", spec.Replication{}, parts("e", "c", "d"), legal},
		{"what was not announced", spec.Replication{}, parts("e", "c", "d", "f"), Copying},
	})
}

// TestOwnLogOfReadOnlySource: the write of a log timed out and landed all the same, and its repetition was refused. The
// run finds its own log then, which has nothing of the one that was there before. It may as well find the log
// of a third run: the target's log counts alone, and the run may also take the source for another one.
func TestOwnLogOfReadOnlySource(t *testing.T) {
	drops := func(put *peer.PutLocal) { put.Body = []byte(madeFor("2", logAt("s2", 2, "0"))) }
	keeps := func(*peer.PutLocal) {}
	// but is what the run's next checkpoint is; without it the run ends.
	readOnly := func(found string, but func(*peer.PutLocal)) func(c *talk) {
		return func(c *talk) {
			c.opened()
			c.finds(peer.Source, logAt("other", 5, "0"))
			c.finds(peer.Target, "")
			c.does(peer.ReadChanges{Since: peer.Zero, Limit: 10},
				peer.Changes{Rows: []peer.Change{row(1, "a", "1-a")}, End: true, LastSeq: seq(1)})
			c.copiesDoc("a", "1-a")
			c.durable()
			c.does(put(peer.Target, 1), peer.LocalWritten{Rev: "0-1"})
			onSource := put(peer.Source, 1)
			onSource.Rev = "0-1"
			late := peer.Reply{Failure: &peer.Failure{Kind: peer.TimedOut}}
			c.hears(replication.Reply{ID: c.asks(onSource), Reply: late})
			c.pass(time.Second)
			c.fails(onSource, 403)
			if found == "" {
				found = string(onSource.Body)
			}
			c.does(peer.GetLocal{Side: peer.Source, ID: "base"},
				peer.Local{Found: true, Rev: "0-2", Body: []byte(found)})
			if but == nil {
				c.ends(replication.Crashed, "checkpoint_commit_failure")
				return
			}
			c.does(peer.ReadChanges{Since: seq(1), Limit: 10, Wait: true},
				peer.Changes{Rows: []peer.Change{row(2, "b", "1-b")}, End: true, LastSeq: seq(2)})
			c.copiesDoc("b", "1-b")
			c.durable()
			next := second(1, 2)
			but(&next)
			c.asks(next)
		}
	}
	check(t, []conversation{
		{"its own log", spec.Replication{Continuous: true}, readOnly("", keeps), legal},
		{"its own log, and it drops that", spec.Replication{Continuous: true}, readOnly("", drops), Logging},
		{"another run's log", spec.Replication{Continuous: true}, readOnly(logAt("third", 5, "0"), drops), legal},
		{"another run's log, and it gives up", spec.Replication{Continuous: true},
			readOnly(logAt("third", 5, "0"), nil), legal},
	})
}

// TestFullList: a run may give up for an answer that may pass if the list may have no place for the document, and try
// it again before.
func TestFullList(t *testing.T) {
	// tried has the target answer so to each attempt, of which one or another may be for the credentials.
	tried := func(attempts, status, place int) func(*talk) {
		return func(c *talk) {
			c.r.MaxListed = place
			c.begun(row(1, "a", "1-a"))
			c.does(diff("a", "1-a"), lacks("a", "1-a"))
			v := &peer.Refusal{ID: "a", Rev: "1-a", Status: status, Error: "some_error"}
			got := peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a", Refused: v}}}
			c.does(peer.CopyDoc{ID: "a", Revs: []string{"1-a"}}, got)
			for range attempts - 1 {
				c.does(peer.Open{Side: peer.Target}, peer.Opened{UpdateSeq: `"9-x"`, InstanceStartTime: "2"})
				c.does(peer.CopyDoc{ID: "a", Revs: []string{"1-a"}}, got)
			}
			c.ends(replication.Crashed, "doc_write_failed")
		}
	}
	// cut has the target refuse a revision, and then the connection be closed, at the first attempt.
	cut := func(place int) func(*talk) {
		return func(c *talk) {
			c.r.MaxListed = place
			c.begun(row(1, "a", "1-a"))
			c.does(diff("a", "1-a"), lacks("a", "1-a"))
			v := &peer.Refusal{ID: "a", Rev: "1-a", Status: 400, Error: "some_error"}
			got := peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a", Refused: v}}}
			id := c.asks(peer.CopyDoc{ID: "a", Revs: []string{"1-a"}})
			f := &peer.Failure{Kind: peer.Broken}
			c.hears(replication.Reply{ID: id, Reply: peer.Reply{Result: got, Failure: f}})
			c.ends(replication.Crashed, "doc_write_failed")
		}
	}
	check(t, []conversation{
		{"no place", spec.Replication{}, tried(3, 400, 0), legal},
		{"a place, and it tries again", spec.Replication{}, tried(3, 400, 1), Copying},
		{"a place, and it gives up", spec.Replication{}, tried(2, 400, 1), Ending},
		{"no place, and the rest of the document fails", spec.Replication{}, cut(0), legal},
		{"a place, and the rest of the document fails", spec.Replication{}, cut(1), Ending},
		{"no place, for what is the document's own", spec.Replication{}, tried(1, 415, 0), Ending},
	})
}

// TestLogFallsBack: a run saw another run's log after its own, and then its own again, as in a database that was put
// back. It may give up, and not for its own log alone.
func TestLogFallsBack(t *testing.T) {
	own := logAt("s1", 1, "0")
	later := strings.Replace(logAt("other", 1, "0"), "]}", own[strings.Index(own, `[{`)+1:], 1)
	later = strings.Replace(later, `}{`, `},{`, 1)
	looks := func(logs ...string) func(*talk) {
		return func(c *talk) {
			c.begun(row(1, "a", "1-a"))
			c.copiesDoc("a", "1-a")
			c.saves(1)
			for i, log := range logs {
				c.does(peer.GetLocal{Side: peer.Target, ID: "base"},
					peer.Local{Found: true, Rev: fmt.Sprint("0-", 2+i), Body: []byte(log)})
			}
			c.ends(replication.Crashed, "checkpoint_commit_failure")
		}
	}
	check(t, []conversation{
		{"its own log again", spec.Replication{}, looks(later, own), legal},
		{"another run's log", spec.Replication{}, looks(later), Ending},
		{"its own log", spec.Replication{}, looks(own), Ending},
		{"its own log twice", spec.Replication{}, looks(later, own, own), Ending},
	})
}

// TestRefusedTwin: the feed told of a document twice, and one of its two copies was in flight when the target said that
// it lets the run in.
func TestRefusedTwin(t *testing.T) {
	op := peer.CopyDoc{ID: "a", Revs: []string{"1-a"}}
	refusing := peer.Copied{Revs: []peer.CopiedRev{
		{Rev: "1-a", Refused: &peer.Refusal{ID: "a", Rev: "1-a", Status: 403, Error: "forbidden"}},
	}}
	refused := func(rows ...peer.Change) func(*talk) {
		return func(c *talk) {
			c.begun(rows...)
			for range rows {
				c.does(diff("a", "1-a"), lacks("a", "1-a"))
			}
			c.does(op, refusing)
			if len(rows) > 1 {
				c.asks(op)
				c.does(peer.Open{Side: peer.Target}, peer.Opened{InstanceStartTime: "2"})
				c.does(op, refusing)
			}
			c.ends(replication.Failed, "refused")
		}
	}
	about := spec.Replication{OnRefusal: spec.FailRefused}
	check(t, []conversation{
		{"twice", about, refused(row(1, "a", "1-a"), row(2, "a", "1-a")), legal},
		{"once, and not asked", about, refused(row(1, "a", "1-a")), Ending},
	})
}

// relying is a log with a checkpoint at 3 that relies on no list, and with others that each rely on that of a job.
func relying(jobs ...string) string {
	history, top := `[{"session_id":"none","recorded_seq":3}]`, `"session_id":"none","source_last_seq":3`
	for i, job := range jobs {
		at := fmt.Sprintf(`"session_id":"of %s",`, job)
		list := fmt.Sprintf(`"list":{"job":"%s","changes":7}`, job)
		history = fmt.Sprintf(`[{%s"recorded_seq":%d,%s},%s`, at, 5+i, list, history[1:])
		top = fmt.Sprintf(`%s"source_last_seq":%d,"unfinished":true,%s`, at, 5+i, list)
	}
	return fmt.Sprintf(`{%s,"history":%s}`, top, history)
}

// TestRelies: a run goes on from checkpoints that rely on the list of its job, or on none.
func TestRelies(t *testing.T) {
	begins := func(has string, changes int64, target string, at peer.Seq) func(*talk) {
		return func(c *talk) {
			c.r.ListOf, c.r.List = has, List{"own", changes}
			c.opened()
			c.finds(peer.Source, relying("own", "other"))
			c.finds(peer.Target, target)
			c.asks(peer.ReadChanges{Since: at, Limit: 10})
		}
	}
	saved := func(changes ...int64) func(*talk) {
		return func(c *talk) {
			c.r.ListOf, c.r.List, c.r.ListSaved = "base", List{"own", 8}, [2]int64(changes)
			c.opened()
			c.finds(peer.Source, relying("own"))
			c.finds(peer.Target, relying("own"))
			c.asks(peer.ReadChanges{Since: "5", Limit: 10})
		}
	}
	both := relying("own", "other")
	covered := strings.Replace(both, `"history":[`, `"history":[{"session_id":"top","recorded_seq":9},`, 1)
	_, history, _ := strings.Cut(covered, `,"history"`)
	covered = `{"session_id":"top","source_last_seq":9,"history"` + history
	check(t, []conversation{
		{"the job's own behind another one's", spec.Replication{}, begins("base", 7, both, "5"), legal},
		{"another one's", spec.Replication{}, begins("base", 7, both, "6"), Beginning},
		{"the newest for all, though there is an own", spec.Replication{}, begins("base", 7, both, "3"), Beginning},
		{"a list of less", spec.Replication{}, begins("base", 6, both, "5"), Beginning},
		{"a list as it was saved", spec.Replication{}, saved(7, 7), legal},
		{"a list of before the source saved it", spec.Replication{}, saved(8, 7), Beginning},
		{"a list of before the target saved it", spec.Replication{}, saved(7, 8), Beginning},
		{"no list", spec.Replication{}, begins("", 7, both, "5"), Beginning},
		{"without checkpoints", spec.Replication{}, func(c *talk) {
			c.r.UseCheckpoints = false
			begins("base", 7, both, "5")(c)
		}, Beginning},
		{"another one's that a later one covers", spec.Replication{}, begins("", 0, covered, "6"), legal},
	})
}
