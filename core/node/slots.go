package node

import (
	"cmp"
	"slices"
)

// slots are the runs of a node. There may be thousands, so none looks at all others when it begins, tells something or
// ends.
type slots struct {
	// runs has one for each slot in use, in the order of their starts, which is that of their numbers. A loop over it
	// that frees slots goes over a copy.
	runs []*run
	// jobs has the same runs by job, in that order: at most one for each that is not gone, and before it one that is
	// gone and for whose end it waits.
	jobs     map[string][]*run
	stopping agenda[*run] // runs that are killed if they do not end in time
}

func (s *slots) place(id uint64) (i int, found bool) {
	return slices.BinarySearchFunc(s.runs, id, func(r *run, id uint64) int { return cmp.Compare(r.id, id) })
}

// find returns the run with this number, nil if it is gone.
func (s *slots) find(id uint64) *run {
	if i, found := s.place(id); found {
		return s.runs[i]
	}
	return nil
}

// ofJob returns the run of a job that is not gone, nil if there is none.
func (s *slots) ofJob(jobID string) *run {
	for _, r := range s.jobs[jobID] {
		if !r.gone {
			return r
		}
	}
	return nil
}

// occupy gives a slot to a run whose number is the highest so far.
func (s *slots) occupy(r *run) {
	if s.jobs == nil {
		s.jobs = map[string][]*run{}
	}
	s.runs = append(s.runs, r)
	s.jobs[r.held.JobID] = append(s.jobs[r.held.JobID], r)
}

// vacate takes the slot from a run, and returns the run of the same job that waits for this.
func (s *slots) vacate(r *run) (waits []*run) {
	if i, found := s.place(r.id); found {
		s.runs = slices.Delete(s.runs, i, i+1)
	}
	s.stopping.remove(r)
	job := r.held.JobID
	waits = slices.DeleteFunc(s.jobs[job], func(o *run) bool { return o == r })
	if s.jobs[job] = waits; len(waits) == 0 {
		delete(s.jobs, job)
	}
	return waits
}
