package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/couch"
	"couchrelay/adapters/eventlog"
	"couchrelay/adapters/loop"
	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/replicator"

	"github.com/benbjohnson/clock"
)

// service is everything that serves, put together on a store.
type service struct {
	db      kv.Database
	store   *replicator.Store
	loop    *loop.Loop
	handler http.Handler
	uuid    string
}

// newService prepares the store and puts a service on it. log may be nil.
func newService(ctx context.Context, db store, c config.Config, name string, log *eventlog.Writer, logger *slog.Logger) (*service, error) {
	s := &service{db: db}
	wall := clock.New()
	root := tuple.Subspace(tuple.Pack(c.KeyPrefix))
	uuid, err := kv.Run(ctx, db, func(tx kv.Tx) (string, error) { return replicator.Init(tx, root, randomHex(16)) })
	if err != nil {
		return nil, fmt.Errorf("store, key prefix %q: %w", c.KeyPrefix, err)
	}
	if c.UUID == "" {
		c.Replicator.Server.UUID = uuid
	}
	s.uuid = c.Replicator.Server.UUID
	s.store = replicator.New(root, c.Replicator)
	if err := s.share(ctx, c.Replicator.Sharing); err != nil {
		return nil, err
	}
	if err := createReplicatorDB(ctx, db, s.store.Docs, instant.Of(wall.Now())); err != nil {
		return nil, err
	}
	admins, err := web.NewAdmins(c.Admins)
	if err != nil {
		return nil, err
	}
	tlsConfig, err := clientTLS(c.TLS)
	if err != nil {
		return nil, err
	}
	s.loop = loop.New(loop.Options{
		DB: db, Store: s.store, Clock: wall, Logger: logger, Log: log,
		Client: couch.New(couch.Options{Version: version, Clock: wall, TLS: tlsConfig}),
		Node: node.Config{
			Settings: c.Node, Name: name, Worker: name + "/" + randomHex(8), Exclusive: db.Exclusive(), Seed: randomSeed(),
			Info: fmt.Appendf(nil, `{"node":%q,"version":%q,"max_jobs":%d}`, name, version, c.Node.MaxJobs),
		},
	})
	s.handler = web.Service(web.ServiceOptions{
		DB: db, Store: s.store, Clock: wall, Admins: admins, Version: version,
		Health: func(ctx context.Context) error {
			if err := db.Err(); err != nil {
				return err
			}
			return kv.Do(ctx, db, func(tx kv.Tx) error { _, err := tx.Get(root.Pack("schema")); return err })
		},
	})
	return s, nil
}

// share puts the settings of sharing in force.
func (s *service) share(ctx context.Context, c replicator.Sharing) error {
	now := instant.Of(time.Now())
	return kv.Do(ctx, s.db, func(tx kv.Tx) error { return s.store.Share(tx, c, now) })
}

// configure changes what can be changed while the service runs.
func (s *service) configure(ctx context.Context, c config.Config) error {
	s.loop.Configure(c.Node)
	return s.share(ctx, c.Replicator.Sharing)
}

// createReplicatorDB makes the database _replicator unless it is there.
func createReplicatorDB(ctx context.Context, db kv.Database, store *docs.Store, now instant.Time) error {
	instance := tuple.UUID(randomBytes(16))
	return kv.Do(ctx, db, func(tx kv.Tx) error {
		if _, err := store.Open(tx, "_replicator"); err == nil {
			return nil
		}
		return store.Create(tx, "_replicator", instance, now)
	})
}

// clientTLS is how connections to endpoints are secured.
func clientTLS(c config.TLS) (*tls.Config, error) {
	t := &tls.Config{InsecureSkipVerify: !c.Verify}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ssl_trusted_certificates_file: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ssl_trusted_certificates_file %s holds no PEM certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert_file, key_file: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// newServer serves a handler with bounds on what a slow client may hold.
func newServer(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
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
