package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"couchrelay/sim/campaign"
)

// determinismCommand plays seeds twice.
type determinismCommand struct {
	choice
	Seed  *uint64 `help:"First seed; 0, or the scenario's first." placeholder:"N"`
	Seeds uint64  `help:"Number of seeds; 200, or as many as the scenario has." placeholder:"N"`
	With  string  `help:"Couchsim for the second run; this one unless told." placeholder:"FILE" type:"existingfile"`
}

// Help is kong's.
func (determinismCommand) Help() string {
	return `The second run is in another process with another GOMAXPROCS. A run that differs is searched for the first
event at which it does, which is shown with both states. A change that only moves code plays all seeds as before:
--with takes a couchsim built before the change.`
}

func (c *determinismCommand) Run() error {
	w, err := c.worlds()
	if err != nil {
		return err
	}
	w.other = c.With
	first, seeds := w.seeds(c.Seed, c.Seeds, 0)
	ctx, stop := interruptible()
	defer stop()
	report := campaign.Campaign{World: w.of, First: first, Seeds: seeds, Progress: progress(os.Stderr)}.Run(ctx)
	clearLine(os.Stderr)
	if ctx.Err() != nil {
		return status(exitInterrupted)
	}
	return w.twice(os.Stdout, report)
}

// twice plays the seeds of a campaign again, in other processes, and shows where the first run that differs
// does.
func (w worlds) twice(out io.Writer, r *campaign.Report) error {
	again, err := w.hashes(r.First, r.Seeds)
	if err != nil {
		return err
	}
	var differ []uint64
	for seed, hash := range r.Hashes {
		if again[seed] != hash {
			differ = append(differ, seed)
		}
	}
	if len(differ) == 0 {
		fmt.Fprintf(out, "%d seeds played twice, in two processes: no difference\n", r.Seeds)
		return nil
	}
	slices.Sort(differ)
	fmt.Fprintf(out, "%d of %d seeds differ when they are played again: %v\n", len(differ), r.Seeds, differ)
	if err := w.part(out, differ[0]); err != nil {
		return err
	}
	return status(exitUnsafe)
}

// part shows where two runs of a seed part.
func (w worlds) part(out io.Writer, seed uint64) error {
	here := func(p campaign.Probe) (campaign.Trail, error) { return p.Play(w.of(p.Seed)), nil }
	there := func(p campaign.Probe) (campaign.Trail, error) {
		trails, err := w.elsewhere(p, 1)
		if err != nil {
			return campaign.Trail{}, err
		}
		return trails[0], nil
	}
	d, err := campaign.Part(seed, here, there)
	if err != nil || d == nil {
		return err
	}
	fmt.Fprintf(out, "seed %d parts at event %d\n", seed, d.Event)
	for _, side := range []struct {
		name string
		step campaign.Step
		only []string
	}{{"here", d.Here, d.OnlyHere}, {"there", d.There, d.OnlyThere}} {
		fmt.Fprintf(out, "%s, hash %016x:\n  %s\n", side.name, side.step.Hash, strings.Join(side.step.Lines, "\n  "))
		fmt.Fprintf(out, "  state that only it has: %d lines\n", len(side.only))
		for _, line := range side.only[:min(20, len(side.only))] {
			fmt.Fprintf(out, "    %s\n", line)
		}
	}
	return nil
}

// hashes plays seeds in other processes, one on each core.
func (w worlds) hashes(first, seeds uint64) (map[uint64]uint64, error) {
	parts := min(uint64(runtime.NumCPU()), seeds)
	trails, errs := make([][]campaign.Trail, parts), make([]error, parts)
	var processes sync.WaitGroup
	for i := range parts {
		from, to := first+seeds*i/parts, first+seeds*(i+1)/parts
		processes.Go(func() { trails[i], errs[i] = w.elsewhere(campaign.Probe{Seed: from}, to-from) })
	}
	processes.Wait()
	hashes := map[uint64]uint64{}
	for i, part := range trails {
		if errs[i] != nil {
			return nil, errs[i]
		}
		for _, t := range part {
			hashes[t.Seed] = t.Hash
		}
	}
	return hashes, nil
}

// elsewhere plays seeds from the probe's on in another process, on one core.
func (w worlds) elsewhere(p campaign.Probe, seeds uint64) ([]campaign.Trail, error) {
	program := w.other
	if program == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		program = self
	}
	number := func(name string, n uint64) string { return "--" + name + "=" + strconv.FormatUint(n, 10) }
	args := append([]string{"probe"}, w.args...)
	args = append(args, number("seed", p.Seed), number("seeds", seeds), number("every", p.Every),
		number("from", p.From), number("to", p.To))
	command := exec.Command(program, args...)
	command.Env = append(os.Environ(), "GOMAXPROCS=1")
	command.Stderr = os.Stderr
	pipe, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("a second process: %w", err)
	}
	var trails []campaign.Trail
	for decoder := json.NewDecoder(pipe); ; {
		var t campaign.Trail
		if err = decoder.Decode(&t); err != nil {
			break
		}
		trails = append(trails, t)
	}
	if failed := command.Wait(); failed != nil {
		return nil, fmt.Errorf("a second process: %w", failed)
	}
	if err != io.EOF || uint64(len(trails)) != seeds {
		return nil, fmt.Errorf("a second process told of %d seeds instead of %d: %w", len(trails), seeds, err)
	}
	return trails, nil
}

// probeCommand is the second process.
type probeCommand struct {
	choice
	Seed, Seeds, Every, From, To uint64
}

func (c *probeCommand) Run() error {
	w, err := c.worlds()
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	for i := range c.Seeds {
		p := campaign.Probe{Seed: c.Seed + i, Every: c.Every, From: c.From, To: c.To}
		if err := out.Encode(p.Play(w.of(p.Seed))); err != nil {
			return err
		}
	}
	return nil
}
