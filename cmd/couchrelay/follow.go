package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/couch"
	"couchrelay/adapters/loop"
	coreconfig "couchrelay/core/config"
	corefollow "couchrelay/core/follow"
	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/jobs"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"
	"couchrelay/core/node"
)

// follows follow databases of other servers for this process.
type follows struct {
	follower *loop.Follower

	mu       sync.Mutex
	list     map[string]config.Followed // by the name of the mirror
	profiles map[string]coreconfig.TLS  // of the servers
}

// newFollows prepares the follower of a service whose store is prepared. The configuration has been written by
// those who may do everything, so the guards of jobs do not hold for its servers.
func newFollows(s *service, broken func(*invariant.Broken)) *follows {
	f := &follows{}
	options := clientOptions(s, broken)
	options.Reach = nil
	client := couch.New(options)
	f.follower = loop.NewFollower(loop.FollowOptions{
		DB: s.db, Store: followStore(s), Clock: options.Clock, Logger: s.logger, Broken: broken,
		Noted: s.meter.FollowNoted,
		Worker: corefollow.Config{
			Worker: s.name + "/" + randomHex(8), Exclusive: s.db.Exclusive(), Seed: randomSeed(),
			Pages: corefollow.DefaultPages(),
		},
		Connect: func(job string) (*couch.Pair, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			one, has := f.list[job]
			if !has {
				return nil, fmt.Errorf("no [follow NAME] has database %s", job)
			}
			return client.Pair(one.Connect)
		},
	})
	return f
}

// configure has the follower follow other databases, or connect in other ways, if they differ.
func (f *follows) configure(list []config.Followed, profiles map[string]coreconfig.TLS) {
	all, ids := map[string]config.Followed{}, make([]string, len(list))
	for i, one := range list {
		ids[i] = one.ID()
		all[one.ID()] = one
	}
	f.mu.Lock()
	same := reflect.DeepEqual(all, f.list) && maps.Equal(profiles, f.profiles)
	f.list, f.profiles = all, profiles
	f.mu.Unlock()
	if !same {
		f.follower.Configure(ids)
	}
}

// run runs the follower until ctx ends or it has left, and returns a channel that is closed then.
func (f *follows) run(ctx context.Context) <-chan struct{} {
	left := make(chan struct{})
	go func() {
		defer close(left)
		f.follower.Run(ctx)
	}()
	return left
}

// count returns how many databases are followed.
func (f *follows) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.list)
}

func (f *follows) drain() { f.follower.Drain() }

func followStore(s *service) *corefollow.Store {
	return corefollow.NewStore(tuple.Subspace(tuple.Pack(s.started.KeyPrefix)), s.store)
}

// followAll makes the mirrors of a configuration's databases, and removes others. A node that runs no jobs leaves
// that to those that do.
func followAll(ctx context.Context, s *service, c config.Config) error {
	list, err := c.Followed()
	if err != nil || !s.roles.Has(node.Replication) {
		return err
	}
	databases, instances := make([]corefollow.Database, len(list)), make([]tuple.UUID, len(list))
	for i, one := range list {
		databases[i], instances[i] = one.Database, tuple.UUID(randomBytes(16))
	}
	store := followStore(s)
	type outcome struct{ made, gone []string }
	now := instant.Of(time.Now())
	var done outcome
	for without := []string(nil); ; {
		done, err = kv.Run(ctx, s.db, func(tx kv.Tx) (o outcome, err error) {
			o.made, o.gone, err = corefollow.Follow(tx, store, databases, instances, now, without...)
			return o, err
		})
		e, unreadable := errors.AsType[*jobs.UnreadableError](err)
		if !unreadable || slices.Contains(without, e.Job) {
			break
		}
		s.logger.Warn("follow_unreadable", "mirror", e.Job, "detail", e.Error())
		without = append(without, e.Job)
	}
	if err != nil {
		return err
	}
	if len(done.made)+len(done.gone) > 0 {
		s.logger.Info("follow_changed", "mirrors", done.made, "removed", done.gone)
	}
	return nil
}

// follow follows the databases of a configuration from now on, whose mirrors there are. The service must be prepared.
func (s *service) follow(c config.Config) error {
	list, err := c.Followed()
	if err != nil {
		return err
	}
	if !s.roles.Has(node.Replication) {
		list = nil
	}
	s.follows.configure(list, profilesOf(c))
	return nil
}
