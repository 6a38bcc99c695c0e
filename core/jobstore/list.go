package jobstore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/jobs"
	"couchrelay/core/kv"
)

// Filter says which jobs a list has. Empty members exclude none.
type Filter struct {
	// Documents has the jobs of documents in any state, and none of requests. Without it a list has all jobs
	// that are not over.
	Documents bool
	Instance  string  // the beginning of the ids of a database's jobs; see DocumentJobs
	States    []State // some of StatesOf
	Server    string  // "host:port" as Servers has it, or a host with any port
	User      string
	Error     string   // the class of the error of jobs that are crashing or failed
	Workers   []string // only jobs that these run; not nil, and empty, when none runs any
}

// StatesOf are the states of jobs that a list may have.
func StatesOf(documents bool) []State {
	if documents {
		return slices.Concat(activeStates, overStates)
	}
	return activeStates
}

var (
	activeStates = []State{Pending, Running, Crashing, Paused}
	overStates   = []State{Completed, Failed}
)

// Listing is a part of a list of jobs in the order of their ids, or in the opposite one.
type Listing struct {
	Filter
	Descending bool
	From, To   string   // bounds of ids, both inclusive, From before To in the order of the list; empty for none
	At         Position // where to begin
	Skip       int64
	Limit      int // of jobs, not negative
}

// Listed is what a transaction has found of a listing.
type Listed struct {
	Jobs    []Job
	Skipped int64
	// Next is where to go on, for the rest of this listing or the next one; nil when there is nothing more. The
	// jobs may be fewer than the limit though: a transaction looks at a bounded number of rows.
	Next *Position
}

// Lists reads lists of jobs in one transaction. Give a snapshot reader.
type Lists struct {
	Store  *Store
	Reader kv.Reader
	// Without are jobs that could not be read. Lists have them as Unreadable, with what their ids tell.
	Without []string
}

// ErrReindexing tells that a list is not to be had until the index of an older store is complete.
var ErrReindexing = errors.New("since the upgrade the jobs are being indexed; until that is done, " +
	"lists are in ascending order only")

// skipAtOnce is how many jobs one transaction skips at most.
const skipAtOnce = 20_000

// Page reads a part of a list. It costs the time of its rows, of those that it skips, and with several filters of
// the rows that match some of them. It does not read jobs of deleted databases. It fails with a jobs.UnreadableError if
// a job cannot be read.
func (s Lists) Page(l Listing) (Listed, error) {
	var page Listed
	source, err := s.source(&l)
	if err != nil {
		return page, err
	}
	var ids []string
	for at := l.At; ; {
		f, err := source.seek(at)
		switch {
		case err != nil:
			return page, err
		case f.none:
		case f.unsure:
			page.Next = &Position{ID: f.id}
		case page.Skipped < min(l.Skip, skipAtOnce):
			page.Skipped++
			at = Position{ID: f.id, Past: true}
			continue
		case page.Skipped == l.Skip && len(ids) < l.Limit:
			ids = append(ids, f.id)
			at = Position{ID: f.id, Past: true}
			continue
		default:
			page.Next = &Position{ID: f.id}
			if at.Past {
				page.Next = &at // which does not depend on what comes next
			}
		}
		page.Jobs, err = s.read(ids)
		return page, err
	}
}

// read reads jobs that an index has.
func (s Lists) read(ids []string) ([]Job, error) {
	list, ranges := make([]Job, len(ids)), make([]kv.Range, len(ids))
	for i, id := range ids {
		ranges[i] = s.Store.Keys.Jobs.Job.Sub(id).Range()
	}
	s.Reader.Prefetch(nil, ranges)
	for i, id := range ids {
		if slices.Contains(s.Without, id) {
			list[i] = Job{ID: id, Record: unreadable(id)}
			continue
		}
		rec, err := s.Store.Record(s.Reader, id)
		if err == nil && rec == nil {
			err = fmt.Errorf("%w: there is no job %q, and the index has it", jobs.ErrCorrupt, id)
		}
		if err != nil {
			return nil, jobs.OfJob(id, err)
		}
		list[i] = Job{ID: id, Record: rec}
	}
	return list, nil
}

// unreadable is what lists have of a job that could not be read.
func unreadable(id string) *Record {
	rec := &Record{
		State: Unreadable, Reason: "a row of this job cannot be read: see what `couchrelay check` tells of it",
	}
	if instance := instanceOf(id); instance != "" {
		rec.Database, rec.Instance, rec.DocID = "?", instance, strings.TrimPrefix(id, instance)
	}
	return rec
}

