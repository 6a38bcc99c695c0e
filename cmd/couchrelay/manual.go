package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"couchrelay/adapters/config"
	"couchrelay/adapters/manual"
	coreconfig "couchrelay/core/config"

	"github.com/alecthomas/kong"
)

// completionCommand prints a script for a shell.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell."`
}

// Help is kong's.
func (completionCommand) Help() string {
	return "Prints a script that completes commands, flags, their values and file names in a shell. Packages install " +
		"it where shells look for it." + examples(
		"For this shell and those to come, in bash:",
		`couchrelay completion bash > ~/.local/share/bash-completion/completions/couchrelay`,
		"In fish:", `couchrelay completion fish > ~/.config/fish/completions/couchrelay.fish`,
		"In zsh, with a directory of $fpath:", `couchrelay completion zsh > ~/.zfunc/_couchrelay`)
}

func (c *completionCommand) Run(w *window, k *kong.Context) error {
	p, err := program(k.Model)
	if err != nil {
		return err
	}
	script, err := p.Completion(c.Shell)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w.to, script)
	return err
}

// manCommand prints manual pages.
type manCommand struct {
	Command   []string `arg:"" optional:"" help:"${man_command}" complete:"page"`
	Directory string   `help:"${man_directory}" placeholder:"DIRECTORY" complete:"directory"`
}

// Help is kong's.
func (manCommand) Help() string {
	return "Prints a manual page in the macros of man(7), which man, groff and mandoc show." + examples(
		"Read the page of a command:", "couchrelay man hold add | man -l -",
		"Read what the configuration has:", "couchrelay man couchrelay.ini | man -l -",
		"Install all pages:", "couchrelay man --directory /usr/local/share/man")
}

func (c *manCommand) Run(w *window, k *kong.Context) error {
	p, err := program(k.Model)
	if err != nil {
		return err
	}
	if c.Directory != "" {
		if err := writePages(p, c.Directory); err != nil {
			return fmt.Errorf("--directory: %w", err)
		}
		return nil
	}
	words := strings.Join(c.Command, " ")
	page := p.SettingsPage()
	if words != "couchrelay.ini" {
		command, has := p.Command(words)
		if !has {
			return misused(fmt.Errorf("%s: no such command; couchrelay --help lists them", words))
		}
		page = p.Page(command)
	}
	_, err = io.WriteString(w.to, page)
	return err
}

