package oracle

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/replication"
)

// looks judge how often an idle run looks at its databases. Its logs tell it from other questions: a run reads them
// before it copies, in looks, and while it writes a checkpoint.
type looks struct{ *chronicle }

var lookSubject = subject{
	invariants: []Invariant{
		{"S21m", "A run looks at its logs no sooner than ten intervals, and a minute, after its last checkpoint or " +
			"look, but for one look in each checkpoint."},
		{"S21n", "A run counts as failed each checkpoint that it could not write, and nothing else."},
	},
	begin: func(c *chronicle) {
		ls := &looks{c}
		c.on.runCalls.add(ls.called)
		c.on.runReplied.add(func(a reply) { a.looking.note(a) })
		c.on.runSaidEnd.add(ls.checkFailures)
	},
}

// looking is what tells the looks of a run from its checkpoints. Only looks change it.
type looking struct {
	saves bool // a checkpoint has begun, or a look, and none is known to be whole since
	puts  bool // a log was sent, and no checkpoint is known to be whole since
	// durable has the sides that have made their writes durable, and whose logs a checkpoint may look at since.
	durable [2]bool
	// seen is when the run last had its log from each side or wrote a checkpoint, by its node's steady clock.
	seen [2]instant.Time
}

// lookInterval is how long an idle run leaves between looks.
func (r *run) lookInterval() time.Duration { return max(10*r.interval(), time.Minute) }

// called hears of every request of a run before it leaves, and is S21m: each look is work for both servers. The
// question may be repeated if it failed.
func (ls *looks) called(c call) {
	l := &c.looking
	if !c.feed.begun {
		return
	}
	switch op := c.op.(type) {
	case peer.PutLocal:
		l.saves, l.puts = true, true
	case peer.Commit, peer.GetFilter:
		l.saves = true
	case peer.GetLocal:
		checkpoint := l.puts || l.durable[op.Side]
		if since := c.p.Steady().Sub(l.seen[op.Side]); !checkpoint && since < c.lookInterval() {
			ls.Fail("S21m", "%s looks at its log on the %s %s after it last knew it, and should after %s",
				c.run, op.Side, since, c.lookInterval())
		}
	}
}

// note notes an answer.
func (l *looking) note(a reply) {
	if a.Failure != nil {
		return
	}
	switch op := a.op.(type) {
	case peer.GetLocal:
		l.seen[op.Side], l.durable[op.Side] = a.p.Steady(), false
	case peer.Commit:
		l.durable[op.Side] = true
	case peer.PutLocal:
		if a.feed.begun && op.Side == a.saving.second() {
			*l = looking{seen: [2]instant.Time{a.p.Steady(), a.p.Steady()}}
		}
	}
}

// checkFailures is S21n: operators are alerted when checkpoints fail. A run with a filter function begins looks as it
// begins checkpoints.
func (ls *looks) checkFailures(e ending) {
	counted := e.tally.CheckpointFailures
	_, put := e.asked.(peer.PutLocal)
	answer, _ := e.ev.(replication.Reply)
	failed := put && e.feed.begun && answer.Failure != nil && e.end.Cause == replication.Crashed
	switch {
	case counted > 0 && !e.looking.saves:
		ls.Fail("S21n", "%s counts %d failed checkpoints, and was writing none", e.run, counted)
	case counted != 1 && failed:
		ls.Fail("S21n", "%s could not write a checkpoint, and counts %d", e.run, counted)
	}
}
