package model

import (
	"fmt"

	"couchrelay/core/kv/tuple"
)

// state is the state of a job in headers, in the order of RFC 007. absent is none.
type state int64

const (
	absent state = iota
	pending
	running
	finished
)

// job is a job as it is stored. The zero value is one that there is not. Jobs are compared as a whole.
type job struct {
	state state
	schedule
	resubmit bool // queued again when it finishes
	stop     bool // its worker is asked to stop the run
	lock     lock
	lost     int64 // workers that vanished with it
	sequence sequence
	data     string
	record   record // that the data has
	spec     string // the replication, as it is stored
}

// schedule is where a pending job stands, and a running one stood.
type schedule struct {
	priority   string
	due        int64 // 0 for at once
	lot, label string
}

// lock is the right to run a job: the worker, and the number of its accept.
type lock struct {
	worker string
	batch  uint64
}

// sequence is that of the last change of a job's header.
type sequence struct{ incarnation, version int64 }

// standing names the place of a job, as counters of jobs do; empty for one that there is not.
func (j job) standing() string {
	switch {
	case j.state == absent:
		return ""
	case j.state == running:
		return "running"
	case j.state == finished:
		return "finished"
	case j.lot != "":
		return "parked"
	case j.due != 0:
		return "waiting"
	}
	return "ready"
}

func (j job) ready() bool { return j.standing() == "ready" }

// header is the part of the job that its header has.
func (j job) header() job {
	j.data, j.record, j.spec = "", record{}, ""
	return j
}

// listed is the part of the job on which its rows and what is counted depend.
func (j job) listed() job {
	r := j.record
	j.data, j.spec, j.record = "", "", record{
		identity: r.identity, user: r.user, state: r.state, err: r.err, weight: r.weight, expires: r.expires,
	}
	return j
}

// decode reads a header: state, priority, due time, whether it is resubmitted, lock, lost workers, whether it is to
// stop, lot, label, sequence.
func (j *job) decode(header []byte) error {
	var priority []byte
	err := tuple.Subspace(nil).Scan(header, (*int64)(&j.state), &priority, &j.due, &j.resubmit, &j.lock.worker,
		&j.lock.batch, &j.lost, &j.stop, &j.lot, &j.label, &j.sequence.incarnation, &j.sequence.version)
	j.priority = string(priority)
	return err
}

// String is the job for messages. Times are microseconds.
func (j job) String() string {
	text := j.standing()
	switch {
	case j.state == absent:
		return "absent"
	case j.state == running:
		text += fmt.Sprintf(" under %s/%d", j.lock.worker, j.lock.batch)
	case j.lock != lock{}:
		text += fmt.Sprintf(" with the lock %s/%d", j.lock.worker, j.lock.batch)
	}
	text += fmt.Sprintf(" at %x", j.priority)
	if j.due != 0 {
		text += fmt.Sprintf(", due %d", j.due)
	}
	if j.lot != "" {
		text += ", in lot " + j.lot
	}
	if j.label != "" {
		text += ", labeled " + j.label
	}
	if j.resubmit {
		text += ", resubmitted"
	}
	if j.stop {
		text += ", to stop"
	}
	if j.lost != 0 {
		text += fmt.Sprintf(", lost by %d workers", j.lost)
	}
	return text + fmt.Sprintf(", sequence %d/%d", j.sequence.incarnation, j.sequence.version)
}
