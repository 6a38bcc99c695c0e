package relay

import (
	"encoding/base64"
	"net/http"
	"strconv"

	"couchrelay/adapters/web"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// Bounds of a page of refused documents.
const (
	defaultFailures = 100
	maxFailures     = 1000
)

// refusedDoc is a document that a target refused, as GET /_scheduler/jobs/{id}/failures shows it.
type refusedDoc struct {
	ID       string    `json:"id"`
	Rev      string    `json:"rev"`
	Status   *int      `json:"status"` // null if the document was part of a bulk answer
	Error    string    `json:"error"`
	Reason   string    `json:"reason"`
	First    timestamp `json:"first"`
	Last     timestamp `json:"last"`
	Attempts int       `json:"attempts"`
}

// failures is a page of the list. Total also counts those that are not stored. Cursor leads to the next page; it is
// null on the last one.
type failures struct {
	Total    int64        `json:"total_rows"`
	Stored   int64        `json:"stored"`
	Failures []refusedDoc `json:"failures"`
	Cursor   *string      `json:"cursor"`
}

// listFailures lists the documents of a job that its target refused, ordered by document.
func (s *service) listFailures(q *web.Request, id string) error {
	limit, doc, rev, err := failuresPage(q)
	if err != nil {
		return err
	}
	if err := s.mustSteer(q, id); err != nil {
		return err
	}
	page, err := web.Run(q, s.DB, kv.Options{}, func(tx kv.Tx) (*failures, error) {
		jobID, rec, err := s.Store.Find(tx, id)
		if err != nil || rec == nil {
			return nil, err
		}
		page := &failures{Total: rec.RefusedTotal(), Failures: []refusedDoc{}}
		if rec.Refused != nil {
			page.Stored = rec.Refused.Listed
		}
		list, err := s.Store.Keys.Refusals(tx.Snapshot(), jobID, doc, rev, limit+1)
		for i, r := range list {
			if i == limit {
				last := page.Failures[i-1]
				page.Cursor = orNull(base64.RawURLEncoding.EncodeToString(tuple.Pack(last.ID, last.Rev)))
				break
			}
			page.Failures = append(page.Failures, refusedDocOf(r))
		}
		return page, err
	})
	if err != nil {
		return err
	}
	if page == nil {
		return noJob(id)
	}
	return q.SendJSON(http.StatusOK, page)
}

func refusedDocOf(r jobstore.Refusal) refusedDoc {
	d := refusedDoc{
		ID: r.DocID, Rev: r.Rev, Error: r.Error, Reason: r.Reason,
		First: timestamp(r.First), Last: timestamp(r.Last), Attempts: r.Attempts,
	}
	if r.Status != 0 {
		d.Status = &r.Status
	}
	return d
}

// failuresPage reads which page is asked for: its length and the document and revision before it.
func failuresPage(q *web.Request) (limit int, doc, rev string, err error) {
	limit = defaultFailures
	if err := onceEach(q); err != nil {
		return 0, "", "", err
	}
	for name := range q.Query {
		switch text := q.Query.Get(name); name {
		case "limit":
			if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxFailures {
				return 0, "", "", web.QueryError("`limit` must be an integer from 1 to " + strconv.Itoa(maxFailures))
			}
		case "cursor":
			raw, err := base64.RawURLEncoding.DecodeString(text)
			if err != nil || tuple.Subspace(nil).Scan(raw, &doc, &rev) != nil {
				return 0, "", "", web.QueryError("`cursor` must be that of an earlier answer, or absent")
			}
		default:
			return 0, "", "", web.QueryError("unknown parameter `" + name + "`: known are limit and cursor")
		}
	}
	return limit, doc, rev, nil
}
