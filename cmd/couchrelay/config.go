package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"couchrelay/adapters/config"
	coreconfig "couchrelay/core/config"
)

// configCommand prints the configuration.
type configCommand struct {
	Key    string   `arg:"" optional:"" help:"Only this section, or this key of it." placeholder:"SECTION[/KEY]"`
	Config []string `help:"Print the values of these files; later ones win." type:"existingfile" placeholder:"FILE"`
}

// Help is kong's.
func (configCommand) Help() string {
	return `What is printed is a configuration file itself. Keys without a default, and passwords, are commented out.
With --config the values are those that the service would use: the files', with the environment's on top.`
}

func (c *configCommand) Run() error { return c.print(os.Stdout, os.Stderr, os.Environ()) }

// print writes the keys to out, and the names of sections and variables that mean nothing to problems.
func (c *configCommand) print(out, problems io.Writer, environ []string) error {
	settings := config.Default()
	if len(c.Config) > 0 {
		var err error
		if settings, err = config.Load(c.Config...); err != nil {
			return err
		}
		if err := settings.Environ(environ); err != nil {
			return err
		}
	}
	for _, name := range settings.Ignored {
		fmt.Fprintf(problems, "couchrelay: %s means nothing here\n", name)
	}
	section := ""
	for _, r := range settings.Rows() {
		if c.Key != "" && c.Key != r.Section && c.Key != r.Section+"/"+r.Key {
			continue
		}
		if r.Section != section {
			if section != "" {
				fmt.Fprintln(out)
			}
			section = r.Section
			fmt.Fprintf(out, "[%s]\n", section)
		}
		printKey(out, r)
	}
	if section == "" {
		return fmt.Errorf("%s: no such section or key; without a name, couchrelay config prints all", c.Key)
	}
	return nil
}

// printKey prints a key as a line of a file, behind comments that describe it.
func printKey(out io.Writer, r coreconfig.Row) {
	fmt.Fprintf(out, "\n; %s\n; It takes %s.", r.Says, r.Takes)
	if r.Default != "" {
		fmt.Fprintf(out, " Default: %s.", r.Default)
	}
	line := strings.TrimSpace(r.Key + " = " + r.Value)
	if r.Value == "" {
		line = ";" + line
	}
	fmt.Fprintf(out, "\n%s\n", line)
}
