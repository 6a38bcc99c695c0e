package model

import (
	"fmt"
	"strings"

	"couchrelay/core/kv/ryw"
	"couchrelay/core/kv/tuple"
)

// Jobs that replicate the same have one replication id, and the job that came first has the claim to it. When that
// job is over, is removed or becomes another replication while others wait behind it in a lot, one of these gets the
// claim and comes back in the same commit. If that one cannot be read, a row among those of lifted holds says that the
// replication is free. A promotion takes it away: one of those that wait gets the claim and comes back, or the job that
// has the claim by then is marked.

// lotBehind begins the name of the lot of jobs that wait for a replication id.
const lotBehind = "behind/"

// readClaim reads the row of a replication id, which names the job that has it.
func (w *writing) readClaim(rest []byte, mu ryw.Mutation) error {
	var repID string
	if err := tuple.Subspace(nil).Scan(rest, &repID); err != nil {
		return err
	}
	if w.claims == nil {
		w.claims = map[string]string{}
	}
	switch mu.Kind {
	case ryw.Set:
		w.claims[repID] = string(mu.Value)
	case ryw.Clear:
		w.claims[repID] = ""
	default:
		return fmt.Errorf("it is neither written nor cleared")
	}
	return nil
}

// judgeClaims says what is wrong with the claims that a commit writes, or whose jobs it changes.
func (m *Model) judgeClaims(c *Commit, w *writing) error {
	for repID := range w.claims {
		if err := w.judgeClaim(repID); err != nil {
			return breach(Records, c, "replication %s: %v", repID, err)
		}
	}
	for name := range w.free {
		if repID, is := strings.CutPrefix(name, lotBehind); is {
			if err := w.judgeClaim(repID); err != nil {
				return breach(Records, c, "replication %s, that is free: %v", repID, err)
			}
		}
	}
	for _, ch := range w.changes {
		for _, repID := range []string{ch.was.record.repID, ch.found.record.repID} {
			if repID == "" {
				continue
			}
			if err := w.judgeClaim(repID); err != nil {
				return breach(Records, c, "replication %s of job %s: %v", repID, ch.id, err)
			}
		}
	}
	return nil
}

// readLifted reads a row that names a lifted hold, or the lot of jobs that wait for a replication which is free.
func (w *writing) readLifted(rest []byte, mu ryw.Mutation) error {
	var name string
	if err := tuple.Subspace(nil).Scan(rest, &name); err != nil {
		return err
	}
	if w.free == nil {
		w.free = map[string]bool{}
	}
	w.free[name] = mu.Kind == ryw.Set
	return nil
}

func (w *writing) judgeClaim(repID string) error {
	was := w.m.claims[repID]
	is, written := w.claims[repID]
	if !written {
		is = was
	}
	owner, _ := w.after(is)
	before, anew := w.after(was)
	switch {
	case is != "" && owner.record.repID != repID:
		return fmt.Errorf("job %s has it, and is %v of %q", is, owner, owner.record.repID)
	case is != was && !anew && before.record.repID == repID && before.state != finished:
		return fmt.Errorf("job %s had it, and is %v; %q has it now", was, before, is)
	case owner.state == pending || owner.state == running:
		return nil
	}
	lot := lotBehind + repID
	if free, written := w.free[lot]; free || !written && w.m.free[lot] {
		return nil
	}
	for id := range w.m.jobs {
		if j, _ := w.after(id); j.lot == lot {
			return fmt.Errorf("job %s waits for it, and job %q that has it is %v", id, is, owner)
		}
	}
	for _, ch := range w.changes {
		if ch.found.lot == lot {
			return fmt.Errorf("job %s is to wait for it, and job %q that has it is %v", ch.id, is, owner)
		}
	}
	return nil
}

// after is a job as it is after the commit, and whether the commit has made it.
func (w *writing) after(id string) (j job, anew bool) {
	if ch := w.of[id]; ch != nil {
		return ch.found, ch.path != nil && ch.path.last() == adds
	}
	return w.m.jobs[id], false
}
