package oracle

import (
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/sim/world"
)

// requestsOf are requests that carry out the regular duties.
var requestsOf = [regular]node.Request{
	node.ListLeases{}, node.Promote{}, node.Accept{Node: "n1"}, node.ListOwned{}, node.Sweep{}, node.Survey{},
}

// doDuties has the first node carry out all regular duties but some.
func doDuties(r *rig, but ...duty) {
	for i, q := range requestsOf {
		left := false
		for _, d := range but {
			left = left || d == duty(i)
		}
		if id := uint64(1000 + i); !left {
			r.step(node.Wake{}, ask(id, q))
			r.step(done(id, node.Ok{}))
		}
	}
}

// doLater has it carry them out again and again, for as long as the longest interval of all and a little
// more.
func doLater(r *rig, but ...duty) {
	for range 25 {
		r.pass(3 * time.Second)
		doDuties(r, but...)
	}
}

func TestRegularDuties(t *testing.T) {
	var cases []case_
	for d := range regular {
		cases = append(cases, case_{"all but for " + dutyWords[d], func(r *rig) {
			doDuties(r)
			doLater(r, d)
		}, "L4d"})
	}
	settings := func(change func(*node.Settings)) func(*rig) {
		return func(r *rig) {
			s := r.node(1).Settings()
			change(&s)
			r.step(node.Configure{Settings: s})
		}
	}
	quick := settings(func(s *node.Settings) { s.ActivityTimeout = 4 * time.Second })
	check(t, &dutySubject, append(cases, []case_{
		{"all", func(r *rig) { doDuties(r); doLater(r) }, ""},
		{"none by a node that stood still until now", func(r *rig) {
			doDuties(r)
			r.node(1).StandStill(time.Hour)
			r.pass(time.Hour)
			r.step(node.Wake{})
		}, ""},
		{"none by a node that drains", func(r *rig) {
			doDuties(r)
			r.node(1).Leave()
			r.pass(time.Hour)
			r.step(node.Wake{})
		}, ""},
		{"no jobs for a node without free slots", func(r *rig) {
			r.node(1).Occupy(10)
			doDuties(r)
			doLater(r, acceptReady)
		}, ""},
		{"no jobs for a node in maintenance", func(r *rig) {
			settings(func(s *node.Settings) { s.Maintenance = true })(r)
			doDuties(r)
			doLater(r, acceptReady, surveyQueue)
		}, ""},
		{"what only workers do, by a node without a lease", func(r *rig) {
			doDuties(r)
			r.step(node.Wake{}, ask(1, node.Join{Worker: "n1/1"}))
			doLater(r, ofWorker...)
		}, ""},
		{"no look at others within the interval of before", func(r *rig) {
			doDuties(r)
			quick(r)
			r.pass(5 * time.Second)
			doDuties(r, watchOthers)
		}, ""},
		{"no look at others within the interval of before, nor for long after", func(r *rig) {
			doDuties(r)
			quick(r)
			r.pass(8 * time.Second)
			doDuties(r, watchOthers)
		}, "L4d"},
		{"no promotion before a job is due", func(r *rig) {
			doDuties(r)
			r.step(node.Wake{}, ask(1, node.Promote{}))
			r.step(done(1, node.Promoted{Next: r.w.Engine.Now().Add(time.Second)}))
			r.pass(2 * time.Second)
			r.step(node.Wake{})
		}, ""},
		{"no promotion when a job is due", func(r *rig) {
			doDuties(r)
			r.step(node.Wake{}, ask(1, node.Promote{}))
			r.step(done(1, node.Promoted{Next: r.w.Engine.Now().Add(time.Second)}))
			r.pass(3 * time.Second)
			r.step(node.Wake{})
		}, "L4d"},
	}...))
}

// A lease that is lost does not end a look at the queue: the node repeats it, after half a minute in which
// nothing came and its pause.
func TestSurveyUnderWayAtJoin(t *testing.T) {
	rejoin := func(r *rig) {
		r.step(node.Start{})
		r.step(node.Wake{}, ask(1, node.Survey{}))
		r.step(node.Wake{}, ask(2, node.Join{Worker: "n1/1-2"}))
		r.step(failed(1))
		r.step(node.Wake{}, ask(3, node.Survey{}))
		r.step(failed(2))
		r.step(node.Wake{}, ask(4, node.Join{Worker: "n1/1-2"}))
		r.step(done(4, node.Ok{}))
	}
	check(t, &dutySubject, []case_{
		{"no answer to the look under way", func(r *rig) { rejoin(r); doLater(r, surveyQueue) }, ""},
		{"it failed and is to be repeated", func(r *rig) {
			rejoin(r)
			r.step(failed(3))
			doLater(r, surveyQueue)
		}, ""},
		{"it was answered", func(r *rig) {
			rejoin(r)
			r.step(done(3, node.Surveyed{}))
			doLater(r, surveyQueue)
		}, "L4d"},
	})
}

