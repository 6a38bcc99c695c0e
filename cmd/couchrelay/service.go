package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"couchrelay/adapters/audit"
	"couchrelay/adapters/certs"
	"couchrelay/adapters/config"
	"couchrelay/adapters/couch"
	"couchrelay/adapters/descriptors"
	"couchrelay/adapters/embedded"
	"couchrelay/adapters/eventlog"
	"couchrelay/adapters/javascript"
	"couchrelay/adapters/loop"
	"couchrelay/adapters/metrics"
	"couchrelay/adapters/seal"
	"couchrelay/adapters/web"
	"couchrelay/adapters/web/login"
	"couchrelay/adapters/web/relay"
	coreconfig "couchrelay/core/config"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/ratelimit"

	"github.com/benbjohnson/clock"
)

// service is the parts of a couchrelay service, put together on a store. While its store is not prepared yet,
// it answers 503 to the requests that need the store, and serves all others.
type service struct {
	db       sealedStore // closed by its opener, not by the service
	name     string      // of the node, as configured
	roles    node.Roles  // of this process; the configuration can change them at the next start only
	outside  outside
	started  config.Config // with which the process began
	handlers handlers
	login    *login.Login
	telling
	entrance entrance

	// Set by prepare, before it closes prepared.
	store    *jobstore.Store
	uuid     string // of the server, as it goes into replication ids
	prepared chan struct{}

	checking sync.Mutex // see upkeep
	changing sync.Mutex // held while the configuration changes, from what it is read to its effect
	layers   layers     // of config; changing guards them
	read     func() (layers, error)

	mu     sync.Mutex    // guards the fields below, and keeps the loop's settings in the order of config's changes
	config config.Config // in force, as far as it can change while the service runs
	machines
	delayed error // the last error of the start
}

// telling is where the service tells what it does.
type telling struct {
	log    *eventlog.Writer
	logger *slog.Logger
	meter  *metrics.Meter
}

// handlers answer requests: all of them, and those that come in by [prometheus] port.
type handlers struct{ all, scrapes handler }

// handler is one that another one may take the place of.
type handler struct{ atomic.Pointer[http.Handler] }

// ServeHTTP answers a request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*h.Load()).ServeHTTP(w, r) }

// machines are what a prepared service runs; nil until then.
type machines struct {
	loop    *loop.Loop
	client  *couch.Client // of the loop
	follows *follows
}

// entrance is what requests meet before the service.
type entrance struct {
	audit *audit.Log
	tls   *certs.Server // of the listener; nil if that has none
	// fauxton has the files of [fauxton] docroot; nil without.
	fauxton fs.FS
}

// newService returns a service that is prepared.
func newService(ctx context.Context, db store, c config.Config, name string,
	log *eventlog.Writer, logger *slog.Logger) (*service, error) {
	s, err := assemble(db, c, name, log, logger)
	if err != nil {
		return nil, err
	}
	return s, s.prepare(ctx)
}

// assemble returns a service that has yet to be prepared. It does not ask the store. log may be nil.
func assemble(db store, c config.Config, name string, log *eventlog.Writer, logger *slog.Logger) (*service, error) {
	meter := metrics.New(version, time.Now())
	s := &service{db: sealing(db, c, logger), name: name, roles: c.Roles, config: c,
		telling: telling{log, logger, meter}, started: c, prepared: make(chan struct{}), layers: layers{files: c}}
	s.outside.files = descriptors.New(descriptors.Limit())
	s.db.counted = meter.Store(s.db.sealed)
	s.entrance.audit = audit.New(logger)
	if err := s.entrance.audit.Open(c.AuditFile); err != nil {
		return nil, err
	}
	if c.SSL.Enable {
		var err error
		if s.entrance.tls, err = certs.NewServer(c.SSL.Listening, clock.New(), logger); err != nil {
			return nil, err
		}
		s.entrance.tls.Failed = meter.CertificateFailed
	}
	if err := noDirectory(c.Secrets.Directory); err != nil {
		logger.Warn("secrets_directory", "error", err, "detail",
			"[secrets] directory is not there: replications that name secrets wait for it, or for the environment")
	}
	var err error
	if s.entrance.fauxton, err = openFauxton(c.Beside.Fauxton); err != nil {
		return nil, err
	}
	s.read = func() (layers, error) { return readLayers(c, s.layers.path, nil) }
	s.outside.gates.Store(newGates(c))
	if s.outside.trust, err = newTrust(c, s.telling); err != nil {
		return nil, err
	}
	store := jobstore.New(tuple.Subspace(tuple.Pack(c.KeyPrefix)), c.Replicator)
	s.login, err = login.New(login.Options{
		DB: s.db, Users: store.Docs, Secret: store.Keys.Secret, Clock: clock.New(), Logger: logger,
		TLS:   func() (*tls.Config, error) { return s.outside.trust.Config("") },
		Files: s.outside.files,
	}, c.Admins, c.Auth)
	if err != nil {
		return nil, err
	}
	s.serve(store)
	return s, nil
}

// noDirectory returns why a directory cannot be used, nil if it can be, or if there is to be none.
func noDirectory(directory string) error {
	if directory == "" {
		return nil
	}
	info, err := os.Stat(directory)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", directory)
	}
	return err
}

// openFauxton returns the files of [fauxton] docroot, nil without it.
func openFauxton(docroot string) (fs.FS, error) {
	if docroot == "" {
		return nil, nil
	}
	files, err := relay.OpenFauxton(docroot)
	if err != nil {
		return nil, fmt.Errorf("[fauxton] docroot = %s: %w", docroot, err)
	}
	return files, nil
}

