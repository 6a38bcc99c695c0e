package oracle

import (
	"bytes"

	"couchrelay/core/jobs"
	"couchrelay/sim/world"
)

// sequences are the invariants of the order of changes. The oracle is a reader of what changed itself, and compares
// what it is told with the jobs by all commits.
type sequences struct {
	*chronicle
	cursor jobs.Cursor
	told   map[string]jobs.Sequence // by job
}

var sequenceSubject = subject{
	invariants: []Invariant{
		{"S50a", "The sequence of a job grows with each change of its header, and stays otherwise."},
		{"S50b", "A reader of what changed since it last read is told the newest change of every job, in order."},
	},
	begin: func(c *chronicle) {
		s := &sequences{chronicle: c, told: map[string]jobs.Sequence{}}
		c.on.jobChanged.add(s.checkGrows)
		c.on.ticked.add(func(world.Ticked) { s.read() })
		c.on.atRest.add(func(struct{}) { s.read() })
	},
}

// checkGrows is S50a.
func (s *sequences) checkGrows(j jobChange) {
	before, after := j.before.header, j.after.header
	if after == nil {
		delete(s.told, j.id)
		return
	}
	if after.Sequence == (jobs.Sequence{}) {
		s.Fail("S50a", "job %s is %s without a sequence", j.id, after)
	}
	if before == nil {
		return
	}
	order, same := after.Sequence.Compare(before.Sequence), sameHeader(before, after)
	if order < 0 || order == 0 && !same || order > 0 && same && !j.anew {
		s.Fail("S50a", "job %s was %s with %s, and is %s with %s", j.id, before, before.Sequence, after, after.Sequence)
	}
}

func sameHeader(a, b *jobs.Job) bool {
	return a.State == b.State && a.Due == b.Due && a.Lot == b.Lot && a.Resubmit == b.Resubmit && a.Stop == b.Stop &&
		a.Lock == b.Lock && a.Lost == b.Lost && a.Label == b.Label && bytes.Equal(a.Priority, b.Priority)
}

// changesPage is how many changes the oracle reads at once.
const changesPage = 7

// read is S50b: it reads all that changed, page by page.
func (s *sequences) read() {
	glance := s.w.Glance()
	keys, last := s.w.Store().Jobs.Keys, s.cursor.After
	for more := true; more; {
		var list []jobs.Change
		var err error
		if list, s.cursor, more, err = keys.ChangesSince(glance, s.cursor, changesPage); err != nil {
			s.unreadable("changes", err)
			return
		}
		for _, c := range list {
			if c.Sequence.Compare(last) < 0 {
				s.Fail("S50b", "job %s with %s is listed behind %s", c.ID, c.Sequence, last)
			}
			last, s.told[c.ID] = c.Sequence, c.Sequence
		}
	}
	for id, shadow := range s.shadows {
		if shadow.header != nil && s.told[id] != shadow.header.Sequence {
			s.Fail("S50b", "job %s has changed with %s, and a reader knows of %s and goes on at %s",
				id, shadow.header.Sequence, s.told[id], s.cursor.After)
		}
	}
}
