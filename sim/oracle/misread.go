package oracle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
	"couchrelay/core/spec"
	"couchrelay/sim/fakefdb"
	"couchrelay/sim/world"
)

// misreading judges how transactions end of which a read failed, or brought a row that nobody can have written.
type misreading struct {
	*chronicle
	handed map[string]instant.Time // when a job last left the lot of those that wait for another one's end
}

var misreadSubject = subject{
	invariants: []Invariant{
		{"S101a", "A transaction that was given a row of which nothing can be made does not commit, be it for a " +
			"reader: the row is neither passed over nor taken for none. But a job that waits for another one's " +
			"end, and cannot be read, does not keep that one from its end."},
		{"S101b", "The error of a transaction that was given a row of which nothing can be made tells users and " +
			"nodes nothing else: no missing document, no conflict, no lock or lease that is lost."},
		{"S101c", "A transaction that ends with a read that failed tells the store's error, which says whether " +
			"another attempt may succeed."},
		{"S101d", "The error of a transaction that was given a row of which nothing can be made says which row that " +
			"is: it has its key, or the last name in it."},
	},
	begin: func(c *chronicle) {
		m := &misreading{c, map[string]instant.Time{}}
		c.on.jobChanged.add(m.note)
		c.on.misread.add(m.check)
	},
}

// check judges how an attempt ends. An error that the store gave later, or the end of the time for a request, says
// nothing of the row.
func (m *misreading) check(f world.Misread) {
	late := errors.Is(f.Err, context.Canceled) || errors.Is(f.Err, context.DeadlineExceeded)
	switch {
	case kv.CodeOf(f.Err) != 0 || late:
	case f.Failed != nil:
		m.Fail("S101c", "%s ends with a read that failed with %q, and says: %v", asker(f), f.Failed, f.Err)
	case f.Err == nil && ends(f.Request) && m.waits(f.Row):
	case f.Err == nil:
		m.Fail("S101a", "%s commits after %s", asker(f), given(f.Row))
	case m.halted(f):
	case saysMore(f.Err):
		m.Fail("S101b", "%s says after %s: %v", asker(f), given(f.Row), f.Err)
	case !f.Row.NamedIn(f.Err.Error()):
		m.Fail("S101d", "%s says after %s only: %v", asker(f), given(f.Row), f.Err)
	}
}

// ends reports whether a request may end a job, or give its replication up; of users' writes that is not known.
func ends(q node.Request) bool {
	switch q.(type) {
	case nil, node.Complete, node.Fail, node.Crash, node.StandBy, node.Claim, node.Sweep:
		return true
	}
	return false
}

// note keeps when a job that waited was handed the replication.
func (m *misreading) note(j jobChange) {
	if behindAnother(j.before) {
		m.handed[j.id] = m.w.Now()
	}
}

// waits reports whether a row is of a job that waits for another one's replication, or did when the transaction may
// have read it: one that saw the job before it was handed the replication does not commit.
func (m *misreading) waits(r *fakefdb.Row) bool {
	e, err := m.w.Store().Keys.Jobs.Job.Unpack(r.Key)
	if err != nil || len(e) == 0 {
		return false
	}
	id, _ := e[0].(string)
	handed, was := m.handed[id]
	return behindAnother(m.shadows[id]) || was && m.w.Now().Sub(handed) <= kv.MaxTxSeconds*time.Second
}

func behindAnother(s *shadow) bool {
	return s != nil && s.header != nil && strings.HasPrefix(s.header.Lot, "behind/")
}

// halted reports whether a worker is told that it does not hold a job of which it was given unreadable data: the job's
// header, which it could read, has told so.
func (m *misreading) halted(f world.Misread) bool {
	isData := func(k jobs.Keys) bool {
		e, err := k.Job.Unpack(f.Row.Key)
		return err == nil && len(e) > 1 && !f.Row.Behind
	}
	return errors.Is(f.Err, jobs.ErrHalt) && (isData(m.w.Store().Keys.Jobs) || isData(m.w.FollowStore().Keys.Jobs))
}

// asker names the request, or the user, that a transaction was for.
func asker(f world.Misread) string {
	if f.Request == nil {
		return "a transaction of " + f.Who
	}
	return fmt.Sprintf("%s of %s", f.Request, f.Who)
}

// given names a row of which nothing can be made.
func given(r *fakefdb.Row) string {
	if r.Behind {
		return fmt.Sprintf("it was given a row behind %q", r.Key)
	}
	return fmt.Sprintf("it was given a value of %q", r.Key)
}

// saysMore reports whether an error has a meaning of its own for those who are told.
func saysMore(err error) bool {
	for _, known := range []error{jobs.ErrHalt, jobs.ErrLeaseLost, jobstore.ErrReindexing} {
		if errors.Is(err, known) {
			return true
		}
	}
	_, refusal := errors.AsType[*docs.Error](err)
	_, barred := errors.AsType[jobstore.Obstacle](err)
	_, invalid := errors.AsType[*spec.Error](err)
	return refusal || barred || invalid
}
