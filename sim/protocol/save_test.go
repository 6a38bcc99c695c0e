package protocol

import (
	"fmt"
	"strings"
	"testing"

	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
)

// second puts a checkpoint on the target that follows the one of saves(first).
func second(first, n int) peer.PutLocal {
	op := put(peer.Target, first)
	last := string(op.Body[strings.Index(string(op.Body), `[{`)+1 : strings.Index(string(op.Body), `]`)])
	log := strings.ReplaceAll(logAt("s2", n, "0"), "}]", "},"+last+"]")
	return peer.PutLocal{Side: peer.Target, ID: "base", Rev: "0-1", Body: []byte(madeFor("2", log))}
}

func TestSaving(t *testing.T) {
	a, b := row(1, "a", "1-a"), row(2, "b", "1-b")
	done := func(c *talk) { c.begun(a); c.copiesDoc("a", "1-a") }
	refuses := &peer.Refusal{ID: "a", Rev: "1-a", Status: 413, Error: "too_large"}
	refused := func(c *talk) {
		c.begun(a)
		c.does(diff("a", "1-a"), lacks("a", "1-a"))
		c.does(peer.CopyDoc{ID: "a", Revs: []string{"1-a"}},
			peer.Copied{Revs: []peer.CopiedRev{{Rev: "1-a", Refused: refuses}}})
	}
	listing := replication.Refused{Findings: []replication.Finding{{Refusal: *refuses}}}
	check(t, []conversation{
		{"a checkpoint", spec.Replication{}, func(c *talk) { done(c); c.saves(1) }, legal},
		{"not durable", spec.Replication{}, func(c *talk) { done(c); c.asks(put(peer.Target, 1)) }, Covering},
		{"durable too early", spec.Replication{}, func(c *talk) {
			c.begun(a)
			c.durable()
			c.copiesDoc("a", "1-a")
			c.asks(put(peer.Target, 1))
		}, Covering},
		{"one change too far", spec.Replication{}, func(c *talk) {
			c.begun(a, b)
			c.copiesDoc("a", "1-a")
			c.durable()
			c.asks(put(peer.Target, 2))
		}, Covering},
		{"the source first", spec.Replication{}, func(c *talk) {
			done(c)
			c.durable()
			c.asks(put(peer.Source,
				1))
		}, Logging},
		{"both at once", spec.Replication{}, func(c *talk) {
			done(c)
			c.durable()
			c.asks(put(peer.Target, 1))
			c.asks(put(peer.Source, 1))
		}, Logging},
		{"another database's", spec.Replication{}, func(c *talk) {
			done(c)
			c.durable()
			op := put(peer.Source, 1)
			op.Side = peer.Target
			c.asks(op)
		}, Logging},
		{"twice", spec.Replication{}, func(c *talk) { done(c); c.saves(1); c.asks(put(peer.Source, 1)) }, Logging},
		{"a refusal that is not listed", spec.Replication{}, func(c *talk) {
			refused(c)
			c.note(c.r.Does(listing))
			c.durable()
			c.asks(put(peer.Target, 1))
		}, Covering},
		{"a refusal that is listed", spec.Replication{}, func(c *talk) {
			refused(c)
			c.note(c.r.Does(listing))
			c.hears(replication.Stored{})
			c.saves(1)
		}, legal},
		{"what was not refused is listed", spec.Replication{}, func(c *talk) {
			done(c)
			c.note(c.r.Does(listing))
		}, Covering},
		{"the feed tells of changes again", spec.Replication{}, func(c *talk) {
			c.begun(a, b, a, b)
			c.copiesDoc("a", "1-a")
			c.copiesDoc("b", "1-b")
			c.saves(2) // at the first b, or at the last
			c.durable()
			c.asks(second(2, 1))
		}, legal},
		{"back without being told again", spec.Replication{}, func(c *talk) {
			c.begun(a, b)
			c.copiesDoc("a", "1-a")
			c.copiesDoc("b", "1-b")
			c.saves(2)
			c.durable()
			c.asks(second(2, 1))
		}, Covering},
		{"a log that may be gone", spec.Replication{}, func(c *talk) {
			c.begun(a, b)
			c.copiesDoc("a", "1-a")
			c.saves(1)
			c.copiesDoc("b", "1-b")
			c.logs = [2]peer.Local{}
			c.durable()
			c.asks(second(1, 2))
		}, Logging},
		{"another database", spec.Replication{}, func(c *talk) {
			done(c)
			c.does(peer.Commit{Side: peer.Source}, peer.Committed{InstanceStartTime: "3"})
			c.asks(put(peer.Target, 1))
		}, Covering},
	})
}

