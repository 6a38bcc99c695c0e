package oracle

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv/ryw"
	"couchrelay/sim/world"
)

// lists compare lists of jobs with the jobs that there are.
type lists struct {
	*chronicle
	landings int // so far
	checked  int // lists
	// older are the workers of nodes of an earlier release that have a lease, with the versions that gave it to them.
	older map[string]int64
}

var listSubject = subject{
	invariants: []Invariant{
		{"S41a", "Lists have the jobs that match their filters, each once, in the order of ids or in the " +
			"opposite one, in pages of any length."},
		{"S41b", "The total of a list, if it is told, is the number of the jobs that match."},
		{"S41f", "The index of a store of an earlier release is not made while a node of that release has a lease, " +
			"as it writes jobs that are in no index."},
		{"L17", "Once all trouble is over, the jobs of a store of an earlier release get their index."},
	},
	begin: func(c *chronicle) {
		l := &lists{chronicle: c, older: map[string]int64{}}
		c.on.followed.add(l.followed)
		c.on.ticked.add(l.ticked)
		c.on.atRest.add(func(struct{}) { l.checkAll() })
		c.on.unsettled = append(c.on.unsettled, func() *Violation {
			if l.indexing() {
				return missed("L17", "not all jobs are indexed, and no node is of an earlier release any more")
			}
			return nil
		})
	},
}

// followed counts a commit. It is S41f: what makes the index has read no lease of a node of an earlier release.
func (l *lists) followed(at landing) {
	l.landings++
	keys := l.w.Store().Keys
	for _, m := range at.Mutations {
		var worker string
		switch leases := keys.Jobs.Worker; {
		case bytes.Equal(m.Key, keys.Reindex):
			for _, worker := range slices.Sorted(maps.Keys(l.older)) {
				if since := l.older[worker]; since <= at.Read {
					l.Fail("S41f", "jobs are indexed as of %d, and %s has a lease since %d", at.Read, worker, since)
				}
			}
		case !leases.Contains(m.Key) || leases.Scan(m.Key, &worker) != nil:
		case m.Kind != ryw.Set:
			delete(l.older, worker)
		case l.older[worker] == 0 && l.ofOlder(worker):
			l.older[worker] = at.Version
		}
	}
}

// ofOlder reports whether a worker is that of a node of an earlier release.
func (l *lists) ofOlder(worker string) bool {
	return slices.ContainsFunc(l.nodes, func(p *process) bool {
		return p.Older() && (worker == p.Worker() || strings.HasPrefix(worker, p.Worker()+"-"))
	})
}

// Lists are compared after some commits, one at a time, and all of them at rest.
const listedEvery = 16

func (l *lists) ticked(world.Ticked) {
	if n := l.landings / listedEvery; n > l.checked {
		l.checked = n
		all := l.filters()
		l.check(l.filled(all[n%len(all)]), n)
	}
}

func (l *lists) checkAll() {
	for i, f := range l.filters() {
		l.check(l.filled(f), i)
	}
}

// one stands in a filter for the value that some job has.
const one = "one"

// filters are all that could go wrong by itself, and some pairs.
func (l *lists) filters() (all []jobstore.Filter) {
	for _, documents := range []bool{false, true} {
		from := jobstore.Filter{Documents: documents}
		all = append(all, from)
		for _, state := range []jobstore.State{"pending", "running", "crashing", "paused", "completed", "failed"} {
			f := from
			if f.States = []jobstore.State{state}; documents || !state.Terminal() {
				all = append(all, f)
			}
		}
		from.Server = one
		pair := from
		pair.States = []jobstore.State{"pending", "crashing"}
		all = append(all, from, pair,
			jobstore.Filter{Documents: documents, User: one},
			jobstore.Filter{Documents: documents, Error: one},
			jobstore.Filter{Documents: documents, Error: one, Server: one},
			jobstore.Filter{Documents: documents, Instance: one},
			jobstore.Filter{Documents: documents, Instance: one, Server: one},
			jobstore.Filter{Documents: documents, Instance: one, States: pair.States})
		for _, p := range l.nodes {
			all = append(all, jobstore.Filter{Documents: documents, Workers: []string{p.Worker()}})
		}
	}
	return all
}

// filled has the values in place of one.
func (l *lists) filled(f jobstore.Filter) jobstore.Filter {
	if f.Server == one {
		f.Server = l.some(func(s *shadow) string { return hostOf(s.record.Target) })
	}
	if f.User == one {
		f.User = l.some(func(s *shadow) string { return s.record.User })
	}
	if f.Error == one {
		f.Error = l.some(func(s *shadow) string { return s.record.Error })
	}
	if f.Instance == one {
		f.Instance = l.some((*shadow).instance)
	}
	return f
}

