package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"couchrelay/adapters/audit"
	"couchrelay/adapters/certs"
	"couchrelay/adapters/config"
	"couchrelay/adapters/web"
	"couchrelay/adapters/web/login"
	"couchrelay/adapters/web/relay"
	coreconfig "couchrelay/core/config"
	"couchrelay/core/instant"
	"couchrelay/core/jobstore"
	"couchrelay/core/kv"
	"couchrelay/core/node"
)

// Bounds of what the store may take when requests and signals change the configuration, and show it.
const (
	changeTime = 8 * time.Second
	showTime   = 2 * time.Second
)

// share puts settings of sharing in force on all nodes, through the store. to says what they become, given those in
// force. It returns the changes for people.
func (s *service) share(ctx context.Context, to func(jobstore.Sharing) (jobstore.Sharing, error)) ([]string, error) {
	now := instant.Of(time.Now())
	return kv.Run(ctx, s.db, func(tx kv.Tx) ([]string, error) {
		old, known, err := s.store.Shared(tx)
		if err != nil {
			return nil, err
		}
		c, err := to(old)
		if err != nil {
			return nil, err
		}
		if !known {
			old = c
		}
		return old.Changes(c), s.store.Share(tx, c, now)
	})
}

// shareAll puts this node's settings of sharing in force on all nodes. The node that started or reloaded last wins;
// it logs what that changes.
func (s *service) shareAll(ctx context.Context, c jobstore.Sharing) error {
	changes, err := s.share(ctx, func(jobstore.Sharing) (jobstore.Sharing, error) { return c, nil })
	if len(changes) > 0 {
		s.logger.Warn("sharing_changed", "changes", changes, "detail", "in force on all nodes from now on")
	}
	return err
}

// changeStore does what a change of this node's configuration to c does in the store: it puts keys that hold for all
// nodes in force there, and no others, which another node may have changed; and it has mirrors follow other databases.
// It returns the configuration that takes this back.
func (s *service) changeStore(ctx context.Context, c config.Config, ch relay.ConfigChange) (config.Config, error) {
	was := c.Clone()
	names := ch.Names()
	names = slices.DeleteFunc(names, func(n config.Name) bool { return !coreconfig.HoldsForAll(n.Section, n.Key) })
	if len(names) == 0 && !config.IsFollow(ch.Section) {
		return was, nil
	}
	if !s.ready() {
		return was, fmt.Errorf("%w: the node is starting", kv.ErrUnavailable)
	}
	if ctx.Err() != nil {
		return was, context.Cause(ctx)
	}
	// A client that leaves must not leave behind a change in the store that is in no file.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTime)
	defer cancel()
	if len(names) == 0 {
		return inForce(s), followAll(ctx, s, c)
	}
	_, err := s.share(ctx, func(old jobstore.Sharing) (jobstore.Sharing, error) {
		was = c.Clone()
		was.Adopt(old)
		all := was.Clone().Settings
		for _, n := range names {
			if err := all.Take(n.Section, n.Key, &c.Settings); err != nil {
				return old, err
			}
		}
		return all.Replicator.Sharing, all.Check()
	})
	return was, err
}

// ready reports whether the store is prepared.
func (s *service) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loop != nil
}

// configure puts a new configuration in force, as far as it can change while the service runs: first in the store,
// which may not answer, or this process would go on with a half of it.
func (s *service) configure(ctx context.Context, c config.Config) error {
	if c.Roles != s.roles {
		s.logger.Warn("roles_kept", "roles", s.roles, "configured", c.Roles, "detail",
			"roles change at the next start")
	}
	if err := s.shareAll(ctx, c.Replicator.Sharing); err != nil {
		return err
	}
	if err := followAll(ctx, s, c); err != nil {
		return err
	}
	if err := s.put(c); err != nil {
		return err
	}
	s.forecast(ctx, c)
	return nil
}

// present is a configuration as it holds in this process: what follows from [front] changes with it, at the next start.
func present(s *service, c config.Config) config.Config {
	if couch := &c.Auth.Couch; couch.Front {
		couch.URL = strings.TrimSuffix(s.started.Beside.CouchDB, "/")
	}
	return c
}

// put puts a configuration in force in this process.
func (s *service) put(c config.Config) error {
	c = present(s, c)
	if err := s.outside.trust.Configure(profilesOf(c)); err != nil {
		return err
	}
	if err := s.login.Configure(c.Admins, c.Auth); err != nil {
		return err
	}
	if err := s.entrance.audit.Open(c.AuditFile); err != nil {
		s.logger.Error("audit_failed", "error", err, "detail", "the file that is open stays in use")
	}
	if s.entrance.tls != nil && c.SSL.Enable {
		if err := s.entrance.tls.Configure(c.SSL.Listening); err != nil {
			s.logger.Warn("certificate", "of", "the listener, of which the last one stays in use", "error", err)
		}
	}
	s.mu.Lock()
	s.config = c
	outside := c
	outside.Replicator.Parse.Local = s.started.Replicator.Parse.Local // which changes at the next start
	s.outside.gates.Store(newGates(outside))
	logLevel.Set(logLevels[c.LogLevel])
	ready := s.loop != nil
	if ready {
		s.loop.Configure(c.Node)
	}
	s.mu.Unlock()
	if !ready {
		return nil
	}
	return s.follow(c)
}

