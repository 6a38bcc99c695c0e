package jobstore

import (
	"slices"

	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/spec"
)

// Pause is an operator's order that a job must not run. It outlives restarts and edits of the job's document.
type Pause struct {
	By     string       `json:"by,omitempty"` // the user that gave it, empty if the request had none
	Reason string       `json:"reason,omitempty"`
	At     instant.Time `json:"at"`
}

// Operator is a user's hand on jobs, for one transaction. Each order may be repeated: it changes nothing the second
// time, and says so.
type Operator struct {
	Store *Store
	Tx    kv.Tx
	By    string       // the user, empty if the request had none
	Now   instant.Time // by the wall clock, the same for every attempt
}

func (o Operator) lots() lots { return lots{o.Store, o.Tx} }

// note adds an order to the history of a job.
func (o Operator) note(rec *Record, event, reason string) {
	rec.LastUpdated = o.Now
	rec.note(o.Store.Config.MaxHistory, Event{Type: event, At: o.Now, Reason: reason, By: o.By})
}

// hasGiven reports whether an earlier attempt of this order on the job, whose event is named, has committed. What
// became of the job since, by another order or by its own run, is not to be undone by a repetition.
func (o Operator) hasGiven(rec *Record, event string) bool {
	given := func(e Event) bool { return e.Type == event && e.At == o.Now && e.By == o.By }
	return slices.ContainsFunc(rec.History, given)
}

// Pause has a job that is not over stop, or not begin, until it is resumed. It reports whether that is new: a job
// that is paused already keeps its first pause. A running job is paused once its run has stopped.
func (o Operator) Pause(jobID, reason string) (changed bool, err error) {
	j, rec, err := readJob(o.Store, o.Tx, jobID)
	switch {
	case err != nil || j == nil:
		return false, err
	case o.hasGiven(rec, "paused"):
		return false, nil
	case rec.State.Terminal():
		return false, isOver(rec)
	case rec.Pause != nil:
		return false, nil
	}
	rec.Pause = &Pause{By: o.By, Reason: reason, At: o.Now}
	o.note(rec, "paused", reason)
	return true, o.lots().obey(j, rec)
}

// Resume ends an operator's pause, and reports whether there was one. A job whose document says "paused": true
// stays as it is. A job that stands among those that are paused, and has no pause, comes back as well: a check
// advises it.
func (o Operator) Resume(jobID, reason string) (changed bool, err error) {
	j, rec, err := readJob(o.Store, o.Tx, jobID)
	switch {
	case err != nil || j == nil:
		return false, err
	case o.hasGiven(rec, "resumed"):
		return false, nil
	case rec.State.Terminal():
		return false, isOver(rec)
	case rec.PausedByDocument:
		return false, byItsDocument(rec)
	case rec.Pause == nil && j.Lot != lotPaused:
		return false, nil
	}
	rec.Pause = nil
	o.note(rec, "resumed", reason)
	return true, o.lots().obey(j, rec)
}

// Obstacle is why an order cannot be carried out on a job as it is. It is worded for the user that gave the order.
type Obstacle string

func (o Obstacle) Error() string { return string(o) }

func isOver(rec *Record) error {
	return Obstacle("the job is over: it is " + string(rec.State))
}

func byItsDocument(rec *Record) error {
	what := `document ` + rec.DocID + ` of ` + rec.Database + ` says "paused": true; change that`
	if rec.Pause != nil {
		return Obstacle(what + " and resume the job then, which an order has paused as well")
	}
	return Obstacle(what + " to resume the job")
}

// byDocument pauses, resumes or weighs the job of a document, or of a request, of which nothing else was changed.
func (o Operator) byDocument(jobID string, rep *spec.Replication) error {
	j, rec, err := readJob(o.Store, o.Tx, jobID)
	if err != nil || rec.PausedByDocument == rep.Paused && rec.Weight == rep.Weight {
		return err
	}
	if rec.Weight != rep.Weight {
		o.Store.Keys.reweigh(o.Tx, j, rec, rep.Weight)
	}
	if rec.PausedByDocument != rep.Paused {
		event := "resumed"
		if rec.PausedByDocument = rep.Paused; rep.Paused {
			event = "paused"
		}
		o.note(rec, event, "by the document")
	}
	return o.lots().obey(j, rec)
}
