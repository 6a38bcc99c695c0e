// Package relay is the interface of the replication service: /_replicate, /_scheduler, /_active_tasks, the
// replicator databases, and the state of nodes for operators.
package relay

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/javascript"
	"couchrelay/adapters/metrics"
	"couchrelay/adapters/seal"
	"couchrelay/adapters/web"
	"couchrelay/adapters/web/dashboard"
	"couchrelay/adapters/web/login"
	"couchrelay/core/follow"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/ratelimit"

	"github.com/benbjohnson/clock"
)

// Options of a server of the replication service.
type Options struct {
	DB    kv.Database
	Store *jobstore.Store
	// Followed has the databases that are followed. Nil stands for a service that follows none.
	Followed *follow.Store
	Clock    clock.Clock
	// Login finds out which user sends a request. Nil stands for one that knows no admin.
	Login *login.Login
	Host  Host
	// Numbers are what the runs of this node say of themselves at present, by job; the store hears of it some
	// seconds later. Nil stands for a node that runs none.
	Numbers func(context.Context) map[string]jobstore.Stats
	// Fauxton has the files of CouchDB's web interface; nil for none.
	Fauxton fs.FS
	// Functions runs filters of feeds; nil for none.
	Functions *javascript.Engine
	// Keys seal credentials in the store.
	Keys *seal.Keeper
	// Upkeep looks after the store; nil for none.
	Upkeep Upkeep
	// Logger tells operators what users do. Nil discards it.
	Logger *slog.Logger
	// Record, unless nil, is told of each request that changes something, and of each refused login; see web.Router.
	Record func(q *web.Request, took time.Duration)
	// Limits are those of requests; see web.Router.
	Limits func() web.Limits
	// Meter counts what the process does. Nil stands for one of its own, which counts requests alone.
	Meter *metrics.Meter
	// Present returns what the process knows of its present, for metrics: a State without what is stored. Nil stands
	// for nothing.
	Present func(context.Context) metrics.State
	// Pauses are the endpoints whose requests this node holds back, since their servers have asked for fewer. Nil
	// stands for none.
	Pauses func() []ratelimit.Kept
	// Available returns a context that ends when the store goes away, with the reason as its cause; see
	// web.WhileAvailable. Nil stands for a store that never does.
	Available func() context.Context
}

// New returns the server of the replication service. A node without the role api_frontend serves only what
// operators need.
func New(o Options) http.Handler {
	s := assemble(o)
	router := web.NewRouter(s.Login.Guard, s.routes())
	router.Record, router.Limits, router.Answered = s.Record, s.Limits, s.Meter.Answered
	return s.whileAvailable(router)
}

// assemble returns the service of options, with what stands for those that are nil.
func assemble(o Options) *service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Login == nil {
		o.Login = openDoor(o)
	}
	if o.Numbers == nil {
		o.Numbers = func(context.Context) map[string]jobstore.Stats { return nil }
	}
	if o.Meter == nil {
		o.Meter = metrics.New("", o.Clock.Now())
	}
	return &service{Options: o, began: o.Clock.Now(), scrapes: make(chan struct{}, maxScrapes)}
}

// whileAvailable has the requests of a handler end when the store goes away.
func (s *service) whileAvailable(h http.Handler) http.Handler {
	if s.Available == nil {
		return h
	}
	return web.WhileAvailable(s.Available, h)
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

type service struct {
	Options
	began   time.Time
	scrapes chan struct{} // has one for each answer with metrics under way
	// deletions counts the databases that were deleted since a sweep for them began; 0 while there is none.
	deletions atomic.Int64
}

// routes lists the endpoints, each behind its rule. Those of databases come last, since they take every path.
func (s *service) routes() []web.Route {
	routes := slices.Concat(configAPI{s}.routes(), monitor{s}.routes(), standing{s}.routes(), []web.Route{
		{Method: "GET", Path: "/_up", Handler: s.up},
		{Method: "GET", Path: "/_membership", Handler: s.membership},
		{Method: "GET", Path: rekeyPath, Handler: plainly(configAPI{s}.forThis(keyAPI{s}.status))},
		{Method: "POST", Path: rekeyPath, Handler: plainly(configAPI{s}.forThis(meant(keyAPI{s}.rekey)))},
		{Method: "DELETE", Path: rekeyPath, Handler: plainly(configAPI{s}.forThis(keyAPI{s}.drop))},
		{Method: "GET", Path: checkPath, Handler: plainly(configAPI{s}.forThis(upkeepAPI{s}.check))},
		{Method: "POST", Path: checkPath, Handler: plainly(configAPI{s}.forThis(meant(upkeepAPI{s}.repair)))},
		{Method: "POST", Path: backupPath, Handler: plainly(configAPI{s}.forThis(meant(upkeepAPI{s}.backup)))},
		{Method: "GET", Path: "/_node/{node}", Handler: s.oneNode},
		{Method: web.Any, Path: "/_node/{node}/{part...}", Handler: noPart},
		{Method: "GET", Path: "/_cluster_setup", Handler: s.clusterSetup},
		{Method: "POST", Path: "/_cluster_setup", Handler: noSetup},
		{Method: "GET", Path: "/_scheduler/nodes", Handler: plainly(s.listNodes)},
		{Method: "GET", Path: "/_scheduler/jobs", Handler: s.listJobs},
		// The slashes of an id, which has that of a document, need not be escaped.
		{Method: "GET", Path: "/_scheduler/jobs/{id...}", Handler: s.oneJob},
		{Method: "POST", Path: "/_scheduler/jobs/{id...}", Handler: control{s}.order},
		{Method: "GET", Path: "/_scheduler/follow", Handler: plainly(s.listFollowed)},
		{Method: "GET", Path: "/_scheduler/holds", Handler: plainly(control{s}.listHolds)},
		{Method: "POST", Path: "/_scheduler/holds", Handler: plainly(control{s}.makeHold)},
		{Method: "GET", Path: "/_scheduler/holds/{id...}", Handler: plainly(control{s}.oneHold)},
		{Method: "DELETE", Path: "/_scheduler/holds/{id...}", Handler: plainly(control{s}.liftHold)},
		{Method: "GET", Path: "/_scheduler/docs", Handler: s.listDocs},
		{Method: "GET", Path: "/_scheduler/docs/{doc...}", Handler: s.docs},
		{Method: "GET", Path: "/_scheduler/{list...}", Handler: noList},
		{Method: "GET", Path: "/_active_tasks", Handler: s.activeTasks},
		{Method: "POST", Path: "/_replicate", Handler: s.replicate},
		{Method: "GET", Path: "/_utils/{file...}", Handler: s.fauxton},
		{Method: "GET", Path: "/_dashboard/{file...}", Handler: dashboard.Serve},
	}, s.Login.Routes(), databases{s}.routes())
	for i := range routes {
		routes[i] = gate{s}.guarded(routes[i])
	}
	return routes
}

// sweepTime bounds the work of this process for databases that were deleted. A node does the rest.
const sweepTime = time.Minute

// sweep removes the jobs of a database that was just deleted, which no list shows any more, in the background. A sweep
// under way does that, too: one for each of a thousand databases would conflict with all others.
func (s *service) sweep(ctx context.Context) {
	if s.deletions.Add(1) > 1 {
		return
	}
	go func() {
		for seen := int64(0); !s.deletions.CompareAndSwap(seen, 0); {
			seen = s.deletions.Load()
			s.sweepAll(ctx)
		}
	}()
}

// sweepAll removes the jobs of all deleted databases.
func (s *service) sweepAll(ctx context.Context) {
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
