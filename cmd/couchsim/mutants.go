package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"couchrelay/sim/campaign"
	"couchrelay/sim/mutants"
)

// mutantsCommand plants bugs and looks for them.
type mutantsCommand struct {
	Names  []string      `arg:"" optional:"" help:"Mutants; all unless told."`
	List   bool          `help:"Only list them."`
	Seeds  uint64        `help:"Seeds to play at most for each." default:"10000"`
	Cores  int           `help:"Cores to use, for as many mutants at once; all unless told." placeholder:"N"`
	Limit  time.Duration `help:"Time for each at most." default:"2h"`
	Source string        `help:"Directory of the module's source." default:"." type:"existingdir"`
	Table  string        `help:"Write what was found here; rows for other mutants stay." placeholder:"FILE" type:"path"`
	Verify bool          `help:"First play the seed that the table names, and say whether it still finds the mutant."`
}

// Help is kong's.
func (mutantsCommand) Help() string {
	return "Compiles a copy of couchsim for each bug, with the Go toolchain, and plays seeds of profile small until " +
		"an invariant breaks. The source is not touched. The table is sim/mutants/caught.txt, as it was when this " +
		"program was built."
}

func (c *mutantsCommand) Run() error {
	chosen, err := mutants.Find(c.Names)
	if err != nil {
		return err
	}
	if c.List {
		return listMutants(os.Stdout, chosen)
	}
	known, err := c.known()
	if err != nil {
		return err
	}
	if err := writable("table", c.Table); err != nil {
		return err
	}
	if err := c.isSource(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	caught, err := c.hunt(ctx, chosen, known)
	if c.Table != "" {
		err = errors.Join(err, mutants.Record(c.Table, caught)) // also what was found before an error
	}
	if err != nil {
		return err
	}
	if c.Verify {
		compare(os.Stdout, caught, known)
	}
	return score(os.Stdout, caught)
}

// isSource returns an error unless the source of couchrelay, which is compiled with each bug, is where it should be.
func (c *mutantsCommand) isSource() error {
	text, err := os.ReadFile(filepath.Join(c.Source, "go.mod"))
	if err != nil || !strings.HasPrefix(string(text), "module couchrelay\n") {
		return fmt.Errorf("--source %s: is not the source of couchrelay, which is compiled with each bug: it takes "+
			"the directory that has the go.mod of module couchrelay", c.Source)
	}
	return nil
}

// catches are by the names of mutants.
type catches = map[string]mutants.Catch

// known returns what the table says, when that is to be verified.
func (c *mutantsCommand) known() (catches, error) {
	known := catches{}
	if !c.Verify {
		return known, nil
	}
	rows, err := mutants.Caught()
	for _, row := range rows {
		known[row.Name] = row
	}
	return known, err
}

// hunt prints a line for each mutant when its hunt is over.
func (c *mutantsCommand) hunt(ctx context.Context, chosen []mutants.Mutant, known catches) ([]mutants.Catch, error) {
	dir, err := os.MkdirTemp("", "couchsim-mutants-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	root, err := filepath.Abs(c.Source)
	if err != nil {
		return nil, err
	}
	worlds, err := choice{Profile: "small"}.worlds()
	if err != nil {
		return nil, err
	}
	hunt := mutants.Hunt{Root: root, Dir: dir, Seeds: c.Seeds, Cores: c.Cores, Limit: c.Limit, Known: known}
	if hunt.Cores <= 0 {
		hunt.Cores = runtime.GOMAXPROCS(0)
	}
	hunt.Sound = func(seed uint64) bool {
		world := worlds.of(seed)
		return campaign.Play(world.Config, world.Decider()).Violation == nil
	}
	var caught []mutants.Catch
	err = hunt.All(ctx, chosen, func(found mutants.Catch) {
		fmt.Println(line(found) + note(found, known))
		caught = append(caught, found)
	})
	return caught, err
}

func listMutants(out io.Writer, list []mutants.Mutant) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, m := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", m.Subject, m.Name, m.File, m.What)
	}
	return table.Flush()
}

// line is a line of the output. Its columns have fixed widths, since a hunt takes long and is printed when it
// is over.
func line(c mutants.Catch) string {
	by, seeds := c.Invariant, fmt.Sprint(c.Seeds)
	switch {
	case c.OutOfTime:
		by, seeds = "time", "?"
	case by == "":
		by, seeds = "-", ">"+seeds
	}
	return fmt.Sprintf("%-12s %-30s %-4s %6s seeds %7.1f s  %s", c.Subject, c.Name, by, seeds, c.Took.Seconds(), c.What)
}

// note tells how a catch differs from the table. It is empty if it does not.
func note(c mutants.Catch, known catches) string {
	switch before, is := known[c.Name]; {
	case !is || c.Same(before):
		return ""
	case before.Invariant == "":
		return fmt.Sprintf("  (not caught by %d seeds before)", before.Seeds)
	default:
		return fmt.Sprintf("  (%s at %d seeds before)", before.Invariant, before.Seeds)
	}
}

// compare prints how many mutants were found as the table says.
func compare(out io.Writer, all []mutants.Catch, known catches) {
	var same int
	var differ, untold []string
	for _, c := range all {
		switch before, is := known[c.Name]; {
		case !is:
			untold = append(untold, c.Name)
		case c.Same(before):
			same++
		default:
			differ = append(differ, c.Name)
		}
	}
	fmt.Fprintf(out, "\n%d of %d mutants were found as the table says\n", same, len(all))
	if len(differ) > 0 {
		fmt.Fprintf(out, "found otherwise: %s\n", strings.Join(differ, ", "))
	}
	if len(untold) > 0 {
		fmt.Fprintf(out, "not in the table: %s\n", strings.Join(untold, ", "))
	}
}

// score sums up the hunts: exit status 1 when a mutant was not caught.
func score(out io.Writer, all []mutants.Catch) error {
	var missed, late []string
	var needed []uint64
	for _, c := range all {
		switch {
		case c.OutOfTime:
			late = append(late, c.Name)
		case c.Invariant == "":
			missed = append(missed, c.Name)
		default:
			needed = append(needed, c.Seeds)
		}
	}
	slices.Sort(needed)
	within := func(seeds uint64) int {
		n, _ := slices.BinarySearch(needed, seeds+1)
		return n
	}
	fmt.Fprintf(out, "\n%d mutants: %d caught within 10 seeds, %d within 100, %d within 1000, %d within 10000",
		len(all), within(10), within(100), within(1000), within(10000))
	if len(needed) > 0 {
		fmt.Fprintf(out, "; median %d", needed[len(needed)/2])
	}
	fmt.Fprintln(out)
	if len(missed) > 0 {
		fmt.Fprintf(out, "not caught: %s\n", strings.Join(missed, ", "))
	}
	if len(late) > 0 {
		fmt.Fprintf(out, "time ran out, not caught: %s\n", strings.Join(late, ", "))
	}
	if len(missed)+len(late) > 0 {
		return status(1)
	}
	return nil
}
