package oracle

import (
	"slices"

	"couchrelay/core/replication"
	"couchrelay/core/spec"
	"couchrelay/sim/peers"
)

// forsaken judges what becomes of revisions that were to be tried again once the job that had listed them is gone, or
// is another replication. Checkpoints cover them.
type forsaken struct {
	*chronicle
	ran map[string][]*run // by the base id of their replications
	// failed are revisions that runs could not copy, and listed.
	failed map[*run]map[peers.Revision]bool
	// out are revisions that were left out at once, by the base id, as CouchDB does: a checkpoint may cover them since,
	// however later attempts fail.
	out map[string]map[peers.Revision]bool
	// full has the replications whose list had no place for all that a target refused. No run leaves out for lack of
	// a place what it could not copy.
	full map[string]bool
	// shared are the replications that several jobs had at a time: none knows the lists of the others.
	shared map[string]bool
}

var forsakenSubject = subject{
	invariants: []Invariant{
		{"L13b", "Once all trouble is over, what could not be copied and was to be tried again is on the target, " +
			"or in the list of the job that replicates there, whatever became of the job that had met it."},
		{"L13c", "Once all trouble is over, the checkpoint of a run that goes on says that it relies on a list only " +
			"if the list has something to try again."},
	},
	begin: func(c *chronicle) {
		f := &forsaken{
			chronicle: c, ran: map[string][]*run{}, failed: map[*run]map[peers.Revision]bool{},
			out:  map[string]map[peers.Revision]bool{},
			full: map[string]bool{}, shared: map[string]bool{},
		}
		c.on.runStepped.add(f.stepped)
		c.on.jobChanged.add(f.changed)
		c.on.unsettled = append(c.on.unsettled, f.unsettled)
	},
}

func (f *forsaken) stepped(s runStep) {
	for _, e := range s.effects {
		switch e := e.(type) {
		case replication.Identify:
			f.ran[e.Base] = append(f.ran[e.Base], s.run)
		case replication.Refused:
			for _, found := range e.Findings {
				f.listed(s.run, found)
			}
		}
	}
}

// listed notes a revision that a run lists.
func (f *forsaken) listed(r *run, found replication.Finding) {
	name, base := nameOf(found.Refusal), r.Base()
	switch {
	case found.Over:
	case !found.Failed: // refused by the target
		f.leftOut(base, name)
	case found.Status == 400 || found.Status == 413:
		f.leftOut(base, name)
	case !f.out[base][name]:
		if f.failed[r] == nil {
			f.failed[r] = map[peers.Revision]bool{}
		}
		f.failed[r][name] = true
	}
}

// leftOut notes a revision that a run leaves out. What runs before have failed at is no matter by then.
func (f *forsaken) leftOut(base string, name peers.Revision) {
	if f.out[base] == nil {
		f.out[base] = map[peers.Revision]bool{}
	}
	f.out[base][name] = true
}

// changed notes that another job has the same replication, and lists that are full.
func (f *forsaken) changed(j jobChange) {
	if j.after.header == nil || j.after.record.BaseID == "" {
		return
	}
	base := j.after.record.BaseID
	if list := j.after.record.Refused; list != nil && list.Beyond > 0 {
		f.full[base] = true
	}
	if b := j.before; b != nil && b.header != nil && b.record.BaseID == base {
		return
	}
	for id, s := range f.shadows { // in any order: one is enough
		if id != j.id && s.header != nil && s.record.BaseID == base {
			f.shared[base] = true
		}
	}
}

// unsettled is L13b and L13c. Where runs had different policies, what one was to try again another one left out.
func (f *forsaken) unsettled() *Violation {
	for _, id := range f.ids() {
		s := f.shadows[id]
		if s.header == nil || s.record.State.Terminal() || s.header.Lot != "" {
			continue
		}
		base := s.record.BaseID
		met := slices.DeleteFunc(slices.Clone(f.ran[base]), func(r *run) bool {
			return len(f.failed[r]) == 0 && len(r.verdicts.refused) == 0
		})
		if len(met) == 0 || f.shared[base] {
			continue
		}
		rep, err := s.replication()
		if err != nil || rep == nil || !rep.Continuous || !rep.UseCheckpoints {
			continue
		}
		other := func(r *run) bool { return r.Replication().OnRefusal != rep.OnRefusal }
		if rep.OnRefusal == spec.FailRefused || slices.ContainsFunc(f.ran[base], other) {
			continue
		}
		if name, lost := f.lost(id, rep, met); lost {
			return missed("L13b", "%s could not be copied, is not on %s, and not in the list of job %s",
				name, rep.Target.URL, id)
		}
		if f.relies(id, rep) {
			return missed("L13c", "the checkpoint of job %s on %s relies on a list", id, rep.Target.URL)
		}
	}
	return nil
}

// lost is a revision that one of the runs was to have tried again, and that is nowhere.
func (f *forsaken) lost(id string, rep *spec.Replication, met []*run) (peers.Revision, bool) {
	source, target := f.checkpointed(rep)
	if source == nil {
		return peers.Revision{}, false
	}
	again := func(name peers.Revision) func(*run) bool {
		return func(r *run) bool {
			failed := f.failed[r][name] && !f.out[r.Base()][name]
			refused := rep.OnRefusal == spec.RetryRefused && r.verdicts.refused[name] > 0
			return failed || refused && !f.full[r.Base()]
		}
	}
	for _, offer := range source.OffersAfter(beginsAt(rep, source), rep.Filter, rep.WinningRevsOnly) {
		for _, rev := range offer.Revs {
			name := peers.Revision{ID: offer.ID, Rev: rev}
			_, listed := f.lists[id].rows[name]
			if !listed && !target.Has(offer.ID, rev) && slices.ContainsFunc(met, again(name)) {
				return name, true
			}
		}
	}
	return peers.Revision{}, false
}

// relies reports whether a checkpoint relies on a list of which nothing is tried again.
func (f *forsaken) relies(id string, rep *spec.Replication) bool {
	_, target := f.checkpointed(rep)
	r := f.runOf(id)
	if target == nil || r == nil || !f.holds(r) || f.logs.trusted(target, r.Base()) == nil {
		return false
	}
	for _, row := range f.lists[id].rows {
		if row.triedUnder(rep.OnRefusal) {
			return false
		}
	}
	return f.logs.read(target.Log(r.Base())).relies().Job == r.readerOf().list.Job
}
