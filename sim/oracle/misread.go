package oracle

import (
	"context"
	"errors"

	"couchrelay/core/docs"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/spec"
	"couchrelay/sim/world"
)

// misreading are the invariants of reads that fail, or bring what nobody can have written.
type misreading struct{ *chronicle }

var misreadSubject = subject{
	invariants: []Invariant{
		{"S101a", "A transaction that was given a row of which nothing can be made does not commit: its request fails, " +
			"as if there were neither such a row nor none."},
		{"S101b", "The error of a request that was given a row of which nothing can be made is none that tells a user " +
			"or a node something else: that there is no document, a conflict, or a lease that is lost."},
		{"S101c", "A transaction that ends with a read that failed tells the store's error, which says whether " +
			"another attempt may succeed."},
	},
	begin: func(c *chronicle) {
		m := &misreading{c}
		c.on.misread.add(m.check)
	},
}

// check judges how an attempt ends. An error that the store gave later, or the end of the time for a request, says
// nothing of the row.
func (m *misreading) check(f world.Misread) {
	failed := kv.CodeOf(f.Err) != 0 || errors.Is(f.Err, context.Canceled) || errors.Is(f.Err, context.DeadlineExceeded)
	switch {
	case f.Failed != nil && !failed:
		m.Fail("S101c", "%s of %s ends with a read that failed with %q, and says: %v", what(f), f.Who, f.Failed, f.Err)
	case f.Row != nil && f.Err == nil:
		m.Fail("S101a", "%s of %s commits after it was given the row %q (behind: %v)", what(f), f.Who, f.Row.Key, f.Row.Behind)
	case f.Row != nil && !failed && saysMore(f.Err):
		m.Fail("S101b", "%s of %s was given the row %q (behind: %v), and says: %v", what(f), f.Who, f.Row.Key, f.Row.Behind, f.Err)
	}
}

// what is the request of an attempt.
func what(f world.Misread) any {
	if f.Request == nil {
		return "a transaction"
	}
	return f.Request
}

// saysMore reports whether an error has a meaning of its own for those who are told.
func saysMore(err error) bool {
	for _, known := range []error{jobs.ErrHalt, jobs.ErrLeaseLost, jobstore.ErrReindexing, jobstore.ErrSchema, jobstore.ErrForeign} {
		if errors.Is(err, known) {
			return true
		}
	}
	_, refusal := errors.AsType[*docs.Error](err)
	_, barred := errors.AsType[jobstore.Obstacle](err)
	_, invalid := errors.AsType[*spec.Error](err)
	return refusal || barred || invalid
}
