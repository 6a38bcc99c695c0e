package follow

import (
	"slices"
	"strings"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
)

// View is a followed database as operators see it.
type View struct {
	Job
	Worker string       // that has the job; empty for none
	Due    instant.Time // when the job is tried again, by the store's record; 0 unless it waits
	States int          // of jobs that its documents do not have yet; ManyStates for more
}

// ManyStates is up to where states are counted.
const ManyStates = 1000

// List reads all jobs, in the order of their names. It fails with a jobs.UnreadableError if a job cannot be read. Of
// the jobs in without the list has what their names tell.
func List(r kv.Reader, s *Store, without ...string) ([]View, error) {
	list, err := s.Queue.List(r, jobs.Page{Limit: MaxDatabases, Without: without})
	if err != nil {
		return nil, err
	}
	var views []View
	for _, j := range list {
		if slices.Contains(without, j.ID) {
			views = append(views, View{Job: unreadable(j.ID)})
			continue
		}
		data, err := decodeJob(j)
		if err != nil {
			return nil, jobs.OfJob(j.ID, err)
		}
		due, err := r.GetRange(s.Keys.Rows.Sub(j.ID, "due").Range(), kv.RangeOptions{Limit: ManyStates})
		if err != nil {
			return nil, err
		}
		views = append(views, View{*data, j.Lock.Worker, j.Due, len(due)})
	}
	slices.SortFunc(views, func(a, b View) int { return strings.Compare(a.ID(), b.ID()) })
	return views, nil
}

// unreadable is what lists have of a job that could not be read.
func unreadable(id string) Job {
	section, name, _ := strings.Cut(strings.TrimSuffix(id, "/_replicator"), "/")
	return Job{
		Database: Database{Section: section, Name: name}, Error: "unreadable", Behind: -1,
		Reason: "a row of this job cannot be read: see what `couchrelay check` tells of it",
	}
}

// Node is the name of the node that follows the database; empty for none.
func (v *View) Node() string { return v.Worker[:max(0, strings.LastIndexByte(v.Worker, '/'))] }
