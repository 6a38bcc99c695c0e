package main

import (
	"context"
	"sync"

	"couchrelay/adapters/inspect"
	"couchrelay/adapters/web/relay"
	"couchrelay/core/check"
	coreconfig "couchrelay/core/config"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
)

// upkeep is relay.Upkeep of a service.
type upkeep struct {
	db       sealedStore
	prefix   string
	checking *sync.Mutex // held during a check: one takes all that the disk can give
}

// rootOf is where a service has its rows.
func rootOf(keyPrefix string) tuple.Subspace { return tuple.Subspace(tuple.Pack(keyPrefix)) }

// Check is relay.Upkeep's.
func (u *upkeep) Check(
	ctx context.Context, repair bool, tell func(inspect.Told) error,
) (inspect.Summary, error) {
	if !u.checking.TryLock() {
		return inspect.Summary{}, relay.ErrBusy
	}
	defer u.checking.Unlock()
	return inspect.Run(ctx, u.inspection(repair, tell))
}

// inspection is a check of the store below the encryption.
func (u *upkeep) inspection(repair bool, tell func(inspect.Told) error) inspect.Options {
	return inspect.Options{
		DB: u.db.store, Root: rootOf(u.prefix), Open: u.db.sealed.Open, Repair: repair, Tell: tell,
		Beside: []check.Section{u.db.keeper.Section()},
	}
}

// discard removes a job that cannot be read; see jobstore.Discard.
func (u *upkeep) discard(ctx context.Context, jobID string) error {
	store := jobstore.New(rootOf(u.prefix), coreconfig.Default().Replicator)
	return kv.Do(ctx, u.db, func(tx kv.Tx) error { return jobstore.Discard(tx, store, jobID) })
}
