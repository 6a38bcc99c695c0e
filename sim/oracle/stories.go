package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/spec"
	"couchrelay/sim/world"

	"github.com/anishathalye/porcupine"
)

// stories collect what users did to each document or request, and what they were told, and ask at the end for one
// order of it all that the sequential specification (register.go) allows.
type stories struct {
	*chronicle
	of       map[string]*story // by job
	writes   map[uint64]*wrote // by token
	requests map[*spec.Replication]*requested
	made     map[madeAt]bool                // jobs that were made, and that no later attempt has answered for yet
	waits    map[*world.Waiter]instant.Time // when a user who waits looked last
	unjudged int                            // stories that took too long
	forked   map[string]bool                // jobs of documents with conflicts, of which no story is told
}

// story is what was done to one job, with the moments of call and return.
type story struct {
	acts  []*moment
	looks int
}

// moment is a deed with its time. It is over when its user is told; one that never is may happen at any later time, or
// not at all.
type moment struct {
	deed
	call, over instant.Time
}

var storySubject = subject{
	invariants: []Invariant{
		{"S96a", "Some order of all that users did to a document or request, which agrees with when they did it, " +
			"explains all that they were told: the document is as it was written last, and its job does that, was " +
			"made by that, and has ended for good once it has ended."},
	},
	begin: func(c *chronicle) {
		s := &stories{
			chronicle: c, of: map[string]*story{}, writes: map[uint64]*wrote{},
			requests: map[*spec.Replication]*requested{}, made: map[madeAt]bool{},
			waits: map[*world.Waiter]instant.Time{}, forked: map[string]bool{},
		}
		c.on.documentForked.add(func(f world.DocumentForked) { s.forked[f.ID] = true; delete(s.of, f.ID) })
		c.on.writeBegins.add(s.writeBegins)
		c.on.documentWritten.add(func(f world.DocumentWritten) { s.told(f.Token) })
		c.on.writeRefused.add(func(f world.WriteRefused) { s.refused(f.Token) })
		c.on.dropBegins.add(func(f world.DropBegins) { s.drop(f.Instance, false) })
		c.on.databaseDropped.add(func(f world.DatabaseDropped) { s.drop(f.Tenant.Instance(), true) })
		c.on.jobChanged.add(func(j jobChange) {
			if j.anew && j.after.header != nil {
				s.made[madeAt{j.id, j.after.record.Created}] = true
			}
		})
		c.on.requestBegins.add(s.requestBegins)
		c.on.requestAnswered.add(s.requestAnswered)
		c.on.cancelBegins.add(func(f world.CancelBegins) { s.add(f.ID, f.At, &ordered{verb: world.Cancel, at: f.At}) })
		c.on.requestCanceled.add(func(f world.RequestCanceled) { s.end(f.ID, &ordered{verb: world.Cancel, at: f.At}) })
		c.on.ordered.add(func(f world.Ordered) { s.add(f.ID, f.At, &ordered{verb: f.Verb, at: f.At, tells: true}) })
		c.on.obeyed.add(func(f world.Obeyed) {
			if f.Changed { // else an attempt before the last may have changed something
				s.end(f.ID, &ordered{verb: f.Verb, at: f.Asked, tells: true})
			}
		})
		s.hearLooks()
		c.on.atRest.add(func(struct{}) { s.check() })
	},
}

// hearLooks has the stories hear of users who are told something.
func (s *stories) hearLooks() {
	s.on.looked.add(func(f world.Looked) { s.look(f.JobID, f.Asked, s.sightOf(f.Sight)) })
	s.on.waiterLooks.add(func(f world.WaiterLooks) { s.waits[f.Waiter] = s.w.Now() })
	s.on.waiterLearns.add(func(f world.WaiterLearns) {
		if f.Waiter.Wanted != world.Running || f.Gone { // else it is told less than a state
			s.look(f.Waiter.JobID, s.waits[f.Waiter], &saw{found: !f.Gone, state: f.State, at: s.w.Now()})
		}
	})
	s.on.waiterLeaves.add(func(f world.WaiterLeaves) { delete(s.waits, f.Waiter) })
}

// add begins a deed.
func (s *stories) add(id string, at instant.Time, d deed) *moment {
	m := &moment{d, at, instant.Never}
	if s.forked[id] {
		return m
	}
	if s.of[id] == nil {
		s.of[id] = &story{}
	}
	s.of[id].acts = append(s.of[id].acts, m)
	return m
}

