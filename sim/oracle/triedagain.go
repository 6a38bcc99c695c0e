package oracle

import (
	"maps"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
	"couchrelay/sim/world"
)

// triedAgain judges when listed revisions are tried again, and whether they get through in the end.
type triedAgain struct {
	*chronicle
	jobs map[string]*trials
	ran  []*run // all runs of all jobs
}

// trials are what is known of a job since its list of refused documents began.
type trials struct {
	base   string
	runs   []*run
	asks   instant.Time // when a user asked last to try what is listed, whether or not the order was carried out
	asked  demand       // of the last one
	wanted demand       // of the last one whose user was told that it is done
}

// demand is what the runs of a job have to try once more after a user has asked them to try all.
type demand struct {
	listed map[peers.Revision]refusedRow // then
	heard  map[peers.Revision]int        // how often runs of the job had been told until then that it is refused
}

var triedAgainSubject = subject{
	invariants: []Invariant{
		{"S72a", "A run that goes through the list copies a revision again only if a user has asked since it " +
			"was refused, or under on_refusal fail, or under retry, or if it could not be copied or a proxy refused " +
			"it, after three quarters of a minute, of two, of four, up to six hours, or at the end of a one-shot."},
		{"S72b", "Once all trouble is over, a run tries a listed revision that could not be copied, or that a proxy " +
			"refused as too large, and under on_refusal retry and fail each, before nine eighths of its pause " +
			"are over."},
		{"L13", "Once all trouble is over, the list of a continuous job has no revision that could not be copied, " +
			"or that a proxy refused as too large, and under on_refusal retry and fail none, and what it had is on " +
			"the target."},
		{"L12", "Once all trouble is over, what was listed when a user asked to try it has been tried since, and " +
			"what the target had refused by then, too."},
	},
	begin: func(c *chronicle) {
		t := &triedAgain{chronicle: c, jobs: map[string]*trials{}}
		c.on.runStarted.add(func(r *run) {
			j := t.of(r.JobID())
			j.runs, t.ran = append(j.runs, r), append(t.ran, r)
		})
		c.on.runStepped.add(t.stepped)
		c.on.followed.add(func(l landing) {
			for _, id := range l.jobs {
				t.follow(id)
			}
		})
		c.on.ordered.add(t.ordered)
		c.on.obeyed.add(func(f world.Obeyed) {
			if j := t.of(f.ID); f.Verb == world.Retry && f.Changed && j.asks == f.Asked {
				j.wanted = j.asked
			}
		})
		c.on.ticked.add(func(world.Ticked) { t.checkWaits() })
		c.on.unsettled = append(c.on.unsettled, t.unsettled)
	},
}

func (t *triedAgain) of(id string) *trials {
	if t.jobs[id] == nil {
		t.jobs[id] = &trials{}
	}
	return t.jobs[id]
}

// refusals returns how often runs of the job were told of each revision that the target refuses it.
func (j *trials) refusals() map[peers.Revision]int {
	n := map[peers.Revision]int{}
	for _, r := range j.runs {
		for name, often := range r.verdicts.refused {
			n[name] += often
		}
	}
	return n
}

// refused reports whether the target ever refused a revision to one of the runs.
func (j *trials) refused() bool {
	return slices.ContainsFunc(j.runs, func(r *run) bool { return len(r.verdicts.refused) > 0 })
}

// follow forgets what was known of a job that comes anew, or gets another replication. That a user has asked to try
// what is listed counts on: if the list is the one before, it remembers that.
func (t *triedAgain) follow(id string) {
	s, j := t.shadows[id], t.of(id)
	if s.header != nil && s.came < t.w.Now() && s.record.BaseID == j.base {
		return
	}
	again := trials{asks: j.asks}
	if s.header != nil && s.record.BaseID == j.base {
		again.asked, again.wanted = j.asked, j.wanted // a job that was over runs again, or an edited one goes on
	}
	*j = again
	if s.header == nil {
		return
	}
	j.base = s.record.BaseID
	if r := t.runOf(id); r != nil && t.holds(r) { // else it is of the job that was removed, and stops
		j.runs = []*run{r}
	}
}

