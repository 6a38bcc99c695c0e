package replication

import (
	"time"

	"couchrelay/core/instant"
)

// unit is one in fixed point.
const unit = 1_000_000

// forceAfter is how long an operation is left out before it is tried again, as in CouchDB.
const forceAfter = 37 * time.Second

// ratio decides whether an operation that often brings nothing is worth its request, as CouchDB's
// replicator does for _revs_diff and _bulk_get: it follows the share of useless answers with an
// exponential average, in millionths.
type ratio struct {
	value int64
	last  instant.Time // of the last time it was not left out
}

// worthwhile says whether to do it: while the average is not above threshold, or when it was left out
// for long.
func (a *ratio) worthwhile(threshold int64, now instant.Time) bool {
	return a.value <= threshold || now.Sub(a.last) > forceAfter
}

// observe moves the average by decay towards useless/all.
func (a *ratio) observe(useless, all, decay int64, now instant.Time) {
	a.last = now
	share := int64(0)
	if all > 0 {
		share = useless * unit / all
	}
	a.value += decay * (share - a.value) / unit
}
