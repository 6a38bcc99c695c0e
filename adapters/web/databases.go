// Package web serves HTTP. This part is CouchDB's interface to databases over core/docs: documents,
// attachments, bulk operations, changes. It translates and streams; what is allowed and what a write
// means is decided in the core and by the Access that its user gives.
package web

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"

	"github.com/benbjohnson/clock"
)

// Options of Databases.
type Options struct {
	Store kv.Database
	Docs  *docs.Store
	// Access decides what a request may do with a database. Its errors are answered; use docs.Unauthorized
	// and docs.Forbidden. Without it everybody may do everything.
	Access func(r *http.Request, database string) (Access, error)
	// List decides whether a request may see the names of all databases. Its error is answered. Without it
	// everybody may.
	List   func(r *http.Request) error
	Clock  clock.Clock // nil for the real one
	Limits Limits

	UUID    string // of the server, as GET / tells
	Version string // of CouchDB's interface, as GET / tells; 3.5.0 when empty
}

// Access is how a request deals with a database. The zero value is a plain database.
type Access struct {
	// Members are names with an underscore that documents may have besides CouchDB's own.
	Members []string
	// Write writes documents, in the place of db.Update and like it: it may write more in the same
	// transaction.
	Write func(tx kv.Tx, db *docs.Database, edits []docs.Edit) ([]docs.Written, error)
	// Show changes what the client is shown of a document, in place.
	Show func(d *docs.Document)
	// Drop is called before the database is deleted, in the same transaction.
	Drop func(tx kv.Tx, db *docs.Database) error
}

// Limits of requests in bytes; 0 is the default.
type Limits struct {
	Document   int64 // body of one document without attachments, 8,000,000
	Attachment int64 // stored bytes of one attachment, 1 GiB
	Request    int64 // a request that has to be in memory: everything but attachments, 64 MiB
}

// Databases serves /, /_up, /_uuids, /_all_dbs and the databases.
func Databases(o Options) http.Handler {
	if o.Clock == nil {
		o.Clock = clock.New()
	}
	if o.Version == "" {
		o.Version = "3.5.0"
	}
	orDefault(&o.Limits.Document, docs.MaxBody)
	orDefault(&o.Limits.Attachment, 1<<30)
	orDefault(&o.Limits.Request, 64<<20)
	return &server{o}
}

func orDefault(limit *int64, value int64) {
	if *limit == 0 {
		*limit = value
	}
}

type server struct{ Options }

// ServeHTTP answers a request.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setServerHeaders(w.Header())
	q := &request{Request: r, w: w, server: s, method: r.Method}
	if q.method == http.MethodHead {
		q.method = http.MethodGet // net/http sends no body
	}
	if err := q.route(); err != nil {
		q.fail(err)
	}
}

// setServerHeaders sets what every answer of CouchDB carries.
func setServerHeaders(h http.Header) {
	h.Set("Server", "couchrelay")
	h.Set("X-Couch-Request-ID", hex.EncodeToString(random(5)))
	h.Set("X-CouchDB-Body-Time", "0")
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

// handlers are what answers the methods of a path.
type handlers map[string]func(q *request) error

var (
	rootHandlers = map[string]handlers{
		"":          {"GET": (*request).welcome},
		"_up":       {"GET": (*request).up},
		"_uuids":    {"GET": (*request).uuids},
		"_all_dbs":  {"GET": (*request).allDatabases},
		"_dbs_info": nil, "_db_updates": nil, "_search_analyze": nil, "_nouveau_analyze": nil,
	}
	databaseHandlers = handlers{"PUT": (*request).createDatabase, "GET": (*request).databaseInfo,
		"DELETE": (*request).deleteDatabase, "POST": (*request).postDocument}
	specialHandlers = map[string]handlers{
		"_bulk_docs":          {"POST": (*request).bulkDocs},
		"_bulk_get":           {"POST": (*request).bulkGet},
		"_revs_diff":          {"POST": (*request).revsDiff},
		"_all_docs":           {"GET": (*request).allDocs, "POST": (*request).allDocs},
		"_changes":            {"GET": (*request).changes, "POST": (*request).changes},
		"_ensure_full_commit": {"POST": (*request).ensureFullCommit},
		"_security":           {"GET": (*request).security, "PUT": (*request).setSecurity},
		"_revs_limit":         {"GET": (*request).revsLimit, "PUT": (*request).setRevsLimit},
		"_find":               nil, "_index": nil, "_explain": nil, "_missing_revs": nil, "_purge": nil, "_purged_infos": nil,
		"_purged_infos_limit": nil, "_design_docs": nil, "_local_docs": nil, "_compact": nil, "_view_cleanup": nil,
		"_shards": nil, "_sync_shards": nil, "_partition": nil, "_auto_purge": nil, "_temp_view": nil,
	}
	documentHandlers = handlers{"GET": (*request).getDocument, "PUT": (*request).putDocument, "DELETE": (*request).deleteDocument,
		"POST": nil, "COPY": nil}
	attachmentHandlers = handlers{"GET": (*request).getAttachment, "PUT": (*request).putAttachment, "DELETE": (*request).deleteAttachment}
)

// route finds the handler of a path and lets it answer.
func (q *request) route() error {
	path, err := splitPath(q.URL.EscapedPath())
	if err != nil {
		return err
	}
	if q.query, err = parseQuery(q.URL.RawQuery); err != nil {
		return err
	}
	if len(path) <= 1 {
		if hs, found := rootHandlers[strings.Join(path, "")]; found {
			return q.handle(hs)
		}
	}
	q.database = path[0]
	if strings.HasPrefix(q.database, "_") && docs.ValidName(q.database) != nil && q.method != http.MethodPut {
		return docs.ErrNoDatabase
	}
	if q.Options.Access != nil {
		if q.access, err = q.Options.Access(q.Request, q.database); err != nil {
			return err
		}
	}
	if path = path[1:]; len(path) == 0 {
		return q.handle(databaseHandlers)
	}
	if hs, found := specialHandlers[path[0]]; found {
		if len(path) > 1 {
			return notBuilt
		}
		return q.handle(hs)
	}
	return q.routeDocument(path)
}

// routeDocument finds the handler of a path below a database: a document's id, of which _design and
// _local take two segments, and behind it an attachment's name, which takes all others.
func (q *request) routeDocument(path []string) error {
	if (path[0] == "_design" || path[0] == "_local") && len(path) > 1 {
		path = append([]string{path[0] + "/" + path[1]}, path[2:]...)
	}
	if docs.IsLocal(path[0]) && len(path) > 1 {
		return docs.BadRequest("_local documents do not accept attachments.")
	}
	if path[0] == "_local" || path[0] == "_local/" {
		return docs.BadRequest("Invalid _local document id.")
	}
	if q.id = path[0]; len(path) == 1 {
		return q.handle(documentHandlers)
	}
	if strings.HasPrefix(path[1], "_") && strings.HasPrefix(q.id, "_design/") {
		return notBuilt // a view, a list, ...
	}
	q.attachment = strings.Join(path[1:], "/")
	return q.handle(attachmentHandlers)
}

func (q *request) handle(hs handlers) error {
	if hs == nil {
		return notBuilt
	}
	if h, found := hs[q.method]; h != nil {
		return h(q)
	} else if found {
		return notBuilt
	}
	var methods []string
	for method := range hs {
		methods = append(methods, method)
		if method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	allow := strings.Join(methods, ",")
	q.w.Header().Set("Allow", allow)
	return &Error{Status: 405, Name: "method_not_allowed", Reason: "Only " + allow + " allowed"}
}
