package relay

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/core/ejson"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds in bytes of what a user says to an order.
const (
	maxOrderBody = 64 << 10
	maxReason    = 1000
)

// members reads a body whose members are all strings, of these names, each once. An empty body has none.
func members(q *web.Request, names ...string) (map[string]string, error) {
	body, err := q.JSONBody(maxOrderBody)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return nil, err
	}
	object, err := ejson.Parse(body)
	switch {
	case len(names) == 0 && (err != nil || object.Kind != ejson.Object || len(object.Members) > 0):
		return nil, web.BadRequest("the body must be empty, or {}")
	case err != nil || object.Kind != ejson.Object:
		return nil, web.BadRequest("the body must be a JSON object, with %s", strings.Join(names, ", "))
	}
	if err := onceNamed(body); err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, m := range object.Members {
		switch {
		case !slices.Contains(names, m.Name):
			return nil, web.BadRequest("unknown field `%s`; known are %s", m.Name, strings.Join(names, ", "))
		case m.Value.Kind != ejson.String:
			return nil, web.BadRequest("`%s` must be a string", m.Name)
		case m.Name == "reason" && len(m.Value.Text) > maxReason:
			return nil, web.BadRequest("`reason` must have at most %d bytes", maxReason)
		}
		found[m.Name] = m.Value.Text
	}
	return found, nil
}

// onceNamed refuses JSON that has a name twice, of which one would be ignored.
func onceNamed(body []byte) error {
	if _, err := jsontext.NewDecoder(bytes.NewReader(body)).ReadValue(); err != nil {
		return web.BadRequest("the body cannot be read: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	return nil
}

// meant refuses requests without a body that do not say that it is JSON: browsers send such ones for foreign pages,
// with the login of their user. A body that says something would be ignored, so it is refused, too.
func meant(h web.Handler) web.Handler {
	return func(q *web.Request) error {
		if _, err := members(q); err != nil {
			return err
		}
		return h(q)
	}
}

// control is the part of the service by which users steer jobs.
type control struct{ *service }

// operator is the client's hand on jobs, at one moment for all attempts.
func (s control) operator(q *web.Request, tx kv.Tx, now instant.Time) jobstore.Operator {
	return jobstore.Operator{Store: s.Store, Tx: tx, By: q.User.Name, Now: now}
}

// orders are what a user can have done to a job, by their names in paths.
var orders = map[string]func(o jobstore.Operator, jobID, reason string) (changed bool, err error){
	"pause":  jobstore.Operator.Pause,
	"resume": jobstore.Operator.Resume,
	"retry":  jobstore.Operator.Retry,
	"reset":  jobstore.Operator.Reset,
	"cancel": func(o jobstore.Operator, jobID, _ string) (bool, error) { return o.Cancel(jobID) },
}

const knownOrders = "cancel, pause, reset, resume and retry"

// done is the answer to an order.
type done struct {
	OK      bool           `json:"ok"`
	ID      string         `json:"id"` // of the job
	State   jobstore.State `json:"state"`
	Changed bool           `json:"changed"` // whether the order was new
	Note    string         `json:"note,omitempty"`
}

// canceled is the state of a job that there is no more.
const canceled jobstore.State = "canceled"

// order has something done to a job: POST /_scheduler/jobs/ID/ORDER. An attempt whose outcome is unknown may
// have done it, so a later one that finds it done, or finds no job, answers like the first.
func (s control) order(q *web.Request) error {
	last := len(q.Rest) - 1
	name, id := q.Rest[last], strings.Join(q.Rest[:last], "/")
	order, known := orders[name]
	if !known || id == "" {
		return web.NotFound("no such order: POST /_scheduler/jobs/ID/ORDER takes " + knownOrders)
	}
	if err := noParameters(q); err != nil {
		return err
	}
	body, err := members(q, "reason")
	if err != nil {
		return err
	}
	if err := s.mustSteer(q, id); err != nil {
		return err
	}
	var answer done
	now := s.now()
	_, err = web.Run(q, s.DB, kv.Options{}, func(tx kv.Tx) (struct{}, error) {
		jobID, rec, err := s.Store.Find(tx, id)
		if err != nil || rec == nil && answer.Changed {
			return struct{}{}, err
		}
		if rec == nil {
			return struct{}{}, noJob(id)
		}
		changed, err := order(s.operator(q, tx, now), jobID, body["reason"])
		if err != nil {
			return struct{}{}, err
		}
		answer.OK, answer.ID, answer.Changed = true, jobID, answer.Changed || changed
		if !rec.Transient() && name == "cancel" {
			document := "document " + rec.DocID + " of " + rec.Database
			if changed {
				answer.Note = document + " is deleted, and the job's history with it"
			} else if rec.State.Terminal() {
				answer.Note = "the job is over, and goes when " + document + " is deleted"
			}
		}
		if rec, err = s.Store.Record(tx, jobID); err != nil {
			return struct{}{}, err
		}
		if answer.State = canceled; rec != nil {
			answer.State = rec.View().State
		}
		return struct{}{}, nil
	})
	if obstacle, is := errors.AsType[jobstore.Obstacle](err); is {
		return web.Conflict(string(obstacle))
	}
	if err != nil {
		return err
	}
	q.Note("job", answer.ID)
	if answer.Changed {
		s.Logger.Info("ordered", "order", name, "job", answer.ID, "user", q.User.Name, "reason", body["reason"])
	}
	return q.SendJSON(http.StatusOK, answer)
}

func noJob(id string) error {
	return web.NotFound("no job has the id " + id + ", neither its own nor that of its replication: " +
		"it is over and forgotten, was canceled, or never was; " +
		"/_scheduler/docs/DB/DOC has that of a document")
}

// hold is a hold as GET /_scheduler/holds shows it.
type hold struct {
	ID       string    `json:"id"`
	Database string    `json:"database,omitempty"`
	Server   string    `json:"server,omitempty"`
	Reason   string    `json:"reason"`
	By       *string   `json:"by"`
	At       timestamp `json:"at"`
	// Jobs is how many jobs the hold has kept from running so far, at most countedJobs: a job is parked when its
	// turn comes, or when its run has stopped.
	Jobs int `json:"jobs"`
}

// countedJobs bounds the work of counting the jobs of a hold.
const countedJobs = 10_000

func (s control) holdOf(q *web.Request, e *jobstore.Hold) (hold, error) {
	h := hold{
		ID: e.ID(), Database: e.Database, Server: e.Server, Reason: e.Reason, By: orNull(e.By), At: timestamp(e.At),
	}
	ids, err := web.Run(q, s.DB, glance, func(tx kv.Tx) ([]string, error) {
		return s.Store.Keys.HeldJobs(tx.Snapshot(), e.ID(), countedJobs)
	})
	h.Jobs = len(ids)
	return h, err
}

// holds reads the holds in force.
func (s control) holds(q *web.Request) ([]jobstore.Hold, error) {
	return web.Run(q, s.DB, kv.Options{}, func(tx kv.Tx) ([]jobstore.Hold, error) {
		return s.Store.Keys.Holds(tx.Snapshot())
	})
}

func (s control) listHolds(q *web.Request) error {
	list, err := s.holds(q)
	if err != nil {
		return err
	}
	views := make([]hold, len(list))
	for i := range list {
		if views[i], err = s.holdOf(q, &list[i]); err != nil {
			return err
		}
	}
	return q.SendJSON(http.StatusOK, struct {
		Total int    `json:"total_rows"`
		Holds []hold `json:"holds"`
	}{len(views), views})
}

func noHold(id string) error {
	return web.NotFound("no hold has the id " + id + "; see /_scheduler/holds")
}

func (s control) oneHold(q *web.Request) error {
	list, err := s.holds(q)
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].ID() == q.Param("id") {
			view, err := s.holdOf(q, &list[i])
			if err != nil {
				return err
			}
			return q.SendJSON(http.StatusOK, view)
		}
	}
	return noHold(q.Param("id"))
}

