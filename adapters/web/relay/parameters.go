package relay

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"couchrelay/adapters/web"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
)

// accepted are the parameters of lists. CouchDB gives include_docs to lists of documents, where it changes nothing.
var accepted = []string{
	"states", "database", "server", "user", "error", "node", "limit", "skip", "cursor", "descending", "start_key",
	"end_key", "inclusive_end", "key", "keys",
}

var (
	synonyms = []string{"startkey", "endkey"}
	ignored  = []string{"include_docs"}
)

// noParameters refuses parameters of endpoints that have none and that CouchDB has not: they would be ignored.
func noParameters(q *web.Request) error {
	for _, name := range slices.Sorted(maps.Keys(q.Query)) {
		return web.QueryError("unknown parameter `" + name + "`: there are none here")
	}
	return nil
}

// onceEach refuses parameters that are given more than once, of which all but one would be ignored.
func onceEach(q *web.Request) error {
	for _, name := range slices.Sorted(maps.Keys(q.Query)) {
		if len(q.Query[name]) > 1 {
			return web.QueryError(name + " is given more than once")
		}
	}
	return nil
}

// plainly is a handler behind noParameters.
func plainly(h web.Handler) web.Handler {
	return func(q *web.Request) error {
		if err := noParameters(q); err != nil {
			return err
		}
		return h(q)
	}
}

// parameters reads what is asked for.
func (l *list) parameters(most int64) error {
	for name, values := range l.q.Query {
		known := slices.Contains(accepted, name) || slices.Contains(synonyms, name) ||
			l.Documents && slices.Contains(ignored, name)
		switch {
		case !known:
			return web.QueryError("unknown parameter `" + name + "`; known are " + strings.Join(accepted, ", "))
		case len(values) > 1:
			return web.QueryError(name + " is given more than once")
		case values[0] == "" && !slices.Contains([]string{"states", "limit", "skip"}, name):
			return web.QueryError(name + " must not be empty")
		}
	}
	var err error
	if l.limit, l.Skip, err = l.q.Page(most); err != nil {
		return err
	}
	if l.Descending, err = l.flag("descending"); err != nil {
		return err
	}
	for _, name := range []string{"include_docs", "inclusive_end"} {
		if _, err = l.flag(name); err != nil {
			return err
		}
	}
	for _, read := range []func() error{l.filters, l.inDatabase, l.bounds, l.readCursor} {
		if err := read(); err != nil {
			return err
		}
	}
	return nil
}

func (l *list) flag(name string) (bool, error) {
	switch l.q.Query.Get(name) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, web.QueryError(name + " must be true or false")
}

func (l *list) filters() (err error) {
	l.User, l.Error, l.node = l.q.Query.Get("user"), l.q.Query.Get("error"), l.q.Query.Get("node")
	if server := l.q.Query.Get("server"); server != "" {
		hold := jobstore.Hold{Server: server}
		if err := hold.Validate(); err != nil {
			return web.QueryError(err.Error())
		}
		l.Server = hold.Server
	}
	known := jobstore.StatesOf(l.Documents)
	if l.Documents {
		known = append([]jobstore.State{initializing, errored}, known...)
	}
	if l.shown, err = states(l.q.Query.Get("states"), known); err != nil {
		return err
	}
	if !l.Documents && slices.Contains(l.shown, jobstore.Crashing) {
		l.shown = append(l.shown, errored) // which lists of jobs do not tell from the others
	}
	l.shown.find(&l.Filter)
	return nil
}

// inDatabase finds the database that the list is of. _replicator need not be there: then it has no documents.
func (l *list) inDatabase() error {
	if l.q.Param("doc") != "" && l.q.Query.Has("database") {
		return web.QueryError("database is named in the path already")
	}
	if l.database == "" {
		return nil
	}
	if !jobstore.IsReplicatorDB(l.database) {
		return web.QueryError("database must be _replicator or a name that ends with /_replicator, " +
			"and * stands for all in _scheduler/docs")
	}
	prefix, err := web.Run(l.q, l.s.DB, kv.Options{}, func(tx kv.Tx) (string, error) {
		return l.s.prefixOf(tx, l.database)
	})
	l.Instance = prefix
	return err
}

