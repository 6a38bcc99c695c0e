package fdb

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"time"

	"github.com/benbjohnson/clock"
)

// APIVersion is the version of FoundationDB's client API that this package is written for; client
// libraries from 7.3 on have it.
const APIVersion = 730

// Errors of the store as a whole.
var (
	// ErrNotBuilt is returned by Open in a build without the tag fdb.
	ErrNotBuilt = errors.New("this build of couchrelay has no FoundationDB support; " +
		"install FoundationDB's client package (7.3 or newer) " +
		"and build with: go build -tags fdb ./cmd/couchrelay")
	// ErrClosed is in the chain of all errors after Close.
	ErrClosed = errors.New("the store is closed")
	// ErrAway is in the chain of errors while the cluster does not answer.
	ErrAway = errors.New("the FoundationDB cluster does not answer")
	// ErrReplaced is in the chain of all errors after the cluster had other data than it should; see Database.Expect.
	ErrReplaced = errors.New("the store was emptied, or replaced by another one, while it was in use")
	// ErrClient means that the client library cannot be used.
	ErrClient = errors.New("FoundationDB's client library cannot be used")
)

// Options of a store. The zero value is right for production.
type Options struct {
	// Clock measures the monitor's pauses and the age of read versions. Nil stands for the system's.
	Clock clock.Clock
	// Logger gets the lines fdb_away, fdb_back and store_replaced. Nil stands for none.
	Logger *slog.Logger
	// Key is the key that the monitor reads. It should be a key of the service: a cluster can lose the servers of
	// some keys and go on serving the others. Nil stands for the lowest of all keys.
	Key []byte
	// Probe is the pause between an answer to the monitor and its next question; 0 or less stands for 2 s.
	Probe time.Duration
	// Patience is how long the cluster may take to answer the monitor before it counts as away; 0 or less
	// stands for 5 s.
	Patience time.Duration
}

// connectionString is the form description:id@address:port[:tls][,...] of the line in a cluster file. A cluster whose
// machines are known by names adds a note to the addresses when it writes the file.
var connectionString = regexp.MustCompile(`^[A-Za-z0-9_]+:[A-Za-z0-9]+@` + coordinator + `(,` + coordinator + `)*$`)

const coordinator = `[^\s,@]+:\d+(:tls)?(\(fromHostname\))?`

// checkClusterFile finds mistakes in a cluster file about which the client says nothing: it would wait for
// ever for coordinators that do not exist.
func checkClusterFile(path string) error {
	if path == "" {
		return errors.New("the path of the cluster file is missing; " +
			"it is /etc/foundationdb/fdb.cluster as a rule")
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("cluster file: %w; copy fdb.cluster from a machine of the cluster", err)
	}
	if !info.Mode().IsRegular() || info.Size() > 1<<20 {
		return fmt.Errorf("cluster file %s: is no file with a line description:id@address:port,... in it",
			path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cluster file: %w", err)
	}
	found := 0
	for line := range bytes.Lines(raw) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if found++; !connectionString.Match(line) {
			const problem = "cluster file %s: %q is not of the form description:id@address:port,... of such files"
			return fmt.Errorf(problem, path, line)
		}
	}
	if found != 1 {
		const problem = "cluster file %s: has %d lines of the form description:id@address:port,..., not one"
		return fmt.Errorf(problem, path, found)
	}
	return nil
}
