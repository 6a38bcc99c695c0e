package relay

import (
	"context"
	"errors"
	"net/http"

	"couchrelay/adapters/inspect"
	"couchrelay/adapters/web"
)

// Upkeep looks after the store of the service.
type Upkeep interface {
	// Check checks the store, and repairs it if that is wanted; see inspect.Run. The error is ErrBusy while another
	// check goes on.
	Check(ctx context.Context, repair bool, tell func(inspect.Told) error) (inspect.Summary, error)
}

// ErrBusy is the error of work on the store of which there is one at a time.
var ErrBusy = errors.New("another check of this store is under way on this node")

// checkPath is about checks of the store.
const checkPath = "/_node/{node}/_check"

// upkeepAPI is about the upkeep of the store over HTTP.
type upkeepAPI struct{ *service }

func (s upkeepAPI) check(q *web.Request) error { return s.look(q, false) }

func (s upkeepAPI) repair(q *web.Request) error { return s.look(q, true) }

// look answers with a line of JSON for each finding, and one for the summary, which shows that the check came to its
// end.
func (s upkeepAPI) look(q *web.Request, repair bool) error {
	if s.Upkeep == nil {
		return noPart(q)
	}
	line := func(value any) error {
		if !q.Began() {
			q.Begin(http.StatusOK, "application/x-ndjson")
		}
		text, err := web.Encode(value)
		if err == nil {
			_, err = q.W.Write(append(text, '\n'))
		}
		if err == nil {
			err = http.NewResponseController(q.W).Flush()
		}
		return err
	}
	summary, err := s.Upkeep.Check(q.Context(), repair, func(t inspect.Told) error {
		return line(struct {
			Finding inspect.Told `json:"finding"`
		}{t})
	})
	switch {
	case errors.Is(err, ErrBusy):
		return &web.Error{Status: http.StatusConflict, Name: "conflict", Reason: err.Error()}
	case err != nil:
		return err
	}
	return line(struct {
		Summary inspect.Summary `json:"summary"`
	}{summary})
}
