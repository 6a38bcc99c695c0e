package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"couchrelay/adapters/audit"
	"couchrelay/adapters/config"
	"couchrelay/adapters/descriptors"
	"couchrelay/adapters/eventlog"
	"couchrelay/adapters/journal"
	"couchrelay/adapters/web/door"

	"github.com/benbjohnson/clock"
	"github.com/coreos/go-systemd/v22/daemon"
)

// serveCommand runs the service.
type serveCommand struct {
	Config      []string `help:"${serve_config}" type:"existingfile" placeholder:"FILE"`
	LocalConfig string   `help:"${serve_local_config}" placeholder:"FILE" complete:"file"`
	Store       string   `help:"${serve_store}" default:"./data" placeholder:"STORE" complete:"directory"`
	KeyPrefix   string   `help:"Name below which all keys lie in the store ([store] key_prefix)." placeholder:"NAME"`
	Bind        string   `help:"Address to serve on ([chttpd] bind_address)." placeholder:"ADDRESS"`
	Port        *int     `help:"TCP port to serve on ([chttpd] port)." placeholder:"PORT"`
	Name        string   `help:"${serve_name}" placeholder:"NAME"`
	Record      string   `help:"${serve_record}" type:"path" placeholder:"FILE"`
	RecordLimit int64    `help:"${serve_record_limit}" default:"1024" placeholder:"MB"`
	Sandbox     *int     `help:"${serve_sandbox}" placeholder:"PORT"`
}

// Help is kong's.
func (serveCommand) Help() string {
	return "Runs the service until SIGTERM or SIGINT, which let each run write a checkpoint; a second one ends the " +
		"process at once. SIGHUP reads the configuration again. The environment and flags win over files. Without an " +
		"admin in [admins] only this machine is answered." + examples(
		"Try it, with databases in memory on port 5981:", "couchrelay serve --store ./data --sandbox 5981",
		"As packages run it:",
		"couchrelay serve --config /etc/couchrelay/couchrelay.ini --store /var/lib/couchrelay/store",
		"One of several nodes that share a FoundationDB cluster:",
		"couchrelay serve --config couchrelay.ini --store fdb:/etc/foundationdb/fdb.cluster --name relay1")
}

func (s *serveCommand) Run() (err error) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // which would end the process until then
	defer signal.Stop(hangups)
	signal.Ignore(syscall.SIGPIPE) // a reader of the log that has ended must not end the service
	layers, err := s.load()
	if err != nil {
		return err
	}
	c, err := layers.config()
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	logger, flush := journal.New(os.Stderr, journal.Options{Level: &logLevel, Format: c.LogFormat, Clock: clock.New(),
		Unfolded: audit.Event})
	defer flush()
	logLevel.Set(logLevels[c.LogLevel])
	tellSkipped(logger, c)
	doors, err := listen(c)
	if err != nil {
		return err
	}
	defer doors.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	db, err := s.open(c.KeyPrefix, logger)
	if err != nil {
		return err
	}
	defer func() { err = closed(db, err) }()
	log, err := s.record(logger)
	if err != nil {
		return err
	}
	defer log.Close()
	svc, err := assemble(db, c, s.Name, log, logger)
	if err != nil {
		return err
	}
	svc.layers, svc.read = layers, s.loadAgain
	if len(layers.local) > 0 {
		logger.Info("config_local", "file", layers.path, "keys", layers.local.Names())
	}
	ended := make(chan struct{})
	defer close(ended)
	go reload(ctx, hangups, ended, svc, logger)
	return serve(ctx, stop, svc, doors, logger, func() error {
		box, err := s.openSandbox(ended, svc.outside.files, logger) // whose port may be taken
		if err != nil {
			return err
		}
		fmt.Printf("couchrelay %s serves %s (jobs in %s, server uuid %s)\n", version, doors, s.Store, svc.uuid)
		if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
			logger.Warn("systemd_not_told", "error", err)
		}
		if box == nil {
			return nil
		}
		return box.introduce(doors.plain.Addr().String())
	})
}

