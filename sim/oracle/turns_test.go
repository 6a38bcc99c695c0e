package oracle

import (
	"math"
	"reflect"
	"testing"
	"time"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/replication"
	"couchrelay/core/schedule"
	"couchrelay/sim/world"
)

// runAt starts a run of a job of the account on the first node, which stood at a key of epoch 0 in the queue.
func (r *rig) runAt(jobID string, key int64, members map[string]any) *world.Run {
	r.runs++
	all := map[string]any{"continuous": true}
	for name, v := range members {
		all[name] = v
	}
	return r.runOf(r.node(1), jobstore.Work{
		JobID: jobID, Lock: aLock, Replication: r.replication(all),
		Record: &jobstore.Record{Database: anAccount, State: jobstore.Running},
		Place:  schedule.Place{Key: key},
	})
}

// survey has the first node see the queue, in which jobs wait at these keys, by an order and with the usage
// of its account.
func (r *rig) survey(o schedule.Order, used schedule.Account, waiting []int64, effects ...node.Effect) {
	seen := node.Surveyed{Counts: jobs.Counts{Ready: int64(len(waiting))}, Order: o,
		Accounts: []schedule.Account{used}}
	for _, key := range waiting {
		seen.First = append(seen.First, schedule.Place{Epoch: o.Epoch, Key: key})
	}
	r.calls++
	r.step(node.Wake{}, ask(r.calls, node.Survey{First: 100, Accounts: []string{anAccount}}))
	r.step(done(r.calls, seen), effects...)
}

var (
	idle      = schedule.Account{Shares: schedule.DefaultShares, Jobs: 1}
	fairOrder = schedule.Order{
		Forgetting: schedule.Forgetting{Interval: time.Minute, Coeff: 500_000},
		Decay:      schedule.Decay{Since: 1_800_000_000_000_000, HalfLife: time.Hour},
	}
	fifoOrder = schedule.Order{
		Policy: schedule.FIFO, Forgetting: fairOrder.Forgetting, Decay: fairOrder.Decay,
	}
	tagsOrder = schedule.Order{
		Policy: schedule.Tags, Forgetting: fairOrder.Forgetting, Decay: fairOrder.Decay,
	}
)

