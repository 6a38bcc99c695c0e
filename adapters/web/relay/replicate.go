package relay

import (
	"errors"
	"net/http"

	"couchrelay/adapters/web"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/repid"
	"couchrelay/core/spec"

	"github.com/go-json-experiment/json/jsontext"
)

// maxReplicateBody bounds the body of POST /_replicate.
const maxReplicateBody = 8 << 20

// replicate starts or cancels the replication of a request. A continuous one is answered when its id is
// known, a one-shot when it is over; a client that goes away earlier does not stop it. If another job has the
// replication, a document's say, there is nothing to start: the answer names that job.
func (s *service) replicate(q *web.Request) error {
	body, err := q.JSONBody(min(maxReplicateBody, q.Limits.Request))
	if err == nil {
		err = q.HoldParsed(body)
	}
	if err != nil {
		return err
	}
	rep, err := spec.ParseRequest(body, s.Store.Config.Parse)
	var mistake *spec.Error
	if errors.As(err, &mistake) {
		return &web.Error{Status: http.StatusBadRequest, Name: string(mistake.Kind), Reason: err.Error()}
	}
	if err != nil {
		return err
	}
	if err := jobstore.MayRefer(rep.References(), q.User.Admin()); err != nil {
		return web.Forbidden(err.Error())
	}
	if rep.Cancel {
		return s.cancel(q, rep)
	}
	now := s.now()
	rep.User.Admin = q.User.Admin()
	jobID, err := web.Run(q, s.DB, kv.Options{}, func(tx kv.Tx) (string, error) {
		return s.Store.Replicate(tx, rep, q.User.Name, now)
	})
	var duplicate *jobstore.Duplicate
	if errors.As(err, &duplicate) {
		reason := err.Error()
		if !q.User.Admin() {
			reason = "another job has this replication" // which may be of a database that the user does not see
		}
		return &web.Error{Status: http.StatusConflict, Name: "conflict", Reason: reason}
	}
	if err != nil {
		return err
	}
	q.Note("job", jobID)
	if fields := described(rep.Unknown); fields != "" {
		s.Logger.Warn("unknown_fields", "job", jobID, "user", q.User.Name, "fields", fields)
	}
	continuous := rep.Continuous
	q.Release() // nothing uses rep from here on, and the wait may take hours
	rec, err := s.wait(q, jobID, continuous, func(rec *jobstore.Record) bool {
		return rec.State.Terminal() || continuous && rec.RepID != ""
	})
	if err != nil {
		return err
	}
	switch {
	case rec == nil:
		return web.NotFound("the replication was cancelled")
	case rec.State == jobstore.Failed:
		return failure(rec)
	case continuous:
		return q.SendJSON(http.StatusAccepted, started{true, rec.RepID})
	}
	return q.SendJSON(http.StatusOK, ended{true, rec.RefusedTotal(), jsontext.Value(rec.Result)})
}

// started names a replication that goes on, or that was cancelled.
type started struct {
	OK bool   `json:"ok"`
	ID string `json:"_local_id"`
}

// ended is the result of a replication as its checkpoint has it. Refused is the number of documents that the
// target refused and does not have.
type ended struct {
	OK      bool           `json:"ok"`
	Refused int64          `json:"refused,omitzero"`
	Result  jsontext.Value `json:",embed"`
}

// failure answers for a replication that failed.
func failure(rec *jobstore.Record) error {
	status := http.StatusInternalServerError
	switch rec.Error {
	case "unauthorized":
		status = http.StatusUnauthorized
	case "forbidden":
		status = http.StatusForbidden
	case "filter_fetch_error", "db_not_found":
		status = http.StatusNotFound
	case "duplicate":
		status = http.StatusConflict
	}
	return &web.Error{Status: status, Name: rec.Error, Reason: rec.Reason}
}

// wait waits until a job is as wanted, and returns nothing when it was removed. data says that this may depend on
// more than the job's state.
func (s *service) wait(
	q *web.Request, jobID string, data bool, wanted func(*jobstore.Record) bool,
) (*jobstore.Record, error) {
	return web.Wait(q, s.DB, func(tx kv.Tx) (*jobstore.Record, kv.Watch, error) {
		return jobstore.Subscribe(tx, s.Store, jobID, data, wanted)
	})
}

// cancel removes the job that an id or a body names.
func (s *service) cancel(q *web.Request, rep *spec.Replication) error {
	id := rep.CancelID
	if id == "" {
		id = repid.JobID(s.Store.Config.Server, rep, q.User.Name)
	}
	v, err := s.sightOf(q)
	if err != nil {
		return err
	}
	cancelled := "" // an attempt whose outcome is unknown may have removed it already
	_, err = web.Run(q, s.DB, kv.Options{}, func(tx kv.Tx) (struct{}, error) {
		jobID, rec, err := s.Store.Find(tx, id)
		switch {
		case err != nil || rec == nil:
			return struct{}{}, err
		case rec.Transient() && !v.sees(rec):
			return struct{}{}, web.Unauthorized("Can't cancel a replication triggered by another user")
		case !v.sees(rec):
			return struct{}{}, nil
		case !rec.Transient():
			return struct{}{}, web.Forbidden("the replication belongs to document " + rec.DocID + " of " +
				rec.Database + "; delete that to stop it")
		case rec.State.Terminal():
			return struct{}{}, nil
		}
		cancelled = rec.RepID
		if cancelled == "" {
			cancelled = jobID
		}
		return struct{}{}, s.Store.Cancel(tx, jobID)
	})
	if err != nil {
		return err
	}
	if cancelled == "" {
		return web.ErrMissing
	}
	q.Note("canceled", cancelled)
	return q.SendJSON(http.StatusOK, started{true, cancelled})
}