// some is the value of the job with the least id that has one, by commits so far among those; else one that no job
// has.
func (l *lists) some(value func(*shadow) string) string {
	values := map[string]bool{}
	for _, s := range l.shadows {
		if s.header != nil {
			values[value(s)] = true
		}
	}
	delete(values, "")
	if len(values) == 0 {
		return "none"
	}
	return slices.Sorted(maps.Keys(values))[l.landings/listedEvery/2%len(values)]
}

// hostOf is the host and port of a URL of this world.
func hostOf(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	host = strings.ToLower(host[strings.LastIndexByte(host, '@')+1:])
	switch {
	case host == "" || strings.Contains(host, ":"):
		return host
	case scheme == "https":
		return host + ":443"
	}
	return host + ":80"
}

// shown is the state in which a job is listed.
func (s *shadow) shown() jobstore.State {
	switch stored := s.record.State; {
	case s.header.State == jobs.Running:
		return jobstore.Running
	case s.header.State == jobs.Pending && s.header.Lot == "paused":
		return jobstore.Paused
	case stored == jobstore.Running:
		return jobstore.Pending
	default:
		return stored
	}
}

// matches is this package's own reading of a filter.
func (s *shadow) matches(id string, f jobstore.Filter) bool {
	state, r := s.shown(), s.record
	switch {
	case f.Documents && r.Database == "", !f.Documents && state.Terminal():
		return false
	case f.Instance != "" && r.Instance != f.Instance, f.States != nil && !slices.Contains(f.States, state):
		return false
	case f.Server != "" && hostOf(r.Source) != f.Server && hostOf(r.Target) != f.Server:
		return false
	case f.User != "" && r.User != f.User:
		return false
	case f.Error != "" && (r.Error != f.Error || state != jobstore.Crashing && state != jobstore.Failed):
		return false
	case f.Workers != nil:
		return slices.Contains(f.Workers, s.header.Lock.Worker)
	}
	return true
}

// check compares one list with the jobs that it should have. Jobs of a database whose deletion has not been answered
// may be there or not.
func (l *lists) check(f jobstore.Filter, n int) {
	read := jobstore.Lists{Store: l.w.Store(), Reader: l.w.Present()}
	got, ok := l.pages(read, jobstore.Listing{Filter: f, Descending: n%2 == 1, Limit: 1 + n%maxPage})
	if !ok {
		return
	}
	listed := map[string]bool{}
	for _, id := range got {
		listed[id] = true
	}
	there := (&documents{chronicle: l.chronicle}).instances()
	var must, may int
	for _, id := range l.ids() {
		s := l.shadows[id]
		if s.header == nil || !s.matches(id, f) {
			continue
		}
		if _, dropped := l.dropped[s.instance()]; dropped {
			continue
		}
		if may++; s.record.Transient() || there[s.instance()] {
			if must++; !listed[id] {
				l.Fail("S41a", "the list of %+v lacks %s", f, id)
			}
		}
		delete(listed, id)
	}
	for _, id := range got {
		if listed[id] {
			l.Fail("S41a", "the list of %+v has %s", f, id)
		}
	}
	total, known, err := read.Total(f)
	if err != nil || known && (total < int64(must) || total > int64(may)) {
		l.Fail("S41b", "the total of %+v is %d, and %d jobs match: %v", f, total, must, err)
	}
}

// indexing reports whether jobs of an older store still have no index, so that lists come in ascending order alone.
func (c *chronicle) indexing() bool {
	row, err := c.w.Present().Get(c.w.Store().Keys.Reindex)
	return err == nil && row != nil
}

// pages reads all pages of a list, and checks their order.
func (l *lists) pages(read jobstore.Lists, from jobstore.Listing) (ids []string, ok bool) {
	for {
		page, err := read.Page(from)
		if from.Descending && errors.Is(err, jobstore.ErrReindexing) && l.indexing() {
			return nil, false
		}
		if err != nil || len(page.Jobs) > from.Limit {
			l.Fail("S41a", "a page of %d jobs of %+v has %d: %v", from.Limit, from, len(page.Jobs), err)
			return nil, false
		}
		for _, j := range page.Jobs {
			if n := len(ids); n > 0 && (j.ID == ids[n-1] || j.ID < ids[n-1] != from.Descending) {
				l.Fail("S41a", "job %s comes after %s in pages of %d", j.ID, ids[n-1], from.Limit)
				return nil, false
			}
			ids = append(ids, j.ID)
		}
		if page.Next == nil {
			return ids, true
		}
		from.At = *page.Next
	}
}
