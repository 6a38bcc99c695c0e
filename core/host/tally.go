package host

import (
	"time"

	"couchrelay/core/instant"
	"couchrelay/core/replication"
)

// Tally counts what all runs of the host have done so far, those that are gone included. It only grows.
func (h *Host) Tally() replication.Tally { return h.tally }

// count counts what a run has done in a step.
func (h *Host) count(r *run) {
	if now := r.machine.Tally(); now != r.counted {
		h.tally.Add(now.Since(r.counted))
		r.counted = now
	}
}

// Lag is how far the runs of a database are behind their sources.
type Lag struct {
	Runs    int
	Changes int64         // of those runs whose sources tell it, together
	Behind  time.Duration // of the run that lags for longest
}

// Lags returns the lag of the runs of each database of documents; those of requests are of the database "".
func (h *Host) Lags(now instant.Time) map[string]Lag {
	lags := map[string]Lag{}
	for _, r := range h.wakes {
		if r.machine == nil {
			continue
		}
		changes, behind := r.machine.Lag(now)
		lag := lags[r.start.Work.Record.Database]
		lag.Runs++
		lag.Changes += max(0, changes)
		lag.Behind = max(lag.Behind, behind)
		lags[r.start.Work.Record.Database] = lag
	}
	return lags
}
