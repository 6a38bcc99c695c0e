package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"couchrelay/sim/mutants"
	"couchrelay/sim/oracle"
)

// invariantsCommand lists what must hold.
type invariantsCommand struct {
	ID string `arg:"" optional:"" help:"Only this one, or all whose ids begin so, with the planted bugs they caught."`
}

// Help is kong's.
func (invariantsCommand) Help() string {
	return "S holds while things happen, L after all trouble is over, B (nothing loops busily) and P (nothing " +
		"panics) always.\nA number counts planted bugs that the invariant caught, according to sim/mutants/caught.txt."
}

func (c *invariantsCommand) Run() error {
	caught, err := mutants.Caught()
	if err != nil {
		return err
	}
	by := map[string][]mutants.Catch{}
	for _, bug := range caught {
		by[bug.Invariant] = append(by[bug.Invariant], bug)
	}
	if c.ID == "" {
		return listInvariants(os.Stdout, by)
	}
	known := false
	for _, i := range oracle.Invariants {
		if strings.HasPrefix(i.ID, c.ID) {
			known = true
			if err := showInvariant(os.Stdout, i, by[i.ID]); err != nil {
				return err
			}
		}
	}
	if !known {
		return fmt.Errorf("invariant %q does not exist; couchsim invariants lists all", c.ID)
	}
	return nil
}

// listInvariants prints a line for each invariant.
func listInvariants(out io.Writer, by map[string][]mutants.Catch) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, i := range oracle.Invariants {
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", i.ID, len(by[i.ID]), i.File(), i.Says)
	}
	return table.Flush()
}

// showInvariant prints an invariant, where it is defined, and the planted bugs that it caught.
func showInvariant(out io.Writer, i oracle.Invariant, caught []mutants.Catch) error {
	fmt.Fprintf(out, "%s  %s\n     sim/oracle/%s; it caught %d planted bugs\n", i.ID, i.Says, i.File(), len(caught))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, bug := range caught {
		fmt.Fprintf(table, "     %s\t%d seeds\t%s\n", bug.Name, bug.Seeds, bug.What)
	}
	return table.Flush()
}
