package main

import (
	"errors"

	"couchrelay/adapters/arguments"

	"github.com/alecthomas/kong"
)

// AfterApply is kong's. It refuses what is empty, and no seeds: a script whose variable is not set would play other
// worlds than it means, and find that nothing is wrong with these.
func (c *commands) AfterApply(ctx *kong.Context) error {
	return arguments.Check(ctx, func(v *kong.Value) error {
		if n, ok := v.Target.Interface().(uint64); ok && n == 0 && v.Name == "seeds" {
			return errors.New("--seeds 0: must be 1 or more")
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
