package oracle

import (
	"encoding/json"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/ryw"
	"couchrelay/core/node"
	"couchrelay/core/schedule"
	"couchrelay/sim/world"
)

// TestRoundsAsSeen: each of two nodes has two jobs of ten give way in every minute, so that a round of ten jobs is
// over in 20 minutes.
func TestRoundsAsSeen(t *testing.T) {
	const over, tags = 8 * 10 * time.Minute / 4, schedule.Tags
	// sees has the first node see so many jobs wait, so long after a round began, and maybe end that round.
	sees := func(ready int64, after time.Duration, policy schedule.Policy, ends bool) func(*rig) {
		return func(r *rig) {
			p := r.o.process(r.node(1))
			p.applied.MaxChurn, p.applied.MinRun = 2, time.Minute
			info := node.Info{Roles: node.Replication, MaxJobs: 10}
			others := []node.Member{{Worker: "n2/1", Info: info}}
			p.outlook = outlook{worker: "n1/1", own: info, others: others, sure: true}
			round := schedule.Round{Since: p.Clock().Wall.Add(-after), Last: 7}
			var effects []node.Effect
			if ends {
				effects = append(effects, ask(8, node.EndRound{Seen: round}))
			}
			r.step(done(7, node.Surveyed{
				Counts: jobs.Counts{Ready: ready}, Order: schedule.Order{Policy: policy, Round: round},
			}), effects...)
		}
	}
	check(t, &roundSubject, []case_{
		{"over", sees(10, over, tags, true), ""},
		{"too early", sees(10, over-time.Second, tags, true), "S10k"},
		{"not yet over", sees(10, over-time.Second, tags, false), ""},
		{"too late", sees(10, over+time.Second, tags, false), "S10k"},
		{"while no job waits", sees(0, over, tags, true), "S10k"},
		{"no job waits", sees(0, over, tags, false), ""},
		{"under another policy", sees(10, over, schedule.FIFO, true), "S10k"},
		{"of a clock that was ahead", sees(10, -time.Hour, tags, true), ""},
		{"of a clock that is behind", func(r *rig) {
			sees(10, 0, tags, false)(r)
			r.pass(2 * time.Minute)
			sees(10, time.Hour, tags, false)(r)
		}, ""},
		{"of a clock that is behind, at once", func(r *rig) {
			sees(10, 0, tags, false)(r)
			r.pass(2 * time.Minute)
			sees(10, time.Hour, tags, true)(r)
		}, "S10k"},
		{"of a clock that is behind by less than the node's own interval", func(r *rig) {
			sees(10, 0, tags, false)(r)
			r.pass(2 * time.Minute)
			r.o.process(r.node(1)).applied.Interval = 2 * time.Hour
			sees(10, time.Hour, tags, true)(r)
		}, ""},
		{"still to be ended", func(r *rig) {
			sees(10, over, tags, true)(r)
			r.step(failed(8))
			sees(10, over+time.Minute, tags, false)(r)
			r.step(node.Wake{}, ask(8, node.EndRound{})) // again
		}, ""},
		{"not ended after the answer", func(r *rig) {
			sees(10, over, tags, true)(r)
			r.step(done(8, node.Ok{}))
			r.pass(time.Minute)
			sees(10, over+time.Minute, tags, false)(r)
		}, "S10k"},
		{"unasked", func(r *rig) {
			sees(10, time.Minute, tags, false)(r)
			r.step(node.Wake{}, ask(8, node.EndRound{}))
		}, "S10k"},
		{"unsure of the others", func(r *rig) {
			sees(10, time.Minute, tags, false)(r)
			r.o.process(r.node(1)).outlook.sure = false
			r.step(node.Wake{}, ask(8, node.EndRound{}))
		}, ""},
	})
}

// queue has a user's job wait with a priority.
func (r *rig) queue(id string, priority []byte) {
	header := jobs.Job{ID: id, State: jobs.Pending}
	header.Priority = priority
	r.store(nil, header, jobstore.Record{State: jobstore.Pending})
}

