package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"couchrelay/adapters/embedded"
	"couchrelay/adapters/inspect"
	"couchrelay/adapters/terminal"
	"couchrelay/core/kv"
)

// checkCommand checks a store.
type checkCommand struct {
	remote
	opening
	Store  string `help:"${check_store}" placeholder:"STORE" complete:"directory"`
	Repair bool   `help:"Repair what follows from other rows."`
	// Discard is the id of a job. The repair removes the rows of lists and counters that the job leaves behind.
	Discard string `help:"First remove this job, which cannot be read; with --store and --repair." placeholder:"JOB"`
}

// Help is kong's.
func (checkCommand) Help() string {
	return "Reads the whole store and compares all rows with each other: jobs, their places in queues and lists, " +
		"counters, leases, documents, encrypted values. A running service goes on meanwhile. What is wrong is told " +
		"row by row, with what --repair does about it. --timeout bounds how long nothing may come.\n\n" +
		"Exit status: 0 the store is sound; 1 something is wrong with it; 2 it could not be checked, or the command " +
		"line is wrong." + examples(
		"Look at the store of a running service:", "couchrelay check",
		"Look at a store that no service uses, and put right what can be:",
		"couchrelay check --store /var/lib/couchrelay/store --repair",
		"On FoundationDB:", "couchrelay check --store fdb:/etc/foundationdb/fdb.cluster",
		"Remove a job that cannot be read, with the id that the log has for it (job_unreadable):",
		"couchrelay check --store /var/lib/couchrelay/store --repair --discard '3f2a...|orders'")
}

// Exit statuses of a check.
const (
	unsound   = 1
	unchecked = 2
)

// statusError is an error with the exit status of its own.
type statusError struct {
	error
	status int
}

func (v statusError) Unwrap() error { return v.error }

var errUnsound = statusError{errors.New("the store is not sound"), unsound}

func (c *checkCommand) Run(w *window) error {
	var s inspect.Summary
	var err error
	if c.Store == "" {
		s, err = c.ask(w)
	} else {
		s, err = c.look(w)
	}
	switch {
	case err != nil:
		return statusError{err, unchecked}
	case !s.Sound:
		return errUnsound
	}
	return nil
}

// ask has a running service check its store.
func (c *checkCommand) ask(w *window) (s inspect.Summary, err error) {
	method := "GET"
	if c.Repair {
		method = "POST"
	}
	node, err := c.node()
	if err != nil {
		return s, err
	}
	whole := false
	err = c.stream(method, node+"/_check", func(body io.Reader) error {
		for lines := json.NewDecoder(body); ; {
			var line struct {
				Finding *inspect.Told
				Summary *inspect.Summary
			}
			err := lines.Decode(&line)
			switch {
			case err == io.EOF && whole:
				return nil
			case err != nil:
				return fmt.Errorf("the service broke the check off: see its log (%w)", err)
			case line.Finding != nil:
				err = c.tell(w, *line.Finding)
			case line.Summary != nil:
				s, whole = *line.Summary, true
				err = c.sum(w, s)
			}
			if err != nil {
				return err
			}
		}
	})
	return s, err
}

// look checks a store itself.
func (c *checkCommand) look(w *window) (inspect.Summary, error) {
	u, err := openUpkeep(c.Store, c.opening, true)
	if err != nil {
		return inspect.Summary{}, err
	}
	defer u.db.Close()
	ctx, stop := untilSignal()
	defer stop()
	if c.Discard != "" {
		if err := u.discard(ctx, c.Discard); err != nil {
			return inspect.Summary{}, fmt.Errorf("--discard %s: %w", c.Discard, err)
		}
	}
	s, err := u.Check(ctx, c.Repair, func(t inspect.Told) error { return c.tell(w, t) })
	if err != nil {
		return s, err
	}
	return s, c.sum(w, s)
}

// openUpkeep opens a store without a service, with the keys of its values if they are needed.
func openUpkeep(name string, o opening, keys bool) (*upkeep, error) {
	if _, err := os.Stat(name); err != nil && !strings.HasPrefix(name, "fdb:") {
		return nil, fmt.Errorf("--store: %w", err)
	}
	command := serveCommand{Config: o.Config, LocalConfig: o.LocalConfig, Store: name, KeyPrefix: o.KeyPrefix}
	layers, err := command.load()
	if err != nil {
		return nil, err
	}
	settings, err := layers.config()
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	settings.Secrets.MakeKey, settings.Secrets.Encrypt = false, false // values are only opened
	logger := slog.New(slog.DiscardHandler)
	db, err := openStore(name, settings.KeyPrefix, embedded.Options{Logger: logger, Existing: true})
	if errors.Is(err, embedded.ErrInUse) {
		err = fmt.Errorf("%w: without --store the service that uses it is asked", err)
	}
	if err != nil {
		return nil, err
	}
	u := &upkeep{sealing(db, settings, logger), settings.KeyPrefix, &sync.Mutex{}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = u.inhabited(ctx)
	if err == nil && keys {
		err = u.db.keeper.Check(ctx)
	}
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return u, nil
}

// inhabited returns an error if there is no row where a service with these settings has its own: another key prefix
// must not pass for a store that is sound, or saved.
func (u *upkeep) inhabited(ctx context.Context) error {
	rows, err := kv.Run(ctx, u.db.store, func(tx kv.Tx) ([]kv.KeyValue, error) {
		return tx.GetRange(kv.PrefixRange(rootOf(u.prefix)), kv.RangeOptions{Limit: 1})
	})
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("the store has nothing below the key prefix %q: --key-prefix or --config says another one",
			u.prefix)
	}
	return err
}

// tell prints a finding.
func (c *checkCommand) tell(w *window, t inspect.Told) error {
	if c.JSON {
		return w.object("finding", t)
	}
	then := "not repaired, since no other row says how it was"
	switch {
	case t.Repaired:
		then = "repaired: " + t.Repair
	case t.Repair != "" && c.Repair:
		then = "changed meanwhile, and was left alone"
	case t.Repair != "":
		then = "--repair would " + t.Repair
	}
	_, err := fmt.Fprintf(w.to, "%s\n    %s\n", terminal.Clean(t.Key), terminal.Clean(t.What+"; "+then))
	return err
}

// sum prints the summary.
func (c *checkCommand) sum(w *window, s inspect.Summary) error {
	if c.JSON {
		return w.object("summary", s)
	}
	text := fmt.Sprintf("%d rows in %.1f s", s.Rows, s.Seconds)
	if s.Repaired > 0 {
		text += fmt.Sprintf(", %d repaired", s.Repaired)
	}
	if text += ": sound"; !s.Sound {
		text = strings.TrimSuffix(text, "sound") + fmt.Sprintf("%d things are wrong", s.Findings)
	}
	if s.Unsure > 0 {
		text += fmt.Sprintf("; %d counters could not be judged while the store is in use", s.Unsure)
	}
	_, err := fmt.Fprintln(w.to, text)
	return err
}
