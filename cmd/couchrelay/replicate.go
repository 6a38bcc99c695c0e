package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"couchrelay/adapters/loop"
	"couchrelay/core/explain"
	"couchrelay/core/instant"
	"couchrelay/core/invariant"
	"couchrelay/core/peer"
	"couchrelay/core/repid"
	"couchrelay/core/replication"
	"couchrelay/core/spec"

	"github.com/benbjohnson/clock"
)

// terminalUUID is the server uuid of replications from the terminal. It is the same on all machines, so that
// a replication which is started on another one finds its checkpoints. In hexadecimal it is
// "couchrelay-termi".
const terminalUUID = "636f75636872656c61792d7465726d69"

// terminalMemory is the bytes of documents that a replication from the terminal may hold: four times those of a
// service's, since it is alone in its process, and often far from its servers.
const terminalMemory = 4 * replication.DefaultMemory

// replicateCommand runs one replication without a service, and waits for it.
type replicateCommand struct {
	Source string `arg:"" help:"URL of the database to read, with user:password@ if needed."`
	Target string `arg:"" help:"URL of the database to write, with user:password@ if needed."`

	Continuous   bool   `help:"Go on copying changes until interrupted."`
	CreateTarget bool   `help:"Create the target database if it is missing."`
	SinceSeq     string `help:"${replicate_since_seq}" placeholder:"SEQ"`
	Checkpoints  bool   `help:"Remember in both databases how far the replication came." default:"true" negatable:""`
	BulkGet      bool   `help:"Read documents with _bulk_get where the source has it." default:"true" negatable:""`
	choiceFlags

	OnRefusal string `enum:"skip,fail,retry" default:"skip" help:"${replicate_on_refusal}" placeholder:"WAY"`

	CheckpointInterval time.Duration `help:"Time between two checkpoints." default:"30s" placeholder:"TIME"`
	Workers            *int          `help:"${replicate_workers}" placeholder:"N"`
	BatchSize          int           `help:"How many changes a batch has at most." default:"500" placeholder:"N"`

	Compression string `enum:"auto,on,off" default:"auto" help:"${replicate_compression}" placeholder:"WHEN"`
	networkFlags

	UUID string `help:"${replicate_uuid}" default:"${terminal_uuid}" placeholder:"UUID"`
}

// Help is kong's.
func (replicateCommand) Help() string {
	return "Copies what the target lacks, with a bar on a terminal, and ends when nothing is left to copy. A later " +
		"call goes on from the checkpoint of this one, on any machine, and does not read again what the target " +
		"refused; after a call with --on-refusal retry it reads everything again, and copies what is missing. For " +
		"replications that stay, run the service." +
		examples("Copy a database, which is made if it is missing:",
			"couchrelay replicate http://db1:5984/orders http://adm:secret@db2:5984/orders --create-target",
			"Copy some documents only:",
			`couchrelay replicate http://db1:5984/orders http://db2:5984/open --selector '{"state": "open"}'`)
}

func (c *replicateCommand) Run() error {
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
	pair, err := client.Pair(*rep)
	if err != nil {
		return err
	}
	out := newProgress(os.Stderr, wall)
	plan := replication.NewPlan(rep, replication.Terms{
		Server:  repid.Server{UUID: c.UUID, HostName: "localhost", Port: 5984},
		Created: instant.Of(wall.Now()), Seed: randomSeed(), ProgressInterval: out.interval, Memory: terminalMemory,
		Broken: func(b *invariant.Broken) { out.say("invariant_broken: " + b.Error()) },
	})

	stop := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		out.say("stopping after a checkpoint; interrupt again to stop at once")
		close(stop)
		<-signals
		cancel()
	}()
	refused := loop.Refused{Told: tellRefused(out.say)}
	end := loop.Replicate(ctx, stop, wall, plan, pair, out.show, &refused)
	out.finish(end.Info)
	if i := end.Info; i.DocWriteFailures > i.Refused {
		fmt.Fprintln(os.Stderr, refusedBefore)
	}
	return verdict(end, refused.Len(), c.Continuous)
}

// parse checks the flags with the parser of requests to /_replicate, so that the terminal accepts what the
// service accepts.
func (c *replicateCommand) parse() (*spec.Replication, error) {
	body := map[string]any{
		"source": c.Source, "target": c.Target, "continuous": c.Continuous, "create_target": c.CreateTarget,
		"use_checkpoints": c.Checkpoints, "use_bulk_get": c.BulkGet,
		"checkpoint_interval": c.CheckpointInterval.Milliseconds(),
		"worker_batch_size":   c.BatchSize, "on_refusal": c.OnRefusal,
	}
	if c.Workers != nil {
		body["worker_processes"] = *c.Workers
	}
	if c.SinceSeq != "" {
		body["since_seq"] = seqJSON(c.SinceSeq)
	}
	c.networkFlags.into(body)
	if err := c.choiceFlags.into(body); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	config := spec.DefaultConfig()
	config.Compression = c.Compression
	flags := maps.Clone(networkFields)
	flags["worker_processes"], flags["worker_batch_size"] = "--workers", "--batch-size"
	flags["checkpoint_interval"] = "--checkpoint-interval"
	return parseRequest(raw, config, flags)
}

// seqJSON returns a sequence that a user copied: JSON as it is, other text as a string.
func seqJSON(s string) any {
	if json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return s
}

// maxNamed is the number of refusals that are told as they happen. More are counted at the end.
const maxNamed = 10

// tellRefused says the first refusals that it is told of.
func tellRefused(say func(string)) func(replication.Finding) {
	named := 0
	return func(f replication.Finding) {
		if named++; named <= maxNamed {
			say("refused: " + wordsOf(f.Refusal))
		}
	}
}

func wordsOf(r peer.Refusal) string {
	return fmt.Sprintf("%s %s: %s %s", r.ID, r.Rev, r.Error, r.Reason)
}

// refusedBefore is told when the checkpoint that this run began from counts more refusals than happened in it. It
// does not say which documents these were, nor whether the target has got them since.
const refusedBefore = "the target refused documents in earlier runs, which are not read again: " +
	"`couchrelay verify` tells which of them it lacks, and copies them with --repair"

// verdict returns nil only if all selected documents that were read are on the target, of which refused are not. A
// continuous replication that is stopped counts as such.
func verdict(end replication.End, refused int, continuous bool) error {
	switch {
	case end.Cause == replication.Crashed || end.Cause == replication.Failed:
		return errors.New(end.Trouble.String())
	case end.Cause == replication.Changed:
		return errors.New("the filter function was changed while it ran; start again")
	case refused > 0:
		var lines []string
		for _, r := range end.Info.Refusals {
			lines = append(lines, "  "+wordsOf(r))
		}
		return fmt.Errorf("the target refused, and does not have, %s; the latest refusals:\n%s",
			explain.Count(refused, "document"), strings.Join(lines, "\n"))
	case end.Cause == replication.Stopped && !continuous:
		return errors.New("stopped before the end; run it again to go on from the last checkpoint")
	}
	return nil
}
