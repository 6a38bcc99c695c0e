package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"couchrelay/adapters/capture"
	"couchrelay/adapters/eventlog"
	"couchrelay/sim/workload"
)

// importCommand makes a workload of a server or a recorded log.
type importCommand struct {
	From     string        `arg:"" help:"A CouchDB or couchrelay, or a log of serve --record." placeholder:"URL|LOG"`
	Out      string        `short:"o" required:"" help:"Write it: .jsonl, or .swf and .csv." type:"path"`
	Settings string        `help:"Write the settings that were found into this file." type:"path" placeholder:"INI"`
	Watch    time.Duration `help:"Look twice, so long apart, to measure rates and speeds." placeholder:"60s"`
	Names    bool          `help:"Keep the names of databases, users and documents."`
}

// Help is kong's.
func (importCommand) Help() string {
	return `The workload has what a service does now, or what it did while a log was recorded: its accounts and jobs,
with estimates of rates, speeds and crashes, and without hosts, URLs and names. An admin's login goes into the
address:

  couchsim import http://adm:PASSWORD@couch:5984 --watch 60s -o now.jsonl --settings now.ini
  couchsim import /var/tmp/incident.log -o incident.jsonl`
}

func (c *importCommand) Run() error {
	if !workload.IsFile(c.Out) {
		return fmt.Errorf("--out %s: must end in .jsonl or .swf", c.Out)
	}
	// Both are looked at before a watch, which takes a while.
	if err := errors.Join(writable("out", c.Out), writable("settings", c.Settings)); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	got, err := c.capture(ctx)
	if err != nil {
		return err
	}
	if err := got.Workload.WriteFile(c.Out); err != nil {
		return err
	}
	if c.Settings != "" {
		if err := os.WriteFile(c.Settings, []byte(got.INI()), 0o600); err != nil {
			return fmt.Errorf("--settings: %w", err)
		}
	}
	fmt.Print(got.Workload.Summary())
	for _, note := range got.Notes {
		fmt.Println("note     ", note)
	}
	if c.Settings == "" && len(got.Settings) > 0 {
		fmt.Print("\n", got.INI())
	}
	return nil
}

// capture looks at the server, or reads the log.
func (c *importCommand) capture(ctx context.Context) (*capture.Capture, error) {
	if c.Watch < 0 {
		return nil, fmt.Errorf("--watch %s: must not be negative", c.Watch)
	}
	if strings.Contains(c.From, "://") {
		return capture.Server(ctx, c.From, capture.Options{Names: c.Names, Watch: c.Watch})
	}
	if c.Watch != 0 {
		return nil, errors.New("--watch is for a server")
	}
	file, err := os.Open(c.From)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is neither the address of a server (http://HOST:PORT) nor a file", c.From)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	got, err := capture.Log(file, c.Names)
	if errors.Is(err, eventlog.ErrFormat) {
		err = fmt.Errorf("%s: %w; a log is what couchrelay serve --record writes", c.From, err)
	}
	return got, err
}