// TestKnownByAChange: a source that stores no logs may be put back, so each checkpoint, also the first one, comes
// after a look for the changes by which the source is known, and that behind a look for its newest one.
func TestKnownByAChange(t *testing.T) {
	find := func(id string) peer.FindRev {
		return peer.FindRev{ID: id, Revs: []string{"1-a"}}
	}
	newest := peer.NewestChange{Doc: peer.DocRevs{ID: "n", Revs: []string{"1-a"}}}
	lone := func(log, id string, n int, newest string) string {
		const lone = `"source_read_only":{"session_id":"","instance_start_time":"1","last_id":"%s","last_rev":"1-a",` +
			`"last_seq":%s,"newest_id":"%s","newest_rev":"1-a"}}`
		return log[:len(log)-1] + "," + fmt.Sprintf(lone, id, seq(n), newest)
	}
	own := strings.Replace(logAt("s1", 6, "0"), `"start_last_seq":0`, `"start_last_seq":`+string(seq(5)), 1)
	names := func(id string) peer.PutLocal {
		body := []byte(lone(madeFor("2", own), "a", 6, id))
		return peer.PutLocal{Side: peer.Target, ID: "base", Rev: "0-1", Body: body}
	}
	puts := names("n")
	opens := func(c *talk) {
		c.opened()
		c.finds(peer.Source, "")
		c.finds(peer.Target, lone(logAt("old", 5, "0"), "z", 5, "y"))
		c.does(find("z"), peer.RevFound{Found: true})
	}
	begins := func(c *talk) {
		opens(c)
		c.does(find("y"), peer.RevFound{Found: true})
		c.does(peer.ReadChanges{Since: seq(5), Limit: 10},
			peer.Changes{Rows: []peer.Change{row(6, "a", "1-a")}, End: true, LastSeq: seq(6)})
		c.copiesDoc("a", "1-a")
		c.durable()
	}
	// keeps has the source tell its newest change, and that it has it, and those before.
	keeps := func(c *talk) {
		c.does(peer.ReadNewest{}, newest)
		c.does(find("n"), peer.RevFound{Found: true})
		c.does(find("z"), peer.RevFound{Found: true})
		c.does(find("y"), peer.RevFound{Found: true})
	}
	// overtaken has another run have gone on from the checkpoint, which knows the source by change o.
	overtaken := func(id string) func(*talk) {
		return func(c *talk) {
			begins(c)
			keeps(c)
			c.fails(puts, 409)
			other := strings.Replace(logAt("other", 6, "0"), "]}", ","+own[strings.Index(own, "[{")+1:], 1)
			c.does(peer.GetLocal{Side: peer.Target, ID: "base"},
				peer.Local{Found: true, Rev: "0-3", Body: []byte(lone(madeFor("2", other), "o", 6, "p"))})
			c.does(peer.ReadChanges{Since: seq(6), Limit: 10, Wait: true},
				peer.Changes{Rows: []peer.Change{row(7, "b", "1-b")}, End: true, LastSeq: seq(7)})
			c.copiesDoc("b", "1-b")
			c.durable()
			c.does(find(id), peer.RevFound{Found: true})
		}
	}
	lacks := func(since peer.Seq) func(*talk) {
		return func(c *talk) {
			opens(c)
			c.does(find("y"), peer.RevFound{})
			c.does(find("y"), peer.RevFound{})
			c.asks(peer.ReadChanges{Since: since, Limit: 10})
		}
	}
	// writes has a run look for changes, all of which are there but for one, and then write a log.
	writes := func(put peer.PutLocal, gone string, looks ...string) func(*talk) {
		return func(c *talk) {
			begins(c)
			for _, id := range looks {
				if id == "newest" {
					c.does(peer.ReadNewest{}, newest)
				} else {
					c.does(find(id), peer.RevFound{Found: id != gone})
				}
			}
			c.asks(put)
		}
	}
	check(t, []conversation{
		{"looked for", spec.Replication{}, writes(puts, "", "newest", "n", "z", "y"), legal},
		{"not looked for", spec.Replication{}, writes(puts, ""), Covering},
		{"gone", spec.Replication{}, writes(puts, "z", "newest", "n", "z", "y"), Covering},
		{"another change", spec.Replication{}, writes(puts, "", "newest", "n", "z", "a"), Covering},
		{"the newest gone", spec.Replication{}, writes(puts, "y", "newest", "n", "z", "y"), Covering},
		{"the newest not looked for", spec.Replication{}, writes(puts, "", "newest", "n", "z"), Covering},
		{"the newest not read", spec.Replication{}, writes(puts, "", "z", "y"), Covering},
		{"the newest read later", spec.Replication{}, writes(puts, "", "z", "newest", "n", "y"), Covering},
		{"another one as the newest", spec.Replication{}, writes(names("m"), "", "newest", "n", "z", "y"), Covering},
		{"none as the newest", spec.Replication{}, writes(names(""), "", "newest", "n", "z", "y"), Covering},
		{"the newest not shown", spec.Replication{}, writes(names(""), "n", "newest", "n", "z", "y"), legal},
		{"as the newest one not shown", spec.Replication{}, writes(puts, "n", "newest", "n", "z", "y"), Covering},
		{"as the newest one not asked for", spec.Replication{}, writes(puts, "", "newest", "z", "y"), Covering},
		{"the newest is hidden", spec.Replication{}, func(c *talk) {
			begins(c)
			c.fails(peer.ReadNewest{}, 403)
			c.does(find("z"), peer.RevFound{Found: true})
			c.fails(find("y"), 403)
			c.asks(names(""))
		}, legal},
		{"the newest is the last", spec.Replication{}, func(c *talk) {
			begins(c)
			c.does(peer.ReadNewest{}, peer.NewestChange{Doc: peer.DocRevs{ID: "a", Revs: []string{"1-a"}}})
			c.does(find("z"), peer.RevFound{Found: true})
			c.does(find("y"), peer.RevFound{Found: true})
			c.asks(names(""))
		}, legal},
		{"begun without the newest", spec.Replication{}, func(c *talk) {
			opens(c)
			c.asks(peer.ReadChanges{Since: seq(5), Limit: 10})
		}, Beginning},
		{"begun without it, as the newest is gone", spec.Replication{}, lacks(seq(5)), Beginning},
		{"begun anew, as the newest is gone", spec.Replication{}, lacks(peer.Zero), legal},
		{"the newest looked for first", spec.Replication{}, func(c *talk) {
			c.opened()
			c.finds(peer.Source, "")
			c.finds(peer.Target, lone(logAt("old", 5, "0"), "z", 5, "y"))
			c.asks(find("y"))
		}, Beginning},
		{"its own change, not that of a run that went on", spec.Replication{Continuous: true}, overtaken("a"), legal},
	})
}

