package main

import (
	"errors"
	"fmt"

	"couchrelay/adapters/arguments"

	"github.com/alecthomas/kong"
)

// AfterApply is kong's. It refuses empty values and zero seeds, jobs and times: a script whose variable is not set
// would play other worlds than it means, and find that nothing is wrong with these. And it refuses arguments that would
// be ignored.
func (c *commands) AfterApply(ctx *kong.Context) error {
	given := map[string]bool{}
	err := arguments.Check(ctx, func(v *kong.Value) error {
		given[v.Name] = true
		if !v.Target.IsZero() {
			return nil
		}
		switch v.Name {
		case "seeds", "jobs":
			return fmt.Errorf("--%s 0: must be 1 or more", v.Name)
		case "duration", "window", "width", "height":
			return fmt.Errorf("--%s %v: must be above 0", v.Name, v.Target)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, i := range idle {
		if given[i.flag] && given[i.beside] && (i.command == "" || i.command == ctx.Selected().Name) {
			return fmt.Errorf("--%s means nothing here: %s", i.flag, i.because)
		}
	}
	return nil
}

// idle are flags that mean nothing beside another one, or beside a file, in a command, or in any that has both.
var idle = []struct{ command, flag, beside, because string }{
	{"", "profile", "file", "the scenario tells how large its world is"},
	{"replay", "grep", "timeline", "a picture shows the whole run"},
	{"replay", "profile", "log", "a log is played as it was recorded"},
	{"lint", "startup", "workload", "the workload has start-up times"},
	{"workload", "seed", "file", "a file has its jobs whatever the seed"},
}

// Validate is kong's.
func (c *faultsCommand) Validate() error {
	if c.File != "" && !c.Report {
		return errors.New("a scenario is played for --report alone: the list of faults is the same for all")
	}
	return nil
}
