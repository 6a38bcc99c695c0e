package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"couchrelay/sim/campaign"
	"couchrelay/sim/mutants"
)

// mutantsCommand plants bugs and looks for them.
type mutantsCommand struct {
	Names   []string      `arg:"" optional:"" help:"Mutants; all unless told."`
	List    bool          `help:"Only list them."`
	Seeds   uint64        `help:"Seeds to play at most for each." default:"10000"`
	Workers int           `help:"Worlds at once; one on each core unless told." placeholder:"N"`
	Limit   time.Duration `help:"Time for each at most." default:"2h"`
	Source  string        `help:"Directory of the module's source." default:"." type:"existingdir"`
}

// Help is kong's.
func (mutantsCommand) Help() string {
	return "Compiles a copy of couchsim for each bug, with the Go toolchain, and plays seeds of profile small until an invariant breaks. The source is not touched."
}

func (c *mutantsCommand) Run() error {
	chosen, err := mutants.Find(c.Names)
	if err != nil {
		return err
	}
	if c.List {
		return listMutants(os.Stdout, chosen)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "couchsim-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, err := filepath.Abs(c.Source)
	if err != nil {
		return err
	}
	worlds, err := choice{Profile: "small"}.worlds()
	if err != nil {
		return err
	}
	hunt := mutants.Hunt{Root: root, Dir: dir, Seeds: c.Seeds, Workers: c.Workers, Limit: c.Limit, Sound: func(seed uint64) bool {
		world := worlds.of(seed)
		return campaign.Play(world.Config, world.Decider()).Violation == nil
	}}
	var caught []mutants.Catch
	for _, m := range chosen {
		found, err := hunt.Run(ctx, m)
		if err != nil {
			return err // a mutant that does not compile measures nothing
		}
		printCatch(os.Stdout, found)
		caught = append(caught, found)
	}
	return score(os.Stdout, caught)
}

func listMutants(out io.Writer, list []mutants.Mutant) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, m := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", m.Subject, m.Name, m.File, m.What)
	}
	return table.Flush()
}

// printCatch prints a line of the table. Hunts take long, so none waits for the widths of those that follow.
func printCatch(out io.Writer, c mutants.Catch) {
	by, seeds := c.Invariant, fmt.Sprint(c.Seeds)
	if by == "" {
		by, seeds = "-", ">"+seeds
	}
	fmt.Fprintf(out, "%-12s %-30s %-4s %6s seeds %7.1f s  %s\n", c.Subject, c.Name, by, seeds, c.Took.Seconds(), c.What)
}

// score sums up the hunts: exit status 1 when a mutant was not caught.
func score(out io.Writer, all []mutants.Catch) error {
	var missed []string
	var needed []uint64
	for _, c := range all {
		if c.Invariant == "" {
			missed = append(missed, c.Name)
		} else {
			needed = append(needed, c.Seeds)
		}
	}
	slices.Sort(needed)
	within := func(seeds uint64) int {
		n, _ := slices.BinarySearch(needed, seeds+1)
		return n
	}
	fmt.Fprintf(out, "\n%d mutants: %d caught within 10 seeds, %d within 100, %d within 1000, %d within 10000", len(all), within(10), within(100), within(1000), within(10000))
	if len(needed) > 0 {
		fmt.Fprintf(out, "; median %d", needed[len(needed)/2])
	}
	fmt.Fprintln(out)
	if len(missed) > 0 {
		fmt.Fprintf(out, "not caught: %s\n", strings.Join(missed, ", "))
		return status(1)
	}
	return nil
}