// closed closes the store of a service that has ended with err, and returns what the process ends with.
func closed(db store, err error) error {
	if failure := db.Close(); err == nil && failure != nil {
		return fmt.Errorf("closing the store: %w", failure)
	}
	return err
}

// openSandbox serves databases in memory until ended is closed, if --sandbox asks for them.
func (s *serveCommand) openSandbox(
	ended <-chan struct{}, files *descriptors.Budget, logger *slog.Logger,
) (*sandbox, error) {
	if s.Sandbox == nil {
		return nil, nil
	}
	box, err := openSandbox(*s.Sandbox, files, logger)
	if err != nil {
		return nil, err
	}
	go func() {
		<-ended
		_ = box.Close()
	}()
	return box, nil
}

// record creates the event log that --record names. It returns nil without that flag.
func (s *serveCommand) record(logger *slog.Logger) (*eventlog.Writer, error) {
	if s.Record == "" {
		return nil, nil
	}
	log, err := eventlog.Create(s.Record, "couchrelay "+version, s.RecordLimit*1_000_000, logger)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("--record: %s is there already: remove it, or name another file", s.Record)
	case err != nil:
		return nil, fmt.Errorf("--record: %w", err)
	}
	return log, nil
}

// reload reads the configuration again at every SIGHUP, until ended is closed. A faulty configuration is
// logged and changes nothing. While the service is not prepared, reload waits.
func reload(ctx context.Context, hangups <-chan os.Signal, ended <-chan struct{}, svc *service, logger *slog.Logger) {
	select {
	case <-ended:
		return
	case <-svc.prepared:
	}
	for {
		select {
		case <-ended:
			return
		case <-hangups:
		}
		if err := svc.ReloadConfig(ctx); err != nil {
			logger.Error("reload_failed", "error", err)
		}
	}
}

// noFile returns an error if --store names a file.
func noFile(store string) error {
	if info, err := os.Stat(store); err == nil && !info.IsDir() {
		return misused(fmt.Errorf("--store %s: is a file; must be a directory, or fdb:CLUSTERFILE", store))
	}
	return nil
}

// load reads the configuration: files, then the local file, then the environment, then flags, of which the later
// override the earlier.
func (s *serveCommand) load() (layers, error) {
	if err := noFile(s.Store); err != nil {
		return layers{}, err
	}
	files, err := config.Read(s.Config...)
	if err != nil {
		return layers{}, err
	}
	return readLayers(files, s.localConfig(), s.override)
}

// loadAgain is load for files that have been read before. A pipe, as <(...) of shells, would keep it waiting for ever.
func (s *serveCommand) loadAgain() (layers, error) {
	for _, path := range s.Config {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return layers{}, fmt.Errorf("configuration %s: is no regular file, and was read at the start; restart to "+
				"read it again", path)
		}
	}
	return s.load()
}

// localConfig returns the path of the local file, which is beside the last file of --config, or in the store's
// directory, unless told.
func (s *serveCommand) localConfig() string {
	switch {
	case s.LocalConfig != "":
		return s.LocalConfig
	case len(s.Config) > 0:
		return besides(s.Config)
	case !strings.HasPrefix(s.Store, "fdb:"):
		return filepath.Join(s.Store, "local.ini")
	}
	return ""
}

// besides returns the local file of files: couchrelay.local.ini beside couchrelay.ini.
func besides(files []string) string {
	last := files[len(files)-1]
	ext := filepath.Ext(last)
	return strings.TrimSuffix(last, ext) + ".local" + ext
}

// override sets what the environment and flags say.
func (s *serveCommand) override(c *config.Config) (err error) {
	if err := c.Environ(os.Environ()); err != nil {
		return err
	}
	if err := s.flags(c); err != nil {
		return err
	}
	if c.Secrets.KeyFile == "" && !strings.HasPrefix(s.Store, "fdb:") {
		c.Secrets.KeyFile, c.Secrets.MakeKey = filepath.Join(s.Store, "secret.key"), true
	}
	if s.Name == "" {
		if s.Name, err = os.Hostname(); err != nil {
			s.Name = "localhost"
		}
	}
	return nil
}

