package oracle

import "couchrelay/core/jobs"

// drops are the invariants of jobs whose databases were deleted, until they are swept.
type drops struct {
	*chronicle
	since map[string]int64 // a version of the store that has the deletion, by the prefix of the jobs
}

var dropSubject = subject{
	invariants: []Invariant{
		{"S80", "No job of a deleted database is given to a worker by an accept that read the store after the " +
			"deletion."},
	},
	begin: func(c *chronicle) {
		d := &drops{c, map[string]int64{}}
		c.on.landed.add(d.note)
		c.on.jobMoved.add(d.checkGiven)
	},
}

// note takes the first commit after a deletion is known for a version that has it.
func (d *drops) note(l landing) {
	if len(d.since) == len(d.dropped) {
		return
	}
	for prefix := range d.dropped { // in any order
		if _, known := d.since[prefix]; !known {
			d.since[prefix] = l.Version
		}
	}
}

// checkGiven is S80.
func (d *drops) checkGiven(j jobChange) {
	if j.before.header.State != jobs.Pending || j.after.header.State != jobs.Running {
		return
	}
	if since, dropped := d.since[j.after.instance()]; dropped && j.Read >= since {
		d.Fail("S80", "the database of job %s was deleted before version %d, and at %d it is given to %s",
			j.id, since, j.Read, j.after.header.Lock.Worker)
	}
}
