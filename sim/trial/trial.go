package trial

import (
	"couchrelay/sim/decide"
	"couchrelay/sim/oracle"
	"couchrelay/sim/world"
)

// Trial is one run of a world with the oracle that judges it.
type Trial struct {
	*world.World
	*oracle.Oracle
}

// New builds a world and the oracle that watches it.
func New(c world.Config, d *decide.Decider) *Trial {
	w := world.New(c, d)
	t := &Trial{World: w, Oracle: oracle.New(w.View())}
	w.Observe(t.See)
	return t
}

// Run plays the run to its end: the time of trouble, the healing, the settling, the experiments at rest. It
// returns the violation, if there is one.
func (t *Trial) Run() *oracle.Violation {
	t.Begin()
	t.Engine.Run(t.End(), t.broken)
	if !t.broken() {
		t.Heal()
		t.settle()
	}
	return t.Violation()
}

// broken reports whether an invariant did not hold.
func (t *Trial) broken() bool { return t.Violation() != nil }

// settle lets the world come to rest and then checks that everything is as it should be.
func (t *Trial) settle() {
	const look = 10_000_000 // microseconds
	limit := t.End().Add(t.Config.Settle)
	for next := t.Engine.Now() + look; !t.broken(); next += look {
		t.Engine.Run(min(next, limit), t.broken)
		if t.broken() {
			return
		}
		if t.Settled() {
			if t.AtRest(); !t.broken() {
				t.probe()
			}
			if !t.broken() {
				t.empty()
			}
			return
		}
		if next < limit {
			continue
		}
		if limit = t.Limit(t.Config.Settle); next >= limit {
			why := t.Unsettled()
			t.Fail(why.ID, "%s", why.Text)
			return
		}
	}
}