// TestOthersLogs: a run may write its log over three of other runs.
func TestOthersLogs(t *testing.T) {
	over := func(n int) func(*talk) {
		return func(c *talk) {
			c.begun(row(1, "a", "1-a"))
			c.copiesDoc("a", "1-a")
			c.durable()
			c.fails(put(peer.Target, 1), 409)
			for i := range n {
				other := peer.Local{Found: true, Rev: fmt.Sprintf("0-%d", i+1)}
				other.Body = []byte(logAt(fmt.Sprint("other", i), 1, "0"))
				c.does(peer.GetLocal{Side: peer.Target, ID: "base"}, other)
				again := put(peer.Target, 1)
				again.Rev = other.Rev
				c.fails(again, 409)
			}
		}
	}
	check(t, []conversation{
		{"three", spec.Replication{}, over(maxOthers), legal},
		{"four", spec.Replication{}, over(maxOthers + 1), Logging},
	})
}

// TestOthersGoOn: two runs write one log by turns, and what the other one wrote need not stay in it. The run knows the
// database by its own checkpoint as well.
func TestOthersGoOn(t *testing.T) {
	over := func(session string) string { // the run's own checkpoint
		own := logAt("s1", 1, "0")
		return strings.Replace(logAt(session, 1, "0"), "]}", ","+own[strings.Index(own, `[{`)+1:], 1)
	}
	meets := func(last string) func(*talk) {
		return func(c *talk) {
			c.begun(row(1, "a", "1-a"), row(2, "b", "1-b"))
			c.copiesDoc("a", "1-a")
			c.durable()
			finds := func(put peer.PutLocal, rev, log string) {
				c.fails(put, 409)
				found := peer.Local{Found: true, Rev: rev, Body: []byte(log)}
				c.does(peer.GetLocal{Side: peer.Target, ID: "base"}, found)
			}
			finds(put(peer.Target, 1), "0-5", over("other"))
			c.does(put(peer.Source, 1), peer.LocalWritten{Rev: "0-1"})
			c.copiesDoc("b", "1-b")
			c.durable()
			next := second(1, 2)
			next.Rev = "0-5"
			finds(next, "0-9", last)
			next.Rev = "0-9"
			c.asks(next)
		}
	}
	check(t, []conversation{
		{"its own checkpoint is there", spec.Replication{}, meets(over("third")), legal},
		{"the other run's is there", spec.Replication{}, meets(logAt("other", 1, "0")), legal},
		{"neither is there", spec.Replication{}, meets(logAt("third", 1, "0")), Logging},
	})
}

