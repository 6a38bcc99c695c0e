package main

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode"

	"couchrelay/adapters/arguments"

	"github.com/alecthomas/kong"
)

// AfterApply is kong's. It refuses what is empty, and times that no command can use.
func (c *commands) AfterApply(ctx *kong.Context) error {
	return arguments.Check(ctx, func(v *kong.Value) error {
		if d, ok := v.Target.Interface().(time.Duration); ok && d <= 0 {
			return fmt.Errorf("%s: %s: must be above 0", v.ShortSummary(), d)
		}
		return nil
	})
}

// misused is an error of a command line that is found when the command runs.
func misused(err error) error { return statusError{err, badUsage} }

// maxNodeName bounds the name of a node, which has its place in lists and URLs.
const maxNodeName = 100

// maxRecord bounds the size of a recording, in MB, and defaultRecord is the size without a flag.
const maxRecord, defaultRecord = 1_000_000_000, 1024

// Validate is kong's.
func (s *serveCommand) Validate() error {
	switch {
	case len(s.Name) > maxNodeName || slices.ContainsFunc([]rune(s.Name), unicode.IsControl):
		return fmt.Errorf("--name: must be 1 to %d characters, none of which is a control character", maxNodeName)
	case s.RecordLimit < 0 || s.RecordLimit > maxRecord:
		return fmt.Errorf("--record-limit %d: must be a whole number from 0 to %d", s.RecordLimit, maxRecord)
	case s.RecordLimit != defaultRecord && s.Record == "":
		return fmt.Errorf("--record-limit %d: needs --record", s.RecordLimit)
	case s.Sandbox != nil && (*s.Sandbox < 1 || *s.Sandbox > 65535):
		return fmt.Errorf("--sandbox %d: must be a whole number from 1 to 65535", *s.Sandbox)
	}
	return nil
}

// Validate is kong's.
func (d *demoCommand) Validate() error {
	if d.Docs < 0 {
		return fmt.Errorf("--docs %d: must not be negative", d.Docs)
	}
	return nil
}

// Validate is kong's.
func (c *docsCommand) Validate() error {
	f := c.choice
	if c.Doc != "" && (len(f.State) > 0 || f.ServerHost+f.User+f.Error+f.Node+c.Cursor != "" || c.Descending) {
		return errors.New("one document is shown as it is: flags that choose among documents need a list")
	}
	return c.page.Validate()
}

// Validate is kong's.
func (p *page) Validate() error {
	if p.Limit < 1 {
		return fmt.Errorf("--limit %d: must be 1 or more", p.Limit)
	}
	return nil
}

// Validate is kong's.
func (c *checkCommand) Validate() error {
	if c.Discard != "" && (c.Store == "" || !c.Repair) {
		return fmt.Errorf("--discard %s: needs --store and --repair", c.Discard)
	}
	return c.opening.without(c.Store)
}

// Validate is kong's.
func (c *backupCommand) Validate() error {
	if c.File == "-" && c.JSON {
		return errors.New("--json: standard output gets the backup")
	}
	return c.opening.without(c.Store)
}

// without is the error of flags that say how to open a store where none is to be opened.
func (o opening) without(store string) error {
	if store == "" && (len(o.Config) > 0 || o.LocalConfig != "" || o.KeyPrefix != "") {
		return errors.New("--config, --local-config and --key-prefix are for --store: the service knows its own")
	}
	return nil
}

// Validate is kong's.
func (c *manCommand) Validate() error {
	if c.Directory != "" && len(c.Command) > 0 {
		return errors.New("--directory gets all pages: it goes without a command")
	}
	return nil
}

// Validate is kong's.
func (c *configCommand) Validate() error {
	if c.Markdown && (c.Key != "" || len(c.Config) > 0 || c.LocalConfig != "") {
		return errors.New("--markdown prints all keys with their defaults: it goes alone")
	}
	return nil
}
