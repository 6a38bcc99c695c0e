package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"couchrelay/core/instant"
	"couchrelay/sim/campaign"
	"couchrelay/sim/oracle"
	"couchrelay/sim/timeline"
	"couchrelay/sim/trial"
)

// replayCommand shows one run.
type replayCommand struct {
	choice
	Seed  *uint64 `help:"The seed to play; 0, or the scenario's first." placeholder:"N"`
	Until string  `help:"Stop at this event, or this time after the beginning." placeholder:"49233|12m"`
	Grep  string  `help:"Show only lines that match." placeholder:"REGEXP"`

	Log      string `help:"${replay_log}" type:"existingfile" placeholder:"FILE"`
	Timeline string `help:"${replay_timeline}" type:"path" placeholder:"FILE"`
}

// Help is kong's.
func (replayCommand) Help() string {
	return `A line has the time after the beginning, the number of the event, the process, and what happens:
  < event that a machine is given      > effect that it asks for
  ^ start of a process                 ! crash          zz pause          _ exit in order
  ~ fault`
}

// tracer is told of everything that happens in a run.
type tracer func(at instant.Time, step uint64, actor, text string)

func (c *replayCommand) Run() error {
	if c.Log != "" {
		return c.replayLog(os.Stdout)
	}
	w, err := c.worlds()
	if err != nil {
		return err
	}
	var limit limit
	if err := limit.parse(c.Until); err != nil {
		return err
	}
	grep, err := regexp.Compile(c.Grep)
	if err != nil {
		return fmt.Errorf("--grep: %w", err)
	}
	out := bufio.NewWriter(os.Stdout)
	var recorder *timeline.Recorder
	var picture *os.File
	if c.Timeline != "" { // before the run, which may take hours, in case the file cannot be written
		if picture, err = os.Create(c.Timeline); err != nil {
			return fmt.Errorf("--timeline: %w", err)
		}
		defer picture.Close()
	}
	seed, _ := w.seeds(c.Seed, 1, 0)
	world := w.of(seed)
	outcome := campaign.Play(world.Config, world.Decider(), limit.hook, func(w *trial.Trial) {
		if c.Timeline != "" {
			recorder = timeline.Record(w)
			return
		}
		w.Engine.Trace = tee(textTrace(out, w.Engine.Now(), grep))
	})
	if outcome.Stack != "" {
		fmt.Fprintf(out, "\n%s", outcome.Stack)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if recorder != nil {
		if err := draw(picture, recorder, w, seed, outcome.Violation); err != nil {
			return err
		}
	}
	switch {
	case outcome.Violation != nil:
		failure := campaign.Failure{Seed: seed, Outcome: outcome}
		return verdict(context.Background(), os.Stdout, w, []campaign.Failure{failure})
	case outcome.Abandoned:
		fmt.Printf("stopped at event %d, %s after the beginning\n", outcome.Events, outcome.Virtual)
	default:
		fmt.Printf("all invariants held; %d events, %s, hash %016x\n", outcome.Events, outcome.Virtual, outcome.Hash)
	}
	return nil
}

// draw writes the picture.
func draw(file *os.File, r *timeline.Recorder, w worlds, seed uint64, v *oracle.Violation) error {
	title := w.name
	if !w.scripted() {
		title = fmt.Sprintf("%s, seed %d", w.name, seed)
	}
	if err := r.Write(file, title, v); err != nil {
		return fmt.Errorf("--timeline %s: %w", file.Name(), err)
	}
	fmt.Println("wrote", file.Name())
	return file.Close()
}

// tee tells several tracers.
func tee(all ...tracer) tracer {
	return func(at instant.Time, step uint64, actor, text string) {
		for _, t := range all {
			t(at, step, actor, text)
		}
	}
}

// textTrace writes the lines that match.
func textTrace(out *bufio.Writer, began instant.Time, grep *regexp.Regexp) tracer {
	return func(at instant.Time, step uint64, actor, text string) {
		line := fmt.Sprintf("%14.6f %8d %-6s %s", at.Sub(began).Seconds(), step, actor, text)
		if grep.MatchString(line) {
			fmt.Fprintln(out, line)
		}
	}
}

// limit is where a replay stops: an event or a time; 0 is none.
type limit struct {
	event uint64
	after time.Duration
}

func (l *limit) parse(s string) (err error) {
	if s == "" {
		return nil
	}
	if l.event, err = strconv.ParseUint(s, 10, 64); err == nil && l.event > 0 {
		return nil
	}
	if l.after, err = time.ParseDuration(s); err != nil || l.after <= 0 {
		return fmt.Errorf("--until %s: must be the number of an event, from 1, or a time after the beginning such as "+
			"12m", s)
	}
	return nil
}

func (l *limit) hook(w *trial.Trial) {
	campaign.Until(w, func() bool {
		return l.event > 0 && w.Engine.Played() >= l.event || l.after > 0 && w.Elapsed() >= l.after
	})
}
