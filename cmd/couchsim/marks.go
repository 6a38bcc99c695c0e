package main

import (
	"fmt"
	"os"
	"text/tabwriter"

	"couchrelay/sim/marks"
)

// marksCommand tells which rare places of the core a campaign reached.
type marksCommand struct {
	Profile string `arg:"" type:"existingfile" help:"Coverage of a couchsim that was built with -cover, as text."`
	Source  string `help:"The module's root." default:"." type:"existingdir"`
}

// Help is kong's.
func (marksCommand) Help() string {
	return `make marks builds and plays what is needed. Fails when a mark was never reached.`
}

func (c *marksCommand) Run() error {
	found, err := marks.Find(os.DirFS(c.Source), "core")
	if err != nil {
		return err
	}
	profile, err := os.Open(c.Profile)
	if err != nil {
		return err
	}
	defer profile.Close()
	if err := marks.Count(found, profile, "couchrelay"); err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	missed := 0
	for _, m := range found {
		if m.Count == 0 {
			missed++
		}
		fmt.Fprintf(table, "%d\t%s:%d\t%s\n", m.Count, m.File, m.Line, m.What)
	}
	table.Flush()
	fmt.Printf("%d marks, %d never reached\n", len(found), missed)
	if missed > 0 {
		return status(exitUnsafe)
	}
	return nil
}
