// Package relay is the interface of the replication service: /_replicate, /_scheduler, /_active_tasks, the
// replicator databases, and the state of nodes for operators.
package relay

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/seal"
	"couchrelay/adapters/web"
	"couchrelay/adapters/web/couchdb"
	"couchrelay/adapters/web/login"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"

	"github.com/benbjohnson/clock"
)

// Options of a server of the replication service.
type Options struct {
	DB    kv.Database
	Store *jobstore.Store
	Clock clock.Clock
	// Login finds out which user sends a request. Nil stands for one that knows no admin.
	Login *login.Login
	Host  Host
	// Keys seal credentials in the store.
	Keys *seal.Keeper
	// Logger tells operators what users do. Nil discards it.
	Logger *slog.Logger
	// Available returns a context that ends when the store goes away, with the reason as its cause; see
	// web.WhileAvailable. Nil stands for a store that never does.
	Available func() context.Context
}

// New returns the server of the replication service. A node without the role api_frontend serves only what
// operators need.
func New(o Options) http.Handler {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Login == nil {
		o.Login = openDoor(o)
	}
	s := &service{o}
	router := web.NewRouter(o.Login.Guard, s.routes())
	if o.Available == nil {
		return router
	}
	return web.WhileAvailable(o.Available, router)
}

// openDoor is a Login that takes every client for an admin.
func openDoor(o Options) *login.Login {
	l, err := login.New(login.Options{
		DB: o.DB, Users: o.Store.Docs, Secret: o.Store.Keys.Secret, Clock: o.Clock, Logger: o.Logger,
	}, nil, config.Default().Auth)
	if err != nil {
		panic(err) // there is no password that could be wrong
	}
	return l
}

type service struct{ Options }

// routes lists the endpoints. Those of databases come last, since they take every path.
func (s *service) routes() []web.Route {
	// A node without the role api_frontend answers operators, but no clients.
	anybody, operator, client := web.Access(nil), s.admin, s.onFrontend(s.admin)
	routes := append(configAPI{s}.routes(operator), []web.Route{
		{Method: "GET", Path: "/_up", Access: anybody, Handler: s.up},
		{Method: "GET", Path: "/_membership", Access: operator, Handler: s.membership},
		{Method: "GET", Path: rekeyPath, Access: operator, Handler: configAPI{s}.forThis(keyAPI{s}.status)},
		{Method: "POST", Path: rekeyPath, Access: operator, Handler: configAPI{s}.forThis(keyAPI{s}.rekey)},
		{Method: "DELETE", Path: rekeyPath, Access: operator, Handler: configAPI{s}.forThis(keyAPI{s}.drop)},
		{Method: "GET", Path: "/_node/{node}", Access: operator, Handler: s.oneNode},
		{Method: web.Any, Path: "/_node/{node}/{part...}", Access: operator, Handler: noPart},
		{Method: "GET", Path: "/_scheduler/nodes", Access: operator, Handler: s.listNodes},
		{Method: "GET", Path: "/_scheduler/jobs", Access: client, Handler: s.listJobs},
		// The slashes of an id, which has that of a document, need not be escaped.
		{Method: "GET", Path: "/_scheduler/jobs/{id...}", Access: client, Handler: s.oneJob},
		{Method: "POST", Path: "/_scheduler/jobs/{id...}", Access: client, Handler: control{s}.order},
		{Method: "GET", Path: "/_scheduler/holds", Access: client, Handler: control{s}.listHolds},
		{Method: "POST", Path: "/_scheduler/holds", Access: client, Handler: control{s}.makeHold},
		{Method: "GET", Path: "/_scheduler/holds/{id...}", Access: client, Handler: control{s}.oneHold},
		{Method: "DELETE", Path: "/_scheduler/holds/{id...}", Access: client, Handler: control{s}.liftHold},
		{Method: "GET", Path: "/_scheduler/docs", Access: client, Handler: s.listDocs},
		{Method: "GET", Path: "/_scheduler/docs/{doc...}", Access: client, Handler: s.docs},
		{Method: "GET", Path: "/_scheduler/{list...}", Access: client, Handler: noList},
		{Method: "GET", Path: "/_active_tasks", Access: client, Handler: s.activeTasks},
		{Method: "POST", Path: "/_replicate", Access: client, Handler: s.replicate},
	}...)
	for _, route := range s.Login.Routes() {
		route.Access = s.onFrontend(nil)
		routes = append(routes, route)
	}
	for _, route := range couchdb.Routes(couchdb.Options{
		Store: s.DB, Docs: s.Store.Docs, Clock: s.Clock, UUID: s.Store.Config.Server.UUID,
		// As in CouchDB unless admin_only_all_dbs is false, only admins see the list.
		Access: s.replicatorDB, List: s.admin,
		Members: docs.ReplicationMembers, Write: s.write, Drop: s.drop, Dropped: s.sweep,
		Wrote: func(q *web.Request, edits []docs.Edit, written []docs.Written) {
			reportUnknown(s.Logger, q, edits, written)
		},
	}) {
		if route.Path != "/" {
			route.Access = s.onFrontend(route.Access)
		}
		routes = append(routes, route)
	}
	return routes
}