// TestSourceStopsStoring: the checkpoint that the source has taken before it stored no more stays in the target's log.
func TestSourceStopsStoring(t *testing.T) {
	writes := func(next peer.PutLocal) func(*talk) {
		return func(c *talk) {
			c.begun(row(1, "a", "1-a"), row(2, "b", "1-b"))
			c.copiesDoc("a", "1-a")
			c.saves(1)
			c.copiesDoc("b", "1-b")
			c.does(peer.Commit{Side: peer.Target}, peer.Committed{InstanceStartTime: "2"})
			c.fails(peer.Commit{Side: peer.Source}, 403)
			c.looks()
			c.asks(next)
		}
	}
	dropping := second(1, 2)
	dropping.Body = []byte(madeFor("2", logAt("s2", 2, "0")))
	check(t, []conversation{
		{"it stays", spec.Replication{}, writes(second(1, 2)), legal},
		{"the run drops it", spec.Replication{}, writes(dropping), Logging},
	})
}

// TestSourceStoresAgain: a source that has refused a log takes another one. If that meets one of another run, the run
// may give up, also if that run went on from its checkpoint on the target.
func TestSourceStoresAgain(t *testing.T) {
	other, own := logAt("other", 1, "0"), logAt("s2", 2, "0")
	after := strings.Replace(other, "]}", ","+own[strings.Index(own, "[{")+1:], 1)
	meets := func(conflict bool, log string) func(*talk) {
		return func(c *talk) {
			c.begun(row(1, "a", "1-a"), row(2, "b", "1-b"))
			c.copiesDoc("a", "1-a")
			c.durable()
			c.does(put(peer.Target, 1), peer.LocalWritten{Rev: "0-1"})
			c.fails(put(peer.Source, 1), 403)
			c.copiesDoc("b", "1-b")
			c.durable()
			next := second(1, 2)
			c.does(next, peer.LocalWritten{Rev: "0-2"})
			if next.Side, next.Rev = peer.Source, ""; conflict {
				next.Body = []byte(strings.Replace(string(next.Body), `"2"`, `"1"`, 1))
				c.fails(next, 409)
			}
			found := peer.Local{Found: true, Rev: "0-7", Body: []byte(log)}
			c.does(peer.GetLocal{Side: peer.Source, ID: "base"}, found)
			c.ends(replication.Crashed, "checkpoint_commit_failure")
		}
	}
	check(t, []conversation{
		{"a log of another run", spec.Replication{}, meets(true, other), legal},
		{"one that it has not met", spec.Replication{}, meets(false, other), Ending},
		{"one that came of its own", spec.Replication{}, meets(false, after), Ending},
		{"of another database, that came of its own", spec.Replication{},
			meets(false, strings.Replace(after, "{", `{"mark":"m",`, 1)), legal},
	})
}

