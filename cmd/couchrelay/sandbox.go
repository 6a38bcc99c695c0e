package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"

	"couchrelay/adapters/embedded"
	"couchrelay/adapters/web"
	"couchrelay/core/docs"
	"couchrelay/core/instant"
	"couchrelay/core/kv"
	"couchrelay/core/kv/tuple"

	"github.com/benbjohnson/clock"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// sandbox is a CouchDB-compatible server with databases in memory, on the loopback address.
type sandbox struct {
	db     *embedded.Database
	docs   *docs.Store
	server *http.Server
	url    string
}

// openSandbox serves a sandbox on a port, 0 for any.
func openSandbox(port int, logger *slog.Logger) (*sandbox, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	db, err := embedded.Open("sandbox", embedded.Options{FS: vfs.NewMem(), Logger: logger})
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	store := docs.New(root)
	b := &sandbox{db: db, docs: store, url: "http://" + listener.Addr().String() + "/"}
	b.server = newServer(web.Databases(web.Options{Store: db, Docs: store, UUID: randomHex(16)}), logger)
	go func() {
		if err := b.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("sandbox_failed", "error", err)
		}
	}()
	return b, nil
}

func (b *sandbox) Close() error { return errors.Join(b.server.Close(), b.db.Close()) }

// create makes a database.
func (b *sandbox) create(name string) error {
	instance := tuple.UUID(randomBytes(16))
	return kv.Do(context.Background(), b.db, func(tx kv.Tx) error {
		return b.docs.Create(tx, name, instance, instant.Of(clock.New().Now()))
	})
}

// write writes documents, given as JSON, into a database.
func (b *sandbox) write(database string, raw ...string) error {
	edits := make([]docs.Edit, len(raw))
	for i, r := range raw {
		doc, err := docs.ParseDocument([]byte(r))
		if err != nil {
			return err
		}
		edits[i] = docs.Edit{Document: *doc, Replicated: !doc.Rev.IsZero()}
	}
	for len(edits) > 0 {
		n, err := kv.Run(context.Background(), b.db, func(tx kv.Tx) (int, error) {
			db, err := b.docs.Open(tx, database)
			if err != nil {
				return 0, err
			}
			written, err := db.Update(edits)
			for _, w := range written {
				if w.Err != nil {
					return 0, w.Err
				}
			}
			return len(written), err
		})
		if err != nil {
			return err
		}
		edits = edits[n:]
	}
	return nil
}

// introduce fills a database and prints what to try with it.
func (b *sandbox) introduce(service string) {
	err := b.create("example")
	for i := 0; i < 1000 && err == nil; i += 100 {
		var batch []string
		for n := i; n < i+100; n++ {
			batch = append(batch, fmt.Sprintf(`{"_id":"doc-%04d","number":%d}`, n, n))
		}
		err = b.write("example", batch...)
	}
	if err != nil {
		fmt.Println("the sandbox could not be filled:", err)
		return
	}
	fmt.Printf(`the sandbox %s has a database "example" of 1000 documents, in memory

Copy it, and keep the copy up to date:

  curl -X PUT http://%s/_replicator/first -H 'Content-Type: application/json' \
    -d '{"source":"%sexample","target":"%scopy","create_target":true,"continuous":true}'

Then look, from another terminal:

  curl http://%s/_scheduler/jobs
  curl %scopy

`, b.url, service, b.url, b.url, service, b.url)
}
