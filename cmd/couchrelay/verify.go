package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"couchrelay/adapters/couch"
	"couchrelay/adapters/loop"
	"couchrelay/adapters/terminal"
	"couchrelay/adapters/verify"
	"couchrelay/core/explain"
	"couchrelay/core/instant"
	"couchrelay/core/peer"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
)

// verifyCommand compares two databases.
type verifyCommand struct {
	Source string `arg:"" optional:"" help:"URL of the database that was copied, with user:password@ if needed."`
	Target string `arg:"" optional:"" help:"URL of the copy, with user:password@ if needed."`

	Replication string `help:"${verify_replication}" type:"existingfile" placeholder:"FILE"`
	OneWay      bool   `help:"Do not look for what only the target has."`
	Repair      bool   `help:"Copy to the target what it lacks."`
	JSON        bool   `help:"Print a JSON object for each difference, and one with the sum."`
	choiceFlags
	networkFlags
}

// Help is what verify --help says.
func (verifyCommand) Help() string {
	return "Do both databases hold the same leaf revisions? Both changes feeds are read, and nothing is written but " +
		"by --repair. A document that was changed since the command began counts as changed_meanwhile and not as " +
		"missing.\n\n" +
		"With a filter, only what the target lacks is looked for.\n\n" +
		"A document for which the request about its revisions fails is not_compared, with the error.\n\n" +
		"Exit status: 0 no difference, or only changed_meanwhile and repaired ones; 1 the comparison failed, or is " +
		"not complete; 2 the command line is wrong; 5 there are other differences." + examples(
		"Two databases:", "couchrelay verify http://adm:secret@db1:5984/orders http://adm:secret@db2:5984/orders",
		"What a replication document copies, with its filter; what is missing is copied:",
		"couchrelay verify --replication nightly-orders.json --repair")
}

func (c *verifyCommand) Run(w *window) error {
	rep, err := c.parse()
	if err != nil {
		return misused(err)
	}
	wall := clock.New()
	client, err := c.client(wall)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, stop := untilSignal()
	defer stop()
	read := &feedsRead{clock: wall, begun: wall.Now()}
	v := verify.Comparison{
		Client: client, Replication: *rep, OneWay: c.OneWay, Retries: rep.Source.Retries, Clock: wall,
		Found: func(d verify.Difference) error { return c.tell(w.to, d) }, Progress: read.add,
	}
	if _, err := rand.Read(v.Key[:]); err != nil {
		return err
	}
	if c.Repair {
		told := tellRefused(func(text string) { fmt.Fprintln(os.Stderr, terminal.Clean(text)) })
		v.Repair = func(ctx context.Context, ids []string) error {
			return repair(ctx, client, wall, *rep, ids, told)
		}
	}
	n, err := v.Run(ctx)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	return c.finish(w.to, n)
}

// parse reads what is to be compared with the parser of requests to /_replicate.
func (c *verifyCommand) parse() (*spec.Replication, error) {
	if c.Replication == "" && c.Target == "" || c.Replication != "" && c.Source != "" {
		return nil, errors.New("verify: give SOURCE and TARGET, or --replication FILE")
	}
	body := map[string]any{"source": c.Source, "target": c.Target}
	if c.Replication != "" {
		raw, err := readFile(c.Replication)
		if err != nil {
			return nil, err
		}
		var doc map[string]json.RawMessage
		if err := json.Unmarshal(raw, &doc); err != nil {
			return nil, fmt.Errorf("verify: --replication is no JSON object: %w", err)
		}
		body = map[string]any{}
		for name, value := range doc { // but for the document's own fields, and a service's marks in it
			if !strings.HasPrefix(name, "_") {
				body[name] = value
			}
		}
	}
	c.networkFlags.into(body)
	if err := c.choiceFlags.into(body); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	rep, err := parseRequest(raw, spec.DefaultConfig(), networkFields)
	switch {
	case err != nil:
		return nil, err
	case rep.Cancel:
		return nil, errors.New("verify: --replication has `cancel`: it asks to end a replication, and copies nothing")
	case rep.Source.TLS+rep.Target.TLS != "":
		return nil, errors.New("verify: --replication has `tls`, which names a section of the service's " +
			"configuration, and that is not read here: leave it out, and give --ca-file")
	}
	return rep, nil
}