// checkSafe returns an error for a configuration that a service must not go on with. What it asks the machine for is
// asked only if it has changed: a file that is gone must not keep a node from its maintenance.
func (s *service) checkSafe(ctx context.Context, c config.Config) error {
	s.mu.Lock()
	old := s.config
	s.mu.Unlock()
	if now := present(s, c); old.Guarded() && (!c.Guarded() || !now.Guarded()) {
		return errors.New("[admins]: the last admin cannot be removed, since every client that reaches the service " +
			"would have all rights then; set another one first")
	}
	if old.BindAddress != c.BindAddress || old.SSL.BindAddress != c.SSL.BindAddress ||
		old.SSL.Enable != c.SSL.Enable || old.Beside.Scrapes != c.Beside.Scrapes {
		if err := checkExposure(c); err != nil {
			return err
		}
	}
	if err := login.CheckAdmins(c.Admins); err != nil {
		return err
	}
	if c.SSL.Enable && !reflect.DeepEqual(old.SSL, c.SSL) {
		if _, err := c.SSL.Read(); err != nil {
			return err
		}
	}
	if to := c.Secrets; to.KeyFile != "" && to.KeyFile != old.Secrets.KeyFile && s.ready() {
		ctx, cancel := context.WithTimeout(ctx, changeTime)
		defer cancel()
		if err := s.db.keeper.Try(ctx, to.KeyFile, to.MakeKey || !to.Encrypt); err != nil {
			return fmt.Errorf("[secrets] key_file: %w", err)
		}
	}
	if old.Beside.Fauxton != c.Beside.Fauxton {
		if _, err := openFauxton(c.Beside.Fauxton); err != nil {
			return err
		}
	}
	if old.AuditFile != c.AuditFile {
		if err := audit.Check(c.AuditFile); err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(old.TLS, c.TLS) || !reflect.DeepEqual(old.Profiles, c.Profiles) {
		if _, err := newTrust(c, s.telling); err != nil {
			return err
		}
	}
	return nil
}

// ReloadConfig is relay.Host's: it reads the configuration again, and puts it in force as far as it can change while
// the service runs. A faulty configuration changes nothing.
func (s *service) ReloadConfig(ctx context.Context) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if !s.ready() {
		return fmt.Errorf("%w: the node is starting", kv.ErrUnavailable)
	}
	l, err := s.read()
	if err != nil {
		return err
	}
	if err := l.emptied(s.layers); err != nil {
		return err
	}
	c, err := l.config()
	if err == nil {
		err = s.checkSafe(ctx, c)
	}
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// A store that is away must not keep others from changes, and a client that leaves must not leave a half behind.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTime)
	defer cancel()
	if err := s.db.keeper.Reload(ctx); err != nil {
		return err
	}
	if err := s.configure(ctx, c); err != nil {
		return err
	}
	s.layers = l
	tellSkipped(s.logger, c)
	s.logger.Info("reloaded", "local", l.local.Names(), "restart", waiting(s, s.Config(ctx)))
	return nil
}

// waiting returns the names of the settings that differ from those of the start and take effect at the next one. now is
// what the configuration says at present; a setting of the start that it lacks was removed since.
func waiting(s *service, now map[string]map[string]relay.Setting) (names []config.Name) {
	for section, settings := range now {
		for key, setting := range settings {
			if setting.Restart {
				names = append(names, config.Name{Section: section, Key: key})
			}
		}
	}
	for section, values := range s.started.Values() {
		for key := range values {
			if _, is := now[section][key]; !is && effect(coreconfig.Row{Section: section, Key: key}) == atNextStart {
				names = append(names, config.Name{Section: section, Key: key})
			}
		}
	}
	slices.SortFunc(names, func(a, b config.Name) int { return strings.Compare(a.String(), b.String()) })
	return names
}

// ChangeConfig is relay.Host's. Changes come one after the other, and each is valid, stored and in force as a whole, or
// not at all.
func (s *service) ChangeConfig(ctx context.Context, ch relay.ConfigChange) (map[string]relay.Setting, error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	before := s.Config(ctx)[ch.Section]
	next, c, err := s.changed(ctx, ch, before)
	if err != nil {
		return nil, err
	}
	file, err := s.draft(next)
	if err != nil {
		return nil, fmt.Errorf("the configuration is as before: %w", err)
	}
	was, err := s.changeStore(ctx, c, ch)
	if err != nil {
		file.Discard()
		return nil, err
	}
	if err := file.Place(); err != nil {
		_, back := s.changeStore(context.WithoutCancel(ctx), was, ch)
		return nil, fmt.Errorf("the configuration is as before: %w", errors.Join(err, back))
	}
	s.layers = next
	if err := s.put(c); err != nil {
		return nil, err
	}
	return s.changedFrom(ctx, ch, before), nil
}

