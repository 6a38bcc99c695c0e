package replication

import (
	"cmp"
	"strings"
	"testing"

	"couchrelay/core/checkpoint"
	"couchrelay/core/peer"
)

// troubled is a run of which a request fails.
type troubled struct {
	before func(w *world) // the run
	// written is what happens to a database before the run writes its first checkpoint there.
	written func(w *world, side peer.Side)
	// refusesLogs has the source be one that stores no logs.
	refusesLogs bool
}

// play has the n-th request of a run fail, and each later one that asks for the same. It returns how many there were.
func (s troubled) play(w *world, n int, f peer.Failure) (requests int) {
	if s.before != nil {
		s.before(w)
	}
	fails, written, no := "", [2]bool{s.written == nil, s.written == nil}, status(403)
	w.answer = func(c Call) *peer.Failure {
		if requests++; requests == n {
			fails = c.Op.String()
		}
		put, puts := c.Op.(peer.PutLocal)
		switch {
		case c.Op.String() == fails:
			return &f
		case puts && put.Side == peer.Source && s.refusesLogs:
			return &no
		case puts && !written[put.Side]:
			written[put.Side] = true
			s.written(w, put.Side)
		}
		return nil
	}
	w.begin()
	for idle := w.now.Add(3 * leastLook); w.end == nil; {
		if w.proceed(first); w.now > idle && w.end == nil {
			w.step(Stop{})
		}
	}
	return requests
}

// TestFailuresEndRuns: whichever request fails from some time on, in a way that no other attempt gets over, the run
// ends. It has copied all then, or says what is wrong.
func TestFailuresEndRuns(t *testing.T) {
	continuous := func(w *world) { w.plan.Continuous = true }
	for name, s := range map[string]troubled{
		"first run": {},
		"filter function": {before: func(w *world) {
			w.plan.Filter, w.filter, w.filterRev = &peer.GetFilter{DesignDoc: "d", Name: "f"}, "one", "1-a"
		}},
		"the run before writes its checkpoint late": {before: func(w *world) {
			w.begin()
			w.wantEnd(Completed, "")
			w.dbs[peer.Source].write("new", "1-a")
		}, written: func(w *world, side peer.Side) {
			log := w.logOn(side)
			log.SessionID, log.SourceLastSeq = "before", `"1-opaque"`
			log.History = append([]checkpoint.Entry{{SessionID: "before", RecordedSeq: `"1-opaque"`}}, log.History...)
			w.dbs[side].local["four"] = localDoc{w.dbs[side].local["four"].rev + 1, log.Encode(false)}
		}},
		"checkpoints of an older version": {before: func(w *world) {
			body := checkpoint.Log{SessionID: "s", SourceLastSeq: `"1-opaque"`}.Encode(false)
			w.dbs[peer.Source].local["three"], w.dbs[peer.Target].local["three"] = localDoc{1, body}, localDoc{1, body}
			w.since = 1
		}},
		"read-only source":           {refusesLogs: true},
		"idle run":                   {before: continuous},
		"idle run, read-only source": {before: continuous, refusesLogs: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, f := range []peer.Failure{status(418), {Kind: peer.Insecure}} {
				for n := 1; ; n++ {
					w := newWorld(t)
					w.fill(4)
					w.attachments["doc2"] = true
					if s.play(w, n, f) < n {
						break
					}
					named := strings.Contains(w.end.Trouble.String(), cmp.Or(f.URL, f.Kind.String()))
					if w.end.Cause == Crashed && !named {
						t.Errorf("request %d fails with %s, and the run ends for %s", n, &f, w.end.Trouble)
					}
				}
			}
		})
	}
}
