package relay

import (
	"slices"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/core/jobstore"
)

// States that lists of documents have beside those of jobs, as in CouchDB.
const (
	// initializing has no documents: a document and its job are written in one transaction.
	initializing jobstore.State = "initializing"
	// errored is that of documents whose filter function could not be read, so that their replication ids are not
	// known. To the queue their jobs are crashing.
	errored jobstore.State = "error"
)

// filterFetch is the class of the error that makes a document errored.
const filterFetch = "filter_fetch_error"

// shownAs is the state of a document.
func shownAs(state jobstore.State, class string) jobstore.State {
	if state == jobstore.Crashing && class == filterFetch {
		return errored
	}
	return state
}

// shownStates are the states of the documents or jobs that a list has; empty for all.
type shownStates []jobstore.State

// states reads the parameter states.
func states(text string, known []jobstore.State) (wanted shownStates, err error) {
	if text == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(strings.ToLower(text), ",") {
		state := jobstore.State(strings.TrimSpace(name))
		if !slices.Contains(known, state) {
			names := make([]string, len(known))
			for i, s := range known {
				names[i] = string(s)
			}
			return nil, web.QueryError("Unknown states [" + name + "]. Choose from: [" + strings.Join(names, ",") + "]")
		}
		if !slices.Contains(wanted, state) {
			wanted = append(wanted, state)
		}
	}
	return wanted, nil
}

// has reports whether a list has a job.
func (s shownStates) has(rec *jobstore.Record) bool {
	return len(s) == 0 || rec.State == jobstore.Unreadable || slices.Contains(s, shownAs(rec.View().State, rec.Error))
}

// none reports whether a list has no jobs at all.
func (s shownStates) none() bool { return len(s) == 1 && s[0] == initializing }

// parts reports whether a list has some of the crashing jobs: of the errored and the others only one kind.
func (s shownStates) parts() bool {
	return slices.Contains(s, jobstore.Crashing) != slices.Contains(s, errored)
}

// find makes a filter find the jobs, and as few others as can be.
func (s shownStates) find(f *jobstore.Filter) {
	for _, state := range s {
		if state == errored {
			state = jobstore.Crashing
		}
		if state != initializing && !slices.Contains(f.States, state) {
			f.States = append(f.States, state)
		}
	}
	switch {
	case s.none():
		f.Workers = []string{}
	case len(f.States) == 1 && slices.Contains(s, errored) && s.parts() && f.Error == "":
		f.Error = filterFetch
	}
}

// total is the number of jobs that a filter has, if it is known.
func (s shownStates) total(r jobstore.Lists, f jobstore.Filter) (n int64, known bool, err error) {
	switch {
	case s.none():
		return 0, true, nil
	case !s.parts(), f.Error == filterFetch && slices.Contains(s, errored):
		return r.Total(f)
	case f.Error != "":
		return 0, false, nil
	}
	if n, known, err = r.Total(f); err != nil || !known {
		return 0, false, err
	}
	f.States = []jobstore.State{jobstore.Crashing}
	crashing, _, err := r.Total(f)
	if err != nil {
		return 0, false, err
	}
	f.Error = filterFetch
	failed, known, err := r.Total(f)
	if slices.Contains(s, errored) {
		return n - crashing + failed, known, err
	}
	return n - failed, known, err
}
