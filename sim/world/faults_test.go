package world

import (
	"testing"
	"time"
)

// An event may name a target of the fault's kind and no other, and a time only if the fault takes time.
func TestEventsOfFaults(t *testing.T) {
	c := Default()
	examples := map[target]string{aNode: "n1", aServer: "s1", aDatabase: "s1/a1"}
	for _, f := range faults {
		if f.do == nil {
			t.Errorf("%s does nothing", f.name)
		}
		if f.target != nothing && examples[f.target] == "" {
			t.Errorf("%s has the unknown target %q", f.name, f.target)
		}
		for target, whom := range examples {
			if err := c.CheckEvent(Event{What: f.name, Whom: whom}); (err == nil) != (f.target == target) {
				t.Errorf("%s is aimed at a %q, and for %s the check says %v", f.name, f.target, whom, err)
			}
		}
		if err := c.CheckEvent(Event{What: f.name}); err != nil {
			t.Errorf("the decider cannot choose for %s: %v", f.name, err)
		}
		if err := c.CheckEvent(Event{What: f.name, For: time.Minute}); (err == nil) != (f.span != nil) {
			t.Errorf("%s lasts: %v, and for a minute the check says %v", f.name, f.span != nil, err)
		}
		if f.span == nil {
			continue
		}
		for _, timeout := range []time.Duration{time.Second, time.Hour} {
			if least, most := f.span(timeout); least <= 0 || most < least {
				t.Errorf("%s lasts from %s to %s with an activity timeout of %s", f.name, least, most, timeout)
			}
		}
	}
}

// An event of an action has neither target nor time.
func TestEventsOfActions(t *testing.T) {
	c := Default()
	for _, a := range actions {
		if (a.do == nil) == (a.edit == nil) {
			t.Errorf("%s must have one function, do or edit", a.name)
		}
		if err := c.CheckEvent(Event{What: a.name}); err != nil {
			t.Error(err)
		}
		for _, e := range []Event{{What: a.name, Whom: "n1"}, {What: a.name, For: time.Minute}} {
			if c.CheckEvent(e) == nil {
				t.Errorf("%v passes the check", e)
			}
		}
	}
}
