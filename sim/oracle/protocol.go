package oracle

import (
	"errors"

	"couchrelay/core/instant"
	"couchrelay/core/replication"
	"couchrelay/sim/protocol"
	"couchrelay/sim/world"
)

// protocols have each run followed by an automaton of the replication protocol, which knows no more than
// the run.
type protocols struct{ *chronicle }

var protocolSubject = subject{
	invariants: []Invariant{
		{"S95a", "Before a run reads changes it asks what the protocol has it ask, and it begins where " +
			"that leads it."},
		{"S95b", "A run asks only for changes and revisions that come next, and writes only what it read, once."},
		{"S95c", "A checkpoint covers only what was concluded when both databases were asked to make that " +
			"durable, where the target refuses nothing."},
		{"S95d", "A log goes to the target and then to the source, and its history extends what the run found."},
		{"S95e", "A run with nothing in flight goes on, and what failed is repeated after a pause."},
		{"S95g", "A run that is to give way goes on to its first documents, finishes those that it began in the " +
			"first half of its turn, with all attempts, and then gives way at once."},
		{"S95f", "How a run ends follows from what it was told: it completes only with all concluded and " +
			"saved, and " +
			"gives up only for an answer."},
	},
	begin: func(c *chronicle) {
		ps := &protocols{c}
		c.on.runStarted.add(func(r *run) {
			terms := protocol.Terms{
				Replication: r.Replication(), Reset: r.Record().Reset != 0, Lenient: r.lenient(),
				Listed: len(c.lists[r.JobID()].rows), MaxListed: c.maxListed(),
				ListOf: r.listOf(), List: protocol.List(r.readerOf().list), ListSaved: savedBy(r.Record()),
				ListSavedOf:  savedOf(r.Record()),
				StallTimeout: r.p.applied.StallTimeout,
			}
			r.protocol.Run = protocol.New(terms)
		})
		c.on.runEnded.add(func(r *run) { c.conversations.Add(&r.protocol.Counts) })
		c.on.runCalls.add(func(x call) {
			ps.hears(x.run, x.by)
			ps.judge(x.run, x.protocol.Call(x.p.Steady(), x.id, x.op))
		})
		c.on.runCancels.add(func(x cancel) {
			ps.hears(x.run, x.Event)
			ps.judge(x.run, x.protocol.Cancel(x.RunCancels.ID))
		})
		c.on.runSaidEnd.add(func(e ending) {
			ps.hears(e.run, e.ev)
			ps.judge(e.run, e.protocol.End(e.p.Steady(), e.end))
		})
		c.on.runStepped.add(ps.stepped)
		c.on.ticked.add(func(world.Ticked) {
			for _, r := range c.runs {
				ps.rests(r)
			}
		})
	},
}

// conversation is a run with its automaton. Only protocols change it.
type conversation struct {
	*protocol.Run
	heard  bool         // the automaton was told of the event of the present step
	looked instant.Time // when it was last asked whether the run may rest
	// unknown ends the judgement: the target refused documents, and a request does not say for which of two rows it
	// is, so that when both are concluded is not known.
	unknown bool
}

// hears tells the automaton of the event by which a run makes a step, once for each step.
func (ps *protocols) hears(r *run, ev replication.Event) {
	if !r.protocol.heard {
		r.protocol.heard = true
		ps.judge(r, r.protocol.Hear(r.p.Steady(), ev))
	}
}

func (ps *protocols) stepped(s runStep) {
	ps.hears(s.run, s.ev)
	s.protocol.heard = false
	for _, e := range s.effects {
		ps.judge(s.run, s.protocol.Does(e))
	}
	ps.rests(s.run)
}

// rests judges a run that may have nothing to do. One whose node stood still since it was last looked at is
// excused.
func (ps *protocols) rests(r *run) {
	p := &r.protocol
	excused := r.p.PausedLast() >= p.looked
	p.looked = ps.w.Now()
	ps.judge(r, p.Rests(r.p.Steady(), excused))
}

// judge fails for what the automaton does not allow.
func (ps *protocols) judge(r *run, err error) {
	var b *protocol.Breach
	if r.protocol.unknown || !errors.As(err, &b) {
		return
	}
	if b.Rule == protocol.Covering && r.Told().Refused > 0 {
		r.protocol.unknown = true
		return
	}
	id := map[protocol.Rule]string{
		protocol.Beginning: "S95a", protocol.Copying: "S95b", protocol.Covering: "S95c",
		protocol.Logging: "S95d", protocol.Waiting: "S95e", protocol.Yielding: "S95g", protocol.Ending: "S95f",
	}[b.Rule]
	ps.Fail(id, "%s: %s", r, b.Text)
}
