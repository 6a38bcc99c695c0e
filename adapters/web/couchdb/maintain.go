package couchdb

import (
	"net/http"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/kv"
)

// compact has nothing to do: bodies of superseded revisions go with the write that supersedes them.
func compact(q *request) error {
	if _, err := q.jsonBody(); err != nil {
		return err
	}
	return accepted(q, func(*docs.Database) error { return nil })
}

// compactViews has nothing to do either, for a design document that is there.
func compactViews(q *request) error {
	if _, err := q.jsonBody(); err != nil {
		return err
	}
	return accepted(q, func(db *docs.Database) error {
		_, err := db.Read("_design/"+q.Param("rest"), docs.Want{})
		return err
	})
}

// cleanUp has no files of views to remove.
func cleanUp(q *request) error {
	return accepted(q, func(*docs.Database) error { return nil })
}

// accepted answers a request for work in the background, of a database that exists.
func accepted(q *request, check func(db *docs.Database) error) error {
	_, err := do(q, func(_ kv.Tx, db *docs.Database) (struct{}, error) { return struct{}{}, check(db) })
	if err != nil {
		return err
	}
	return q.SendJSON(http.StatusAccepted, web.OK)
}

func noTemporaryViews(*request) error {
	return &web.Error{Status: http.StatusGone, Name: "gone", Reason: "Temporary views are not supported in CouchDB"}
}

func notPartitioned(*request) error { return web.BadRequest("database is not partitioned") }

// purged tells what was purged, which is nothing.
func purged(q *request) error {
	_, err := do(q, func(kv.Tx, *docs.Database) (struct{}, error) { return struct{}{}, nil })
	if err != nil {
		return err
	}
	return q.SendJSON(http.StatusOK, struct {
		Infos []string `json:"purged_infos"`
	}{[]string{}})
}

// noPurge refuses to remove revisions without a trace: jobs, feeds and copies of a database learn of documents by its
// feed, which would not tell them.
func noPurge(*request) error {
	return web.NotImplemented("databases of this service cannot be purged, since their jobs and copies would not " +
		"learn of it; delete the document, which ends its job, or the database, of which nothing stays")
}