// TestRoundsInTheStore tells of ends of rounds while jobs wait.
func TestRoundsInTheStore(t *testing.T) {
	tags := schedule.Order{Policy: schedule.Tags}
	// waits has a job wait at a tag.
	waits := func(r *rig, id string, tag float64) {
		r.queue(id, priority(0, tag))
	}
	// ends has a round end that begins the next, with other settings as they are but for the change.
	ends := func(r *rig, seen, next schedule.Round, change func(*schedule.Order)) {
		o := tags
		next.Since = r.now()
		o.Round = next
		change(&o)
		r.order(node.EndRound{Seen: seen}, o)
	}
	as := func(*schedule.Order) {}
	// second has jobs wait at 5 and 9 for two rounds. The first ended with last, and the second with next.
	second := func(last int64, next schedule.Round, change func(*schedule.Order)) func(*rig) {
		return func(r *rig) {
			r.order(nil, tags)
			waits(r, "a", 5)
			waits(r, "b", 9)
			r.pass(time.Minute)
			ends(r, schedule.Round{}, schedule.Round{Last: last}, as)
			first := schedule.Round{Since: r.now(), Last: last}
			r.pass(time.Minute)
			ends(r, first, next, change)
		}
	}
	right := schedule.Round{Last: 9, Base: 9}
	// ahead has a round begin by a clock that is ahead, and then again as next.
	ahead := func(next schedule.Round) func(*rig) {
		return func(r *rig) {
			r.order(nil, tags)
			waits(r, "a", 5)
			waits(r, "b", 9)
			r.pass(time.Minute)
			o, at := tags, r.now().Add(time.Hour)
			o.Round = schedule.Round{Since: at, Last: 9}
			row, _ := json.Marshal(o)
			l := landing{Landed: world.Landed{Asked: world.Asked{Request: node.EndRound{}, Wall: at}}}
			l.Mutations = []ryw.Mutation{{Key: r.w.View().Store().Keys.Order, Value: row}}
			r.o.on.followed.tell(l)
			ends(r, o.Round, next, as)
		}
	}
	check(t, &roundSubject, []case_{
		{"two rounds", second(9, right, as), ""},
		{"not the last tag", second(5, right, as), "S10m"},
		{"behind the last tag", second(10, right, as), "S10m"},
		{"without a base", second(9, schedule.Round{Last: 9}, as), "S10m"},
		{"a base before the last tag", second(9, schedule.Round{Last: 9, Base: 8}, as), "S10m"},
		{"of a clock that was ahead", ahead(schedule.Round{Last: 9}), ""},
		{"of a clock that was ahead, and ends", ahead(right), "S10m"},
		{"by another clock", second(9, right, func(o *schedule.Order) { o.Round.Since++ }), "S10l"},
		{"with another policy", second(9, right, func(o *schedule.Order) { o.PriorityCoeff = 7 }), "S10l"},
		{"a base in the first round", func(r *rig) {
			r.order(nil, tags)
			waits(r, "a", 5)
			r.pass(time.Minute)
			ends(r, schedule.Round{}, schedule.Round{Last: 5, Base: 5}, as)
		}, "S10m"},
		{"a job that may have waited", func(r *rig) {
			r.order(nil, tags)
			waits(r, "a", 5)
			ends(r, schedule.Round{}, schedule.Round{}, as)
		}, ""},
		{"no job", func(r *rig) {
			r.order(nil, tags)
			ends(r, schedule.Round{}, schedule.Round{}, as)
		}, "S10m"},
		{"twice", func(r *rig) {
			second(9, right, as)(r)
			ends(r, schedule.Round{Last: 9}, right, as)
		}, "S10l"},
		{"with a change of settings", func(r *rig) {
			second(9, right, as)(r)
			r.order(nil, tags)
		}, "S10l"},
		{"anew with a policy", func(r *rig) {
			second(9, right, as)(r)
			r.order(nil, schedule.Order{Policy: schedule.FIFO, Epoch: 1})
		}, ""},
		{"on with another policy", func(r *rig) {
			second(9, right, as)(r)
			r.order(nil, schedule.Order{Policy: schedule.FIFO, Epoch: 1, Round: schedule.Round{Last: 9}})
		}, "S10l"},
		{"unreadable", func(r *rig) { r.set(r.w.View().Store().Keys.Order, []byte("?")) }, "S3a"},
		{"unreadable place", func(r *rig) {
			r.queue("a", []byte("?"))
		}, "S3a"},
	})
}

