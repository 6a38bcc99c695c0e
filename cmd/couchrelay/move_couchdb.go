package main

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"couchrelay/core/explain"
)

const (
	// defaultMaxJobs is CouchDB's. It is set, where it was not, since CouchDB hears of no key that is deleted.
	defaultMaxJobs = "500"

	markPath = "/_replicator/_local/couchrelay-import" // of the document that remembers the CouchDB's max_jobs
)

// maxJobs are the CouchDB's max_jobs, by their paths: one for each node.
type maxJobs map[string]string

// stopped reports whether no node runs jobs.
func (j maxJobs) stopped() bool {
	for _, value := range j {
		if value != "0" {
			return false
		}
	}
	return true
}

// words names the values, each once.
func (j maxJobs) words() string {
	return strings.Join(slices.Compact(slices.Sorted(maps.Values(j))), " and ")
}

// mark remembers what a take-over changed.
type mark struct {
	Rev     string  `json:"_rev,omitzero"`
	CouchDB string  `json:"couchdb"`
	Nodes   maxJobs `json:"nodes"`
	MaxJobs string  `json:"max_jobs,omitzero"` // of all nodes, as earlier builds wrote it
}

// maxJobs asks for the CouchDB's.
func (m *move) maxJobs() (maxJobs, error) {
	var members struct {
		Nodes []string `json:"cluster_nodes"`
	}
	if err := m.couch.into("GET", "/_membership", nil, nil, &members); err != nil {
		return nil, err
	}
	if len(members.Nodes) == 0 {
		return nil, errors.New("GET /_membership of the CouchDB lists no cluster_nodes")
	}
	all := maxJobs{}
	for _, name := range members.Nodes {
		path, value := "/_node/"+url.PathEscape(name)+"/_config/replicator/max_jobs", defaultMaxJobs
		if err := m.couch.into("GET", path, nil, nil, &value); err != nil && !isMissing(err) {
			return nil, err
		}
		all[path] = value
	}
	return all, nil
}

// tellRequests lists the jobs of requests to the CouchDB's _replicate, which are in no document: no import copies them,
// and a CouchDB that is stopped does not run them.
func (m *move) tellRequests() error {
	var list []string
	for skip := 0; ; {
		var page struct {
			Jobs []struct {
				ID, Source, Target string
				Document           *string `json:"doc_id"`
			}
		}
		query := url.Values{"limit": {"1000"}, "skip": {strconv.Itoa(skip)}}
		if err := m.couch.into("GET", jobsPath, query, nil, &page); err != nil {
			return err
		}
		for _, j := range page.Jobs {
			if j.Document == nil {
				list = append(list, fmt.Sprintf("%s from %s to %s", j.ID, j.Source, j.Target))
			}
		}
		if skip += len(page.Jobs); len(page.Jobs) == 0 {
			break
		}
	}
	if n := len(list); n > 0 {
		m.say("the CouchDB has %s of requests to _replicate, which are in no document and are not copied. They "+
			"stop with its replicator; repeat these requests here:", explain.Count(n, "job"))
		for line := range strings.SplitSeq(some(list, "\n"), "\n") {
			m.say("  %s", line)
		}
	}
	return nil
}

// stopCouchDB stops the CouchDB's replicator on all its nodes.
func (m *move) stopCouchDB(before maxJobs) error {
	if !before.stopped() {
		if err := m.remember(before); err != nil {
			return err
		}
	}
	for path := range before {
		if err := m.couch.into("PUT", path, nil, "0", nil); err != nil {
			return fmt.Errorf("the CouchDB's replicator may be stopped on some nodes, and their replications run "+
				"nowhere until this is done: %w", err)
		}
	}
	return nil
}

// awaitCouchDB waits for the last checkpoints of the CouchDB's replicator.
func awaitCouchDB(m *move) error {
	return m.await("the CouchDB", func() (int, error) {
		var tasks []struct{ Type string }
		err := m.couch.into("GET", "/_active_tasks", nil, nil, &tasks)
		tasks = slices.DeleteFunc(tasks, func(t struct{ Type string }) bool { return t.Type != "replication" })
		return len(tasks), err
	})
}

// await waits until a server runs no replication any more.
func (m *move) await(server string, running func() (int, error)) error {
	for end := time.Now().Add(stopWait); ; {
		n, err := running()
		switch {
		case err != nil || n == 0:
			return err
		case time.Now().After(end):
			return fmt.Errorf("%s still runs %s after %s; the jobs stay held: run the command again",
				server, explain.Count(n, "replication"), stopWait)
		}
		select {
		case <-m.context().Done():
			return errInterrupted
		case <-time.After(stopPoll):
		}
	}
}

// remember keeps the CouchDB's max_jobs for the way back. A take-over that broke off may have stopped some nodes: what
// they had is in its mark.
func (m *move) remember(before maxJobs) error {
	old, err := m.mark()
	if err != nil {
		return err
	}
	now := mark{Rev: old.Rev, CouchDB: redacted(m.CouchDB), Nodes: maxJobs{}}
	for path, value := range before {
		if then := old.of(path); value == "0" && then != "" {
			value = then
		}
		now.Nodes[path] = value
	}
	if err := m.remote.into("PUT", markPath, nil, now, nil); err != nil {
		return err
	}
	m.say("the CouchDB's max_jobs becomes 0, and was %s", now.Nodes.words())
	return nil
}

// mark reads what was remembered; nothing if there is no mark.
func (m *move) mark() (was mark, err error) {
	err = m.remote.into("GET", markPath, nil, nil, &was)
	if isMissing(err) {
		err = nil
	}
	return was, err
}

// of is what a node had; empty for one that came since.
func (k mark) of(path string) string {
	if value, has := k.Nodes[path]; has {
		return value
	}
	return k.MaxJobs
}

// startCouchDB sets max_jobs to what it was before an import.
func (m *move) startCouchDB() error {
	was, err := m.mark()
	if err != nil {
		return err
	}
	all, err := m.maxJobs()
	if err != nil {
		return err
	}
	for path := range all {
		if value := was.of(path); value != "" {
			if err := m.couch.into("PUT", path, nil, value, nil); err != nil {
				return err
			}
			all[path] = value
		}
	}
	if was.Rev != "" {
		// The next move begins anew: what the CouchDB's max_jobs is until then is for its admins to say.
		if err := m.remote.into("DELETE", markPath, url.Values{"rev": {was.Rev}}, nil, nil); err != nil {
			return err
		}
	}
	if all.stopped() {
		return errors.New("the documents are given back, but the CouchDB runs none: its max_jobs is 0, and no import " +
			"has set that; set [replicator] max_jobs of the CouchDB")
	}
	return nil
}
