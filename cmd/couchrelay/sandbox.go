package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/descriptors"
	"couchrelay/adapters/embedded"
	"couchrelay/adapters/javascript"
	"couchrelay/adapters/web/couchdb"
	"couchrelay/adapters/web/door"
	"couchrelay/core/docs"
	"couchrelay/core/kv/tuple"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// sandbox is a CouchDB-compatible server with databases in memory. It listens on the loopback address only,
// since it has no admins.
type sandbox struct {
	db     *embedded.Database
	server *http.Server
	url    string // ends in a slash
}

// openSandbox serves a sandbox on a port, 0 for any. files has the descriptors of its connections; nil has no bound.
func openSandbox(port int, files *descriptors.Budget, logger *slog.Logger) (*sandbox, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	db, err := embedded.Open("sandbox", embedded.Options{FS: vfs.NewMem(), Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	b := &sandbox{db: db, url: "http://" + listener.Addr().String() + "/"}
	b.server = newServer(couchdb.New(couchdb.Options{
		Store: db, Docs: docs.New(tuple.Subspace(tuple.Pack("sandbox"))), UUID: randomHex(16),
		Members:   docs.ReplicationMembers, // as in all databases of a CouchDB
		Functions: javascript.New(),
	}), config.Default().Limits, logger)
	limits := config.Default().Limits
	limits.Connections, limits.PerAddress = math.MaxInt, math.MaxInt // what files have is the bound
	connections := door.NewConnections(func() config.Limits { return limits }, files, logger)
	go func() {
		if err := b.server.Serve(connections.Listener(listener, true)); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("sandbox_failed", "error", err)
		}
	}()
	return b, nil
}

func (b *sandbox) Close() error { return errors.Join(b.server.Close(), b.db.Close()) }

// sandboxClient is for servers on this machine, which answer soon or not at all.
var sandboxClient = &http.Client{Timeout: time.Minute}

// request sends body as JSON, or no body if it is nil, and decodes the JSON answer into result unless that is
// nil. A status of 300 or more is an error.
func request(method, url string, body, result any) error {
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(raw)
	}
	r, err := http.NewRequest(method, url, sent)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := sandboxClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s %s", method, url, answer.Status, bytes.TrimSpace(raw))
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(raw, result)
}

// object is a JSON object.
type object = map[string]any

// writeAll writes documents in bulk.
func writeAll(database string, documents []object, newEdits bool) error {
	for len(documents) > 0 {
		n := min(len(documents), 500)
		var refused []struct{ ID, Error, Reason string }
		err := request("POST", database+"/_bulk_docs", object{"docs": documents[:n], "new_edits": newEdits},
			&refused)
		for _, r := range refused {
			if r.Error != "" {
				err = fmt.Errorf("document %s: %s %s", r.ID, r.Error, r.Reason)
			}
		}
		if err != nil {
			return err
		}
		documents = documents[n:]
	}
	return nil
}

// introduce fills an example database and prints commands to try with it.
func (b *sandbox) introduce(service string) error {
	if err := request("PUT", b.url+"example", nil, nil); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	var documents []object
	for n := range 1000 {
		documents = append(documents, object{"_id": fmt.Sprintf("doc-%04d", n), "number": n})
	}
	if err := writeAll(b.url+"example", documents, true); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	fmt.Printf(`the sandbox %s has a database "example" of 1000 documents, in memory

Copy it, and keep the copy up to date:

  curl -X PUT http://%s/_replicator/first -H 'Content-Type: application/json' \
    -d '{"source":"%sexample","target":"%scopy","create_target":true,"continuous":true}'

Then look, from another terminal:

  curl http://%s/_scheduler/jobs
  curl %scopy

`, b.url, service, b.url, b.url, service, b.url)
	return nil
}
