package oracle

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv/ryw"
	"couchrelay/sim/world"
)

// holdRule is a hold as its users know it, and as it is stored. Moments are of the engine, 0 for never.
type holdRule struct {
	world.HoldMade
	told   bool // a user was told that it is in force, and none has asked for its end since
	stored bool
	since  instant.Time // when it came in force
	lifted instant.Time // when a user asked last for its end
	ended  instant.Time // when a user was told of that last
	// back is since when a user knows that it is lifted, while none asks for it again. looks are the questions
	// for due jobs that were asked and answered since then.
	back         instant.Time
	looks        int
	makes, lifts doubts
}

// inForce reports whether no job that the hold stops may begin to run.
func (e *holdRule) inForce() bool { return e.told || e.stored }

// doubts are when users asked for what they have no answer to.
type doubts []instant.Time

// longestDoubt is how long after a question its transaction may still land, and after a node that may have asked it was
// suspended meanwhile.
const longestDoubt = 3 * time.Minute

// resolve takes out a question that is answered.
func (d *doubts) resolve(asked instant.Time) {
	if i := slices.Index(*d, asked); i >= 0 {
		*d = slices.Delete(*d, i, i+1)
	}
}

// doubtful reports whether the outcome of a question is not known.
func (k *control) doubtful(d doubts) bool {
	var suspended instant.Time
	for _, p := range k.nodes {
		suspended = max(suspended, p.PausedLast())
	}
	return slices.ContainsFunc(d, func(asked instant.Time) bool {
		return k.w.Now().Sub(max(asked, suspended)) < longestDoubt
	})
}

// hold is what is known of the hold with an id.
func (k *control) hold(id string) *holdRule {
	e := k.rules[id]
	if e == nil {
		e = &holdRule{}
		k.rules[id] = e
	}
	return e
}

func (k *control) holdAsked(f world.HoldAsked) {
	e, now := k.hold(f.ID), k.w.Now()
	if e.back = 0; f.Made {
		e.makes = append(e.makes, now)
		return
	}
	e.told, e.lifted, e.lifts = false, now, append(e.lifts, now)
	for _, other := range k.rules {
		other.looks = 0 // its jobs may come first
	}
}

// holdMade has a hold be in force for certain, unless an end of it for which a user has asked may still come, or came
// meanwhile: of a hold that is there already the answer may say how it was before.
func (k *control) holdMade(f world.HoldMade) {
	e, now := k.hold(f.ID), k.w.Now()
	if e.makes.resolve(f.Asked); max(e.lifted, e.ended) < f.Asked && !k.doubtful(e.lifts) {
		if !e.inForce() {
			e.since = now
		}
		e.HoldMade, e.told = f, true
	}
}

func (k *control) holdLifted(f world.HoldLifted) {
	e, now := k.hold(f.ID), k.w.Now()
	e.ended = now
	if e.lifts.resolve(f.Asked); !e.inForce() && e.lifted == f.Asked && !k.doubtful(e.makes) {
		e.back, e.looks = now, 0
	}
}

// landed follows the holds that are stored.
func (k *control) landed(l landing) {
	for _, m := range l.Mutations {
		held := k.w.Store().Keys.Held
		var id string
		if !held.Contains(m.Key) || held.Scan(m.Key, &id) != nil {
			continue
		}
		e := k.hold(id)
		if m.Kind != ryw.Set {
			e.stored = false
			continue
		}
		var row struct{ Database, Server string }
		if err := json.Unmarshal(m.Value, &row); err != nil {
			k.unreadable("hold "+id, err)
		}
		if !e.inForce() {
			e.since = k.w.Now()
		}
		e.stored, e.ID, e.Database, e.Server = true, id, row.Database, row.Server
	}
}

// stoppedBy is a hold in force that stops a job, nil if there is none.
func (k *known) stoppedBy(s *shadow) *holdRule {
	for _, id := range slices.Sorted(maps.Keys(k.rules)) {
		e := k.rules[id]
		if e.inForce() && stops(e.Database, e.Server, s.record) {
			return e
		}
	}
	return nil
}
