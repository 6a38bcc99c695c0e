package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"couchrelay/sim/campaign"
	"couchrelay/sim/world"
)

// faultsCommand tells what can go wrong.
type faultsCommand struct {
	choice
	Report bool   `help:"Also play seeds, and count how often each came up and whether it mattered."`
	Seed   uint64 `help:"First seed of the report." default:"0"`
	Seeds  uint64 `help:"Number of seeds of the report." default:"100"`
	Sample int    `help:"Firings of each that are tried: the seed is played again without that one." default:"3"`
}

// Help is kong's.
func (faultsCommand) Help() string {
	return `The report counts for each fault and action:
  enabled   seeds in which it could come up
  reached   times that it could have
  fired     times that it did
  mattered  of the firings that were tried, those without which the run ended otherwise`
}

func (c *faultsCommand) Run() error {
	if !c.Report {
		return printCatalogue(os.Stdout, nil)
	}
	w, err := c.worlds()
	if err != nil {
		return err
	}
	plan := campaign.Campaign{World: w.of, First: c.Seed, Seeds: c.Seeds, Sample: c.Sample,
		Progress: progress(os.Stderr)}
	ctx, stop := interruptible()
	defer stop()
	report := plan.Run(ctx)
	clearLine(os.Stderr)
	err = printCatalogue(os.Stdout, report)
	return cmp.Or(verdict(ctx, os.Stdout, w, report.Failures), err)
}

// printCatalogue lists all faults and actions by family, with what became of them in a campaign if there was
// one.
func printCatalogue(out io.Writer, r *campaign.Report) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	family := ""
	for _, t := range world.Catalogue {
		if t.Family != family {
			family = t.Family
			printHeading(table, family, r != nil)
		}
		fmt.Fprintf(table, "  %s\t%s\t", t.Name, t.Where)
		if r == nil {
			fmt.Fprintln(table, t.What)
			continue
		}
		n := r.Faults[t.Name]
		if n == nil {
			n = &campaign.Count{}
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%d of %d\n", n.Enabled, thousands(n.Reached), thousands(n.Fired), n.Mattered,
			n.Sampled)
	}
	return table.Flush()
}

func printHeading(table io.Writer, family string, report bool) {
	columns := "what happens"
	if report {
		columns = "enabled\treached\tfired\tmattered"
	}
	fmt.Fprintf(table, "%s\twhere\t%s\n", family, columns)
}