// writePages writes all pages into man1 and man5.
func writePages(p *manual.Program, dir string) error {
	for name, text := range p.Pages() {
		path := filepath.Join(dir, "man"+strings.TrimPrefix(filepath.Ext(name), "."), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// examples ends a help text: sentences, each with the command that it is about behind it.
func examples(lines ...string) string {
	text := "\n\nExamples:"
	for i, line := range lines {
		if i%2 == 1 {
			line = "    " + line
		}
		text += "\n\n" + line
	}
	return text
}

// program is this command line for its manual.
func program(model *kong.Application) (*manual.Program, error) {
	day := time.Now().UTC()
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" { // of builds that are to give the same bytes again
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH=%s: must be a number of seconds", epoch)
		}
		day = time.Unix(seconds, 0).UTC()
	}
	p := &manual.Program{
		App: model, Version: version, Date: day.Format(time.DateOnly), Environment: environment, Files: files,
		Settings: settings(),
	}
	var keys, pages []string
	for _, s := range p.Settings {
		if !slices.Contains(keys, s.Section) {
			keys = append(keys, s.Section)
		}
		keys = append(keys, s.Section+"/"+s.Key)
	}
	for _, n := range model.Children {
		pages = append(pages, n.Name)
	}
	p.Words = map[string][]string{
		"state": {"initializing", "error", "pending", "running", "crashing", "paused", "completed", "failed"},
		"key":   slices.DeleteFunc(keys, func(k string) bool { return strings.Contains(k, " ") }),
		"page":  append(pages, "couchrelay.ini"),
	}
	return p, nil
}

// environment are the variables that commands read, but for those of flags alone.
var environment = []manual.Entry{
	{Name: "COUCHRELAY_SERVER", Says: "The service that is asked, where --server does not name one.",
		Of: []string{"--credentials"}},
	{Name: "COUCHRELAY_USER, COUCHRELAY_PASSWORD", Says: "The user who asks, where neither --credentials nor the URL " +
		"of the service names one; also the password alone, for a user whom the URL names without one.",
		Of: []string{"--credentials"}},
	{Name: "COUCHDB_PASSWORD", Says: "The password of the user in the CouchDB's URL, if the URL has none.",
		Of: []string{"import", "export"}},
	{Name: "COUCHDB_NODE_TYPE_API_FRONTEND, COUCHDB_NODE_TYPE_REPLICATION", Says: "Whether the node has the role, " +
		"true or false; wins over [node_types].", Of: []string{"serve", "config"}},
	{Name: "COUCHDB_FAUXTON_DOCROOT", Says: "The directory of Fauxton; wins over [fauxton] docroot.",
		Of: []string{"serve", "config"}},
	{Name: "COUCHRELAY_SECRET_NAME", Says: "The secret NAME of replications, where [secrets] directory has none.",
		Of: []string{"serve"}},
	{Name: "NO_COLOR", Says: "Not empty: top shows no colours.", Of: []string{"top"}},
	{Name: "TERM", Says: "With dumb, or empty, top prints one picture and ends.", Of: []string{"top"}},
	{Name: "SOURCE_DATE_EPOCH", Says: "The date of manual pages, in seconds since 1970; else they have today's.",
		Of: []string{"man"}},
}

// files are those that commands read and write without being told their names.
var files = []manual.Entry{
	{Name: "/etc/couchrelay/couchrelay.ini", Says: "The configuration of the service that packages install; see " +
		"couchrelay.ini(5).", Of: []string{"serve"}},
	{Name: "NAME.local.ini", Says: "Beside the last file NAME.ini of --config: settings that requests have made. " +
		"Without --config it is local.ini in the store's directory.", Of: []string{"serve", "config"}},
	{Name: "/var/lib/couchrelay/store", Says: "The store of the service that packages install.",
		Of: []string{"serve", "check", "backup", "restore"}},
	{Name: "secret.key", Says: "In the store's directory: the key of its credentials, unless [secrets] key_file " +
		"names another one. Backups do not have it.", Of: []string{"serve", "rekey", "backup", "restore"}},
}

// settings are all keys of the configuration, with when a change of each takes effect.
func settings() (list []manual.Setting) {
	c := config.Default()
	for _, row := range c.Rows() {
		list = append(list, manual.Setting{Row: row, Effect: effect(row)})
	}
	return list
}

// atNextStart is the effect of a key that a process reads once.
const atNextStart = "at the next start"

// effect says when a change of a key takes effect, as a service finds it out: whether a configuration with another
// value of the key differs from the default one in what a process keeps.
func effect(row coreconfig.Row) string {
	if coreconfig.HoldsForAll(row.Section, row.Key) {
		return "at once, on all nodes"
	}
	old := config.Default()
	key := strings.Replace(row.Key, "TYPE", "hmac", 1)
	for _, value := range otherValues {
		c := old.Clone()
		switch err := c.Set(row.Section, key, value); {
		case err != nil || reflect.DeepEqual(c, old):
		case reflect.DeepEqual(fixed(c), fixed(old)):
			return "at once"
		default:
			return atNextStart
		}
	}
	return ""
}

// otherValues has for every key one that it accepts, and that is not its default; but for keys that take their default
// only.
var otherValues = []string{
	"true", "false", "7", "300", "10000", "2000000", "90s", "0.25", "debug", "json", "warn", "lax", "nbf", "sha",
	"default", "off", "tlsv1.3", "x25519", "ECDHE-RSA-AES128-GCM-SHA256", "couch_replicator_auth_session",
	"a:1:b:2", "{}", "[{nodelay, true}]", "http://couch:5984", "some/name", "10.0.0.0/8", "http", "nodelay",
}
