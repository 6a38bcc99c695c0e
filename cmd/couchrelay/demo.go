package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"couchrelay/adapters/compare"
	"couchrelay/adapters/config"
	"couchrelay/adapters/embedded"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// demoCommand shows a whole replication: two servers, a service, a replication document, and the result.
type demoCommand struct {
	Docs int `help:"How many plain documents the source has." default:"5000" placeholder:"N"`
}

// Help is kong's.
func (demoCommand) Help() string {
	return "Starts two databases and a service in memory, writes a replication document, and compares both sides at " +
		"the end. Nothing is left behind." + examples("With more documents:", "couchrelay demo --docs 50000")
}

func (d *demoCommand) Run(w *window) error {
	out := &teller{to: w.to}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	source, err := openSandbox(0, nil, logger)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := openSandbox(0, nil, logger)
	if err != nil {
		return err
	}
	defer target.Close()
	out.tell("two servers in memory: source %s, target %s\n", source.url, target.url)
	if err := d.fill(out, source.url+"orders"); err != nil {
		return err
	}
	stop, service, err := demoService(logger)
	if err != nil {
		return err
	}
	defer stop()
	out.tell("a service: %s\n\n", service)
	began := time.Now()
	doc := object{"source": source.url + "orders", "target": target.url + "orders", "create_target": true}
	shown, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	out.tell("PUT %s_replicator/demo\n  %s\n", service, shown)
	if err := request("PUT", service+"_replicator/demo", doc, nil); err != nil {
		return err
	}
	if err := follow(out, service+"_scheduler/docs/_replicator/demo"); err != nil {
		return err
	}
	out.tell("took %s\n\n", time.Since(began).Truncate(time.Millisecond))
	same, err := compare.Databases(context.Background(), source.url+"orders", target.url+"orders")
	if err != nil {
		return err
	}
	out.tell("both sides hold the same %s\n", same)
	return out.err
}

// teller writes lines until one cannot be written.
type teller struct {
	to  io.Writer
	err error
}

func (t *teller) tell(format string, about ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.to, format, about...)
	}
}

// demoService runs a service on a store in memory. The caller calls stop, which waits for its end.
func demoService(logger *slog.Logger) (stop func(), url string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	db, err := embedded.Open("demo", embedded.Options{FS: vfs.NewMem(), Logger: logger})
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := config.Default()
	c.Secrets.Encrypt = false // in memory
	svc, err := newService(ctx, db, c, "demo", nil, logger)
	if err != nil {
		cancel()
		return nil, "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, cancel, svc, doors{plain: listener}, logger, nil) }()
	return func() {
		cancel()
		<-ended
		_ = db.Close() // in memory: there is nothing to lose
	}, "http://" + listener.Addr().String() + "/", nil
}

// follow prints the state of a replication until it is over.
func follow(out *teller, url string) error {
	for last := ""; ; time.Sleep(200 * time.Millisecond) {
		var view struct {
			State string
			Info  object
		}
		if err := request("GET", url, nil, &view); err != nil {
			return err
		}
		line := fmt.Sprintf("  %s: %v documents read, %v written, %v failed", view.State,
			view.Info["docs_read"], view.Info["docs_written"], view.Info["doc_write_failures"])
		if pending := view.Info["changes_pending"]; pending != nil { // null until the source has counted them
			line += fmt.Sprintf(", %v changes pending", pending)
		}
		if view.Info == nil {
			line = "  " + view.State
		}
		if line != last {
			out.tell("%s\n", line)
			last = line
		}
		switch view.State {
		case "completed":
			return nil
		case "failed", "crashing":
			return fmt.Errorf("the replication is %s: %v", view.State, view.Info["error"])
		}
	}
}

// fill creates a database with documents of every kind: plain ones, attachments, deletions, conflicts, design
// documents, odd ids.
func (d *demoCommand) fill(out *teller, database string) error {
	if err := request("PUT", database, nil, nil); err != nil {
		return err
	}
	var plain, conflicts []object
	for n := range d.Docs {
		plain = append(plain, object{"_id": fmt.Sprintf("order-%06d", n), "customer": n % 97,
			"note": fmt.Sprint("parcel ", n)})
	}
	for n := range 100 {
		plain = append(plain,
			object{"_id": fmt.Sprintf("photo-%03d", n), "_attachments": object{
				"small.txt": object{"content_type": "text/plain",
					"data": bytes.Repeat([]byte{'a' + byte(n%26)}, 100+n)},
				"large.data": object{"content_type": "application/octet-stream",
					"data": bytes.Repeat([]byte{byte(n)}, 1000*n)},
			}},
			object{"_id": fmt.Sprintf("Bestellung/%d ü 注文 +&%%", n), "unicode": "\u2028 ☃ 𝄞"},
		)
	}
	plain = append(plain, object{"_id": "_design/reports",
		"filters": object{"big": "function(doc) { return doc.big; }"}})
	for n := range 50 {
		for _, branch := range "abc" {
			conflicts = append(conflicts,
				object{"_id": fmt.Sprintf("disputed-%02d", n), "_rev": fmt.Sprintf("2-%c%031d", branch, n),
					"_revisions": object{"start": 2,
						"ids": []string{fmt.Sprintf("%c%031d", branch, n), fmt.Sprintf("f%031d", n)}},
					"side": string(branch)})
		}
		conflicts = append(conflicts,
			object{"_id": fmt.Sprintf("cancelled-%02d", n), "_rev": fmt.Sprintf("2-%032d", n),
				"_deleted": true})
	}
	if err := writeAll(database, plain, true); err != nil {
		return err
	}
	if err := writeAll(database, conflicts, false); err != nil {
		return err
	}
	out.tell("the source has %d documents: 100 with attachments, 100 with odd ids, 50 in conflict, "+
		"a design document; 50 are deleted\n", len(plain)+50)
	return nil
}
