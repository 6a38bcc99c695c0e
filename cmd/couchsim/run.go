package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"couchrelay/sim/campaign"
	"couchrelay/sim/oracle"

	"golang.org/x/term"
)

// runCommand plays many seeds.
type runCommand struct {
	choice
	Seed     *uint64       `help:"First seed; 0, or the scenario's first." placeholder:"N"`
	Seeds    uint64        `help:"${run_seeds}" placeholder:"N"`
	Duration time.Duration `help:"Play as many seeds as start within this time." placeholder:"90s"`
	Workers  int           `help:"Worlds at once; one on each core unless told." placeholder:"N"`
	Twice    bool          `help:"Play every seed a second time in another process, and compare."`
	Stop     int           `help:"Stop after so many violations; 0 goes on to the end." default:"1"`
	Hashes   string        `help:"${run_hashes}" placeholder:"FILE" type:"path"`
}

// Validate is kong's.
func (c *runCommand) Validate() error {
	if c.Duration < 0 {
		return fmt.Errorf("--duration %s: must not be negative", c.Duration)
	}
	return nil
}

func (c *runCommand) Run() error {
	w, err := c.worlds()
	if err != nil {
		return err
	}
	if err := writable("hashes", c.Hashes); err != nil {
		return err
	}
	first, seeds := w.seeds(c.Seed, c.Seeds, c.Duration)
	plan := campaign.Campaign{World: w.of, First: first, Seeds: seeds, Duration: c.Duration, Workers: c.Workers,
		Stop: c.Stop}
	plan.Progress = progress(os.Stderr)
	ctx, stop := interruptible()
	defer stop()
	report := plan.Run(ctx)
	clearLine(os.Stderr)
	printReport(os.Stdout, w, report)
	if c.Hashes != "" {
		err = writeHashes(c.Hashes, report.Hashes)
	}
	if c.Twice && len(report.Failures) == 0 && ctx.Err() == nil {
		fmt.Println()
		return cmp.Or(w.twice(os.Stdout, report), err)
	}
	return cmp.Or(verdict(ctx, os.Stdout, w, report.Failures), err)
}

// writable returns an error if a file cannot be written, before that takes hours to be found out. A file that is there
// stays as it is.
func writable(flag, path string) error {
	if path == "" {
		return nil
	}
	_, missing := os.Stat(path)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		err = file.Close()
	}
	if err == nil && missing != nil {
		err = os.Remove(path)
	}
	if err != nil {
		return fmt.Errorf("--%s: %w; it takes a file that can be written, in a directory that exists", flag, err)
	}
	return nil
}

// writeHashes writes a line for each seed, in their order.
func writeHashes(path string, hashes map[uint64]uint64) error {
	var text strings.Builder
	for _, seed := range slices.Sorted(maps.Keys(hashes)) {
		fmt.Fprintf(&text, "%d %016x\n", seed, hashes[seed])
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// seeds are the first seed to play and the number of seeds, 0 for as many as there is time for.
func (w worlds) seeds(first *uint64, n uint64, d time.Duration) (uint64, uint64) {
	begin, usual := uint64(0), uint64(200)
	if w.scenario != nil {
		begin, usual = w.scenario.First, w.scenario.Seeds()
	}
	if first != nil {
		begin = *first
	}
	if n == 0 && d == 0 {
		n = usual
	}
	return begin, n
}

// progress tells of each violation when it is found, and on terminals how far a campaign is.
func progress(out *os.File) func(*campaign.Report) {
	told, live := 0, term.IsTerminal(int(out.Fd()))
	return func(r *campaign.Report) {
		for ; told < len(r.Failures); told++ {
			f := r.Failures[told]
			clearLine(out)
			fmt.Fprintf(out, "seed %d: %s\n", f.Seed, oneLine(f.Violation.String()))
		}
		if !live {
			return
		}
		fmt.Fprintf(out, "\r%d seeds, %d violations, %.0f events/s ", r.Seeds, len(r.Failures),
			float64(r.Events)/r.Took.Seconds())
	}
}

func clearLine(out *os.File) {
	if term.IsTerminal(int(out.Fd())) {
		fmt.Fprint(out, "\r\x1b[K")
	}
}

// verdict prints the violations and returns the exit status as an error, or nil if there are none and ctx, under which
// the seeds were played, was not interrupted.
func verdict(ctx context.Context, out io.Writer, w worlds, failures []campaign.Failure) error {
	switch {
	case len(failures) > 0:
	case ctx.Err() != nil:
		return status(exitInterrupted)
	default:
		return nil
	}
	code := status(exitStuck)
	for _, f := range failures {
		printFailure(out, w, f)
		if !f.Violation.Live() {
			code = exitUnsafe
		}
	}
	return code
}

// printFailure prints four lines: what broke, where, and the commands that show and shrink it.
func printFailure(out io.Writer, w worlds, f campaign.Failure) {
	v := f.Violation
	fmt.Fprintf(out, "\n%s  %s %s\n", v.ID, oracle.Says(v.ID), oneLine(v.Text))
	what, seed, file := w.name, "", strings.ToLower(v.ID)
	if !w.scripted() {
		what, seed, file = fmt.Sprintf("seed %d of %s", f.Seed, w.name), fmt.Sprintf(" --seed %d", f.Seed),
			fmt.Sprintf("%s-seed%d", file, f.Seed)
	}
	fmt.Fprintf(out, "    %s, event %d, %s after the beginning%s\n", what, v.Step, f.Virtual, commit())
	fmt.Fprintf(out, "    %s\n", w.command("replay")+seed)
	fmt.Fprintf(out, "    %s\n", w.command("shrink")+seed+" -o scenarios/regressions/"+file+".txt")
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