// TestAgreedCheckpoint: the checkpoint where both logs agreed stays in them, unless another run has dropped it there
// already.
func TestAgreedCheckpoint(t *testing.T) {
	// behind is a log with older checkpoints in its history.
	behind := func(log string, older ...string) string {
		for _, session := range older {
			entry := logAt(session, 6, "0")
			entry = entry[strings.Index(entry, "[{")+1 : strings.Index(entry, "]")]
			log = strings.Replace(log, "]", ","+entry+"]", 1)
		}
		return log
	}
	writes := func(to peer.Side, found ...string) func(*talk) {
		return func(c *talk) {
			c.opened()
			c.finds(peer.Source, behind(logAt("both", 6, "0"), "before"))
			c.finds(peer.Target, behind(logAt("before", 6, "0"), "both"))
			c.does(peer.ReadChanges{Since: seq(6), Limit: 10},
				peer.Changes{Rows: []peer.Change{row(7, "a", "1-a")}, End: true, LastSeq: seq(7)})
			c.copiesDoc("a", "1-a")
			c.durable()
			put := func(on peer.Side, rev string, older ...string) peer.PutLocal {
				log := behind(logAt("new", 7, string(seq(6))), older...)
				made := [2]string{"1", "2"}[on]
				return peer.PutLocal{Side: on, ID: "base", Rev: rev, Body: []byte(madeFor(made, log))}
			}
			gets := func(rev, session string, older ...string) {
				body := []byte(behind(logAt(session, 6, "0"), older...))
				c.does(peer.GetLocal{Side: to, ID: "base"}, peer.Local{Found: true, Rev: rev, Body: body})
			}
			if to == peer.Source {
				c.does(put(peer.Target, "0-1", "both", "before"), peer.LocalWritten{Rev: "0-2"})
			}
			gets("0-1", "third", "both", "before") // another run has written meanwhile
			c.fails(put(to, "0-1", "third", "both", "before"), 409)
			gets("0-2", "fourth", append([]string{"third"}, found...)...)
			c.asks(put(to, "0-2", "fourth", "third", "before"))
		}
	}
	// relies has another run write to these sides, and the run keep that checkpoint in place of the agreed one.
	relies := func(on ...peer.Side) func(*talk) {
		return func(c *talk) {
			c.opened()
			c.finds(peer.Source, behind(logAt("both", 6, "0"), "before"))
			c.finds(peer.Target, behind(logAt("both", 6, "0"), "before"))
			c.does(peer.ReadChanges{Since: seq(6), Limit: 10},
				peer.Changes{Rows: []peer.Change{row(7, "a", "1-a")}, End: true, LastSeq: seq(7)})
			c.copiesDoc("a", "1-a")
			c.durable()
			rev := "0-1"
			for _, side := range on {
				body := []byte(behind(logAt("third", 6, "0"), "both", "before"))
				c.does(peer.GetLocal{Side: side, ID: "base"}, peer.Local{Found: true, Rev: "0-2", Body: body})
				if side == peer.Target {
					rev = "0-2"
				}
			}
			log := madeFor("2", behind(logAt("new", 7, string(seq(6))), "third", "before"))
			c.asks(peer.PutLocal{Side: peer.Target, ID: "base", Rev: rev, Body: []byte(log)})
		}
	}
	check(t, []conversation{
		{"both logs have another run's", spec.Replication{}, relies(peer.Source, peer.Target), legal},
		{"the target has another run's", spec.Replication{}, relies(peer.Target), Logging},
		{"the source has another run's", spec.Replication{}, relies(peer.Source), Logging},
		{"another run has dropped it", spec.Replication{}, writes(peer.Target, "before"), legal},
		{"the run drops it", spec.Replication{}, writes(peer.Target, "both", "before"), Logging},
		{"another run has dropped it at the source", spec.Replication{}, writes(peer.Source, "before"), legal},
		{"the run drops it at the source", spec.Replication{}, writes(peer.Source, "both", "before"), Logging},
	})
}
