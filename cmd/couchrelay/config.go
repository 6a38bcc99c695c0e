package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"couchrelay/adapters/config"
	coreconfig "couchrelay/core/config"

	"github.com/alecthomas/kong"
)

// configCommand prints the configuration.
type configCommand struct {
	Key         string   `arg:"" optional:"" help:"${config_key}" placeholder:"SECTION[/KEY]" complete:"key"`
	Config      []string `help:"Print what these files say; later ones win." type:"existingfile" placeholder:"FILE"`
	LocalConfig string   `help:"${config_local_config}" placeholder:"FILE" complete:"file"`
	Markdown    bool     `help:"Print the reference of all keys, in Markdown, with when a change takes effect."`
}

// Help is kong's.
func (configCommand) Help() string {
	return "What is printed is a configuration file itself. Keys without a default, and passwords, are commented " +
		"out. With --config the values are those that the service would use: the files', then what requests have " +
		"set, then the environment's." + examples(
		"All keys with their defaults, as a file to begin with:", "couchrelay config > couchrelay.ini",
		"One key:", "couchrelay config replicator/max_jobs",
		"What is in force:", "couchrelay config replicator --config /etc/couchrelay/couchrelay.ini "+
			"--local-config /var/lib/couchrelay/local.ini")
}

func (c *configCommand) Run(w *window, k *kong.Context) error {
	if !c.Markdown {
		return c.print(w.to, os.Stderr, os.Environ())
	}
	p, err := program(k.Model)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w.to, p.Markdown())
	return err
}

// print writes the keys to out, and the names of sections and variables that mean nothing to problems.
func (c *configCommand) print(out, problems io.Writer, environ []string) error {
	l, err := c.layers(environ)
	if err != nil {
		return err
	}
	settings, err := l.config()
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if len(settings.Skipped) > 0 {
		fmt.Fprintf(problems, "couchrelay: skipped, for a database server: %s\n", strings.Join(settings.Skipped, ", "))
	}
	for _, name := range settings.Ignored {
		fmt.Fprintf(problems, "couchrelay: %s means nothing here\n", name)
	}
	rows := chosen(settings, c.Key)
	if len(rows) == 0 {
		return misused(unknownKey(c.Key))
	}
	var text strings.Builder
	section := ""
	for _, r := range rows {
		if r.Section != section {
			if section != "" {
				fmt.Fprintln(&text)
			}
			section = r.Section
			fmt.Fprintf(&text, "[%s]\n", section)
		}
		source := ""
		if _, set := l.local[config.Name{Section: r.Section, Key: r.Key}]; set {
			source = fmt.Sprintf(" Set in %s.", l.path)
		}
		printKey(&text, r, source)
	}
	_, err = io.WriteString(out, text.String())
	return err
}

// chosen are the rows of a section, of a key, or all. Where names are free, what holds for all names is chosen for one
// that nothing is set for.
func chosen(c config.Config, name string) (rows []coreconfig.Row) {
	all := c.Rows()
	for _, r := range all {
		if name == "" || name == r.Section || name == r.Section+"/"+r.Key {
			rows = append(rows, r)
		}
	}
	if len(rows) > 0 {
		return rows
	}
	section, key, _ := strings.Cut(name, "/")
	kind, named, _ := strings.Cut(section, " ")
	byDefault := config.Default()
	for _, r := range byDefault.Rows() {
		free := strings.ToUpper(r.Key) == r.Key && key != "" && section == r.Section
		isNamed := strings.HasPrefix(r.Section, kind+" ") && named != ""
		if free || isNamed && (key == "" || key == r.Key) {
			rows = append(rows, r)
		}
	}
	return rows
}

// unknownKey is the error of a name that is none of a section or key.
func unknownKey(name string) error {
	section, key, _ := strings.Cut(name, "/")
	c := config.Default()
	if err := c.Set(section, key, ""); key != "" && slices.Contains(config.Sections(), section) && err != nil {
		return err
	}
	return fmt.Errorf("%s: no such section or key; without a name, couchrelay config prints all", name)
}

// layers are those of the files, or the defaults.
func (c *configCommand) layers(environ []string) (layers, error) {
	if len(c.Config) == 0 && c.LocalConfig == "" {
		return layers{files: config.Default()}, nil
	}
	files, err := config.Read(c.Config...)
	if err != nil {
		return layers{}, err
	}
	path := c.LocalConfig
	if path == "" {
		path = besides(c.Config)
	}
	return readLayers(files, path, func(c *config.Config) error { return c.Environ(environ) })
}

// printKey prints a key as a line of a file, behind comments that describe it and say where its value is from.
func printKey(out io.Writer, r coreconfig.Row, source string) {
	fmt.Fprintf(out, "\n; %s\n; It takes %s.", r.Says, r.Takes)
	if r.Default != "" {
		fmt.Fprintf(out, " Default: %s.", r.Default)
	}
	fmt.Fprint(out, source)
	line := strings.TrimSpace(r.Key + " = " + r.Value)
	if r.Value == "" || strings.Contains(r.Value, config.Masked) {
		line = ";" + line
	}
	fmt.Fprintf(out, "\n%s\n", line)
}