func (t *triedAgain) ordered(f world.Ordered) {
	if f.Verb == world.Retry {
		j := t.of(f.ID)
		j.asks, j.asked = f.At, demand{maps.Clone(t.lists[f.ID].rows), j.refusals()}
	}
}

// longestPause is that between attempts.
const longestPause = 6 * time.Hour

// pauseAfter is how long a revision is left alone after so many attempts.
func pauseAfter(attempts int) time.Duration {
	pause := time.Minute
	for range attempts - 1 {
		pause = min(2*pause, longestPause)
	}
	return pause
}

// stepped notes when a run asks for a page of the list, and judges what it copies once it knows what its target
// lacks of that.
func (t *triedAgain) stepped(s runStep) {
	t.lacks(s)
	passes := s.asked != nil && s.ofList(s.asked)
	for _, e := range s.effects {
		switch e := e.(type) {
		case replication.ReadRefused:
			s.page = t.w.Now()
		case replication.Call:
			if op, copies := e.Op.(peer.CopyDoc); copies && passes && !t.w.ClocksWereSet() && t.holds(s.run) {
				t.checkAgain(s.run, op)
			}
		}
	}
}

// lacks notes which revisions the source says that it does not have, and until when the run may leave them alone: for
// as long as it knows of any, at least a minute.
func (t *triedAgain) lacks(s runStep) {
	op, copies := s.asked.(peer.CopyDoc)
	reply, is := s.ev.(replication.Reply)
	if !copies || !is {
		return
	}
	got, _ := reply.Result.(peer.Copied)
	for _, rev := range got.Revs {
		if !rev.Missing {
			continue
		}
		if s.lacked == nil {
			s.lacked, s.gone = map[peers.Revision]instant.Time{}, t.w.Now()
		}
		pause := min(max(t.w.Now().Sub(s.gone), time.Minute), longestPause)
		s.lacked[peers.Revision{ID: op.ID, Rev: rev.Rev}] = t.w.Now().Add(pause * 9 / 8)
	}
}

// manyUnderWay is for how long after an order the attempts that are listed may all have begun before it.
const manyUnderWay = 10 * time.Second

// unheard reports whether the last attempt that is listed may have begun before a user asked to try all: what was under
// way then is listed afterwards, and what the user asked for comes after it. Two attempts may be under way for long:
// one of a pass through the list, and one of a change. There are more for a moment if the document changes often.
func (j *trials) unheard(name peers.Revision, row refusedRow) bool {
	before := j.asked.listed[name]
	if row.First != before.First {
		before.Attempts = 0
	}
	few := row.Attempts-before.Attempts <= 2 || row.Last.Sub(j.asks) <= manyUnderWay
	return j.asks > row.Last || j.asks > 0 && few
}

// checkAgain is S72a. Ages are by the clocks of nodes. A page of the list may be older than the last attempt of a
// batch.
func (t *triedAgain) checkAgain(r *run, op peer.CopyDoc) {
	rep, rows := r.Replication(), t.lists[r.JobID()].rows
	j := t.of(r.JobID())
	for _, rev := range op.Revs {
		name := peers.Revision{ID: op.ID, Rev: rev}
		row, listed := rows[name]
		if !listed || row.Last >= r.page || j.unheard(name, row) {
			continue
		}
		rests := t.w.Now().Sub(row.Last)
		atOnce := !rep.Continuous || rep.OnRefusal == spec.FailRefused
		if row.triedUnder(rep.OnRefusal) && (atOnce || rests >= pauseAfter(row.Attempts)*3/4) {
			continue
		}
		t.Fail("S72a", "%s copies %s again under on_refusal %q, %s after attempt %d",
			r, name, rep.OnRefusal, rests, row.Attempts)
	}
}

// calm is how long after the healing servers may still ask for quiet, and passSlack how long a pass through the list
// takes; each row may be a page of its own.
const (
	calm      = 15 * time.Minute
	passSlack = 2 * time.Minute
	rowSlack  = 5 * time.Second
)

