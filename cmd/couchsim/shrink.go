package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"couchrelay/sim/oracle"
	"couchrelay/sim/scenario"
	"couchrelay/sim/shrink"

	"golang.org/x/term"
)

// shrinkCommand makes a failing run small.
type shrinkCommand struct {
	choice
	Seed   *uint64       `help:"The seed that fails; 0, or the scenario's first." placeholder:"N"`
	Output string        `short:"o" help:"File for the scenario; the screen without one." placeholder:"FILE"`
	Budget time.Duration `help:"How long it may take." default:"60s"`
}

func (c *shrinkCommand) Run() error {
	w, err := c.worlds()
	if err != nil {
		return err
	}
	if c.Output != "" {
		if err := os.MkdirAll(filepath.Dir(c.Output), 0o755); err != nil {
			return fmt.Errorf("--output: %w", err)
		}
	}
	if err := writable("output", c.Output); err != nil {
		return err
	}
	seed, _ := w.seeds(c.Seed, 1, 0)
	task := shrink.Task{World: w.of(seed), Seed: seed, Budget: c.Budget}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		task.Progress = func(pass string, decisions, runs int) {
			fmt.Fprintf(os.Stderr, "\r\x1b[K%s: %d decisions, %d runs ", pass, decisions, runs)
		}
	}
	began := time.Now()
	result, err := shrink.Shrink(task)
	clearLine(os.Stderr)
	if err != nil {
		return err
	}
	from := w.name
	if !w.scripted() {
		from = fmt.Sprintf("seed %d of %s", seed, w.name)
	}
	s := result.Scenario
	s.Text = []string{
		fmt.Sprintf("%s: %s", s.Broke, oracle.Says(s.Broke)),
		oneLine(result.After.Text),
		fmt.Sprintf("Shrunk from %s.", from),
	}
	text := scenario.Format(s)
	fmt.Fprintf(os.Stderr, "%s; %d decisions became %d, in %d runs and %s\n", result.After.ID, result.Decisions,
		len(s.Decisions), result.Runs, time.Since(began).Round(time.Millisecond))
	if c.Output == "" {
		fmt.Print(text)
		return nil
	}
	if err := os.WriteFile(c.Output, []byte(text), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "written to %s; go run ./cmd/couchsim replay %s shows what happens\n", c.Output, c.Output)
	return nil
}
