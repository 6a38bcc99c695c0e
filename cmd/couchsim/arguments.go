package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/alecthomas/kong"
)

// AfterApply is kong's. It refuses what is empty, and no seeds: a script whose variable is not set would play other
// worlds than it means, and find that nothing is wrong with these.
func (c *commands) AfterApply(ctx *kong.Context) error {
	for _, given := range ctx.Path {
		value := given.Positional
		if given.Flag != nil {
			value = given.Flag.Value
		}
		if value == nil {
			continue
		}
		switch v := value.Target.Interface().(type) {
		case string:
			if v == "" {
				return fmt.Errorf("%s: must not be empty", value.ShortSummary())
			}
		case []string:
			if len(v) == 0 || slices.Contains(v, "") {
				return fmt.Errorf("%s: must not be empty", value.ShortSummary())
			}
		case uint64:
			if v == 0 && value.Name == "seeds" {
				return errors.New("--seeds 0: must be 1 or more")
			}
		}
	}
	return nil
}

// Validate is kong's.
func (c *faultsCommand) Validate() error {
	if c.File != "" && !c.Report {
		return errors.New("a scenario is played for --report alone: the list of faults is the same for all")
	}
	return nil
}