// changed returns the configuration after a change. Its errors are those of the client.
func (s *service) changed(ctx context.Context, ch relay.ConfigChange,
	before map[string]relay.Setting) (layers, config.Config, error) {
	for _, n := range ch.Names() {
		if _, had := before[n.Key]; ch.Values[n.Key] == nil && !had {
			return layers{}, config.Config{}, relay.ErrNoSetting
		}
	}
	next, err := s.layers.with(ch)
	var c config.Config
	if err == nil {
		c, err = next.config()
	}
	if err == nil && ch.Passing {
		if now, bad := s.layers.config(); bad == nil && !reflect.DeepEqual(fixed(now), fixed(c)) {
			err = errForgotten
		}
	}
	if err == nil && c.CORS.Contradicts() && !inForce(s).CORS.Contradicts() {
		err = config.ErrCORS
	}
	if err == nil {
		err = next.checkChange(s.layers, ch, c)
	}
	if err == nil {
		err = s.checkSafe(ctx, c)
	}
	if err != nil {
		return next, c, web.BadRequest("%s", err)
	}
	return next, c, nil
}

// draft prepares the local file, if it has to change.
func (s *service) draft(next layers) (config.Draft, error) {
	if maps.Equal(next.local, s.layers.local) {
		return config.Draft{}, nil
	}
	now, err := config.ReadLocal(next.path)
	switch {
	case err != nil:
		return config.Draft{}, err
	case !maps.Equal(now, s.layers.local):
		return config.Draft{}, errEdited
	}
	return next.local.Draft(next.path)
}

// changedFrom logs a change, and returns the settings of before, with whether the new ones need a restart.
func (s *service) changedFrom(ctx context.Context, ch relay.ConfigChange,
	before map[string]relay.Setting) map[string]relay.Setting {
	now, old := s.Config(ctx)[ch.Section], map[string]relay.Setting{}
	atStart := s.started.Values()[ch.Section]
	for _, n := range ch.Names() {
		_, is := now[n.Key]
		restart := now[n.Key].Restart ||
			!is && atStart[n.Key] != "" && effect(coreconfig.Row{Section: n.Section, Key: n.Key}) == atNextStart
		effect := "live"
		switch {
		case restart:
			effect = "restart"
		case coreconfig.HoldsForAll(n.Section, n.Key):
			effect = "fleet"
		}
		s.logger.Info("config_changed", "section", n.Section, "key", n.Key, "value", now[n.Key].Value,
			"was", before[n.Key].Value, "effect", effect, "persist", !ch.Passing, "by", ch.By)
		old[n.Key] = relay.Setting{Value: before[n.Key].Value, Restart: restart}
	}
	return old
}

// Config is relay.Host's.
func (s *service) Config(ctx context.Context) map[string]map[string]relay.Setting {
	var shared jobstore.Sharing
	known := s.ready()
	if known { // else this node's own settings are all that is known
		ctx, cancel := context.WithTimeout(ctx, showTime)
		defer cancel()
		var err error
		shared, err = kv.Run(ctx, s.db, func(tx kv.Tx) (c jobstore.Sharing, err error) {
			c, known, err = s.store.Shared(tx.Snapshot())
			return c, err
		})
		known = known && err == nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.config.Clone()
	if known {
		c.Adopt(shared)
	}
	if c.UUID == "" && s.loop != nil {
		c.UUID = s.uuid
	}
	told, atStart := map[string]map[string]relay.Setting{}, s.started.Values()
	for section, values := range c.Values() {
		told[section] = map[string]relay.Setting{}
		for key, value := range values {
			restart := value != atStart[section][key] && s.needsRestart(section, key, value)
			told[section][key] = relay.Setting{Value: value, Restart: restart}
		}
	}
	return told
}

// needsRestart reports whether a value of a key differs from the one with which the process began, and takes effect at
// the next start. mu must be held.
func (s *service) needsRestart(section, key, value string) bool {
	old := s.started.Clone()
	if old.UUID == "" && s.loop != nil {
		old.UUID = s.uuid
	}
	c := old.Clone()
	return c.Set(section, key, value) == nil && !reflect.DeepEqual(fixed(old), fixed(c))
}

// fixed are the settings that a process keeps until it ends. All others put puts in force.
func fixed(c config.Config) config.Config {
	c.Node, c.Replicator.Sharing, c.Maintenance = node.Settings{}, jobstore.Sharing{}, ""
	c.Admins, c.Auth, c.Skipped, c.Ignored, c.LogLevel = nil, config.Auth{}, nil, nil, ""
	c.AuditFile, c.TLS, c.Profiles = "", coreconfig.TLS{}, nil
	c.SSL.Listening, c.CORS = certs.Listening{}, config.CORS{}
	c.Limits = config.Limits{HeaderTime: c.Limits.HeaderTime, HeaderBytes: c.Limits.HeaderBytes,
		IdleTime: c.Limits.IdleTime}
	c.Client.Allow, c.Client.Deny, c.Client.Detours = nil, nil, nil // gates has them
	c.Replicator.Server.UUID, c.Follow = c.UUID, nil
	return c
}
