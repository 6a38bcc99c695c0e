// Package couchdb is CouchDB's interface to databases over core/docs: documents, attachments, bulk
// operations, changes. It translates and streams; the core and the Options decide what is allowed and what a
// write means.
package couchdb

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strings"

	"couchrelay/adapters/javascript"
	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"

	"github.com/benbjohnson/clock"
)

// Options of a server of databases. The functions may be nil.
type Options struct {
	Store kv.Database
	Docs  *docs.Store
	// Access decides what a client may do with the database that Param("db") names, List whether it may see
	// the names of all databases. Without them everybody may do everything.
	Access, List web.Access
	Clock        clock.Clock // nil for the real one

	// Members are names with an underscore that documents may have besides CouchDB's own.
	Members []string
	// View returns what the client may see of a document; its error is the answer where one document is asked for, and
	// the document is left out of lists.
	View func(q *web.Request, d *docs.Document) (*docs.Document, error)
	// Prepare is called with edits before they are written, outside of the transaction. It may change their bodies.
	Prepare func(q *web.Request, edits []docs.Edit) error
	// Write writes documents, in the place of db.Update and like it: it may write more in the same
	// transaction.
	Write func(q *web.Request, tx kv.Tx, db *docs.Database, edits []docs.Edit) ([]docs.Written, error)
	// Wrote, unless nil, is called with edits that were written, or refused, once their transaction has committed.
	Wrote func(q *web.Request, edits []docs.Edit, written []docs.Written)
	// Drop is called before a database is deleted, in the same transaction.
	Drop func(tx kv.Tx, db *docs.Database)
	// Dropped is called after a deletion was tried, with a context that lives on when the client goes.
	Dropped func(ctx context.Context)

	// Functions runs filters of feeds, which are refused without it.
	Functions *javascript.Engine

	UUID     string   // of the server, as GET / tells
	Features []string // likewise
	// Limits are those of a server that New returns.
	Limits web.Limits
}

// version is the version of CouchDB's interface, as GET / tells.
const version = "3.5.0"

// New returns a server of databases alone.
func New(o Options) http.Handler {
	up := func(q *web.Request) error { return q.SendRaw(http.StatusOK, []byte(`{"status":"ok","seeds":{}}`)) }
	r := web.NewRouter(nil, append([]web.Route{{Method: "GET", Path: "/_up", Handler: up}}, Routes(o)...))
	r.Limits = func() web.Limits { return o.Limits }
	return r
}

// Routes returns the endpoints of databases: /, /_uuids, /_all_dbs and all below /{db}, which takes every
// path that no route before it did.
func Routes(o Options) []web.Route {
	if o.Clock == nil {
		o.Clock = clock.New()
	}
	return (&server{o}).routes()
}

type server struct{ Options }

// request is a request for a database.
type request struct {
	*web.Request
	*server
	database, id, attachment string // from the path
}

// row is a line of the table of endpoints.
type row struct {
	method, path string
	access       web.Access
	handler      func(*request) error
}

// routes lists the endpoints.
func (s *server) routes() []web.Route {
	anybody, list := web.Access(nil), s.List
	database, document, attachment := s.mayUse, s.mayUseDocument, s.mayUseAttachment
	rows := []row{
		{"GET", "/", anybody, (*request).welcome},
		{"GET", "/_uuids", anybody, (*request).uuids},
		{"GET", "/_all_dbs", list, allDatabases},
		{"GET", "/_dbs_info", list, databasesInfo},
		{"POST", "/_dbs_info", list, namedDatabasesInfo},
		{web.Any, "/_db_updates", anybody, notBuilt},
		{web.Any, "/_search_analyze", anybody, notBuilt},
		{web.Any, "/_nouveau_analyze", anybody, notBuilt},

		{"GET", "/{db}", database, (*request).databaseInfo},
		{"PUT", "/{db}", database, (*request).createDatabase},
		{"POST", "/{db}", database, (*request).postDocument},
		{"DELETE", "/{db}", database, (*request).deleteDatabase},
		{"GET", "/{db}/_changes", database, (*request).changes},
		{"POST", "/{db}/_changes", database, (*request).changes},
		{"POST", "/{db}/_bulk_docs", database, (*request).bulkDocs},
		{"POST", "/{db}/_bulk_get", database, (*request).bulkGet},
		{"POST", "/{db}/_revs_diff", database, (*request).revsDiff},
		{"POST", "/{db}/_missing_revs", database, missingRevs},
		{"POST", "/{db}/_ensure_full_commit", database, (*request).ensureFullCommit},
		{"POST", "/{db}/_compact", database, compact},
		{"POST", "/{db}/_compact/{rest...}", database, compactViews},
		{"POST", "/{db}/_view_cleanup", database, cleanUp},
		{"GET", "/{db}/_temp_view", database, noTemporaryViews},
		{"POST", "/{db}/_temp_view", database, noTemporaryViews},
		{web.Any, "/{db}/_partition/{rest...}", database, notPartitioned},
		{"POST", "/{db}/_purge", database, noPurge},
		{"GET", "/{db}/_purged_infos", database, purged},
	}
	rows = append(rows, listings(database)...)
	for _, name := range reserved {
		if name != "_compact" && name != "_partition" {
			rows = append(rows, row{web.Any, "/{db}/" + name + "/{rest...}", database, notBuilt})
		}
	}
	rows = append(rows, []row{
		{"GET", "/{db}/{docid}", document, (*request).getDocument},
		{"PUT", "/{db}/{docid}", document, (*request).putDocument},
		{"DELETE", "/{db}/{docid}", document, (*request).deleteDocument},
		{"POST", "/{db}/{docid}", document, notBuilt},
		{"COPY", "/{db}/{docid}", document, copyDocument},
		{"GET", "/{db}/{docid}/{attachment...}", attachment, (*request).getAttachment},
		{"PUT", "/{db}/{docid}/{attachment...}", attachment, (*request).putAttachment},
		{"DELETE", "/{db}/{docid}/{attachment...}", attachment, (*request).deleteAttachment},
	}...)
	routes := make([]web.Route, len(rows))
	for i, r := range rows {
		routes[i] = web.Route{Method: r.method, Path: r.path, Access: r.access, Handler: s.handler(r.handler)}
	}
	return routes
}