// checkWaits is S72b.
func (t *triedAgain) checkWaits() {
	now, healed := t.w.Now(), t.w.End().Add(calm)
	if now < healed || t.w.ClocksWereSet() {
		return
	}
	for _, r := range t.runs {
		rep, rows := r.Replication(), t.lists[r.JobID()].rows
		if !rep.Continuous || r.stopped || !r.feed.begun || !t.holds(r) {
			continue
		}
		slack := passSlack + time.Duration(len(rows))*rowSlack
		for name, row := range rows { // in any order: a run that is late fails whichever it is late with
			due := max(row.Last.Add(pauseAfter(row.Attempts)*9/8), r.Began(), healed)
			if lacked, lacks := r.lacked[name]; lacks { // the row does not tell of it
				due = max(due, lacked)
			}
			if row.triedUnder(rep.OnRefusal) && now > due.Add(slack) {
				t.Fail("S72b", "%s has not tried %s again, which was refused %d times, last at %s",
					r, name, row.Attempts, row.Last)
			}
		}
	}
}

// unsettled is L13 and L12.
func (t *triedAgain) unsettled() *Violation {
	for _, id := range t.ids() {
		if why := t.untried(id); why != nil {
			return why
		}
	}
	return nil
}

// untried is what a continuous job still has to try. It is excused as from everything else that it has to copy.
func (t *triedAgain) untried(id string) *Violation {
	s, j := t.shadows[id], t.jobs[id]
	if s.header == nil || j == nil || s.record.State.Terminal() || s.header.Lot != "" {
		return nil
	}
	list := t.lists[id]
	if len(list.rows) == 0 && !j.refused() { // most jobs: saves to read the replication
		return nil
	}
	rep, err := s.replication()
	if err != nil || rep == nil || !rep.Continuous {
		return nil
	}
	source, target := t.w.Database(rep.Source.URL), t.w.Database(rep.Target.URL)
	if source == nil || target == nil || source.FilterWorks(rep.Filter) != nil {
		return nil
	}
	for name, row := range list.rows { // in any order: the world goes on whichever it is
		was, wanted := j.wanted.listed[name]
		heard := j.wanted.heard[name]
		again := row.First != was.First // it had got through, and was refused later
		judges := rep.OnRefusal != spec.FailRefused && !t.w.ClocksWereSet()
		if judges && wanted && !again && row.Attempts <= was.Attempts {
			return missed("L12", "a user asked job %s to try %s, which was not tried after attempt %d",
				id, name, was.Attempts)
		}
		if judges && !wanted && heard > 0 && heard == j.refusals()[name] && row.Attempts == 1 && !row.Failed {
			return missed("L12", "a user asked job %s to try what %s refuses, and %s was not tried since, which it "+
				"had refused, and was not listed yet", id, target, name)
		}
		// In an answer with others it does not show for which one a newer one stands, which is refused for good.
		replaced := rep.OnRefusal == spec.SkipRefused && row.Status == 404 && !peers.Gives(source, name.ID, name.Rev)
		if row.triedUnder(rep.OnRefusal) && source.Has(name.ID, name.Rev) && !replaced {
			return missed("L13", "job %s still lists %s, after %d attempts", id, name, row.Attempts)
		}
	}
	if rep.OnRefusal == spec.RetryRefused && (s.record.Refused == nil || s.record.Refused.Beyond == 0) {
		return t.lost(id, rep, source, target)
	}
	return nil
}

// lost is the other half of L13: a revision that the target refused to the job, and is neither listed nor on the
// target. What it refused before the job became another replication is of the list that went then. If it refused the
// revision to another job with the same checkpoints, too, these may cover it: the list of that job has it.
func (t *triedAgain) lost(id string, rep *spec.Replication, source, target *peers.DB) *Violation {
	for _, offer := range source.OffersAfter(beginsAt(rep, source), rep.Filter, rep.WinningRevsOnly) {
		for _, rev := range offer.Revs {
			name := peers.Revision{ID: offer.ID, Rev: rev}
			refused := func(r *run) bool { return r.Base() == t.jobs[id].base && r.verdicts.refused[name] > 0 }
			others := func(r *run) bool { return r.JobID() != id && refused(r) }
			if !target.Has(offer.ID, rev) && slices.ContainsFunc(t.jobs[id].runs, refused) &&
				!slices.ContainsFunc(t.ran, others) {
				return missed("L13", "%s refused %s, and has not got it, nor has the list of job %s", target, name, id)
			}
		}
	}
	return nil
}