func TestTurns(t *testing.T) {
	// ends has a job whose run stands at key 7 end its turn a minute after its node saw the queue like this.
	ends := func(
		o schedule.Order, used schedule.Account, waiting []int64, turn func(*rig) jobstore.Turn,
	) func(*rig) {
		return func(r *rig) {
			r.runAt("job", 7, nil)
			r.survey(o, used, waiting)
			r.pass(time.Minute)
			r.step(node.Wake{}, ask(99, node.Requeue{Held: held, Turn: turn(r)}))
			r.step(node.Wake{}, ask(99, node.Requeue{Held: held})) // a repetition is not judged
		}
	}
	turn := func(owed time.Duration, key func(*rig) float64) func(*rig) jobstore.Turn {
		return func(r *rig) jobstore.Turn {
			return jobstore.Turn{Owed: owed, Place: schedule.Place{Key: int64(key(r))}}
		}
	}
	at := func(key float64) func(*rig) float64 { return func(*rig) float64 { return key } }
	present := func(r *rig) float64 { return float64(r.now()) }
	// A minute of slots makes a value of 60,000,000 / 100 / 100 in an interval, which is a minute here.
	used := schedule.Account{Shares: 100, Jobs: 1, Usage: 60_000_000}
	grown := func(off float64) func(*rig) float64 {
		return func(r *rig) float64 {
			return (clockOf(fairOrder.Decay, r.now()) + math.Log2(6000+off)) * aHalfLife
		}
	}
	tail := schedule.Account{Shares: 100, Jobs: 1, Tail: 12}
	crowd := make([]int64, 11) // of a node with ten slots
	// oneMore are the settings of the node with a max_churn that is higher by one.
	oneMore := func(r *rig) node.Settings {
		s := r.node(1).Settings()
		s.MaxChurn++
		return s
	}
	check(t, &turnSubject, []case_{
		{"while none waited", ends(fifoOrder, idle, nil, turn(0, present)), ""},
		{"while others waited", ends(fifoOrder, idle, crowd, turn(time.Minute, present)), ""},
		{"while others waited for free slots", ends(fifoOrder, idle, crowd[1:], turn(0, present)), ""},
		{"owes too little", ends(fifoOrder, idle, crowd, turn(time.Minute-1, present)), "S9e"},
		{"owes too much", ends(fifoOrder, idle, nil, turn(1, present)), "S9e"},
		{"while others waited, as a survey told whose answer came as the next was due", func(r *rig) {
			r.runAt("job", 7, nil)
			r.survey(fifoOrder, idle, crowd, ask(98, node.Survey{First: 100, Accounts: []string{anAccount}}))
			r.pass(time.Minute)
			r.step(node.Wake{}, ask(99, node.Requeue{Held: held, Turn: turn(time.Minute, present)(r)}))
		}, ""},
		{"stands elsewhere under fifo", ends(fifoOrder, idle, nil, turn(0, at(7))), "S10i"},
		{"stands at its account's tag", ends(tagsOrder, tail, nil, turn(0, at(12))), ""},
		{"stands elsewhere under tags", ends(tagsOrder, tail, nil, turn(0, at(13))), "S10i"},
		{"stands where usage has put it", ends(fairOrder, used, nil, turn(0, grown(1))), ""},
		{"stands elsewhere under fair share", ends(fairOrder, used, nil, turn(0, grown(100))), "S10i"},
		{"stands in another epoch", ends(fairOrder, used, nil, func(r *rig) jobstore.Turn {
			return jobstore.Turn{Place: schedule.Place{Epoch: 1, Key: int64(grown(0)(r))}}
		}), "S10i"},
		{"of a run that is over", func(r *rig) {
			run := r.runAt("job", 7, nil)
			r.survey(fifoOrder, idle, crowd)
			r.pass(time.Minute)
			over := present(r)
			r.see(world.RunEnded{Run: run})
			r.pass(time.Minute)
			r.step(node.Wake{}, ask(99, node.Requeue{Held: held, Turn: turn(time.Minute, at(over))(r)}))
		}, ""},

		{"shares that the account does not have",
			ends(fifoOrder, schedule.Account{Shares: 50}, nil, turn(0, present)), "S10h"},
		{"shares that are being changed", func(r *rig) {
			r.see(world.SharingAsked{})
			r.survey(fifoOrder, schedule.Account{Shares: 50}, nil)
		}, ""},

		{"shares that were changed since it asked", func(r *rig) {
			survey := node.Survey{First: 100, Accounts: []string{anAccount}}
			r.step(node.Wake{}, ask(1, survey))
			r.see(world.SharingAsked{})
			r.see(world.SharingInForce{Sharing: jobstore.Sharing{Shares: map[string]int64{anAccount: 50}}})
			r.pass(10 * time.Minute)
			r.o.process(r.node(1)).duties[surveyQueue].asked = r.o.w.Now() // by the step in which it hears the answer
			r.step(done(1, node.Surveyed{Order: fifoOrder, Accounts: []schedule.Account{idle}}), ask(2, survey))
		}, ""},

		{"sees the queue in two parts, the second at the second attempt", func(r *rig) {
			r.runAt("job", 7, nil)
			all := map[string]schedule.Account{anAccount: idle, "another": {Shares: 50}}
			part := func(id uint64, name string, effects ...node.Effect) {
				seen := node.Surveyed{Order: fifoOrder, Accounts: []schedule.Account{all[name]}}
				r.step(done(id, seen), effects...)
			}
			of := func(name string) node.Survey { return node.Survey{First: 100, Accounts: []string{name}} }
			r.step(node.Wake{}, ask(1, of(anAccount)))
			part(1, anAccount, ask(2, of("another")))
			if s := &r.o.process(r.node(1)).sight; len(s.accounts) > 0 {
				t.Errorf("after one of two parts the node sees %v", s.accounts)
			}
			r.step(failed(2))
			r.step(node.Wake{}, ask(3, of("another")))
			all["another"] = idle
			part(3, "another")
			if s := &r.o.process(r.node(1)).sight; !reflect.DeepEqual(s.accounts, all) {
				t.Errorf("the node sees %v of %v", s.accounts, all)
			}
		}, ""},
		{"asks for enough", func(r *rig) { r.step(node.Wake{}, ask(1, node.Survey{First: 13})) }, ""},
		{"asks for too few", func(r *rig) { r.step(node.Wake{}, ask(1, node.Survey{First: 12})) }, "S6d"},
		{"asks again for what it asked for", func(r *rig) {
			r.step(node.Wake{}, ask(1, node.Survey{First: 13}))
			r.step(failed(1))
			r.step(node.Configure{Settings: oneMore(r)})
			r.step(node.Wake{}, ask(2, node.Survey{First: 13}))
		}, ""},
		{"asks for too few by settings that it was told", func(r *rig) {
			r.step(node.Configure{Settings: oneMore(r)}, ask(1, node.Survey{First: 13}))
		}, "S6d"},
		{"asks for too few by settings that it was not told", func(r *rig) {
			r.node(1).SetSettings(oneMore(r))
			r.step(node.Wake{}, ask(1, node.Survey{First: 13}))
		}, ""},
	})
}