// listings are the endpoints that show many documents.
func listings(database web.Access) []row {
	return []row{
		{"GET", "/{db}/_all_docs", database, listOf(everything)},
		{"POST", "/{db}/_all_docs", database, listOf(everything)},
		{"POST", "/{db}/_all_docs/queries", database, queriesOf(everything)},
		{"GET", "/{db}/_design_docs", database, listOf(designs)},
		{"POST", "/{db}/_design_docs", database, listOf(designs)},
		{"POST", "/{db}/_design_docs/queries", database, queriesOf(designs)},
		{"GET", "/{db}/_local_docs", database, listOf(locals)},
		{"POST", "/{db}/_local_docs", database, listOf(locals)},
		{"POST", "/{db}/_local_docs/queries", database, queriesOf(locals)},
		{"POST", "/{db}/_find", database, find},
		{"POST", "/{db}/_explain", database, explainFind},
		{"GET", "/{db}/_index", database, indexes},
		{"POST", "/{db}/_index", database, noIndex},
		{"DELETE", "/{db}/_index/{rest...}", database, noSuchIndex},
		{"GET", "/{db}/_security", database, (*request).security},
		{"PUT", "/{db}/_security", database, (*request).setSecurity},
		{"GET", "/{db}/_revs_limit", database, (*request).revsLimit},
		{"PUT", "/{db}/_revs_limit", database, (*request).setRevsLimit},
	}
}

// reserved are the names below a database that are no documents. Paths with them that have no row of their
// own belong to parts of CouchDB's interface that are not built.
var reserved = []string{
	"_all_docs", "_auto_purge", "_bulk_docs", "_bulk_get", "_changes", "_compact", "_design_docs",
	"_ensure_full_commit", "_explain", "_find", "_index", "_local_docs", "_missing_revs", "_partition", "_purge",
	"_purged_infos", "_purged_infos_limit", "_revs_diff", "_revs_limit", "_security", "_shards", "_sync_shards",
	"_temp_view", "_view_cleanup",
}

var errNotBuilt = web.NotImplemented("this feature is not yet implemented")

func notBuilt(*request) error { return errNotBuilt }

// handler returns h as a handler for the router.
func (s *server) handler(h func(*request) error) web.Handler {
	return func(q *web.Request) error {
		db, id, attachment := q.Param("db"), q.Param("docid"), q.Param("attachment")
		return h(&request{Request: q, server: s, database: db, id: id, attachment: attachment})
	}
}

// mayUse is the access to a database.
func (s *server) mayUse(q *web.Request) error {
	database := q.Param("db")
	if strings.HasPrefix(database, "_") && docs.ValidName(database) != nil && q.Method != http.MethodPut {
		return docs.ErrNoDatabase // a path that means nothing is nothing to ask a password for
	}
	if s.Access != nil {
		return s.Access(q)
	}
	return nil
}

// mayUseDocument is the access to a document, which includes that the path can be one's.
func (s *server) mayUseDocument(q *web.Request) error {
	if err := s.mayUse(q); err != nil {
		return err
	}
	if id := q.Param("docid"); id == "_local" || id == "_local/" {
		return web.BadRequest("Invalid _local document id.")
	}
	return nil
}

// mayUseAttachment is the access to an attachment. Below a design document the path may be that of a view or
// a list.
func (s *server) mayUseAttachment(q *web.Request) error {
	if err := s.mayUse(q); err != nil {
		return err
	}
	switch id := q.Param("docid"); {
	case docs.IsLocal(id):
		return web.BadRequest("_local documents do not accept attachments.")
	case strings.HasPrefix(id, "_design/") && strings.HasPrefix(q.Param("attachment"), "_"):
		return web.NotImplemented("this service runs no views, shows, lists, updates and rewrites of design " +
			"documents; _all_docs, _changes and _find show its documents")
	}
	return nil
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it cannot fail
	return b
}

func newToken() uint64 { return binary.BigEndian.Uint64(random(8)) }

func newUUID() tuple.UUID { return tuple.UUID(random(16)) }

func newID() string { return hex.EncodeToString(random(16)) }

func (s *server) now() instant.Time { return instant.Of(s.Clock.Now()) }
