package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

func (q *request) welcome() error {
	type vendor struct {
		Name string `json:"name"`
	}
	return q.SendJSON(http.StatusOK, struct {
		CouchDB  string   `json:"couchdb"`
		Version  string   `json:"version"`
		UUID     string   `json:"uuid,omitzero"` // unknown until the store has told it
		Features []string `json:"features"`
		Vendor   vendor   `json:"vendor"`
	}{"Welcome", version, q.UUID, q.Features, vendor{"couchrelay"}})
}

// maxUUIDs is how many ids a client may ask for at once.
const maxUUIDs = 1000

func (q *request) uuids() error {
	count, err := q.Number("count", 1)
	if err != nil {
		return err
	}
	if count > maxUUIDs {
		return web.BadRequest("count parameter too large")
	}
	ids := make([]string, count)
	for i := range ids {
		ids[i] = newID()
	}
	q.W.Header().Set("Cache-Control", "no-cache")
	return q.SendJSON(http.StatusOK, struct {
		IDs []string `json:"uuids"`
	}{ids})
}

func (q *request) createDatabase() error {
	system := strings.HasPrefix(q.database, "_") || strings.HasSuffix(q.database, "/_replicator")
	if system && q.flag("partitioned") {
		return web.BadRequest("Cannot partition a system database")
	}
	instance := newUUID()
	_, err := web.Run(q.Request, q.Store, kv.Options{}, func(tx kv.Tx) (struct{}, error) {
		return struct{}{}, q.Docs.Create(tx, q.database, instance, q.now())
	})
	if err != nil {
		return err
	}
	q.location(q.database)
	return q.SendJSON(http.StatusCreated, web.OK)
}

func (q *request) deleteDatabase() error {
	if q.Query.Has("rev") {
		return web.BadRequest("You tried to DELETE a database with a ?=rev parameter. " +
			"Did you mean to DELETE a document instead?")
	}
	// The instance is found first, so that the repetition of a deletion is no refusal.
	instance, err := do(q, func(_ kv.Tx, db *docs.Database) (tuple.UUID, error) {
		if db.Follows != "" {
			return db.Instance, docs.Forbidden("This database mirrors " + db.Follows +
				": it goes with its [follow] section.")
		}
		return db.Instance, nil
	})
	if err != nil {
		return err
	}
	if q.Dropped != nil {
		defer q.Dropped(context.WithoutCancel(q.Context()))
	}
	_, err = do(q, func(tx kv.Tx, db *docs.Database) (struct{}, error) {
		if db.Instance == instance && q.Drop != nil {
			q.Drop(tx, db)
		}
		return struct{}{}, q.Docs.Delete(tx, q.database, instance)
	})
	if err != nil && !errors.Is(err, docs.ErrNoDatabase) {
		return err
	}
	return q.SendJSON(http.StatusOK, web.OK)
}

// description is what GET /{db} tells. Members without a meaning here have the values of an empty CouchDB.
type description struct {
	StartTime         string   `json:"instance_start_time"`
	Name              string   `json:"db_name"`
	PurgeSeq          string   `json:"purge_seq"`
	UpdateSeq         string   `json:"update_seq"`
	Sizes             sizes    `json:"sizes"`
	Props             struct{} `json:"props"`
	Deleted           int64    `json:"doc_del_count"`
	Docs              int64    `json:"doc_count"`
	DiskFormatVersion int      `json:"disk_format_version"`
	CompactRunning    bool     `json:"compact_running"`
	Cluster           cluster  `json:"cluster"`
}

type sizes struct {
	File     int64 `json:"file"`
	External int64 `json:"external"`
	Active   int64 `json:"active"`
}

type cluster struct {
	Q int `json:"q"`
	N int `json:"n"`
	W int `json:"w"`
	R int `json:"r"`
}

func describe(db *docs.Database) (description, error) {
	info, err := db.Info()
	return description{
		StartTime: db.StartTime(), Name: db.Name, PurgeSeq: "0",
		UpdateSeq: info.UpdateSeq.String(), Deleted: info.Deleted,
		Docs: info.Docs, DiskFormatVersion: 8, Cluster: cluster{1, 1, 1, 1},
	}, err
}

func (q *request) databaseInfo() error {
	d, err := do(q, func(_ kv.Tx, db *docs.Database) (description, error) { return describe(db) })
	if err != nil {
		return err
	}
	return q.SendJSON(http.StatusOK, d)
}

func (q *request) ensureFullCommit() error {
	start, err := do(q, func(_ kv.Tx, db *docs.Database) (string, error) { return db.StartTime(), nil })
	if err != nil {
		return err
	}
	return q.SendJSON(http.StatusCreated, struct {
		OK    bool   `json:"ok"`
		Start string `json:"instance_start_time"`
	}{true, start})
}

func (q *request) security() error {
	value, err := do(q, func(_ kv.Tx, db *docs.Database) ([]byte, error) { return db.Security() })
	if err != nil {
		return err
	}
	return q.SendRaw(http.StatusOK, value)
}

func (q *request) setSecurity() error {
	body, err := q.readBody()
	if err != nil {
		return err
	}
	return q.set(func(db *docs.Database) error { return db.SetSecurity(body) })
}

func (q *request) revsLimit() error {
	limit, err := do(q, func(_ kv.Tx, db *docs.Database) (int, error) { return db.RevsLimit, nil })
	if err != nil {
		return err
	}
	return q.SendJSON(http.StatusOK, limit)
}

func (q *request) setRevsLimit() error {
	body, err := q.readBody()
	if err != nil {
		return err
	}
	var limit int
	if err := json.Unmarshal(body, &limit); err != nil {
		return web.BadRequest("revs_limit must be a positive integer")
	}
	return q.set(func(db *docs.Database) error { return db.SetRevsLimit(limit) })
}

func (q *request) set(fn func(db *docs.Database) error) error {
	_, err := do(q, func(_ kv.Tx, db *docs.Database) (struct{}, error) { return struct{}{}, fn(db) })
	if err != nil {
		return err
	}
	return q.SendJSON(http.StatusOK, web.OK)
}
