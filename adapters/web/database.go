package web

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"couchrelay/core/docs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

func (q *request) welcome() error {
	return q.sendJSON(http.StatusOK, object("couchdb", "Welcome", "version", q.Version, "uuid", q.UUID,
		"features", json.RawMessage(`[]`), "vendor", json.RawMessage(`{"name":"couchrelay"}`)))
}

func (q *request) up() error {
	return q.sendJSON(http.StatusOK, object("status", "ok", "seeds", json.RawMessage(`{}`)))
}

// maxUUIDs is how many ids a client may ask for at once.
const maxUUIDs = 1000

func (q *request) uuids() error {
	count, err := q.number("count", 1)
	if err != nil {
		return err
	}
	if count > maxUUIDs {
		return docs.BadRequest("count parameter too large")
	}
	ids := make([]string, count)
	for i := range ids {
		ids[i] = newID()
	}
	list, _ := json.Marshal(ids)
	q.w.Header().Set("Cache-Control", "no-cache")
	return q.sendJSON(http.StatusOK, object("uuids", json.RawMessage(list)))
}

// allDatabases lists the databases. All names are read: there are not that many. Access is not asked for each,
// since it may be a matter of deriving a password's key.
func (q *request) allDatabases() error {
	if q.Options.List != nil {
		if err := q.Options.List(q.Request); err != nil {
			return err
		}
	}
	keys, err := q.keyRange()
	if err != nil {
		return err
	}
	limit, err := q.number("limit", 1<<40)
	if err != nil {
		return err
	}
	skip, err := q.number("skip", 0)
	if err != nil {
		return err
	}
	const page = 1000
	names := []string{}
	for start := ""; ; {
		some, err := kv.Run(q.Context(), q.Store, func(tx kv.Tx) ([]string, error) { return q.Docs.Names(tx, start, page) })
		if err != nil {
			return err
		}
		names = append(names, some...)
		if len(some) < page {
			break
		}
		start = some[len(some)-1] + "\x00"
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !keys.contains(name) })
	if keys.Descending {
		slices.Reverse(names)
	}
	names = names[min(skip, int64(len(names))):]
	list, _ := json.Marshal(names[:min(limit, int64(len(names)))])
	return q.sendJSON(http.StatusOK, list)
}

func (q *request) createDatabase() error {
	instance := newUUID()
	err := kv.Do(q.Context(), q.Store, func(tx kv.Tx) error { return q.Docs.Create(tx, q.database, instance, q.now()) })
	if err != nil {
		return err
	}
	q.location(q.database)
	return q.sendJSON(http.StatusCreated, object("ok", true))
}

func (q *request) deleteDatabase() error {
	if q.query.Has("rev") {
		return docs.BadRequest("You tried to DELETE a database with a ?=rev parameter. Did you mean to DELETE a document instead?")
	}
	// The instance is found first, so that the repetition of a deletion is no refusal.
	instance, err := do(q, func(_ kv.Tx, db *docs.Database) (tuple.UUID, error) { return db.Instance, nil })
	if err != nil {
		return err
	}
	err = kv.Do(q.Context(), q.Store, func(tx kv.Tx) error {
		if db, err := q.Docs.Open(tx, q.database); err == nil && db.Instance == instance && q.access.Drop != nil {
			if err := q.access.Drop(tx, db); err != nil {
				return err
			}
		}
		return q.Docs.Delete(tx, q.database, instance)
	})
	if err != nil {
		return err
	}
	return q.sendJSON(http.StatusOK, object("ok", true))
}

func (q *request) databaseInfo() error {
	value, err := do(q, func(_ kv.Tx, db *docs.Database) ([]byte, error) {
		info, err := db.Info()
		return object("instance_start_time", db.StartTime(), "db_name", db.Name, "purge_seq", "0", "update_seq", info.UpdateSeq.String(),
			"sizes", json.RawMessage(`{"file":0,"external":0,"active":0}`), "props", json.RawMessage(`{}`),
			"doc_del_count", info.Deleted, "doc_count", info.Docs, "disk_format_version", int64(8), "compact_running", false,
			"cluster", json.RawMessage(`{"q":1,"n":1,"w":1,"r":1}`)), err
	})
	if err != nil {
		return err
	}
	return q.sendJSON(http.StatusOK, value)
}

// ensureFullCommit has nothing to do: what was answered is durable.
func (q *request) ensureFullCommit() error {
	start, err := do(q, func(_ kv.Tx, db *docs.Database) (string, error) { return db.StartTime(), nil })
	if err != nil {
		return err
	}
	return q.sendJSON(http.StatusCreated, object("ok", true, "instance_start_time", start))
}

func (q *request) security() error {
	value, err := do(q, func(_ kv.Tx, db *docs.Database) ([]byte, error) { return db.Security() })
	if err != nil {
		return err
	}
	return q.sendJSON(http.StatusOK, value)
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
	return q.sendJSON(http.StatusOK, strconv.AppendInt(nil, int64(limit), 10))
}

func (q *request) setRevsLimit() error {
	body, err := q.readBody()
	if err != nil {
		return err
	}
	var limit int
	if err := json.Unmarshal(body, &limit); err != nil {
		return docs.BadRequest("revs_limit must be a positive integer")
	}
	return q.set(func(db *docs.Database) error { return db.SetRevsLimit(limit) })
}

func (q *request) set(fn func(db *docs.Database) error) error {
	_, err := do(q, func(_ kv.Tx, db *docs.Database) (struct{}, error) { return struct{}{}, fn(db) })
	if err != nil {
		return err
	}
	return q.sendJSON(http.StatusOK, object("ok", true))
}