// flags sets the keys for which there are flags.
func (s *serveCommand) flags(c *config.Config) error {
	port := ""
	if s.Port != nil {
		port = strconv.Itoa(*s.Port)
	}
	for _, flag := range [][4]string{{"bind", "chttpd", "bind_address", s.Bind}, {"port", "chttpd", "port", port},
		{"key-prefix", "store", "key_prefix", s.KeyPrefix}} {
		if flag[3] == "" {
			continue
		}
		if err := c.Set(flag[1], flag[2], flag[3]); err != nil {
			return misused(fmt.Errorf("--%s: %w", flag[0], err))
		}
	}
	return nil
}

// checkExposure refuses addresses that cannot be looked up and, without an admin, those that other machines can reach:
// every client has all rights then. The port of metrics gives none.
func checkExposure(c config.Config) error {
	addresses := [][2]string{{"chttpd", c.BindAddress}}
	if c.SSL.Enable {
		addresses = append(addresses, [2]string{"ssl", c.SecureAddress()})
	}
	if c.Beside.Scrapes.Enable {
		addresses = append(addresses, [2]string{"prometheus", c.Beside.Scrapes.BindAddress})
	}
	for _, one := range addresses {
		section, address := one[0], one[1]
		ips, err := net.LookupIP(address)
		if err != nil {
			return fmt.Errorf("[%s] bind_address = %s: %w", section, address, err)
		}
		for _, ip := range ips {
			if !ip.IsLoopback() && !c.Guarded() && section != "prometheus" {
				return fmt.Errorf("[%s] bind_address = %s: is reachable from other machines, but there is no admin: "+
					"add one to [admins] or use 127.0.0.1", section, address)
			}
		}
	}
	return nil
}

// doors are where clients come in. There may be none with TLS, and none for metrics alone.
type doors struct{ plain, secure, scrapes net.Listener }

// listen opens the ports.
func listen(c config.Config) (d doors, err error) {
	if err := checkExposure(c); err != nil {
		return d, err
	}
	if d.plain, err = net.Listen("tcp", net.JoinHostPort(c.BindAddress, strconv.Itoa(c.Port))); err != nil {
		return d, fmt.Errorf("[chttpd] port: %w", err)
	}
	if c.SSL.Enable {
		d.secure, err = net.Listen("tcp", net.JoinHostPort(c.SecureAddress(), strconv.Itoa(c.SSL.Port)))
		if err != nil {
			_ = d.plain.Close()
			return d, fmt.Errorf("[ssl] port: %w", err)
		}
	}
	if s := c.Beside.Scrapes; s.Enable {
		d.scrapes, err = net.Listen("tcp", net.JoinHostPort(s.BindAddress, strconv.Itoa(s.Port)))
		if err != nil {
			_ = d.Close()
			return d, fmt.Errorf("[prometheus] port: %w", err)
		}
	}
	return d, nil
}

// String are the URLs.
func (d doors) String() string {
	urls := "http://" + d.plain.Addr().String() + "/"
	if d.secure != nil {
		urls += " and https://" + d.secure.Addr().String() + "/"
	}
	return urls
}

// Close closes the ports.
func (d doors) Close() error {
	err := d.plain.Close()
	for _, more := range []net.Listener{d.secure, d.scrapes} {
		if more != nil {
			err = errors.Join(err, more.Close())
		}
	}
	return err
}

// startGrace is the time that a store takes at most which answers as it should.
const startGrace = time.Second