// TestWaitsForRounds: a job that waits as the second one when two rounds end must not be behind new tags.
func TestWaitsForRounds(t *testing.T) {
	r := newRig(t, &roundSubject)
	o := &rounds{chronicle: r.o.chronicle, waiting: map[string]*wait{}}
	o.waiting["first"] = &wait{place: schedule.Place{Key: 3}, ends: 1}
	o.waiting["job"] = &wait{place: schedule.Place{Key: 9}, ends: 1}
	o.order.Round.Base = 9
	o.checkWaited()
	r.breaks("")
	o.order.Round.Base = 8
	o.checkWaited()
	r.breaks("S10o")
}

// TestNewTags: jobs wait at 5 and 9 until two rounds have ended, so that new tags begin at 9.
func TestNewTags(t *testing.T) {
	turn := jobstore.Turn{Owed: time.Minute}
	// changed has a request of a node or a user change the job that waits first, ahead of others or alone.
	changed := func(q node.Request, tag float64, made instant.Time, others ...string) func(*rig) {
		return under(schedule.Tags, func(r *rig) {
			o, _ := r.w.View().Store().Order(r.w.View().Present())
			r.order(nil, o)
			r.queue("first", priority(o.Epoch, 5))
			for _, id := range others {
				r.queue(id, priority(o.Epoch, 9))
			}
			r.pass(time.Minute)
			header := jobs.Job{ID: "first", State: jobs.Pending}
			header.Priority = priority(o.Epoch, tag)
			r.store(q, header, jobstore.Record{State: jobstore.Pending, Created: made})
		})
	}
	// queued has a job be made at a tag, so long after the end of the last of so many rounds.
	queued := func(ends int, after time.Duration, tag float64) func(*rig) {
		return under(schedule.Tags, func(r *rig) {
			o, _ := r.w.View().Store().Order(r.w.View().Present())
			r.order(nil, o)
			makes := func(id string, tag float64) { r.queue(id, priority(o.Epoch, tag)) }
			makes("first", 5)
			makes("last", 9)
			for i := range ends {
				r.pass(time.Minute)
				seen := o.Round
				o.Round = schedule.Round{Since: r.now(), Last: 9, Base: int64(9 * i)}
				r.order(node.EndRound{Seen: seen}, o)
			}
			r.pass(after)
			makes("new", tag)
		})
	}
	// released has a job whose wait is over be ready at 4 while others wait from 5 on, and one come back.
	released := func(tag float64) func(*rig) {
		return under(schedule.Tags, func(r *rig) {
			o, _ := r.w.View().Store().Order(r.w.View().Present())
			r.order(nil, o)
			r.queue("first", priority(o.Epoch, 5))
			r.pass(time.Minute)
			r.commit(node.Promote{}, func(tx kv.Tx) error {
				s := r.w.View().Store()
				rec := []byte(`{"history":[{"type":"added","at":1}]}`)
				back := jobs.Schedule{Priority: priority(o.Epoch, tag), Due: r.now()}
				if err := s.Jobs.Add(tx, "back", back, rec); err != nil {
					return err
				}
				return s.Jobs.Add(tx, "due", jobs.Schedule{Priority: priority(o.Epoch, 4)}, rec)
			})
		})
	}
	check(t, &roundSubject, []case_{
		{"at the first job that waits", queued(1, time.Minute, 5), ""},
		{"before the first job that waits", queued(1, time.Minute, 4), "S10n"},
		{"where the round has tags begin", queued(2, time.Minute, 9), ""},
		{"before that", queued(2, time.Minute, 8), "S10n"},
		{"of the only job, made anew", changed(nil, 4, 1), ""},
		{"of the first job, made anew", changed(nil, 9, 1, "last"), ""},
		{"of the first job, made anew before the next", changed(nil, 6, 1, "last"), "S10n"},
		{"of an heir of a job that was swept", changed(node.Sweep{}, 6, 1, "last"), ""},
		{"after a turn", changed(node.Requeue{Held: node.Held{JobID: "first"}, Turn: turn}, 4, 0, "last"), "S10n"},
		{"standing by", changed(node.StandBy{Held: node.Held{JobID: "first"}, Turn: turn}, 4, 0, "last"), ""},
		{"after the turn of another job", changed(node.Complete{Held: held, Turn: turn}, 4, 0, "last"), ""},
		{"behind a due job of the same transaction", released(4), ""},
		{"before that too", released(3), "S10n"},
		{"as read before the round began", queued(2, time.Second, 5), ""},
		{"before all that could be read", queued(2, time.Second, 4), "S10n"},
	})
}