func TestDutiesOfOneStep(t *testing.T) {
	takesNone := func(change func(*rig)) func(*rig) {
		return func(r *rig) {
			r.node(1).Occupy(2)
			r.step(node.Start{})
			change(r)
			r.node(1).Occupy(1)
			r.step(node.Wake{})
		}
	}
	check(t, &dutySubject, []case_{
		{"more to sweep up", func(r *rig) {
			r.step(node.Wake{}, ask(1, node.Sweep{}))
			r.step(done(1, node.Progressed{}))
			r.pass(3 * time.Second)
			r.step(node.Wake{})
		}, "L4a"},
		{"more to sweep up, after a rest", func(r *rig) {
			doDuties(r)
			r.step(node.Wake{}, ask(1, node.Sweep{}))
			r.pass(time.Second / 2)
			r.step(done(1, node.Progressed{}))
			r.pass(time.Second / 2)
			r.step(node.Wake{}, ask(2, node.Sweep{}))
			r.pass(3 * time.Second)
			r.step(node.Wake{})
		}, ""},
		{"more to sweep up, after a second of rest", func(r *rig) {
			doDuties(r)
			r.step(node.Wake{}, ask(1, node.Sweep{}))
			r.pass(2 * time.Second)
			r.step(done(1, node.Progressed{}))
			r.pass(time.Second)
			r.step(node.Wake{}, ask(2, node.Sweep{}))
		}, ""},
		{"more to sweep up, without a rest", func(r *rig) {
			r.step(node.Wake{}, ask(1, node.Sweep{}))
			r.pass(time.Second / 2)
			r.step(done(1, node.Progressed{}))
			r.pass(time.Second / 4)
			r.step(node.Wake{}, ask(2, node.Sweep{}))
		}, "L4j"},
		{"nothing more to sweep up", func(r *rig) {
			r.step(node.Wake{}, ask(1, node.Sweep{}))
			r.step(done(1, node.Progressed{Done: true}))
		}, ""},
		{"more to sweep up for a node that drains", func(r *rig) {
			r.step(node.Wake{}, ask(1, node.Sweep{}))
			r.node(1).Leave()
			r.step(done(1, node.Progressed{}))
			r.pass(3 * time.Second)
			r.step(node.Wake{})
		}, ""},

		{"a slot becomes free", takesNone(func(*rig) {}), "L4c"},
		{"a slot becomes free for a node that asks for jobs", takesNone(func(r *rig) {
			r.step(node.Wake{}, ask(1, node.Accept{Node: "n1"}))
		}), ""},
		{"a slot becomes free for a node that looks at a job it holds", takesNone(func(r *rig) {
			r.step(node.Wake{}, ask(1, node.Resume{}))
		}), ""},
		{"a slot becomes free for a node without a lease", takesNone(func(r *rig) {
			r.step(node.Wake{}, ask(1, node.Join{}))
		}), ""},
		{"a slot becomes free for a node that drains", takesNone(func(r *rig) { r.node(1).Leave() }), ""},
		{"a slot becomes free for a node in maintenance", takesNone(func(r *rig) {
			s := r.node(1).Settings()
			s.Maintenance = true
			r.step(node.Configure{Settings: s})
		}), ""},

		{"jobs are taken under another name", func(r *rig) {
			r.step(node.Wake{}, ask(1, node.Accept{Node: "n2"}))
		}, "L5f"},
		{"jobs are taken under a new name", func(r *rig) {
			r.step(node.Wake{}, node.Rename{Name: "n1/1"})
			r.step(node.Wake{}, ask(1, node.Accept{Node: "n1/1"}))
		}, ""},
		{"jobs are taken under the old name", func(r *rig) {
			r.step(node.Wake{}, node.Rename{Name: "n1/1"})
			r.step(node.Wake{}, ask(1, node.Accept{Node: "n1"}))
		}, "L5f"},
		{"an accept of before is repeated", func(r *rig) {
			r.step(node.Wake{}, ask(1, node.Accept{Node: "n1"}))
			r.step(node.Wake{}, node.Rename{Name: "n1/1"})
			r.step(node.Wake{}, ask(2, node.Accept{Node: "n1"}))
		}, ""},

		{"a watch for what was seen", func(r *rig) {
			r.see(world.Armed{Node: r.node(1), Await: node.Await{Seen: 1}, Is: 1})
		}, ""},
		{"a watch for the change after next", func(r *rig) {
			r.see(world.Armed{Node: r.node(1), Await: node.Await{Seen: 1}, Is: 2})
		}, "L6c"},
	})
}

func TestNextDue(t *testing.T) {
	told := func(moved int, age, early time.Duration) func(*rig) {
		return func(r *rig) {
			due := r.w.Engine.Now().Add(time.Hour)
			r.store(nil, jobs.Job{ID: "job", State: jobs.Pending, Schedule: jobs.Schedule{Due: due}},
				jobstore.Record{})
			r.pass(age)
			r.step(node.Start{}, ask(1, node.Promote{}))
			r.step(done(1, node.Promoted{Moved: moved, Next: due.Add(-early)}))
		}
	}
	check(t, &dutySubject, []case_{
		{"in time", told(0, time.Minute, 0), ""},
		{"too late", told(0, time.Minute, -time.Second), "L4b"},
		{"too late, after some became ready", told(1, time.Minute, -time.Second), ""},
		{"too late, for a job of this moment", told(0, 5*time.Second, -time.Second), ""},
		{"never, though a job waits", func(r *rig) {
			told(0, time.Minute, 0)(r)
			r.step(node.Wake{}, ask(2, node.Promote{}))
			r.step(done(2, node.Promoted{Next: instant.Never}))
		}, "L4b"},
	})
}