// serve serves until ctx ends, by a signal: then the runs stop with a checkpoint each, and their jobs go back
// to the queue. It calls stop first, which gives signals their usual effect again, so a second one ends the
// process at once. A service that is not prepared yet is prepared; requests wait for that for startGrace, and
// are answered that the node is starting from then on. began, which may be nil, is called when the service
// takes up its work.
//
// When the store has ended for good, or a door, the runs stop as well. serve then returns the error of that, so that
// the process ends with status 1 and its supervisor starts it again.
func serve(ctx context.Context, stop func(), svc *service, d doors, logger *slog.Logger,
	began func() error) error {
	defer svc.entrance.audit.Close()
	entry, err := newEntry(svc.started.Beside.CouchDB, svc)
	if err != nil {
		return err
	}
	started := make(chan error, 1)
	go func() { started <- svc.start(ctx) }()
	select {
	case err := <-started:
		started <- err // for below
	case <-time.After(startGrace):
	}
	server, failed := serveAt(d, entry, svc, logger)
	defer server.Close()
	err = <-started
	if err == nil && began != nil {
		err = began()
	}
	if err == nil {
		err = svc.run(ctx, stop, failed)
	} else if ctx.Err() != nil {
		stop() // the next signal kills
		logger.Info("stopping", "limit", time.Second)
		err = nil
	}
	short, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = server.Shutdown(short)
	return err
}

// servers answer at all doors.
type servers struct{ all, scrapes *http.Server }

// serveAt serves at all doors, and returns a channel that gets the errors by which that ends.
func serveAt(d doors, entry http.Handler, svc *service, logger *slog.Logger) (servers, <-chan error) {
	l := svc.started.Limits
	s := servers{newServer(entry, l, logger),
		newServer(door.Bounded(limits(svc), &svc.handlers.scrapes), l, logger)}
	connections := door.NewConnections(limits(svc), svc.outside.files, logger)
	failed := make(chan error, 3)
	go func() { failed <- s.all.Serve(connections.Listener(d.plain, true)) }()
	if d.secure != nil {
		secure := tls.NewListener(connections.Listener(d.secure, false), svc.entrance.tls.Config())
		go func() { failed <- s.all.Serve(secure) }()
	}
	if d.scrapes != nil {
		go func() { failed <- s.scrapes.Serve(connections.Listener(d.scrapes, true)) }()
	}
	return s, failed
}

// Shutdown lets the requests under way end until ctx does.
func (s servers) Shutdown(ctx context.Context) error {
	return errors.Join(s.all.Shutdown(ctx), s.scrapes.Shutdown(ctx))
}

// Close cuts all connections.
func (s servers) Close() { _ = errors.Join(s.all.Close(), s.scrapes.Close()) }

// start prepares the service unless it is.
func (s *service) start(ctx context.Context) error {
	select {
	case <-s.prepared:
		return nil
	default:
		return s.prepare(ctx)
	}
}

// run runs the node until ctx ends, by a signal, or the store has ended, or the server by an error that failed gets,
// and lets it leave in order.
func (s *service) run(ctx context.Context, stop func(), failed <-chan error) error {
	var telling sync.WaitGroup
	defer telling.Wait()
	hard, kill := context.WithCancel(context.Background())
	defer kill()
	s.mu.Lock()
	c := s.config
	s.mu.Unlock()
	telling.Go(func() { s.forecast(hard, c) })
	telling.Go(func() { s.db.keeper.Run(hard) })
	left := make(chan struct{})
	go func() {
		defer close(left)
		s.loop.Run(hard)
	}()
	followed := s.follows.run(hard)
	var failure error
	select {
	case failure = <-failed:
		s.logger.Error("listener_failed", "error", failure, "detail", "stopping; to be started again")
	case <-left:
		return errors.New("the node ended by itself")
	case <-ctx.Done():
	case <-s.watchStore(hard):
		s.logger.Error("store_ended", "error", s.storeEnd(), "detail",
			"stopping; to be started again when the cause is gone")
	}
	stop() // the next signal kills
	all := make(chan struct{})
	limit := s.stopLimit()
	s.logger.Info("stopping", "limit", limit)
	s.loop.Drain()
	s.follows.drain()
	go func() {
		<-left
		<-followed
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(limit):
		s.logger.Warn("stop_limit_reached", "limit", limit)
		kill()
		<-all
	}
	return cmp.Or(s.storeEnd(), failure)
}

// logLevel is the least severe level of the process's log; [log] level sets it.
var logLevel slog.LevelVar

// logLevels are the levels by the names that the configuration gives them.
var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warning": slog.LevelWarn, "error": slog.LevelError,
}