// readFile reads a file, or standard input if its name is -.
func readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
}

func (c *verifyCommand) tell(w io.Writer, d verify.Difference) (err error) {
	if c.JSON {
		return json.NewEncoder(w).Encode(d)
	}
	revs := strings.Join(d.Revs, " ")
	if d.Error != "" {
		revs += "  " + d.Error
	}
	_, err = fmt.Fprintf(w, "%-16s %s  %s\n", d.Kind, terminal.Clean(d.ID), terminal.Clean(revs))
	return err
}

// finish prints the sum of the differences, and returns an error if there are any.
func (c *verifyCommand) finish(w io.Writer, n verify.Counts) error {
	if c.JSON {
		if err := json.NewEncoder(w).Encode(n); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(w, sumOf(n)); err != nil {
		return err
	}
	if n.Difference[verify.Uncompared] > 0 {
		return errors.New("verify: the comparison is not complete")
	}
	if n.Difference[verify.Missing]+n.Difference[verify.Extra] > 0 {
		return errDifferent
	}
	return nil
}

// sumOf says how many documents were compared, and how they differ.
func sumOf(n verify.Counts) string {
	text := fmt.Sprintf("%s read at the source, %d at the target", explain.Count(int(n.Source), "document"), n.Target)
	if n.OneWay {
		text = explain.Count(int(n.Source), "document") + " read at the source and looked for at the target"
	}
	for _, k := range []verify.Kind{verify.Missing, verify.Extra, verify.Changed, verify.Repaired, verify.Uncompared} {
		if n.Difference[k] > 0 {
			text += fmt.Sprintf(", %d %s", n.Difference[k], k)
		}
	}
	if len(n.Difference) == 0 {
		text += ", no difference"
	}
	return text
}

// repair copies documents to the target, and tells what it refuses.
func repair(ctx context.Context, client *couch.Client, wall clock.Clock, rep spec.Replication, ids []string,
	told func(replication.Finding)) error {
	rep.Filter = spec.Filter{Kind: spec.DocIDs, DocIDs: ids}
	rep.Continuous, rep.CreateTarget, rep.UseCheckpoints = false, false, false
	pair, err := client.Pair(rep)
	if err != nil {
		return err
	}
	plan := replication.NewPlan(&rep, replication.Terms{
		Server:  repid.Server{UUID: terminalUUID, HostName: "localhost", Port: 5984},
		Created: instant.Of(wall.Now()), Seed: randomSeed(), ProgressInterval: time.Hour,
	})
	end := loop.Replicate(ctx, nil, wall, plan, pair, func(replication.Info) {}, &loop.Refused{Told: told})
	if end.Cause == replication.Crashed || end.Cause == replication.Failed {
		return errors.New(end.Trouble.String())
	}
	return context.Cause(ctx)
}

// feedsRead tells now and then how much has been read.
type feedsRead struct {
	clock clock.Clock
	begun time.Time
	rows  [2]atomic.Int64
	told  atomic.Int64 // how many times
}

// toldEvery is the time between two lines.
const toldEvery = 10 * time.Second

func (f *feedsRead) add(side peer.Side, rows int) {
	f.rows[side].Add(int64(rows))
	told, passed := f.told.Load(), int64(f.clock.Since(f.begun)/toldEvery)
	if passed > told && f.told.CompareAndSwap(told, passed) {
		fmt.Fprintf(os.Stderr, "%d rows read at the source, %d at the target\n", f.rows[0].Load(), f.rows[1].Load())
	}
}
