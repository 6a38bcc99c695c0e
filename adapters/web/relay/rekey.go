package relay

import (
	"errors"
	"net/http"

	"couchrelay/adapters/seal"
	"couchrelay/adapters/web"
)

// rekeyPath is about the keys that seal credentials in the store.
const rekeyPath = "/_node/{node}/_rekey"

// keyAPI is about those keys over HTTP.
type keyAPI struct{ *service }

// status tells which keys there are, and counts the rows that need each.
func (s keyAPI) status(q *web.Request) error {
	status, err := s.Keys.Status(q.Context())
	if err != nil {
		return err
	}
	return q.SendJSON(http.StatusOK, status)
}

// rekey has another key seal from now on.
func (s keyAPI) rekey(q *web.Request) error {
	switch err := s.Keys.Rekey(q.Context()); {
	case errors.Is(err, seal.ErrShared) || errors.Is(err, seal.ErrNoFile) || errors.Is(err, seal.ErrManyKeys):
		return &web.Error{Status: http.StatusConflict, Name: "conflict", Reason: err.Error()}
	case err != nil:
		return err
	}
	s.Logger.Info("rekeyed", "by", q.User.Name)
	return s.status(q)
}

// drop forgets the keys that no row needs.
func (s keyAPI) drop(q *web.Request) error {
	dropped, needed, err := s.Keys.Drop(q.Context())
	switch {
	case errors.Is(err, seal.ErrNoFile):
		return &web.Error{Status: http.StatusConflict, Name: "conflict", Reason: err.Error()}
	case err != nil:
		return err
	}
	return q.SendJSON(http.StatusOK, struct {
		Dropped []string `json:"dropped"`
		Needed  []string `json:"needed"` // by rows that are still to be rewritten
	}{seal.Texts(dropped), seal.Texts(needed)})
}
