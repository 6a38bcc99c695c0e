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

// reporting judges how often runs report, and which reports are stored.
type reporting struct{ *chronicle }

var reportSubject = subject{
	invariants: []Invariant{
		{"B1h", "A run tells of its progress after 1, 2, 4 and more seconds, up to its interval; but of " +
			"checkpoints at once."},
		{"B1i", "A run tells at most once in 30 of its intervals that nothing has changed."},
		{"S14h", "What a node stores of a run is what the run told last."},
		{"S14i", "The numbers of a job are those of its run, each under its own name."},
		{"S21l", "A run tells of every checkpoint that it finds or completes."},
	},
	begin: func(c *chronicle) {
		rp := &reporting{c}
		c.on.runStarted.add(func(r *run) { r.reports.interval = r.p.Settings().ProgressInterval })
		c.on.runTells.add(rp.checkPace)
		c.on.nodeStepped.add(rp.nodeStepped)
		c.on.runStepped.add(rp.checkTold)
	},
}

// reports are the numbers that a run has told. Only reporting changes them.
type reports struct {
	interval time.Duration    // the run's ProgressInterval
	n        int              // reports so far
	at       instant.Time     // of the last one
	last     replication.Info // the last one
	told     jobstore.Stats   // the last numbers told to its node
	storing  jobstore.Stats   // the last numbers that the node asked to be stored
}

// unchanged is how many intervals a run waits at least before it tells the same numbers again.
const unchanged = 30

// firstReport is when a run first tells of itself; the time to the next doubles up to its interval.
const firstReport = time.Second

// checkPace is B1h and B1i: every report is a transaction, of every run of a fleet.
func (rp *reporting) checkPace(t telling) {
	r, info, now := t.run, t.info, rp.w.Now()
	was := r.reports
	since := now.Sub(was.at)
	least := min(was.interval, firstReport<<min(was.n, 20))
	if aboutCheckpoint(t.asked) {
		least = 0
	}
	if was.n > 0 && since < least {
		rp.Fail("B1h", "%s tells of its progress %s after the last time; it should be %s", r, since, least)
	}
	if was.n > 0 && since < unchanged*was.interval && sameNews(was.last, info) {
		rp.Fail("B1i", "%s tells %s after the last time that nothing has changed", r, since)
	}
	r.reports.n, r.reports.at, r.reports.last = was.n+1, now, info
}

// aboutCheckpoint reports whether the answer to a request may complete a checkpoint, or find one.
func aboutCheckpoint(op peer.Op) bool {
	switch op.(type) {
	case peer.PutLocal, peer.GetLocal:
		return true
	}
	return false
}

// sameNews reports whether two reports tell the same. Refusals are left out, since their number is among the
// rest.
func sameNews(a, b replication.Info) bool {
	a.Refusals, b.Refusals = nil, nil
	return reflect.DeepEqual(a, b)
}

// nodeStepped notes the reports to a node by its runs, and judges which of them it asks to be stored.
func (rp *reporting) nodeStepped(s nodeStep) {
	if e, is := s.ev.(node.RunProgress); is {
		if r := s.p.find(e.Run); r != nil {
			r.reports.told = jobstore.StatsOf(e.Info)
			rp.checkNames(r, e.Info)
		}
	}
	for _, e := range s.effects {
		ask, _ := e.(node.Ask)
		if q, is := ask.Request.(node.Record); is {
			rp.checkStored(s.p, q)
		}
	}
}

// checkStored is S14h. A request that is repeated still has the earlier numbers of the run.
func (rp *reporting) checkStored(p *process, q node.Record) {
	for _, r := range p.runs {
		rs := &r.reports
		if r.JobID() != q.JobID || r.Lock() != q.Lock || reflect.DeepEqual(rs.storing, q.Stats) {
			continue
		}
		if rs.storing = q.Stats; !reflect.DeepEqual(rs.told, q.Stats) {
			rp.Fail("S14h", "%s stores %+v of run %d, which told %+v last", p.Name, q.Stats, r.ID(), rs.told)
		}
	}
}

// checkNames is S14i. Sequences are stored without the quotes of their JSON.
func (rp *reporting) checkNames(r *run, info replication.Info) {
	s, pending := r.reports.told, int64(-1)
	if s.ChangesPending != nil {
		pending = *s.ChangesPending
	}
	same := func(told jobstore.SeqText, seq peer.Seq) bool {
		return string(told) == strings.Trim(string(seq), `"`)
	}
	if s.Counters() != info.Counters || pending != info.ChangesPending ||
		!same(s.CheckpointedSourceSeq, info.CheckpointedSeq) || !same(s.SourceSeq, info.SourceSeq) ||
		!same(s.ThroughSeq, info.ThroughSeq) {
		rp.Fail("S14i", "%s tells %+v, %d pending, checkpoint at %s, and its job %+v",
			r, info, info.ChangesPending, info.CheckpointedSeq, s)
	}
}

// checkTold is S21l: after a crash users must not see the job go back. The first report is excused, which
// comes when the run has begun.
func (rp *reporting) checkTold(s runStep) {
	at := s.Info().CheckpointedSeq
	if aboutCheckpoint(s.asked) && s.reports.n > 0 && at != s.reports.last.CheckpointedSeq {
		rp.Fail("S21l", "%s has a checkpoint at %s, and does not tell of it", s.run, at)
	}
}
