package relay

import (
	"net/http"

	"couchrelay/adapters/web"
	"couchrelay/core/follow"
	"couchrelay/core/jobstore"
	"couchrelay/core/peer"
)

// followView is a followed database as GET /_scheduler/follow shows it.
type followView struct {
	Name     string   `json:"name"` // of the mirror
	URL      string   `json:"url"`  // of the database, without credentials
	Database string   `json:"database"`
	Section  string   `json:"section"`
	Trusted  bool     `json:"trusted"`
	Node     *string  `json:"node"`     // that follows it
	Sequence *rawJSON `json:"sequence"` // up to which its documents are known
	Changes  *int64   `json:"changes_pending"`
	States   int      `json:"states_pending"` // of jobs, for its documents; 1,000 stands for more
	// All documents are being read again, since the database is another one than before.
	Reconciling bool       `json:"reconciling"`
	Errors      int        `json:"error_count"` // in a row
	Error       *string    `json:"error"`       // null once all documents are known
	Reason      *string    `json:"reason"`
	NextTry     *timestamp `json:"next_try"`
}

func followViewOf(v *follow.View) followView {
	view := followView{
		Name: v.ID(), URL: v.URL, Database: v.Name, Section: v.Section, Trusted: v.Trusted,
		Node: orNull(v.Node()), States: v.States, Reconciling: v.Reconciling,
		Errors: v.Errors, Error: orNull(v.Error), Reason: orNull(v.Reason),
	}
	if v.Since != "" {
		view.Sequence = (*rawJSON)(&v.Since)
		if v.Behind >= 0 {
			view.Changes = &v.Behind
		}
	}
	if v.Due != 0 {
		at := timestamp(v.Due)
		view.NextTry = &at
	}
	return view
}

// rawJSON is a sequence as its server wrote it: a string or a number.
type rawJSON peer.Seq

// MarshalJSON writes the sequence.
func (s rawJSON) MarshalJSON() ([]byte, error) { return []byte(s), nil }

// listFollowed answers GET /_scheduler/follow.
func (s *service) listFollowed(q *web.Request) error {
	list, err := readable(q, s, func(r jobstore.Lists) ([]follow.View, error) {
		if s.Followed == nil {
			return nil, nil
		}
		return follow.List(r.Reader, s.Followed, r.Without...)
	})
	if err != nil {
		return err
	}
	views := make([]followView, len(list))
	for i := range list {
		views[i] = followViewOf(&list[i])
	}
	return q.SendJSON(http.StatusOK, struct {
		Total  int          `json:"total_rows"`
		Follow []followView `json:"follow"`
	}{len(views), views})
}
