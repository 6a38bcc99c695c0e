package relay

import (
	"net/http"
	"slices"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// pageSize is how many jobs one transaction of a list reads.
const pageSize = 200

// glance is for lists, which are polled and out of date when they arrive. A thing that is asked for by name
// is read at its newest version.
var glance = kv.Options{Tag: "list", Stale: true}

// list calls fn for all jobs whose ids begin with prefix, in order, until fn has enough.
func (s *service) list(q *web.Request, prefix string, fn func(jobstore.Job) (enough bool)) error {
	for after := ""; ; {
		page, err := web.Run(q, s.DB, glance, func(tx kv.Tx) ([]jobstore.Job, error) {
			return s.Store.List(tx.Snapshot(), prefix, after, pageSize)
		})
		if err != nil {
			return err
		}
		for _, j := range page {
			if fn(j) {
				return nil
			}
		}
		if len(page) < pageSize {
			return nil
		}
		after = page[len(page)-1].ID
	}
}

// listJobs lists the jobs that are not over.
func (s *service) listJobs(q *web.Request) error {
	limit, skip, err := q.Page(100)
	if err != nil {
		return err
	}
	var counts jobs.Counts
	dropped, err := web.Run(q, s.DB, glance, func(tx kv.Tx) (dropped jobstore.Dropped, err error) {
		if counts, err = s.Store.Jobs.Counts(tx.Snapshot()); err != nil {
			return nil, err
		}
		return s.Store.Keys.DroppedDBs(tx.Snapshot())
	})
	if err != nil {
		return err
	}
	views := []job{}
	seen := int64(0)
	err = s.list(q, "", func(j jobstore.Job) bool {
		if j.State.Terminal() {
			return false
		}
		if seen++; seen > skip && int64(len(views)) < limit {
			views = append(views, jobOf(j.ID, j.View()))
		}
		return int64(len(views)) == limit && len(dropped) == 0
	})
	if err != nil {
		return err
	}
	total := counts.Ready + counts.Waiting + counts.Running + counts.Parked
	if len(dropped) > 0 {
		total = seen // the counters have jobs that are about to be removed
	}
	return q.SendJSON(http.StatusOK, struct {
		Total  int64 `json:"total_rows"`
		Offset int64 `json:"offset"`
		Jobs   []job `json:"jobs"`
	}{total, min(skip, total), views})
}

// oneJob tells a job, or lists the documents that its target refused.
func (s *service) oneJob(q *web.Request) error {
	if last := len(q.Rest) - 1; last > 0 && q.Rest[last] == "failures" {
		return s.listFailures(q, strings.Join(q.Rest[:last], "/"))
	}
	var id string
	rec, err := web.Run(q, s.DB, kv.Options{}, func(tx kv.Tx) (rec *jobstore.Record, err error) {
		id, rec, err = s.Store.Find(tx, q.Param("id"))
		return rec, err
	})
	if err != nil {
		return err
	}
	if rec == nil {
		return web.ErrMissing
	}
	return q.SendJSON(http.StatusOK, jobOf(id, rec.View()))
}

// docs lists the replications of a database, or tells one. The slashes of a database's name need not be
// escaped: it ends with the first segment _replicator.
func (s *service) docs(q *web.Request) error {
	database, rest := q.Rest[0], q.Rest[1:]
	if !jobstore.IsReplicatorDB(database) {
		end := slices.Index(q.Rest, "_replicator")
		if end < 0 {
			return web.BadRequest("Invalid path: no replicator database")
		}
		database, rest = strings.Join(q.Rest[:end+1], "/"), q.Rest[end+1:]
	}
	if len(rest) == 0 {
		return s.listDocsOf(q, database)
	}
	return s.oneDoc(q, database, strings.Join(rest, "/"))
}

// noList answers requests for all other lists.
func noList(*web.Request) error {
	return &web.Error{Status: http.StatusNotFound, Name: "not found",
		Reason: "known are _scheduler/jobs, _scheduler/docs, _scheduler/holds and _scheduler/nodes"}
}

// prefixOf is the beginning of the ids of a database's jobs.
func (s *service) prefixOf(tx kv.Tx, database string) (string, error) {
	db, err := s.Store.Docs.Open(tx, database)
	if err != nil {
		return "", err
	}
	return jobstore.DocumentJobs(db.Instance), nil
}

var docStates = []jobstore.State{
	jobstore.Pending, jobstore.Running, jobstore.Crashing, jobstore.Paused, jobstore.Completed, jobstore.Failed,
}

// states reads the parameter states.
func states(q *web.Request) ([]jobstore.State, error) {
	text := q.Query.Get("states")
	if text == "" {
		return nil, nil
	}
	var wanted []jobstore.State
	for name := range strings.SplitSeq(strings.ToLower(text), ",") {
		state := jobstore.State(strings.TrimSpace(name))
		if !slices.Contains(docStates, state) {
			return nil, web.QueryError("Unknown states [" + name + "]. " +
				"Choose from: [pending,running,crashing,paused,completed,failed]")
		}
		wanted = append(wanted, state)
	}
	return wanted, nil
}

// listDocs lists the replications of the documents of all databases.
func (s *service) listDocs(q *web.Request) error { return s.listDocsOf(q, "") }

// listDocsOf lists the replications of the documents of a database, or of all when it is empty. total_rows
// counts those that match.
func (s *service) listDocsOf(q *web.Request, database string) error {
	limit, skip, err := q.Page(web.Unlimited)
	if err != nil {
		return err
	}
	wanted, err := states(q)
	if err != nil {
		return err
	}
	prefix := ""
	if database != "" {
		if prefix, err = web.Run(q, s.DB, kv.Options{}, func(tx kv.Tx) (string, error) {
			return s.prefixOf(tx, database)
		}); err != nil {
			return err
		}
	}
	views := []document{}
	total := int64(0)
	err = s.list(q, prefix, func(j jobstore.Job) bool {
		if j.Transient() || wanted != nil && !slices.Contains(wanted, j.View().State) {
			return false
		}
		if total++; total > skip && int64(len(views)) < limit {
			views = append(views, documentOf(j.ID, j.View()))
		}
		return false
	})
	if err != nil {
		return err
	}
	return q.SendJSON(http.StatusOK, struct {
		Total  int64      `json:"total_rows"`
		Offset int64      `json:"offset"`
		Docs   []document `json:"docs"`
	}{total, min(skip, total), views})
}

func (s *service) oneDoc(q *web.Request, database, docID string) error {
	var id string
	rec, err := web.Run(q, s.DB, kv.Options{}, func(tx kv.Tx) (*jobstore.Record, error) {
		prefix, err := s.prefixOf(tx, database)
		if err != nil {
			return nil, err
		}
		id = prefix + docID
		return s.Store.Record(tx, id)
	})
	if err != nil {
		return err
	}
	if rec == nil {
		return web.ErrMissing
	}
	return q.SendJSON(http.StatusOK, documentOf(id, rec.View()))
}

// activeTasks lists the runs.
func (s *service) activeTasks(q *web.Request) error {
	tasks := []task{}
	var dropped jobstore.Dropped
	leases, err := web.Run(q, s.DB, glance, func(tx kv.Tx) (leases []jobs.Lease, err error) {
		if dropped, err = s.Store.Keys.DroppedDBs(tx.Snapshot()); err != nil {
			return nil, err
		}
		return s.Store.Jobs.Leases(tx.Snapshot())
	})
	if err != nil {
		return err
	}
	for _, lease := range leases {
		held, err := web.Run(q, s.DB, glance, func(tx kv.Tx) ([]jobs.Held, error) {
			return s.Store.Jobs.Owned(tx.Snapshot(), lease.Worker)
		})
		if err != nil {
			return err
		}
		for page := range slices.Chunk(held, pageSize) {
			views, err := web.Run(q, s.DB, glance, func(tx kv.Tx) (views []task, err error) {
				for _, h := range page {
					if dropped.Has(h.ID) {
						continue
					}
					rec, err := s.Store.Record(tx.Snapshot(), h.ID)
					if err != nil {
						return nil, err
					}
					if rec != nil && rec.State == jobstore.Running {
						views = append(views, taskOf(rec.View()))
					}
				}
				return views, nil
			})
			if err != nil {
				return err
			}
			tasks = append(tasks, views...)
		}
	}
	return q.SendJSON(http.StatusOK, tasks)
}
