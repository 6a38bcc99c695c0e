package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/repid"
	"couchrelay/core/spec"
)

// maxReplicateBody bounds the body of POST /_replicate.
const maxReplicateBody = 8 << 20

// replicate starts or cancels the replication of a request. A continuous one is answered when its id is
// known, a one-shot when it is over; who goes away before does not stop it.
func (s *service) replicate(w http.ResponseWriter, r *http.Request, by jobstore.Writer) error {
	if err := requireJSON(r); err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReplicateBody))
	if tooMuch := (*http.MaxBytesError)(nil); errors.As(err, &tooMuch) {
		return &Error{Status: 413, Name: "too_large", Reason: fmt.Sprintf("the body may have %d bytes", maxReplicateBody)}
	}
	if err != nil {
		return BadRequest("the body broke off")
	}
	rep, err := spec.ParseRequest(body, s.Store.Config.Parse)
	var mistake *spec.Error
	if errors.As(err, &mistake) {
		return &Error{Status: 400, Name: string(mistake.Kind), Reason: err.Error()}
	}
	if err != nil {
		return err
	}
	if rep.Cancel {
		return s.cancel(w, r, rep, by)
	}
	now := s.now()
	jobID, err := kv.Run(r.Context(), s.DB, func(tx kv.Tx) (string, error) { return s.Store.Replicate(tx, rep, by.Name, now) })
	if err != nil {
		return err
	}
	rec, err := s.wait(r.Context(), jobID, func(rec *jobstore.Record) bool {
		return rec.State.Terminal() || rep.Continuous && rec.RepID != ""
	})
	if err != nil {
		return err
	}
	switch {
	case rec == nil:
		return &Error{Status: 404, Name: "not_found", Reason: "the replication was cancelled"}
	case rec.State == jobstore.Failed:
		return failure(rec)
	case rep.Continuous:
		return s.sendJSON(w, http.StatusAccepted, okWith{LocalID: rec.RepID})
	}
	return s.sendJSON(w, http.StatusOK, json.RawMessage(append([]byte(`{"ok":true`), rest(rec.Result)...)))
}

// okWith is the answer that names a replication.
type okWith struct {
	OK      alwaysTrue `json:"ok"`
	LocalID string     `json:"_local_id"`
}

type alwaysTrue struct{}

// MarshalJSON writes true.
func (alwaysTrue) MarshalJSON() ([]byte, error) { return []byte("true"), nil }

// rest is a JSON object without its opening brace, to go on behind another member.
func rest(object []byte) []byte {
	if len(object) <= 2 {
		return []byte("}")
	}
	return append([]byte(","), object[1:]...)
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
	}
	return &Error{Status: status, Name: rec.Error, Reason: rec.Reason}
}

// lookAgain is how often a waiting request looks at its job by itself.
const lookAgain = time.Second

// wait waits until a job is as wanted, and returns nothing when it was removed.
func (s *service) wait(ctx context.Context, jobID string, wanted func(*jobstore.Record) bool) (*jobstore.Record, error) {
	for {
		var watch kv.Watch
		rec, err := kv.Run(ctx, s.DB, func(tx kv.Tx) (*jobstore.Record, error) {
			rec, err := s.Store.Record(tx, jobID)
			if err == nil && rec != nil && !wanted(rec) {
				watch = s.Store.Jobs.WatchJob(tx, jobID)
			}
			return rec, err
		})
		if err != nil || rec == nil || wanted(rec) {
			return rec, err
		}
		short, cancel := context.WithTimeout(ctx, lookAgain)
		if watch.Wait(short) != nil {
			<-short.Done() // a store that has no watches left says so at once, and would be asked without a pause
		}
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// cancel removes the job that an id or a body names.
func (s *service) cancel(w http.ResponseWriter, r *http.Request, rep *spec.Replication, by jobstore.Writer) error {
	id := rep.CancelID
	if id == "" {
		id = repid.JobID(s.Store.Config.Server, rep, by.Name)
	}
	cancelled := "" // an attempt whose outcome is unknown may have removed it already
	_, err := kv.Run(r.Context(), s.DB, func(tx kv.Tx) (struct{}, error) {
		jobID, rec, err := s.Store.Find(tx, id)
		switch {
		case err != nil || rec == nil:
			return struct{}{}, err
		case !rec.Transient():
			return struct{}{}, Forbidden("the replication belongs to document " + rec.DocID + " of " + rec.Database + "; delete that to stop it")
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
		return ErrMissing
	}
	return s.sendJSON(w, http.StatusOK, okWith{LocalID: cancelled})
}