// newTrust reads the certificates and keys for connections to endpoints.
func newTrust(c config.Config, t telling) (*certs.Source, error) {
	return certs.NewSource(profilesOf(c), clock.New(), func(what string, err error) {
		t.meter.CertificateFailed()
		t.logger.Warn("certificate", "of", what, "error", err)
	})
}

// profilesOf returns the settings of TLS for connections to endpoints by the NAME of [tls NAME]; those of [replicator]
// have the empty name.
func profilesOf(c config.Config) map[string]coreconfig.TLS {
	profiles := map[string]coreconfig.TLS{"": c.TLS}
	maps.Copy(profiles, c.Profiles)
	return profiles
}

// sealedStore is a store that seals credentials, with the keeper of its keys.
type sealedStore struct {
	store
	counted kv.Database // sealed, or what counts its transactions
	sealed  *seal.Database
	keeper  *seal.Keeper
}

// Begin is kv.Database's.
func (s sealedStore) Begin(ctx context.Context, o kv.Options) kv.Transaction {
	return s.counted.Begin(ctx, o)
}

// sealing puts the encryption of credentials around a store.
func sealing(db store, c config.Config, logger *slog.Logger) sealedStore {
	sealed := seal.New(db, seal.ServiceRows(tuple.Pack(c.KeyPrefix)))
	return sealedStore{db, sealed, sealed, seal.NewKeeper(sealed, seal.Options{
		File: c.Secrets.KeyFile, Encrypt: c.Secrets.Encrypt, Create: c.Secrets.MakeKey && db.Exclusive(),
		Exclusive: db.Exclusive(), Logger: logger,
	})}
}

// serve lets a store's handler answer from now on.
func (s *service) serve(store *jobstore.Store) {
	functions, _ := store.Functions.(*javascript.Engine) // none before the store is prepared
	o := relay.Options{
		DB: s.db, Keys: s.db.keeper, Store: store, Followed: followStore(s), Clock: clock.New(),
		Login: s.login, Host: s, Logger: s.logger,
		Upkeep:    &upkeep{s.db, s.started.KeyPrefix, &s.checking},
		Available: s.available, Record: s.entrance.audit.Record, Fauxton: s.entrance.fauxton, Functions: functions,
		Numbers: func(ctx context.Context) map[string]jobstore.Stats {
			s.mu.Lock()
			l := s.loop
			s.mu.Unlock()
			return l.Numbers(ctx)
		},
		Limits: func() web.Limits {
			l := inForce(s).Limits
			return web.Limits{Request: int64(l.Request), Document: int64(l.Document), Attachment: int64(l.Attachment),
				Depth: l.Depth, Memory: int64(l.Memory)}
		},
		Meter: s.meter, Present: func(ctx context.Context) metrics.State { return presentOf(ctx, s) },
		Pauses: func() []ratelimit.Kept {
			s.mu.Lock()
			client := s.client
			s.mu.Unlock()
			return client.Pauses()
		},
	}
	h, scrapes := relay.New(o), relay.NewScrapes(o)
	s.handlers.all.Store(&h)
	s.handlers.scrapes.Store(&scrapes)
}

// presentOf is what this process knows of its present, for metrics.
func presentOf(ctx context.Context, s *service) metrics.State {
	s.mu.Lock()
	m := s.machines
	s.mu.Unlock()
	state := metrics.State{Lags: m.loop.Lags(ctx)}
	if m.follows != nil {
		state.Follows = m.follows.count()
	}
	if s.entrance.tls != nil {
		state.Certificate = s.entrance.tls.Expires()
	}
	return state
}

// ServeHTTP answers a request.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handlers.all.ServeHTTP(w, r)
}

// leaveTime bounds the time that a node takes to give its jobs and its lease back, once its runs have
// stopped.
const leaveTime = 10 * time.Second

// stopLimit returns how long a graceful stop may take: stop_timeout_sec for the runs, and leaveTime to give
// their jobs back. A store that has ended takes nothing back, so there is no time for that.
func (s *service) stopLimit() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.storeEnd() != nil {
		return s.config.Node.StopTimeout
	}
	return min(s.config.Node.StopTimeout, math.MaxInt64-leaveTime) + leaveTime
}

// storeEnd returns why the store has ended for good, nil if it has not. A cluster that does not answer has
// not ended: it may come back.
func (s *service) storeEnd() error {
	if err := s.db.Err(); errors.Is(err, embedded.ErrFailed) {
		return err
	}
	return nil
}

// watchStore returns a channel that is closed soon after the store has ended for good.
func (s *service) watchStore(ctx context.Context) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		poll := time.NewTicker(time.Second)
		defer poll.Stop()
		for s.storeEnd() == nil {
			select {
			case <-poll.C:
			case <-ctx.Done():
				return
			}
		}
		close(ended)
	}()
	return ended
}

// NodeName is relay.Host's.
func (s *service) NodeName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loop == nil {
		return s.name
	}
	return s.loop.Name()
}

// Roles is relay.Host's.
func (s *service) Roles() node.Roles { return s.roles }

// MaintenanceMode is relay.Host's.
func (s *service) MaintenanceMode() string { return inForce(s).Maintenance }

// inForce is the configuration in force. Nothing changes what it returns.
func inForce(s *service) config.Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config
}

// limits returns those of clients, as they are in force when it is called.
func limits(s *service) func() config.Limits {
	return func() config.Limits { return inForce(s).Limits }
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it cannot fail
	return b
}

func randomHex(n int) string { return hex.EncodeToString(randomBytes(n)) }

func randomSeed() (seed uint64) {
	for _, b := range randomBytes(8) {
		seed = seed<<8 | uint64(b)
	}
	return seed
}
