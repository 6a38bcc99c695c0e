package replication

import (
	"time"

	"couchrelay/core/peer"
	"couchrelay/core/spec"
)

// After fewVain passes in a row that took nothing off the list, the time before the next one doubles with each, up to
// maxVain of them.
const fewVain, maxVain = 2, 8

// followUps back off the passes through the list that follow writes of documents with listed revisions. A document may
// be written all the time of which the target refuses a leaf for good, and each pass asks about all that is listed.
type followUps struct {
	changed  bool // such a document was written since the last pass began
	followUp bool // the last pass was begun for that
	removed  bool // it has found something to take off the list
	vain     int  // follow-ups in a row that have not
}

// pause is how long after a write the next pass begins.
func (u *followUps) pause() time.Duration {
	return passSoon << (min(max(u.vain, fewVain), maxVain) - fewVain)
}

// ended notes that a pass is over.
func (u *followUps) ended() {
	switch {
	case u.removed:
		u.vain = 0
	case u.followUp:
		u.vain++
	}
}

// outlives reports whether a listed revision is to be tried by a job that is made anew, too. The target, or a proxy
// before it, rarely takes later what it has refused, and CouchDB leaves that out at once: under skip it is not worth
// reading all again.
func (f *refusals) outlives(failed, refused bool) bool {
	return f.again(failed) && (f.plan.OnRefusal == spec.RetryRefused || !refused)
}

// leaves has a revision of the page leave the list.
func (f *refusals) leaves(id, rev string) {
	f.removed = true
	f.over = append(f.over, Finding{Refusal: peer.Refusal{ID: id, Rev: rev}, Over: true})
}