// end ends an order that is the same as another, and has not ended.
func (s *stories) end(id string, order *ordered) {
	if s.of[id] == nil {
		return
	}
	for _, m := range s.of[id].acts {
		if o, is := m.deed.(*ordered); is && *o == *order && m.over == instant.Never {
			o.sure, m.over = true, s.w.Now()
			return
		}
	}
}

// mostLooks is how many looks a story keeps. Without some of them it is true as well.
const mostLooks = 100

func (s *stories) look(id string, since instant.Time, d *saw) {
	if m := s.of[id]; m != nil && m.looks < mostLooks {
		m.looks++
		if d.forgotten = d.at.Add(-s.w.Config().TransientMaxAge); s.w.ClocksWereSet() {
			d.forgotten = instant.Never
		}
		s.add(id, since, d).over = s.w.Now()
	}
}

func (s *stories) writeBegins(f world.WriteBegins) {
	w := &wrote{Write: f.Write}
	w.moment = s.add(f.Write.JobID, f.Write.At, w)
	s.writes[w.Token] = w
}

// told ends a write that happened. Orders have no token.
func (s *stories) told(token uint64) {
	if w := s.writes[token]; w != nil {
		w.sure, w.moment.over = true, s.w.Now()
	}
}

// refused forgets a write that did not happen and will not.
func (s *stories) refused(token uint64) {
	if w := s.writes[token]; w != nil && !s.forked[w.JobID] {
		all := s.of[w.JobID]
		all.acts = slices.DeleteFunc(all.acts, func(m *moment) bool { return m == w.moment })
	}
}

// drop begins or ends the deletion of a database, which is done for certain, for all its documents so far.
func (s *stories) drop(instance [16]byte, done bool) {
	for id, story := range s.of {
		if !strings.HasPrefix(id, databasePrefix(instance)) {
			continue
		}
		if !done {
			s.add(id, s.w.Now(), dropped{})
			continue
		}
		for _, m := range story.acts {
			if _, is := m.deed.(dropped); is {
				m.over = s.w.Now()
			}
		}
	}
}

// madeAt names one of the jobs that have had an id, by when it was made.
type madeAt struct {
	id string
	at instant.Time
}

// requestBegins begins an attempt of a request. If one before made the job, and its frontend was not told, the request
// may be carried out twice: others may have canceled the job meanwhile.
func (s *stories) requestBegins(f world.RequestBegins) {
	call := f.At // when it was asked: what is told here has been read, and may be past
	if earlier := s.requests[f.Replication]; earlier != nil {
		landed := madeAt{f.ID, f.At}
		if !s.made[landed] {
			return
		}
		// Once: else the attempt after this one would take this one, too, for one that landed.
		delete(s.made, landed)
		earlier.sure, earlier.moment.over = true, s.w.Now() // it landed, and is made once more
		call = s.w.Now()
	}
	r := &requested{job: meaningOf(f.Replication), at: f.At}
	r.moment = s.add(f.ID, call, r)
	s.requests[f.Replication] = r
}

func (s *stories) requestAnswered(f world.RequestAnswered) {
	if r := s.requests[f.Replication]; r != nil {
		r.sure, r.moment.over = true, s.w.Now()
	}
}

// enough is the time that a story may take to be judged. Few take a thousandth of that.
const enough = 100 * time.Millisecond

// check is S96a.
func (s *stories) check() {
	model := porcupine.Model{
		Init: func() any { return register{} },
		Step: func(before, input, _ any) (bool, any) {
			after, may := input.(deed).on(before.(register))
			return may, after
		},
	}
	for _, id := range slices.Sorted(maps.Keys(s.of)) {
		if s.of[id].looks == 0 {
			continue
		}
		switch porcupine.CheckOperationsTimeout(model, s.of[id].operations(), enough) {
		case porcupine.Illegal:
			s.Fail("S96a", "no order explains what users did to job %s, and were told: %s", id, s.of[id])
		case porcupine.Unknown:
			s.unjudged++
			s.w.Logf("oracle", "the story of job %s is not judged, as %d others", id, s.unjudged-1)
		}
	}
}

// operations are the deeds of a story as porcupine has them, without writes that cannot have happened.
func (t *story) operations() (all []porcupine.Operation) {
	for _, m := range t.acts {
		if w, is := m.deed.(*wrote); is && w.Sent == nil {
			continue
		}
		all = append(all, porcupine.Operation{Input: m.deed, Call: int64(m.call), Return: int64(m.over)})
	}
	return all
}

func (t *story) String() string {
	var text strings.Builder
	for _, m := range t.acts {
		over := "..."
		if m.over != instant.Never {
			over = m.over.String()
		}
		fmt.Fprintf(&text, "\n  %s to %s: %s", m.call, over, m.deed)
	}
	return text.String()
}
