package replication

import (
	"time"

	"couchrelay/core/instant"
)

// unit is 1 in the fixed point of ratios and thresholds.
const unit = 1_000_000

// forceAfter is how long an operation is left out before it is tried again, as in CouchDB.
const forceAfter = 37 * time.Second

// ratio decides whether an operation that often brings nothing is worth its request, as CouchDB's replicator
// does for _revs_diff and _bulk_get: it follows the share of useless answers with an exponential average.
type ratio struct {
	value int64        // the average, from 0 (all answers were of use) to unit (none was)
	last  instant.Time // when the operation was last asked for or observed
}

// worthwhile reports whether to ask: the average is not above threshold, or the operation was left out for so
// long that things may have changed.
func (a *ratio) worthwhile(threshold int64, now instant.Time) bool {
	return a.value <= threshold || now.Sub(a.last) > forceAfter
}

// tried notes that the operation is asked for. When that is only since it was left out for so long, one request shows
// whether things have changed, and all others need not wait for its answer.
func (a *ratio) tried(now instant.Time) { a.last = now }

// observe moves the average by decay, a share of unit, towards useless/all.
func (a *ratio) observe(useless, all, decay int64, now instant.Time) {
	a.last = now
	share := int64(0)
	if all > 0 {
		share = useless * unit / all
	}
	a.value += decay * (share - a.value) / unit
}