// admin admits server admins.
func (s *service) admin(q *web.Request) error {
	if !q.User.Admin() {
		return web.Unauthorized("You are not a server admin.") // as in CouchDB, also after a login
	}
	return nil
}

// onFrontend admits the clients that access admits, on nodes with the role api_frontend.
func (s *service) onFrontend(access web.Access) web.Access {
	return func(q *web.Request) error {
		if !s.Host.Roles().Has(node.APIFrontend) {
			return &web.Error{Status: http.StatusMisdirectedRequest, Name: "not_a_frontend",
				Reason: "this node has not the role api_frontend; send the request to one that has, " +
					"see /_scheduler/nodes"}
		}
		if access == nil {
			return nil
		}
		return access(q)
	}
}

// replicatorDB admits admins to replicator databases, in which every write makes or changes a job.
func (s *service) replicatorDB(q *web.Request) error {
	if err := s.admin(q); err != nil {
		return err
	}
	switch {
	case jobstore.IsReplicatorDB(q.Param("db")):
		return nil
	case q.Method == http.MethodPut:
		return web.Forbidden("couchrelay hosts replicator databases only: _replicator and names that end in " +
			"/_replicator")
	}
	return docs.ErrNoDatabase
}

// writer returns the user that a request is from.
func writer(q *web.Request) jobstore.Writer {
	return jobstore.Writer{Name: q.User.Name, Admin: q.User.Admin()}
}

// write writes replication documents together with their jobs.
func (s *service) write(q *web.Request, tx kv.Tx, db *docs.Database, edits []docs.Edit) ([]docs.Written, error) {
	return s.Store.WriteDocs(tx, db, edits, writer(q), s.now())
}

// drop notes that the jobs of a database have to go with it.
func (s *service) drop(tx kv.Tx, db *docs.Database) { s.Store.Drop(tx, db.Instance) }

// sweepTime bounds the work of this process for a database that was deleted. A node does the rest.
const sweepTime = time.Minute

// sweep removes the jobs of a database that was just deleted, which no list shows any more, in the background.
func (s *service) sweep(ctx context.Context) {
	go func() {
		ctx, cancel := context.WithTimeout(ctx, sweepTime)
		defer cancel()
		for {
			began := s.Clock.Now()
			done, err := kv.RunWith(ctx, s.DB, kv.Options{Priority: kv.PriorityBatch, Tag: "sweep"},
				func(tx kv.Tx) (bool, error) { return s.Store.SweepDropped(tx, jobstore.DropLimit) })
			if done || err != nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-s.Clock.After(jobstore.SweepPause(s.Clock.Since(began))):
			}
		}
	}()
}

// up tells load balancers whether to send requests here.
func (s *service) up(q *web.Request) error {
	type health struct {
		Status string `json:"status"`
		Reason string `json:"reason,omitempty"`
	}
	switch s.Host.MaintenanceMode() {
	case "true":
		return q.SendJSON(http.StatusNotFound, health{Status: "maintenance_mode"})
	case "nolb":
		return q.SendJSON(http.StatusNotFound, health{Status: "nolb"})
	}
	_, err := web.Run(q, s.DB, kv.Options{}, func(tx kv.Tx) ([]byte, error) { return tx.Get(s.Store.Keys.Schema) })
	if err != nil {
		return q.SendUnavailable(health{"unavailable", err.Error()})
	}
	return q.SendJSON(http.StatusOK, health{Status: "ok"})
}

func (s *service) now() instant.Time { return instant.Of(s.Clock.Now()) }
