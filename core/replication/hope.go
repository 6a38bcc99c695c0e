package replication

import "time"

// After fewVain passes in a row that took nothing off the list, the time before the next one doubles with each, up to
// maxVain of them.
const fewVain, maxVain = 2, 8

// hope is how often the list is gone through because documents with listed revisions were written. One may be written
// all the time of which the target refuses a leaf for good, and each pass asks about all that is listed.
type hope struct {
	changed bool // such a document was written since the last pass began
	hopes   bool // the last pass was begun for that
	brought bool // it has found something to take off the list
	vain    int  // such passes in a row that have not
}

// soon is how long after a write the next pass begins.
func (h *hope) soon() time.Duration {
	return passSoon << (min(max(h.vain, fewVain), maxVain) - fewVain)
}

// ended notes that a pass is over.
func (h *hope) ended() {
	switch {
	case h.brought:
		h.vain = 0
	case h.hopes:
		h.vain++
	}
}
