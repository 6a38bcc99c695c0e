package oracle

import (
	"encoding/json"
	"strings"

	"couchrelay/core/explain"
	"couchrelay/core/kv"
	"couchrelay/sim/world"
)

// ownWords is what a worker says of itself with its heartbeats, after their versionstamp.
type ownWords struct {
	Roles   json.RawMessage `json:"roles"`
	Status  string          `json:"status"`
	MaxJobs int             `json:"max_jobs"`
	Running int             `json:"running"`
}

// ownWordsOf is what all workers with a lease that is in force have told last, by their names.
func ownWordsOf(w world.View) map[string]ownWords {
	keys, all := w.Store().Keys.Jobs, map[string]ownWords{}
	rows, err := w.Present().GetRange(keys.Worker.Range(), kv.RangeOptions{})
	if err != nil {
		return nil
	}
	for _, row := range rows {
		name, err := keys.Worker.Unpack(row.Key)
		if err != nil || len(name) != 1 || row.Value[0] != 'L' {
			continue
		}
		beat, err := w.Present().Get(keys.Beat.Pack(name[0]))
		var t ownWords
		if err == nil && len(beat) > 10 && json.Unmarshal(beat[10:], &t) == nil {
			all[name[0].(string)] = t
		}
	}
	return all
}

// checkSlots is S60f.
func (x *explanations) checkSlots(e *explain.Explanation) {
	var want explain.Slots
	all := ownWordsOf(x.w)
	for _, t := range all { // sums: the order does not matter
		if t.Status != "up" || !strings.Contains(string(t.Roles), `"replication"`) {
			continue
		}
		want.Nodes++
		want.MaxJobs += t.MaxJobs
		want.Running += t.Running
		want.Free += max(0, t.MaxJobs-t.Running)
	}
	if e.Slots != want {
		x.Fail("S60f", "job %s is explained with slots %+v, and nodes have told %+v", e.JobID, e.Slots, want)
	}
	if n := e.Node; n != nil && !n.Expired {
		if t := all[n.Worker]; n.MaxJobs != t.MaxJobs || n.Running != t.Running {
			x.Fail("S60f", "job %s is explained by node %+v, which has told %+v", e.JobID, *n, t)
		}
	}
}
