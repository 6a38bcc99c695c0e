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

// oneJob tells a job, why it runs or does not, or the documents that its target refused.
func (s *service) oneJob(q *web.Request) error {
	if last := len(q.Rest) - 1; last > 0 {
		switch id := strings.Join(q.Rest[:last], "/"); q.Rest[last] {
		case "explain":
			return s.explainJob(q, id)
		case "failures":
			return s.listFailures(q, id)
		}
	}
	var id string
	rec, err := web.Run(q, s.DB, kv.Options{}, func(tx kv.Tx) (rec *jobstore.Record, err error) {
		id, rec, err = s.Store.Find(tx, q.Param("id"))
		return rec, err
	})
	if err != nil {
		return err
	}
	v, err := s.sightOf(q)
	if err != nil {
		return err
	}
	if rec == nil || !v.sees(rec) {
		return web.ErrMissing
	}
	return q.SendJSON(http.StatusOK, jobOf(id, v.view(id, rec)))
}

// docs lists the replications of a database, or tells one. The slashes of a database's name need not be
// escaped: it ends with the first segment _replicator.
func (s *service) docs(q *web.Request) error {
	database, rest := q.Rest[0], q.Rest[1:]
	if !jobstore.IsReplicatorDB(database) {
		end := slices.Index(q.Rest, "_replicator")
		if end < 0 {
			return web.BadRequest("Invalid path: no replicator database, which is _replicator or ends with " +
				"/_replicator")
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
		Reason: "known are below _scheduler: jobs, docs, holds, nodes, accounts, servers, errors and follow"}
}

// prefixOf is the beginning of the ids of a database's jobs.
func (s *service) prefixOf(tx kv.Tx, database string) (string, error) {
	db, err := s.Store.Docs.Open(tx, database)
	if err != nil {
		return "", err
	}
	return jobstore.DocumentJobs(db.Instance), nil
}

func (s *service) oneDoc(q *web.Request, database, docID string) error {
	v, err := s.sightOf(q)
	if err != nil {
		return err
	}
	if !v.enters(database) {
		return errNotMember
	}
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
	return q.SendJSON(http.StatusOK, documentOf(id, rec.Error, v.view(id, rec)))
}

// activeTasks lists the runs.
func (s *service) activeTasks(q *web.Request) error {
	v, err := s.sightOf(q)
	if err != nil {
		return err
	}
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
		held, err := readable(q, s, func(r jobstore.Lists) ([]jobs.Held, error) {
			return s.Store.Jobs.Owned(r.Reader, lease.Worker, r.Without...)
		})
		if err != nil {
			return err
		}
		for page := range slices.Chunk(held, pageSize) {
			views, err := readable(q, s, func(r jobstore.Lists) (views []task, err error) {
				for _, h := range page {
					if dropped.Has(h.ID) || slices.Contains(r.Without, h.ID) { // lists of jobs have those
						continue
					}
					rec, err := s.Store.Record(r.Reader, h.ID)
					if err != nil {
						return nil, jobs.OfJob(h.ID, err)
					}
					if rec != nil && rec.State == jobstore.Running && v.sees(rec) {
						views = append(views, taskOf(v.view(h.ID, rec)))
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
