package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// leftovers looks for remains of workers, jobs and runs that are gone: rows that make the store grow for
// ever or hold passwords, and bodies that take memory.
type leftovers struct{ *chronicle }

var leftoverSubject = subject{
	invariants: []Invariant{
		{"S17a", "When all is quiet, the store has nothing of workers that are gone: no lease, heartbeat, " +
			"calls or jobs."},
		{"S17b", "When all is quiet, the store has no replication, and no time to forget it, of a job that " +
			"is gone."},
		{"S17f", "When all is quiet, a node that was given up is not listed for longer than an hour, and two " +
			"minutes until that is noticed."},
		{"S17e", "A run that has done all has let go of the bodies that it held."},
	},
	begin: func(c *chronicle) {
		l := &leftovers{c}
		c.on.runSaidEnd.add(l.checkBodies)
		c.on.atRest.add(func(struct{}) { l.checkWorkers(); l.checkJobs(); l.checkGone() })
	},
}

// checkBodies leaves out runs that end for another reason: their buffers go with their connections.
func (l *leftovers) checkBodies(e ending) {
	if e.completed() && e.Kept() > 0 {
		l.Fail("S17e", "run %d of %s completed and left %d groups of bodies", e.ID(), e.p.Name, e.Kept())
	}
}

func (l *leftovers) checkWorkers() {
	keys := l.w.Store().Keys.Jobs
	spaces := map[string]tuple.Subspace{
		"worker": keys.Worker, "beat": keys.Beat, "call": keys.Call, "owned": keys.Owned,
	}
	for kind, space := range spaces {
		rows, err := l.w.Present().GetRange(space.Range(), kv.RangeOptions{})
		if err != nil {
			l.Fail("S17a", "%v", err)
		}
		for _, row := range rows {
			t, err := space.Unpack(row.Key)
			if err != nil || l.leases[fmt.Sprint(t[0])].gone {
				l.Fail("S17a", "%s of %v is there, and the worker is gone: %v", kind, t, err)
			}
		}
	}
}

// checkGone looks for nodes that were given up long ago. When that was is told by the clock of the node that did
// it, which may have been set.
func (l *leftovers) checkGone() {
	if l.w.ClocksWereSet() {
		return
	}
	rows, err := l.w.Present().GetRange(l.w.Store().Keys.Jobs.Gone.Range(), kv.RangeOptions{})
	if err != nil {
		l.Fail("S17f", "%v", err)
	}
	for _, row := range rows {
		var g struct {
			At instant.Time `json:"at"`
		}
		if err := json.Unmarshal(row.Value, &g); err != nil || l.w.Now().Sub(g.At) > time.Hour+2*time.Minute {
			l.Fail("S17f", "%s still is listed, %v", row.Value, err)
		}
	}
}

// checkJobs looks for a job's id anywhere in the key: a row of an expiry has its time first.
func (l *leftovers) checkJobs() {
	keys := l.w.Store().Keys
	isThere := func(id any) bool { s := l.shadows[fmt.Sprint(id)]; return s != nil && s.header != nil }
	for kind, space := range map[string]tuple.Subspace{"spec": keys.Spec, "expire": keys.Expire} {
		rows, err := l.w.Present().GetRange(space.Range(), kv.RangeOptions{})
		if err != nil {
			l.Fail("S17b", "%v", err)
		}
		for _, row := range rows {
			t, err := space.Unpack(row.Key)
			if err != nil || !slices.ContainsFunc(t, isThere) {
				l.Fail("S17b", "%s of job %v is there, and the job is gone: %v", kind, t, err)
			}
		}
	}
}