// source is the stream of the jobs that a listing is a part of.
func (s Lists) source(l *Listing) (stream, error) {
	d := direction{l.Descending}
	dropped, err := s.Store.Keys.DroppedDBs(s.Reader)
	if err != nil {
		return nil, err
	}
	complete, err := s.Store.Keys.complete(s.Reader)
	if err != nil {
		return nil, err
	}
	var source stream
	switch {
	case complete:
		source, err = s.selected(l, d)
	case l.Descending:
		err = ErrReindexing
	default:
		source, err = s.scan(&l.Filter)
	}
	if err != nil {
		return nil, err
	}
	if l.Instance != "" {
		bounds := []string{l.Instance, behind(l.Instance)}
		if l.Descending {
			slices.Reverse(bounds)
		}
		source = &within{d, source, bounds[0], bounds[1]}
	}
	return &without{d, &within{d, source, l.From, l.To}, dropped}, nil
}

// selected is the stream that indexes have of a filter.
func (s Lists) selected(l *Listing, d direction) (stream, error) {
	all := &union{direction: d}
	groups := l.groups()
	alone := len(groups) > 0 // the jobs of the workers need no other filter
	chunk := min(l.Limit+1, maxChunk)
	for _, g := range groups {
		terms, err := s.terms(&l.Filter, g)
		if err != nil {
			return nil, err
		}
		alone = alone && len(terms) == 0
		both := &intersection{}
		for _, alternatives := range terms {
			any := &union{direction: d}
			for _, label := range alternatives {
				space := s.Store.Keys.Index.Sub(int64(g), label.field, indexed(label.value))
				any.parts = append(any.parts, &rows{direction: d, r: s.Reader, space: space, chunk: chunk})
			}
			both.parts = append(both.parts, any)
		}
		all.parts = append(all.parts, both)
	}
	if l.Workers == nil {
		return all, nil
	}
	ids, err := s.runningOn(&l.Filter)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(ids, func(a, b string) int {
		if d.descending {
			return cmp.Compare(b, a)
		}
		return cmp.Compare(a, b)
	})
	running := &fixed{d, ids}
	if alone {
		return running, nil
	}
	return &intersection{[]stream{running, all}}, nil
}

// runningOn are the jobs that the workers of a filter run, if it does not exclude running ones and those of requests.
func (s Lists) runningOn(f *Filter) (ids []string, err error) {
	for _, worker := range f.Workers {
		held, err := s.Store.Jobs.Owned(s.Reader, worker, s.Without...)
		if err != nil {
			return nil, err
		}
		for _, h := range held {
			request := instanceOf(h.ID) == ""
			if f.has(Running) && !(request && f.Documents) && strings.HasPrefix(h.ID, f.Instance) {
				ids = append(ids, h.ID)
			}
		}
	}
	return ids, nil
}

// has reports whether a filter does not exclude a state.
func (f *Filter) has(state State) bool { return len(f.States) == 0 || slices.Contains(f.States, state) }

// groups are those in which a filter has jobs.
func (f *Filter) groups() (list []group) {
	all := []group{0, ofRequest}
	switch {
	case f.Documents:
		all = []group{0, over}
	case f.Instance != "":
		all = []group{0}
	}
	for _, g := range all {
		if len(f.statesIn(g)) > 0 {
			list = append(list, g)
		}
	}
	return list
}

// statesIn are the states of a group that a filter does not exclude.
func (f *Filter) statesIn(g group) (list []State) {
	states := activeStates
	if g&over != 0 {
		states = overStates
	}
	for _, state := range states {
		excluded := f.Workers != nil && state != Running || f.Error != "" && state != Crashing && state != Failed
		if f.has(state) && !excluded {
			list = append(list, state)
		}
	}
	return list
}

// terms are what a filter asks of the jobs of a group: one of the labels of each term. It has as few as say it all,
// and none only for all jobs that some workers run.
func (s Lists) terms(f *Filter, g group) (terms [][]label, err error) {
	if f.Error != "" { // which implies the state
		terms = append(terms, []label{{byError, f.Error}})
	}
	if f.User != "" {
		terms = append(terms, []label{{byUser, f.User}})
	}
	if f.Server != "" {
		servers, err := s.servers(f.Server, g)
		if err != nil {
			return nil, err
		}
		terms = append(terms, servers)
	}
	all, wanted := activeStates, f.statesIn(g)
	if g&over != 0 {
		all = overStates
	}
	if f.Error != "" || f.Workers != nil || len(wanted) == len(all) && len(terms) > 0 {
		return terms, nil
	}
	states := make([]label, len(wanted))
	for i, state := range wanted {
		states[i] = label{byState, string(state)}
	}
	return append(terms, states), nil
}

