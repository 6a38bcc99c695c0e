package jobstore

import (
	"strings"

	"couchrelay/core/instant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/schedule"
)

// Lots of the queue. A job in one demands nothing of its account, so it is not counted there, and it keeps its
// place for its return.
const (
	lotPaused = "paused"
	lotHeld   = "held/"   // and the id of the hold
	lotBehind = "behind/" // and the replication id that another job has
)

// Control is what users, holds and other jobs have to say about whether, and how much, a job may run.
type Control struct {
	// Pause is an operator's order that the job must not run; PausedByDocument says that its document has
	// "paused": true. A running job with one of them is about to stop.
	Pause            *Pause `json:"pause,omitempty"`
	PausedByDocument bool   `json:"paused_by_document,omitempty"`
	// Weight divides what the account gets among its jobs; 0 is schedule.DefaultWeight.
	Weight int64 `json:"weight,omitempty"`
	// Awaited says that another job waits, or has waited, for the end of this one, which has its replication.
	Awaited bool `json:"awaited,omitempty"`
	// Reset is when an operator asked that the job starts over; 0 once a run has discarded its checkpoints.
	Reset instant.Time `json:"reset,omitempty"`
	// Parking is why the job stands in no order, as its header says.
	Parking `json:"-"`
}

// paused reports whether an operator, or the document itself, says that the job must not run.
func (c *Control) paused() bool { return c.Pause != nil || c.PausedByDocument }

// Parking is why a job stands in no order. The zero value is for jobs that do, and for those that run.
type Parking struct {
	Paused   bool   // a user stopped it
	HeldBy   string // the id of the hold that stops it
	WaitsFor string // the replication id that another job has, and that this one waits for
}

func parking(lot string) (p Parking) {
	if p.Paused = lot == lotPaused; p.Paused {
		return p
	}
	if id, is := strings.CutPrefix(lot, lotHeld); is {
		p.HeldBy = id
	} else if id, is := strings.CutPrefix(lot, lotBehind); is {
		p.WaitsFor = id
	}
	return p
}

// lots moves jobs between the queue and its lots in a transaction.
type lots struct {
	s  *Store
	tx kv.Tx
}

// park takes a pending job out of the queue into a lot, or from one lot into another.
func (l lots) park(j *jobs.Job, rec *Record, lot string) error {
	if j.Lot == "" {
		l.s.leave(l.tx, rec)
	}
	to := j.Schedule
	to.Lot = lot
	return l.s.Jobs.Add(l.tx, j.ID, to, rec.encode())
}

// unpark brings a parked job back into the queue, where it may not run before due, nor before its wait after a
// crash is over.
func (l lots) unpark(j *jobs.Job, rec *Record, due instant.Time) error {
	place, err := placeOf(j.Priority)
	if err != nil {
		return err
	}
	if place, err = l.reenter(rec, place); err != nil {
		return err
	}
	to := jobs.Schedule{Priority: rec.priority(place), Due: max(j.Due, due), Label: j.Label}
	return l.s.Jobs.Add(l.tx, j.ID, to, rec.encode())
}

// reenter counts a job again that comes back from a lot, and returns its place: the one that it had. Priority
// values decayed meanwhile as those of waiting jobs do. A tag that all others have passed becomes theirs, since
// a job that could not run has saved up no turns.
func (l lots) reenter(rec *Record, place schedule.Place) (schedule.Place, error) {
	order, err := l.s.Order(l.tx.Snapshot())
	if err != nil {
		return place, err
	}
	l.s.Keys.count(l.tx, rec, 1)
	if order.Needs() == schedule.NeedsTail && place.Epoch == order.Epoch {
		floor, err := l.s.floor(l.tx.Snapshot(), order)
		if err != nil {
			return place, err
		}
		place.Key = order.Tail(place.Key, floor)
	}
	return place, nil
}

// obey brings the queue in line with the pauses of a job that is not over: a job that has one is parked, or its
// run is asked to stop, after which Owned.queue parks it; a job that has none any more comes back.
func (l lots) obey(j *jobs.Job, rec *Record) error {
	switch {
	case j.State != jobs.Running && rec.paused():
		return l.park(j, rec, lotPaused)
	case j.State != jobs.Running && j.Lot == lotPaused:
		return l.unpark(j, rec, 0)
	case j.State == jobs.Running && rec.paused():
		if _, err := l.s.Jobs.Stop(l.tx, j.ID); err != nil {
			return err
		}
	}
	return l.save(j, rec)
}

// save stores the changed record of a job that is not over, and leaves the job where it is.
func (l lots) save(j *jobs.Job, rec *Record) error {
	if j.State == jobs.Running {
		return l.s.Jobs.Update(l.tx, j.ID, j.Lock, rec.encode())
	}
	return l.s.Jobs.Add(l.tx, j.ID, j.Schedule, rec.encode())
}
