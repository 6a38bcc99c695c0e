package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"couchrelay/adapters/couch"
	"couchrelay/adapters/javascript"
	"couchrelay/adapters/loop"
	coreconfig "couchrelay/core/config"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
	"couchrelay/core/peer"
	"couchrelay/core/reach"

	"github.com/benbjohnson/clock"
)

// startPause is the time between two attempts to prepare the store. Tests shorten it.
var startPause = time.Second

// prepare prepares the store and puts the service on it. It waits for a store that does not answer, and tries
// again after errors that can pass. It returns an error when no attempt can succeed, or when ctx has ended.
func (s *service) prepare(ctx context.Context) error {
	made := false
	for {
		err := s.prepareOnce(ctx, &made)
		switch {
		case err == nil:
			close(s.prepared)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !passes(err):
			return err
		}
		s.mu.Lock()
		known := s.delayed != nil && s.delayed.Error() == err.Error()
		s.delayed = err
		s.mu.Unlock()
		if !known {
			s.logger.Warn("start_delayed", "error", err, "detail", "trying again")
		}
		select {
		case <-time.After(startPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// passes reports whether an error of the start can pass by itself. Store errors from 2000 on are mistakes in
// the use of the store.
func passes(err error) bool {
	const mistakes = 2000
	code := kv.CodeOf(err)
	return code != 0 && code < mistakes
}

// prepareOnce is one attempt. It may be repeated, whatever it has done. made is whether an attempt has made the store,
// perhaps without hearing of it, and the log is yet to tell that.
func (s *service) prepareOnce(ctx context.Context, made *bool) error {
	c := s.started // what requests change meanwhile that is read here is for the next start
	root := tuple.Subspace(tuple.Pack(c.KeyPrefix))
	if err := s.db.keeper.Check(ctx); err != nil {
		return err
	}
	uuid, err := kv.Run(ctx, s.db, func(tx kv.Tx) (string, error) {
		old, isNew, err := jobstore.Init(tx, root, cmp.Or(c.UUID, randomHex(16)))
		*made = *made || isNew
		if err == nil && c.UUID != "" && c.UUID != old && s.db.Exclusive() {
			jobstore.KeysBelow(root).Rename(tx, c.UUID) // or a restored store would have one that no checkpoint has
		}
		return old, err
	})
	if err != nil {
		return fmt.Errorf("store, key prefix %q: %w", c.KeyPrefix, err)
	}
	if *made {
		*made = false
		s.logger.Info("store_created", "uuid", uuid, "key_prefix", c.KeyPrefix, "detail", "the store was empty")
	}
	switch {
	case c.UUID == "":
		c.Replicator.Server.UUID = uuid
	case c.UUID != uuid && !s.db.Exclusive():
		s.logger.Warn("uuid_differs", "configured", c.UUID, "stored", uuid,
			"detail", "[couchdb] uuid must be the same on all nodes: "+
				"a job whose nodes have different ones does not find its checkpoints")
	}
	if shared, ok := s.db.store.(interface{ Expect(key, value []byte) }); ok {
		shared.Expect(jobstore.KeysBelow(root).UUID, []byte(uuid)) // or nodes would take an emptied store for theirs
	}
	s.uuid = c.Replicator.Server.UUID
	s.store = jobstore.New(root, c.Replicator)
	s.store.Functions = javascript.New()
	err = s.db.keeper.Register(ctx, func(tx kv.Tx) { jobstore.Sealed(tx, s.store.Keys) })
	if err != nil {
		return err
	}
	s.store.Jobs.Incarnation, err = kv.Run(ctx, s.db, func(tx kv.Tx) (int64, error) {
		return jobstore.Incarnate(tx, s.store.Keys)
	})
	if err != nil {
		return fmt.Errorf("incarnation of the store: %w", err)
	}
	if err := s.shareAll(ctx, c.Replicator.Sharing); err != nil {
		return err
	}
	if c.CreateReplicatorDB {
		if err := createReplicatorDB(ctx, s.db, s.store.Docs, instant.Of(time.Now())); err != nil {
			return err
		}
	}
	if err := followAll(ctx, s, c); err != nil {
		return err
	}
	s.begin()
	return s.follow(c)
}

// begin makes the loop, with the settings that are in force by now, and opens the service for requests.
func (s *service) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	wall := clock.New()
	breaches := loop.NewBreaches(s.logger, wall)
	broken := func(b *invariant.Broken) {
		s.meter.InvariantBroken()
		breaches.Report(b)
	}
	s.client = couch.New(clientOptions(s, broken))
	s.loop = loop.New(loop.Options{
		DB: s.db, Store: s.store, Clock: wall, Logger: s.logger, Log: s.log, Away: s.db.Err,
		Broken: broken, Meter: s.meter.Engine,
		Client: s.client, Memory: s.started.RunMemory,
		Node: node.Config{
			Settings: s.config.Node, Name: s.name, Version: version, Roles: s.roles,
			Worker: s.name + "/" + randomHex(8), Exclusive: s.db.Exclusive(), Seed: randomSeed(),
			Settling: s.started.Settling,
		},
	})
	s.follows = newFollows(s, broken)
	s.serve(s.store)
}

// clientOptions are those of clients of endpoints.
func clientOptions(s *service, broken func(*invariant.Broken)) couch.Options {
	return couch.Options{
		Version: version, Clock: clock.New(), TLS: s.outside.trust.Config, Broken: broken,
		Files:          s.outside.files,
		Secrets:        couch.Secrets{Directory: s.started.Secrets.Directory},
		RequestTimeout: s.started.Client.RequestTimeout, IdleTimeout: s.started.Client.IdleTimeout,
		Auth:      s.started.Client.Auth,
		Reach:     func(user string, admin bool) *reach.Policy { return s.outside.gates.Load().of(user, admin) },
		PlainHTTP: plainHTTP(s.started.Client, s.logger),
		Attempted: s.meter.Attempted,
	}
}

// plainHTTP returns what logs endpoints without TLS, nil if nothing does.
func plainHTTP(c coreconfig.Client, logger *slog.Logger) func(peer.Side, string) {
	if !c.WarnPlain {
		return nil
	}
	return func(side peer.Side, url string) { logger.Warn("plain_http", "side", side.String(), "url", url) }
}

// available returns a context that lasts as long as requests can use the store; see web.WhileAvailable.
func (s *service) available() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loop != nil {
		return s.db.Available()
	}
	starting := fmt.Errorf("%w: the node is starting", kv.ErrUnavailable)
	if cause := cmp.Or(s.db.Err(), s.delayed); cause != nil {
		starting = fmt.Errorf("%w, and waits for the store: %w", starting, cause)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(starting)
	return ctx
}

// createReplicatorDB creates the database _replicator unless it exists.
func createReplicatorDB(ctx context.Context, db kv.Database, store *docs.Store, now instant.Time) error {
	instance := tuple.UUID(randomBytes(16))
	return kv.Do(ctx, db, func(tx kv.Tx) error {
		_, err := store.Open(tx, "_replicator")
		if errors.Is(err, docs.ErrNoDatabase) {
			err = store.Create(tx, "_replicator", instance, now)
		}
		return err
	})
}
