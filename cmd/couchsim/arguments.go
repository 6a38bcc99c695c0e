package main

import (
	"errors"
	"fmt"

	"couchrelay/adapters/arguments"

	"github.com/alecthomas/kong"
)

// AfterApply is kong's. It refuses what is empty, no seeds and no jobs: a script whose variable is not set would play
// other worlds than it means, and find that nothing is wrong with these.
func (c *commands) AfterApply(ctx *kong.Context) error {
	return arguments.Check(ctx, func(v *kong.Value) error {
		if (v.Name == "seeds" || v.Name == "jobs") && v.Target.IsZero() {
			return fmt.Errorf("--%s 0: must be 1 or more", v.Name)
		}
		return nil
	})
}

// Validate is kong's.
func (c *faultsCommand) Validate() error {
	if c.File != "" && !c.Report {
		return errors.New("a scenario is played for --report alone: the list of faults is the same for all")
	}
	return nil
}
