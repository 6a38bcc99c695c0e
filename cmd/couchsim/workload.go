package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"couchrelay/sim/workload"
)

// workloadCommand makes or converts a workload.
type workloadCommand struct {
	File string   `arg:"" optional:"" help:"A workload: .jsonl or .swf." placeholder:"FILE"`
	Set  []string `help:"Make a workload, by settings of [workload] (--keys)." placeholder:"KEY=VALUE" sep:"none"`
	Seed uint64   `help:"The seed by which it is made." default:"1" placeholder:"N"`
	Out  string   `short:"o" help:"Write it: .jsonl, or .swf and .csv." type:"path" placeholder:"FILE"`
	Gaps bool     `help:"Read an SWF file in which jobs are missing."`
	Keys bool     `help:"List the settings."`
}

// Help is kong's.
func (workloadCommand) Help() string {
	return `For example, three databases with shares and thousands of jobs, and 5,000 more at once after six hours:

  couchsim workload -o bulk.jsonl --set 'groups=usual, bulk' --set usual.accounts=3 --set usual.shares=200:100:50 \
    --set usual.jobs=2000:5000:3000 --set bulk.jobs=5000 --set bulk.from=6h`
}

func (c *workloadCommand) Run() error {
	if c.Keys {
		return listKeys()
	}
	if c.Out != "" && !workload.IsFile(c.Out) {
		return fmt.Errorf("--out %s: must end in .jsonl or .swf", c.Out)
	}
	w, err := c.workload()
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err := w.WriteFile(c.Out); err != nil {
			return err
		}
	}
	_, err = fmt.Print(w.Summary())
	return err
}

// workload reads the file, or makes what was set.
func (c *workloadCommand) workload() (*workload.Workload, error) {
	if (c.File == "") == (len(c.Set) == 0) {
		return nil, fmt.Errorf("either a FILE or --set KEY=VALUE is needed; --keys lists the keys")
	}
	if c.Gaps && filepath.Ext(c.File) != ".swf" {
		return nil, fmt.Errorf("--gaps is for a FILE of SWF (.swf)")
	}
	if c.File != "" {
		return workload.ReadFile(c.File, c.Gaps)
	}
	var recipe workload.Recipe
	set := map[string]bool{}
	for _, s := range c.Set {
		key, value, is := strings.Cut(s, "=")
		if key = strings.TrimSpace(key); !is {
			return nil, fmt.Errorf("--set %s: must be KEY=VALUE", s)
		}
		if set[key] {
			return nil, fmt.Errorf("--set %s: %s is there twice", s, key)
		}
		set[key] = true
		if err := recipe.Set(key, strings.TrimSpace(value)); err != nil {
			return nil, fmt.Errorf("--set %s: %w", s, err)
		}
	}
	return recipe.Build(c.Seed)
}

// listKeys prints the settings of recipes.
func listKeys() error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range workload.Keys() {
		fmt.Fprintf(out, "%s\t%s\t%s\n\t\tMust be %s.\n", row.Key, row.Default, row.Says, row.Takes)
	}
	return out.Flush()
}