// held is the answer to a change of holds.
type held struct {
	OK      bool   `json:"ok"`
	ID      string `json:"id"`
	Changed bool   `json:"changed"`
}

// makeHold answers 201 to a hold that is new, and 200 to one that is in force already, which keeps its reason.
func (s control) makeHold(q *web.Request) error {
	body, err := members(q, "database", "server", "reason")
	if err != nil {
		return err
	}
	e := jobstore.Hold{Database: body["database"], Server: body["server"], Reason: body["reason"]}
	if err := e.Validate(); err != nil {
		return web.BadRequest("%s", err)
	}
	now, answer := s.now(), held{OK: true, ID: e.ID()}
	q.Note("hold", answer.ID)
	if _, err := web.Run(q, s.DB, kv.Options{}, func(tx kv.Tx) (struct{}, error) {
		made, err := s.operator(q, tx, now).MakeHold(e)
		answer.Changed = answer.Changed || made
		return struct{}{}, err
	}); err != nil {
		return err
	}
	if answer.Changed {
		s.Logger.Info("hold_made", "hold", answer.ID, "user", q.User.Name, "reason", e.Reason)
		return q.SendJSON(http.StatusCreated, answer)
	}
	return q.SendJSON(http.StatusOK, answer)
}

func (s control) liftHold(q *web.Request) error {
	now, answer := s.now(), held{OK: true, ID: q.Param("id")}
	var meant *jobstore.Hold // that an earlier attempt found: one that was made since is not to be lifted
	if _, err := web.Run(q, s.DB, kv.Options{}, func(tx kv.Tx) (struct{}, error) {
		found, err := s.Store.Keys.Hold(tx, answer.ID)
		if err != nil || found == nil || meant != nil && *found != *meant {
			return struct{}{}, err
		}
		meant = found
		lifted, err := s.operator(q, tx, now).LiftHold(answer.ID)
		answer.Changed = answer.Changed || lifted
		return struct{}{}, err
	}); err != nil {
		return err
	}
	if !answer.Changed {
		return noHold(answer.ID)
	}
	s.Logger.Info("hold_lifted", "hold", answer.ID, "user", q.User.Name)
	return q.SendJSON(http.StatusOK, answer)
}