// manyPorts bounds the ports of a host that is given without one.
const manyPorts = 1000

// servers are the labels of a server, which may be a host with any port.
func (s Lists) servers(server string, g group) (list []label, err error) {
	if hasPort(server) {
		return []label{{byServer, server}}, nil
	}
	space := s.Store.Keys.Tally.Sub("", int64(g), byServer)
	prefix := space.Pack(server + ":")
	rows, err := s.Reader.GetRange(kv.PrefixRange(prefix[:len(prefix)-1]), kv.RangeOptions{Limit: manyPorts})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		l := label{field: byServer}
		if err := space.Scan(row.Key, &l.value); err != nil {
			return nil, err
		}
		if kv.Counter(row.Value) > 0 {
			list = append(list, l)
		}
	}
	return list, nil
}

func hasPort(server string) bool {
	return strings.LastIndexByte(server, ':') > strings.LastIndexByte(server, ']')
}

// Total counts the jobs that a filter has, by the tallies. It is known for a filter by one thing: states, an error, a
// user, a server, or the jobs that nodes run; each also within a database. With several it would take looking at
// all rows.
func (s Lists) Total(f Filter) (n int64, known bool, err error) {
	if complete, err := s.Store.Keys.complete(s.Reader); err != nil || !complete {
		return 0, false, err
	}
	dropped, err := s.Store.Keys.DroppedDBs(s.Reader)
	if err != nil {
		return 0, false, err
	}
	if f.Instance != "" && dropped.Has(f.Instance) {
		return 0, true, nil
	}
	if f.Workers != nil {
		if f.User+f.Server+f.Error != "" {
			return 0, false, nil
		}
		ids, err := s.runningOn(&f)
		ids = slices.DeleteFunc(ids, dropped.Has)
		return int64(len(ids)), true, err
	}
	for _, g := range f.groups() {
		terms, err := s.terms(&f, g)
		if err != nil {
			return 0, false, err
		}
		if len(terms) > 1 || len(terms[0]) > 1 && terms[0][0].field == byServer { // a job may have two servers
			return 0, false, nil
		}
		sum, err := s.sum(g, terms[0], f.Instance, dropped)
		if err != nil {
			return 0, false, err
		}
		n += sum
	}
	return n, true, nil
}

// sum adds tallies up: of a database, or of all but those that were deleted.
func (s Lists) sum(g group, labels []label, instance string, dropped Dropped) (sum int64, err error) {
	var keys [][]byte
	for _, l := range labels {
		keys = append(keys, s.Store.Keys.tallyRow(instance, g, l))
	}
	for i := 0; i < len(dropped) && instance == "" && g&ofRequest == 0; i++ {
		for _, l := range labels {
			keys = append(keys, s.Store.Keys.tallyRow(dropped[i], g, l))
		}
	}
	values, err := s.Reader.GetAll(keys)
	for i, v := range values {
		if i < len(labels) {
			sum += kv.Counter(v)
		} else {
			sum -= kv.Counter(v)
		}
	}
	return sum, err
}

// scan is the stream of a filter while there is no index.
func (s Lists) scan(f *Filter) (stream, error) {
	ids, err := s.runningOn(f)
	if err != nil {
		return nil, err
	}
	wanted := func(id string, rec *Record) bool {
		labels := rec.labels()
		has := func(field, value string) bool { return value == "" || slices.Contains(labels, label{field, value}) }
		server := has(byServer, f.Server) || !hasPort(f.Server) && slices.ContainsFunc(labels, func(l label) bool {
			return l.field == byServer && strings.HasPrefix(l.value, f.Server+":")
		})
		state := slices.Contains(f.statesIn(groupOf(id, rec.State.Terminal())), State(labels[0].value))
		return slices.Contains(f.groups(), groupOf(id, rec.State.Terminal())) && state && server &&
			has(byUser, f.User) && has(byError, f.Error) && (f.Workers == nil || slices.Contains(ids, id))
	}
	return &scan{s: s.Store, r: s.Reader, without: s.Without, wanted: wanted}, nil
}
