package couchdb

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/kv"

	"github.com/go-json-experiment/json/jsontext"
)

func allDatabases(q *request) error {
	names, err := databaseNames(q)
	if err != nil {
		return err
	}
	return q.SendJSON(http.StatusOK, names)
}

// databaseNames lists the databases that the parameters ask for. All names are read: there are not that many. Access is
// not asked for each, since it may be a matter of deriving a password's key.
func databaseNames(q *request) ([]string, error) {
	keys, err := q.keyRange()
	if err != nil {
		return nil, err
	}
	limit, skip, err := q.Page(web.Unlimited)
	if err != nil {
		return nil, err
	}
	const page = 1000
	names := []string{}
	for start := ""; ; {
		some, err := web.Run(q.Request, q.Store, kv.Options{}, func(tx kv.Tx) ([]string, error) {
			return q.Docs.Names(tx, start, page)
		})
		if err != nil {
			return nil, err
		}
		names = append(names, some...)
		if len(some) < page {
			break
		}
		start = some[len(some)-1] + "\x00"
	}
	if q.Query.Has("keys") {
		var wanted []string
		if json.Unmarshal([]byte(q.Query.Get("keys")), &wanted) != nil {
			return nil, web.BadRequest("`keys` parameter must be an array.")
		}
		names = slices.DeleteFunc(wanted, func(name string) bool { return !slices.Contains(names, name) })
	} else {
		names = slices.DeleteFunc(names, func(name string) bool { return !keys.contains(name) })
	}
	if keys.Descending {
		slices.Reverse(names)
	}
	names = names[min(skip, int64(len(names))):]
	return names[:min(limit, int64(len(names)))], nil
}

// maxInfos bounds the databases that one request may name, as in CouchDB.
const maxInfos = 100

// databasesInfo describes databases, in the order of their names.
func databasesInfo(q *request) error {
	if q.Query.Has("keys") {
		return web.QueryError("keys must be in the body of a POST")
	}
	names, err := databaseNames(q)
	if err != nil {
		return err
	}
	keys := make([]jsontext.Value, len(names))
	for i, name := range names {
		keys[i] = encode(name)
	}
	return sendInfos(q, keys)
}

// namedDatabasesInfo describes the databases that the body names.
func namedDatabasesInfo(q *request) error {
	body, err := q.jsonBody()
	if err != nil {
		return err
	}
	var keys []jsontext.Value
	given := false
	err = objectMembers(body, func(name string, d *jsontext.Decoder) error {
		if name != "keys" {
			return skip(d)
		}
		given = true
		return decode(d, &keys, web.BadRequest("`keys` member must be an array."))
	})
	switch {
	case err != nil:
		return err
	case !given:
		return web.BadRequest("`keys` member must exist.")
	case len(keys) > maxInfos:
		return web.BadRequest("`keys` may have %d names of databases", maxInfos)
	}
	return sendInfos(q, keys)
}

// sendInfos describes databases by their names, which are JSON; what names none is not found.
func sendInfos(q *request, keys []jsontext.Value) error {
	type row struct {
		Key   jsontext.Value `json:"key"`
		Info  *description   `json:"info,omitzero"`
		Error string         `json:"error,omitempty"`
	}
	rows := make([]row, len(keys))
	for i, key := range keys {
		each := *q
		rows[i].Key = key
		_ = json.Unmarshal(key, &each.database)
		d, err := do(&each, func(_ kv.Tx, db *docs.Database) (description, error) { return describe(db) })
		switch {
		case err == nil:
			rows[i].Info = &d
		case errors.Is(err, docs.ErrNoDatabase):
			rows[i].Error = "not_found"
		default:
			return err
		}
	}
	return q.SendJSON(http.StatusOK, rows)
}
