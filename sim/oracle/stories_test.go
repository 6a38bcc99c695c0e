package oracle

import (
	"fmt"
	"testing"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/spec"
	"couchrelay/sim/world"
)

// teller tells what users did to a job.
type teller struct {
	*rig
	id   string
	made map[uint64]instant.Time // when the writes began, by token

	again *spec.Replication // of a request that is repeated
}

// begins has a user who saw a revision begin to write another one, a second later.
func (s *teller) begins(seen, token uint64, members string) {
	s.pass(time.Second)
	s.made[token] = s.now()
	s.see(world.WriteBegins{Write: &world.Write{
		JobID: s.id, Token: token, Seen: seen, At: s.now(),
		Sent: fmt.Appendf(nil, `{"source":"s","target":"t","n":%d%s}`, token, members),
	}})
}

// writes has a user write a document, and be told that the write happened.
func (s *teller) writes(seen, token uint64, members string) {
	s.begins(seen, token, members)
	s.pass(time.Second)
	s.see(world.DocumentWritten{Doc: s.w.NewDocument("r1", nil), Token: token})
}

// spoils has a document be edited elsewhere so that it cannot be replicated.
func (s *teller) spoils(seen, token uint64) {
	s.pass(time.Second)
	s.made[token] = s.now().Add(500 * time.Millisecond)
	s.see(world.WriteBegins{Write: &world.Write{
		JobID: s.id, Token: token, Seen: seen, At: s.now(), Brought: true, Wrong: true,
		Sent: fmt.Appendf(nil, `{"source":"s","target":7,"n":%d}`, token),
	}})
	s.pass(time.Second)
	s.see(world.DocumentWritten{Doc: s.w.NewDocument("r1", nil), Token: token})
}

// shown has a user look at a job that the write with a token made.
func (s *teller) shown(by uint64, state jobstore.State, change ...func(*jobstore.View)) {
	v := &jobstore.View{Source: "s", Target: "t", State: state, Created: s.made[by]}
	v.Weight = 100
	for _, c := range change {
		c(v)
	}
	s.sees(&world.Sight{Found: true, View: v})
}

// reads has a user read the document.
func (s *teller) reads(token uint64, members string) {
	s.sees(&world.Sight{Found: true, Body: fmt.Appendf(nil, `{"n":%d%s}`, token, members)})
}

func (s *teller) sees(w *world.Sight) {
	s.pass(time.Second)
	w.JobID, w.Asked = s.id, s.now()
	s.see(world.Looked{Sight: w})
}

// orders gives an order that is known to be carried out.
func (s *teller) orders(v world.Verb) {
	s.pass(time.Second)
	asked := s.now()
	s.see(world.Ordered{Verb: v, ID: s.id, At: asked}, world.Obeyed{Verb: v, ID: s.id, Changed: true, Asked: asked})
}

// requests sends the request of the job, which is told as a write with a token.
func (s *teller) requests(token uint64) {
	s.pass(time.Second)
	s.made[token] = s.now()
	rep := s.replication(nil)
	rep.Source.URL, rep.Target.URL = "s", "t"
	s.see(world.RequestBegins{ID: s.id, Replication: rep, At: s.now()})
	s.see(world.RequestAnswered{ID: s.id, Replication: rep})
}

// repeats sends the request once more, as the first one, since its frontend was told nothing.
func (s *teller) repeats() {
	s.pass(time.Second)
	if s.made[1] == 0 {
		s.made[1] = s.now()
		s.again = s.replication(nil)
		s.again.Source.URL, s.again.Target.URL = "s", "t"
	}
	s.see(world.RequestBegins{ID: s.id, Replication: s.again, At: s.made[1]})
}

// lands has an attempt of the repeated request make the job.
func (s *teller) lands() {
	made := aJob(jobstore.Record{State: jobstore.Pending, Created: s.made[1]})
	s.o.on.jobChanged.tell(jobChange{id: s.id, before: &shadow{}, after: made, anew: true})
}

// cancels cancels the request.
func (s *teller) cancels() {
	s.pass(time.Second)
	s.see(world.CancelBegins{ID: s.id, At: s.now()})
	s.pass(time.Second)
	s.see(world.RequestCanceled{ID: s.id, At: s.now().Add(-time.Second)})
}