func TestTurnsTellNumbers(t *testing.T) {
	said := replication.End{}
	said.Info.DocsRead = 3
	// tells has a request end a job whose run has read three documents.
	tells := func(q node.Request) func(*rig) {
		return func(r *rig) {
			run := r.runAt("job", 7, nil)
			r.see(world.RunSaidEnd{Run: run, End: said}, world.RunEnded{Run: run})
			r.step(node.Wake{}, ask(1, q))
		}
	}
	turn := jobstore.Turn{Place: schedule.Place{Key: 7}}
	stats := func(read int64) *jobstore.Stats { return &jobstore.Stats{DocsRead: read} }
	check(t, &turnSubject, []case_{
		{"completed", tells(node.Complete{Held: held, End: said, Turn: turn}), ""},
		{"completed with none", tells(node.Complete{Held: held, Turn: turn}), "S16f"},
		{"queued again", tells(node.Requeue{Held: held, Stats: stats(3), Turn: turn}), ""},
		{"queued again with fewer", tells(node.Requeue{Held: held, Stats: stats(2), Turn: turn}), "S16f"},
		{"crashed", tells(node.Crash{Held: held, Stats: stats(3), Turn: turn}), ""},
		{"crashed with none", tells(node.Crash{Held: held, Turn: turn}), "S16f"},
		{"another request", tells(node.Record{Held: held}), ""},
	})
}

func TestStandings(t *testing.T) {
	fair := func(epoch int64, value float64) *standing {
		return &standing{epoch: epoch, key: math.Log2(value) * aHalfLife, fair: true}
	}
	place := func(epoch int64, value float64) schedule.Place {
		return schedule.Place{Epoch: epoch, Key: int64(math.Log2(value) * aHalfLife)}
	}
	for _, c := range []struct {
		what    string
		is      bool
		s       *standing
		p       schedule.Place
		isEqual bool
	}{
		{"behind", true, fair(0, 100), place(0, 90), false},
		{"too close to tell", false, fair(0, 100), place(0, 99), false},
		{"before", false, fair(0, 90), place(0, 100), false},
		{"of a later epoch", true, fair(1, 1), place(0, 100), false},
		{"of an earlier epoch", false, fair(0, 100), place(1, 1), false},
		{"a tag behind", true, &standing{key: 2}, schedule.Place{Key: 1}, false},
		{"the same tag", false, &standing{key: 2}, schedule.Place{Key: 2}, true},
	} {
		if got := c.s.behind(c.p, 0); got != c.is {
			t.Errorf("%s: behind %v", c.what, got)
		}
		if got := !c.s.differs(c.p); got != c.isEqual {
			t.Errorf("%s: equal %v", c.what, got)
		}
	}
	if !fair(0, 100).surelyBehind(fair(0, 90), 0) || fair(0, 100).surelyBehind(fair(0, 99), 0) ||
		fair(1, 100).surelyBehind(fair(0, 90), 0) {
		t.Error("of two runs the wrong one is behind")
	}
}
