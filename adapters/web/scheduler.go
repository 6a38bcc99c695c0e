package web

import (
	"net/http"
	"slices"
	"strings"

	"couchrelay/core/jobs"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// pageSize is how many jobs one transaction of a list reads.
const pageSize = 200

// scheduler answers GET /_scheduler/jobs[/ID], /_scheduler/docs[/DB[/DOC]] and /_scheduler/nodes.
func (s *service) scheduler(w http.ResponseWriter, r *http.Request, path []string) error {
	switch {
	case len(path) == 1 && path[0] == "jobs":
		return s.listJobs(w, r)
	case len(path) == 2 && path[0] == "jobs":
		return s.oneJob(w, r, path[1])
	case len(path) >= 1 && path[0] == "docs":
		return s.schedulerDocs(w, r, path[1:])
	case len(path) == 1 && path[0] == "nodes":
		return s.listNodes(w, r)
	}
	return &Error{Status: 404, Name: "not found", Reason: "known are _scheduler/jobs, _scheduler/docs and _scheduler/nodes"}
}

// glance is for lists, which are polled and out of date when they arrive. What is asked for by name is
// read as it is now.
var glance = kv.Options{Tag: "list", Stale: true}

// list calls fn for all jobs whose ids begin with prefix, in order, until it says that it has enough.
func (s *service) list(r *http.Request, prefix string, fn func(jobstore.Job) (enough bool)) error {
	for after := ""; ; {
		page, err := kv.RunWith(r.Context(), s.DB, glance, func(tx kv.Tx) ([]jobstore.Job, error) {
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
func (s *service) listJobs(w http.ResponseWriter, r *http.Request) error {
	limit, err := parameter(r, "limit", 100)
	if err != nil {
		return err
	}
	skip, err := parameter(r, "skip", 0)
	if err != nil {
		return err
	}
	counts, err := kv.RunWith(r.Context(), s.DB, glance, func(tx kv.Tx) (jobs.Counts, error) { return s.Store.Jobs.Counts(tx.Snapshot()) })
	if err != nil {
		return err
	}
	views := []job{}
	seen := 0
	err = s.list(r, "", func(j jobstore.Job) bool {
		if j.State.Terminal() {
			return false
		}
		if seen++; seen > skip && len(views) < limit {
			views = append(views, jobOf(j.View()))
		}
		return len(views) == limit
	})
	if err != nil {
		return err
	}
	total := int(counts.Ready + counts.Waiting + counts.Running)
	return s.sendJSON(w, http.StatusOK, struct {
		Total  int   `json:"total_rows"`
		Offset int   `json:"offset"`
		Jobs   []job `json:"jobs"`
	}{total, min(skip, total), views})
}

func (s *service) oneJob(w http.ResponseWriter, r *http.Request, id string) error {
	rec, err := kv.Run(r.Context(), s.DB, func(tx kv.Tx) (*jobstore.Record, error) {
		_, rec, err := s.Store.Find(tx, id)
		return rec, err
	})
	if err != nil {
		return err
	}
	if rec == nil {
		return ErrMissing
	}
	return s.sendJSON(w, http.StatusOK, jobOf(rec.View()))
}

// schedulerDocs splits a path of database and document. The slashes of a database's name need not be
// escaped: it ends with the first segment _replicator.
func (s *service) schedulerDocs(w http.ResponseWriter, r *http.Request, path []string) error {
	if len(path) == 0 {
		return s.listDocs(w, r, "")
	}
	database, rest := path[0], path[1:]
	if !jobstore.IsReplicatorDB(database) {
		end := slices.Index(path, "_replicator")
		if end < 0 {
			return BadRequest("Invalid path: no replicator database")
		}
		database, rest = strings.Join(path[:end+1], "/"), path[end+1:]
	}
	if len(rest) == 0 {
		return s.listDocs(w, r, database)
	}
	return s.oneDoc(w, r, database, strings.Join(rest, "/"))
}

// prefixOf is the beginning of the ids of a database's jobs.
func (s *service) prefixOf(tx kv.Tx, database string) (string, error) {
	db, err := s.Store.Docs.Open(tx, database)
	if err != nil {
		return "", err
	}
	return jobstore.DocumentJobs(db.Instance), nil
}

var docStates = []jobstore.State{jobstore.Pending, jobstore.Running, jobstore.Crashing, jobstore.Completed, jobstore.Failed}

// states reads the parameter states.
func states(r *http.Request) ([]jobstore.State, error) {
	text := r.URL.Query().Get("states")
	if text == "" {
		return nil, nil
	}
	var wanted []jobstore.State
	for name := range strings.SplitSeq(strings.ToLower(text), ",") {
		state := jobstore.State(strings.TrimSpace(name))
		if !slices.Contains(docStates, state) {
			return nil, &Error{Status: 400, Name: "query_parse_error",
				Reason: "Unknown states [" + name + "]. Choose from: [pending,running,crashing,completed,failed]"}
		}
		wanted = append(wanted, state)
	}
	return wanted, nil
}

// listDocs lists the replications of documents, of one database or of all. total_rows counts those that
// match.
func (s *service) listDocs(w http.ResponseWriter, r *http.Request, database string) error {
	const unlimited = 1 << 40
	limit, err := parameter(r, "limit", unlimited)
	if err != nil {
		return err
	}
	skip, err := parameter(r, "skip", 0)
	if err != nil {
		return err
	}
	wanted, err := states(r)
	if err != nil {
		return err
	}
	prefix := ""
	if database != "" {
		if prefix, err = kv.Run(r.Context(), s.DB, func(tx kv.Tx) (string, error) { return s.prefixOf(tx, database) }); err != nil {
			return err
		}
	}
	views := []document{}
	total := 0
	err = s.list(r, prefix, func(j jobstore.Job) bool {
		if j.Transient() || wanted != nil && !slices.Contains(wanted, j.State) {
			return false
		}
		if total++; total > skip && len(views) < limit {
			views = append(views, documentOf(j.View()))
		}
		return false
	})
	if err != nil {
		return err
	}
	return s.sendJSON(w, http.StatusOK, struct {
		Total  int        `json:"total_rows"`
		Offset int        `json:"offset"`
		Docs   []document `json:"docs"`
	}{total, min(skip, total), views})
}

func (s *service) oneDoc(w http.ResponseWriter, r *http.Request, database, id string) error {
	rec, err := kv.Run(r.Context(), s.DB, func(tx kv.Tx) (*jobstore.Record, error) {
		prefix, err := s.prefixOf(tx, database)
		if err != nil {
			return nil, err
		}
		return s.Store.Record(tx, prefix+id)
	})
	if err != nil {
		return err
	}
	if rec == nil {
		return ErrMissing
	}
	return s.sendJSON(w, http.StatusOK, documentOf(rec.View()))
}

// activeTasks lists the runs.
func (s *service) activeTasks(w http.ResponseWriter, r *http.Request, _ jobstore.Writer) error {
	tasks := []task{}
	leases, err := kv.RunWith(r.Context(), s.DB, glance, func(tx kv.Tx) ([]jobs.Lease, error) { return s.Store.Jobs.Leases(tx.Snapshot()) })
	if err != nil {
		return err
	}
	for _, lease := range leases {
		held, err := kv.RunWith(r.Context(), s.DB, glance, func(tx kv.Tx) ([]jobs.Held, error) { return s.Store.Jobs.Owned(tx.Snapshot(), lease.Worker) })
		if err != nil {
			return err
		}
		for page := range slices.Chunk(held, pageSize) {
			views, err := kv.RunWith(r.Context(), s.DB, glance, func(tx kv.Tx) (views []task, err error) {
				for _, h := range page {
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
	return s.sendJSON(w, http.StatusOK, tasks)
}