func TestStories(t *testing.T) {
	story := func(tell func(*teller)) func(*rig) {
		return func(r *rig) {
			id := jobstore.DocumentJobs(r.w.View().Tenants()[0].Instance()) + "r1"
			tell(&teller{rig: r, id: id, made: map[uint64]instant.Time{}})
			r.atRest()
		}
	}
	gone := func() *world.Sight { return &world.Sight{} }
	target := func(url string) func(*jobstore.View) { return func(v *jobstore.View) { v.Target = url } }
	const done = `,"_replication_state":"completed"`
	check(t, &storySubject, []case_{
		{"written and shown", story(func(s *teller) {
			s.sees(gone())
			s.writes(0, 1, "")
			s.shown(1, "pending")
			s.reads(1, "")
		}), ""},
		{"written and not there", story(func(s *teller) { s.writes(0, 1, ""); s.sees(gone()) }), "S96a"},
		{"an old revision", story(func(s *teller) {
			s.writes(0, 1, "")
			s.writes(1, 2, "")
			s.reads(1, "")
		}), "S96a"},
		{"the same source as an object, and the job goes on", story(func(s *teller) {
			s.writes(0, 1, "")
			s.writes(1, 2, `,"source":{"url":"s"}`)
			s.shown(1, "pending")
		}), ""},
		{"a source with a header, and the job goes on", story(func(s *teller) {
			s.writes(0, 1, "")
			s.writes(1, 2, `,"source":{"url":"s","headers":{"a":"b"}}`)
			s.shown(1, "pending")
		}), "S96a"},
		{"written over what another wrote", story(func(s *teller) {
			s.writes(0, 1, "")
			s.writes(1, 2, "")
			s.writes(1, 3, "")
			s.reads(3, "")
		}), "S96a"},
		{"unknown, and seen at times", story(func(s *teller) {
			s.begins(0, 1, "")
			s.sees(gone())
			s.reads(1, "")
		}), ""},
		{"unknown, seen and gone again", story(func(s *teller) {
			s.begins(0, 1, "")
			s.reads(1, "")
			s.sees(gone())
		}), "S96a"},
		{"late, over what came later", story(func(s *teller) {
			s.writes(0, 1, "")
			s.begins(1, 2, "")
			s.writes(1, 3, "")
			s.reads(2, "")
		}), "S96a"},
		{"refused and seen", story(func(s *teller) {
			s.begins(0, 1, "")
			s.see(world.WriteRefused{Token: 1})
			s.reads(1, "")
		}), "S96a"},
		{"spoiled, failed and mended", story(func(s *teller) {
			s.writes(0, 1, "")
			s.spoils(1, 2)
			s.shown(2, "failed", target(""))
			s.writes(2, 3, "")
			s.shown(3, "running")
		}), ""},
		{"spoiled twice", story(func(s *teller) {
			s.writes(0, 1, "")
			s.spoils(1, 2)
			s.spoils(2, 3)
			s.shown(3, "failed", target(""))
		}), ""},
		{"spoiled, and goes on", story(func(s *teller) {
			s.writes(0, 1, "")
			s.spoils(1, 2)
			s.shown(2, "running")
		}), "S96a"},
		{"forked, of which no story is told", story(func(s *teller) {
			s.writes(0, 1, "")
			s.see(world.DocumentForked{ID: s.id})
			s.writes(0, 2, "")
			s.shown(1, "running", target("u"))
		}), ""},
		{"the job of before", story(func(s *teller) {
			s.writes(0, 1, "")
			s.writes(1, 2, `,"target":"u"`)
			s.shown(1, "running")
		}), "S96a"},
		{"another job than the document's", story(func(s *teller) {
			s.writes(0, 1, "")
			s.shown(1, "running", target("u"))
		}), "S96a"},
		{"touched, and the job goes on", story(func(s *teller) {
			s.writes(0, 1, "")
			s.writes(1, 2, `,"weight":10`)
			s.shown(1, "running", func(v *jobstore.View) { v.Weight = 10 })
		}), ""},
		{"over, and runs again by itself", story(func(s *teller) {
			s.writes(0, 1, "")
			s.shown(1, "failed")
			s.shown(1, "running")
		}), "S96a"},
		{"over in one way, and then in another", story(func(s *teller) {
			s.writes(0, 1, "")
			s.reads(1, done)
			s.shown(1, "failed")
		}), "S96a"},
		{"over, and written anew", story(func(s *teller) {
			s.writes(0, 1, "")
			s.shown(1, "completed")
			s.writes(1, 2, "")
			s.shown(2, "pending")
		}), ""},
		{"over, written anew, and the job of before", story(func(s *teller) {
			s.writes(0, 1, "")
			s.shown(1, "completed")
			s.writes(1, 2, "")
			s.shown(1, "pending")
		}), "S96a"},
		{"over, written with its state", story(func(s *teller) {
			s.writes(0, 1, "")
			s.writes(1, 2, `,"target":"u"`+done)
			s.shown(1, "completed", func(v *jobstore.View) { v.Target = "u" })
		}), ""},
		{"over, written with its state, and shown as before", story(func(s *teller) {
			s.writes(0, 1, "")
			s.writes(1, 2, `,"target":"u"`+done)
			s.shown(1, "completed")
		}), "S96a"},
		{"failed, and tried again", story(func(s *teller) {
			s.writes(0, 1, "")
			s.shown(1, "failed")
			s.orders(world.Retry)
			s.shown(1, "pending", func(v *jobstore.View) { v.Created = s.now() })
		}), ""},
		{"paused and resumed", story(func(s *teller) {
			s.writes(0, 1, "")
			s.orders(world.Pause)
			s.shown(1, "paused", func(v *jobstore.View) { v.Pause = &jobstore.Pause{} })
			s.orders(world.Resume)
			s.shown(1, "pending")
		}), ""},
		{"paused, and not shown so", story(func(s *teller) {
			s.writes(0, 1, "")
			s.orders(world.Pause)
			s.shown(1, "running")
		}), "S96a"},
		{"canceled and there", story(func(s *teller) {
			s.writes(0, 1, "")
			s.orders(world.Cancel)
			s.reads(1, "")
		}), "S96a"},
		{"its database is gone", story(func(s *teller) { s.writes(0, 1, ""); s.drop(); s.sees(gone()) }), ""},
		{"its database was gone", story(func(s *teller) {
			s.writes(0, 1, "")
			s.drop()
			s.shown(1, "pending")
		}), "S96a"},
		{"requested twice", story(func(s *teller) { s.requests(1); s.requests(2); s.shown(1, "running") }), ""},
		{"a request that found its job, which was canceled since", story(func(s *teller) {
			s.requests(1)
			asked, rep := s.now(), s.replication(nil)
			rep.Source.URL, rep.Target.URL = "s", "t"
			s.pass(time.Second)
			s.see(world.CancelBegins{ID: s.id, At: s.now()})
			s.pass(time.Second)
			s.see(world.RequestCanceled{ID: s.id, At: s.now().Add(-time.Second)})
			s.pass(time.Second)
			s.see(world.RequestBegins{ID: s.id, Replication: rep, At: asked})
			s.see(world.RequestAnswered{ID: s.id, Replication: rep})
			s.sees(gone())
		}), ""},
		{"a request that is made again after its job failed", story(func(s *teller) {
			s.repeats()
			s.lands()
			s.shown(1, "failed")
			s.repeats()
			s.shown(1, "pending")
		}), ""},
		{"a request that is made again after its job was canceled", story(func(s *teller) {
			s.repeats()
			s.lands()
			s.shown(1, "completed")
			s.cancels()
			s.sees(gone())
			s.repeats()
			s.shown(1, "pending")
		}), ""},
		{"a request that lands once, and is sent three times", story(func(s *teller) {
			s.repeats()
			s.lands()
			s.cancels()
			s.repeats()
			s.repeats()
			s.sees(gone())
		}), ""},
		{"a job that is there again, and was made once", story(func(s *teller) {
			s.repeats()
			s.shown(1, "completed")
			s.cancels()
			s.sees(gone())
			s.repeats()
			s.shown(1, "pending")
		}), "S96a"},
		{"a request is forgotten", story(func(s *teller) { s.requests(1); s.pass(time.Hour); s.sees(gone()) }), ""},
		{"a request is forgotten soon", story(func(s *teller) { s.requests(1); s.sees(gone()) }), "S96a"},
	})
}

// drop has the database of the job be deleted.
func (s *teller) drop() {
	t := s.w.View().Tenants()[0]
	s.see(world.DropBegins{Instance: t.Instance()}, world.DatabaseDropped{Tenant: t})
}
