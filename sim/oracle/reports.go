package oracle

import (
	"reflect"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// reporting are the invariants of what runs tell of themselves, and what is stored of that.
type reporting struct{ *chronicle }

var reportSubject = subject{
	begin: func(c *chronicle) {
		o := &reporting{c}
		c.on.runStarted.add(func(r *run) { r.reports.interval = r.p.Settings().ProgressInterval })
		c.on.runTells.add(func(t telling) { o.checkReports(t.run, t.asked, t.info) })
		c.on.nodeStepped.add(o.checkStored)
		c.on.runStepped.add(o.runStepped)
	},
}

// reports are what a run has told of itself.
type reports struct {
	interval     time.Duration // its ProgressInterval
	n            int
	at           instant.Time // of the last one
	checkpointed peer.Seq     // according to that
	last         replication.Info
	// told is what its node was told last, and storing what that asked last to store.
	told, storing jobstore.Stats
}

// unchanged is how many intervals a run waits at least before it tells what it told before.
const unchanged = 30

// firstReport is when a run first tells of itself; the time to the next doubles.
const firstReport = time.Second

// checkReports is a part of B1: a run tells seldom of itself, but for its checkpoints.
func (o *reporting) checkReports(r *run, asked peer.Op, info replication.Info) {
	was, now := r.reports, o.w.Now()
	least := min(was.interval, firstReport<<min(was.n, 20))
	switch asked.(type) {
	case peer.PutLocal, peer.GetLocal: // it has a checkpoint
		least = 0
	}
	if was.n > 0 && now.Sub(was.at) < least {
		o.Fail("B1", "run %d of %s tells of its progress %s after the last time; it should be %s", r.ID(), r.p.Name, now.Sub(was.at), least)
	}
	if last, is := was.last, info; was.n > 0 && now.Sub(was.at) < unchanged*was.interval {
		last.Refusals, is.Refusals = nil, nil // they are counted
		if reflect.DeepEqual(last, is) {
			o.Fail("B1", "run %d of %s tells %s after the last time that nothing has changed", r.ID(), r.p.Name, now.Sub(was.at))
		}
	}
	r.reports.n, r.reports.at, r.reports.last, r.reports.checkpointed = was.n+1, now, info, info.CheckpointedSeq
}

// checkStored is a part of S14: what a node stores of a run is what that told last, or what it tried to store before.
func (o *reporting) checkStored(s nodeStep) {
	p, ev, effects := s.p, s.ev, s.effects
	if e, is := ev.(node.RunProgress); is {
		if r := p.find(e.Run); r != nil {
			r.reports.told = jobstore.StatsOf(e.Info)
			o.checkWords(r, e.Info)
		}
	}
	for _, e := range effects {
		ask, _ := e.(node.Ask)
		q, is := ask.Request.(node.Record)
		if !is {
			continue
		}
		for _, r := range p.runs {
			s := &r.reports
			if r.JobID() != q.JobID || r.Lock() != q.Lock || reflect.DeepEqual(s.storing, q.Stats) {
				continue
			}
			if s.storing = q.Stats; !reflect.DeepEqual(s.told, q.Stats) {
				o.Fail("S14", "%s stores %+v of run %d, which told %+v last", p.Name, q.Stats, r.ID(), s.told)
			}
		}
	}
}

// checkWords is a part of S14: the numbers of a job are those of its run, each by its name.
func (o *reporting) checkWords(r *run, info replication.Info) {
	s, pending := r.reports.told, int64(-1)
	if s.ChangesPending != nil {
		pending = *s.ChangesPending
	}
	says := func(told jobstore.SeqText, seq peer.Seq) bool {
		return string(told) == strings.Trim(string(seq), `"`)
	}
	if s.Counters() != info.Counters || pending != info.ChangesPending || !says(s.CheckpointedSourceSeq, info.CheckpointedSeq) ||
		!says(s.SourceSeq, info.SourceSeq) || !says(s.ThroughSeq, info.ThroughSeq) {
		o.Fail("S14", "run %d of %s tells %+v, %d pending, checkpoint at %s, and its job %+v", r.ID(), r.p.Name, info, info.ChangesPending, info.CheckpointedSeq, s)
	}
}

// runStepped is told of every step of a run that goes on.
func (o *reporting) runStepped(s runStep) {
	r := s.run
	switch op := s.asked.(type) {
	case peer.PutLocal, peer.GetLocal:
		if at := r.Info().CheckpointedSeq; r.reports.n > 0 && at != r.reports.checkpointed {
			o.Fail("S21", "run %d of %s has a checkpoint at %s, and does not tell of it", r.ID(), r.p.Name, at)
		}
	case peer.FetchDocs:
		if f := s.ev.(replication.Reply).Failure; f != nil && f.Kind == peer.Status && f.Status == 429 {
			o.checkWaits(r, op, s.effects)
		}
	}
}

// checkWaits is a part of S30: an answer 429 to a bulk read is no reason to read one by one, which is more to do for the
// server.
func (o *reporting) checkWaits(r *run, op peer.FetchDocs, effects []replication.Effect) {
	for _, e := range effects {
		call, is := e.(replication.Call)
		if !is {
			continue
		}
		for _, d := range op.Docs {
			if one, copies := call.Op.(peer.CopyDoc); copies && one.ID == d.ID {
				o.Fail("S30", "run %d of %s was asked to slow down, and reads %s by itself", r.ID(), r.p.Name, d.ID)
			}
		}
	}
}
