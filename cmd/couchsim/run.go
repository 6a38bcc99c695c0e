package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"couchrelay/sim/campaign"
	"couchrelay/sim/cluster"

	"golang.org/x/term"
)

// runCommand plays many seeds.
type runCommand struct {
	choice
	Seed     uint64        `help:"First seed." default:"0"`
	Seeds    uint64        `help:"Number of seeds; 200 unless there is a duration." placeholder:"N"`
	Duration time.Duration `help:"Play as many seeds as start within this time." placeholder:"90s"`
	Workers  int           `help:"Worlds at once; one on each core unless told." placeholder:"N"`
	Stop     int           `help:"Stop after so many violations; 0 goes on to the end." default:"1"`
}

func (c *runCommand) Run() error {
	w, err := c.worlds()
	if err != nil {
		return err
	}
	if c.Seeds == 0 && c.Duration == 0 {
		c.Seeds = 200
	}
	plan := campaign.Campaign{World: w.of, First: c.Seed, Seeds: c.Seeds, Duration: c.Duration, Workers: c.Workers, Stop: c.Stop}
	plan.Progress = progress(os.Stderr)
	report := plan.Run()
	clearLine(os.Stderr)
	printReport(os.Stdout, w, report)
	return verdict(os.Stdout, w, report.Failures)
}

// progress shows how far a campaign is, on terminals only.
func progress(out *os.File) func(*campaign.Report) {
	if !term.IsTerminal(int(out.Fd())) {
		return nil
	}
	return func(r *campaign.Report) {
		fmt.Fprintf(out, "\r%d seeds, %d violations, %.0f events/s ", r.Seeds, len(r.Failures), float64(r.Events)/r.Took.Seconds())
	}
}

func clearLine(out *os.File) {
	if term.IsTerminal(int(out.Fd())) {
		fmt.Fprint(out, "\r\x1b[K")
	}
}

// verdict prints the violations and tells the exit status.
func verdict(out io.Writer, w worlds, failures []campaign.Failure) error {
	if len(failures) == 0 {
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
	fmt.Fprintf(out, "\n%s  %s %s\n", v.ID, cluster.Invariants[v.ID], oneLine(v.Text))
	fmt.Fprintf(out, "    seed %d of %s, event %d, %s after the beginning%s\n", f.Seed, w.name, v.Step, f.Virtual, commit())
	fmt.Fprintf(out, "    %s\n", w.command("replay", "--seed %d", f.Seed))
	fmt.Fprintf(out, "    %s\n", w.command("shrink", "--seed %d -o scenarios/regressions/%s-seed%d.txt", f.Seed, strings.ToLower(v.ID), f.Seed))
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
