// Package fdb is the store for many machines: the contract of core/kv on FoundationDB, through its own
// Go bindings. It holds no decision of its own. Since the bindings need FoundationDB's C client to be
// compiled and run, all but this file is behind the build tag fdb; without it Open says so.
//
// # What comes from where
//
// Isolation, conflicts, versionstamps and limits are the cluster's; back-off between attempts is the
// client's. Here is the rest of the contract: contexts end whatever waits, codes become kv.Errors with
// a hint for the operator, options outlast an attempt, and nothing happens after the end of a
// transaction. The loop is that of kv.RunWith, never the bindings' Transact, which repeats commits with
// unknown results without a word.
//
// # Outages
//
// FoundationDB's client waits for an unreachable cluster for ever, so every operation ends with its
// context and with nothing else. A monitor asks for a read version every few seconds, says in the log
// when the cluster stops to answer and when it does again, and Err has the reason in between.
package fdb

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"time"

	"couchrelay/core/kv"

	"github.com/benbjohnson/clock"
)

// APIVersion is the version of FoundationDB's client API that this package is written for; client
// libraries from 7.3 on have it.
const APIVersion = 730

// Errors of the store as a whole.
var (
	// ErrNotBuilt is returned by Open of a build without the tag fdb.
	ErrNotBuilt = errors.New("this build of couchrelay has no FoundationDB support; " +
		"install FoundationDB's client package (7.3 or newer) and build with: go build -tags fdb ./cmd/couchrelay")
	// ErrClosed is in the chain of all errors after Close.
	ErrClosed = errors.New("the store is closed")
	// ErrAway is in the chain of errors while the cluster does not answer.
	ErrAway = errors.New("the FoundationDB cluster does not answer")
	// ErrClient means that the client library cannot be used.
	ErrClient = errors.New("FoundationDB's client library cannot be used")
)

// Options of a store. The zero value is right for production.
type Options struct {
	Clock  clock.Clock  // of the monitor and of read versions kept; default the system's
	Logger *slog.Logger // default silence
	// Probe is the time between two questions of the monitor; default 2 s.
	Probe time.Duration
	// Patience is how long the cluster may take to answer before it counts as away; default 5 s.
	Patience time.Duration
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.New()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Probe <= 0 {
		o.Probe = 2 * time.Second
	}
	if o.Patience <= 0 {
		o.Patience = 5 * time.Second
	}
	return o
}

// connectionString is description:id@address:port[:tls][,...], as in a cluster file.
var connectionString = regexp.MustCompile(`^[A-Za-z0-9_]+:[A-Za-z0-9]+@[^\s,@]+:\d+(:tls)?(,[^\s,@]+:\d+(:tls)?)*$`)

// checkClusterFile finds the mistakes in a cluster file that the client would answer with silence: it
// waits for ever for coordinators that do not exist.
func checkClusterFile(path string) error {
	if path == "" {
		return errors.New("the path of the cluster file is missing; it is /etc/foundationdb/fdb.cluster as a rule")
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cluster file: %w; copy fdb.cluster from a machine of the cluster", err)
	}
	if !info.Mode().IsRegular() || info.Size() > 1<<20 {
		return fmt.Errorf("cluster file %s: is no file with a line description:id@address:port,...", path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cluster file: %w", err)
	}
	found := 0
	for line := range bytes.Lines(raw) {
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		if found++; !connectionString.Match(line) {
			return fmt.Errorf("cluster file %s: %q is not of the form description:id@address:port,...", path, line)
		}
	}
	if found != 1 {
		return fmt.Errorf("cluster file %s: has %d lines of the form description:id@address:port,..., not one", path, found)
	}
	return nil
}

// hints say what an operator can do about an error of FoundationDB, by its code.
var hints = map[kv.Code]string{
	kv.TransactionTooOld:     "the cluster or this machine is too slow for transactions of five seconds: see fdbcli's status for lagging storage servers",
	kv.FutureVersion:         "a storage server lags behind: see fdbcli's status",
	kv.ProcessBehind:         "a storage server lags behind: see fdbcli's status",
	kv.DatabaseLocked:        "a restore or an operator has locked the database: wait, or unlock it in fdbcli",
	kv.ProxyMemoryExceeded:   "the cluster is overloaded: add commit proxies, or lower [replicator] max_jobs",
	kv.GRVMemoryExceeded:     "the cluster is overloaded: add GRV proxies, or lower [replicator] max_jobs",
	kv.BatchThrottled:        "the cluster is saturated and slows background work down",
	kv.TagThrottled:          "the cluster throttles this kind of transaction: see `throttle list` in fdbcli",
	kv.ProxyTagThrottled:     "the cluster throttles this kind of transaction: see `throttle list` in fdbcli",
	kv.TooManyWatches:        "more than 10,000 changes feeds and workers wait on this node: spread them over more nodes",
	kv.ClusterVersionChanged: "the cluster was upgraded: install the client library of its version on this machine",
	kv.TransactionTimedOut:   "a timeout is set on the client, by FDB_NETWORK_OPTION_... or in its options: remove it",
	1500:                     "the client library met an error of the operating system: see its trace files",
	1511:                     "the cluster file is gone",
	1513:                     "the cluster file cannot be read: check its permissions",
	1514:                     "the client must be able to write the cluster file, whose coordinators can change: check its permissions",
	1515:                     "there is no cluster file: give its path as --store fdb:PATH",
	2100:                     "the client library does not fit the cluster's version: install the one of the cluster",
	2104:                     "the cluster file is malformed: copy fdb.cluster from a machine of the cluster",
	2107:                     "TLS failed: check FDB_TLS_CERTIFICATE_FILE, FDB_TLS_KEY_FILE and FDB_TLS_CA_FILE",
	2110:                     "a transaction's tag has more than 16 bytes",
	2125:                     "no client library here fits the cluster's version: install the one of the cluster",
	2130:                     "the cluster requires tenants, which couchrelay does not use: run `configure tenant_mode=optional_experimental` in fdbcli",
	2144:                     "the tenant is locked",
}

// storeError is the error of a code.
func storeError(code kv.Code) error { return &kv.Error{Code: code, Hint: hints[code]} }