// bounds reads key, keys, start_key and end_key. Keys are ids of documents in the list of a database, and else of
// jobs.
func (l *list) bounds() (err error) {
	get := func(names ...string) (id string) {
		for _, name := range names {
			if err == nil && l.q.Query.Has(name) {
				if id != "" {
					err = web.QueryError(name + " is " + names[0] + ", which is given as well")
					break
				}
				id, err = unquoted(name, l.q.Query.Get(name))
			}
		}
		if l.Documents && id != "" {
			id = l.Instance + id
		}
		return id
	}
	l.From, l.To = get("start_key", "startkey"), get("end_key", "endkey")
	if l.q.Query.Get("inclusive_end") == "false" {
		l.end = l.To
	}
	if key := get("key"); key != "" {
		if l.From != "" || l.To != "" {
			return web.QueryError("key does not go together with start_key and end_key")
		}
		l.byKeys, l.keys = true, []string{key}
	}
	if l.byKeys = l.byKeys || l.q.Query.Has("keys"); l.q.Query.Has("keys") && err == nil {
		err = l.readKeyList()
	}
	if err != nil {
		return err
	}
	if l.Documents && l.Instance == "" && (l.byKeys || l.From != "" || l.To != "") {
		return web.QueryError("keys are ids of documents, so they need one database")
	}
	if !l.Documents && l.byKeys {
		return l.findKeys()
	}
	return nil
}

func (l *list) readKeyList() error {
	for _, name := range []string{"key", "start_key", "startkey", "end_key", "endkey", "cursor"} {
		if l.q.Query.Has(name) {
			return web.QueryError("keys does not go together with " + name)
		}
	}
	var keys []*string
	mistake := web.QueryError(fmt.Sprintf("keys must be a JSON array of at most %d strings", manyKeys))
	if json.Unmarshal([]byte(l.q.Query.Get("keys")), &keys) != nil || keys == nil || len(keys) > manyKeys {
		return mistake
	}
	l.keys = make([]string, len(keys))
	for i, key := range keys {
		if key == nil {
			return mistake
		}
		if l.keys[i] = *key; l.Documents {
			l.keys[i] = l.Instance + l.keys[i]
		}
	}
	if l.Descending {
		slices.Reverse(l.keys)
	}
	return nil
}

// findKeys replaces replication ids by those of the jobs that run, or ran last, as them.
func (l *list) findKeys() error {
	for some := range slices.Chunk(l.keys, keysAtOnce) {
		_, err := web.Run(l.q, l.s.DB, glance, func(tx kv.Tx) (struct{}, error) {
			for i, key := range some {
				id, _, err := l.s.Store.Find(tx.Snapshot(), key)
				if err != nil {
					return struct{}{}, err
				}
				if id != "" {
					some[i] = id
				}
			}
			return struct{}{}, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// position is what a cursor holds: where a list goes on, and a digest of that and of the list.
type position struct {
	ID     string `json:"i"`
	Past   bool   `json:"p,omitempty"`
	Skip   int64  `json:"s,omitempty"` // rows that are still to be skipped
	Digest []byte `json:"d"`
}

// digest identifies the list: whatever determines its rows and their order.
func (l *list) digest(p position) []byte {
	rest := url.Values{}
	for name, values := range l.q.Query {
		if name != "limit" && name != "skip" && name != "cursor" {
			rest[name] = values
		}
	}
	of := fmt.Appendf(nil, "%t %s %s ", l.Documents, l.Instance, rest.Encode())
	sum := sha256.Sum256(fmt.Appendf(of, "%q %t %d", p.ID, p.Past, p.Skip))
	return sum[:8]
}

func (l *list) cursorAt(at jobstore.Position) string {
	p := position{ID: at.ID, Past: at.Past, Skip: l.Skip}
	p.Digest = l.digest(p)
	text, _ := json.Marshal(p) // plain texts and numbers
	return base64.RawURLEncoding.EncodeToString(text)
}

// readCursor reads where the list goes on.
func (l *list) readCursor() error {
	if !l.q.Query.Has("cursor") {
		return nil
	}
	if l.q.Query.Has("skip") || l.byKeys {
		return web.QueryError("cursor says where the page begins, so it does not go together with skip, key and keys")
	}
	text, err := base64.RawURLEncoding.DecodeString(l.q.Query.Get("cursor"))
	var p position
	if err != nil || json.Unmarshal(text, &p) != nil {
		return web.QueryError("cursor must be one that an answer had")
	}
	if string(l.digest(p)) != string(p.Digest) {
		return web.QueryError("cursor is of another list: all parameters but limit must be those of the request " +
			"whose answer had it, and the database must be the same; without a cursor the list begins anew")
	}
	l.At, l.Skip = jobstore.Position{ID: p.ID, Past: p.Past}, p.Skip
	return nil
}
