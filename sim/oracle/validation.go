package oracle

import "couchrelay/sim/world"

// forbiddenTags are tags of documents.
type forbiddenTags map[string]bool

func (f forbiddenTags) note(w world.FunctionAsked) {
	for _, tag := range w.Forbidden {
		f[tag] = true
	}
}

// validation are the invariants of validation functions in replicator databases.
type validation struct{ *chronicle }

var validationSubject = subject{
	invariants: []Invariant{
		{"S93b", "A job that ends while a function keeps its document from changing tells its state all the same."},
	},
	begin: func(c *chronicle) {
		v := &validation{c}
		c.on.jobChanged.add(v.checkEnded)
	},
}

// checkEnded is S93b.
func (v *validation) checkEnded(j jobChange) {
	if !j.after.isOver() || j.before.isOver() || len(v.forbidden) == 0 {
		return
	}
	view := j.after.record.View()
	if !view.State.Terminal() || view.State == "failed" && view.Problem == "" {
		v.Fail("S93b", "job %s has ended, and tells %s: %s", j.id, view.State, view.Problem)
	}
}
