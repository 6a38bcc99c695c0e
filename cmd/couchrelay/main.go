// Command couchrelay replicates CouchDB databases: as a service with CouchDB's replication interface, or
// once from the terminal.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"couchrelay/adapters/manual"
	"couchrelay/adapters/terminal"

	"github.com/alecthomas/kong"
)

// version is set by the linker.
var version = "0.1.0-dev"

// commands are the subcommands of couchrelay.
type commands struct {
	Serve     serveCommand     `cmd:"" help:"Run the service: replicator databases, /_replicate, /_scheduler."`
	Replicate replicateCommand `cmd:"" help:"Replicate one database into another, and wait for it."`
	Verify    verifyCommand    `cmd:"" help:"Say whether a target has all that its source has."`
	Config    configCommand    `cmd:"" help:"Print all keys of the configuration, as a configuration file."`
	Demo      demoCommand      `cmd:"" help:"Show a service at work between two databases of its own, in memory."`

	serviceCommands
	storeCommands

	Import importCommand `cmd:"" set:"json=${json_none}" group:"Moving in:" help:"${import}"`
	Export exportCommand `cmd:"" set:"json=${json_none}" group:"Moving in:" help:"Give replications back to a CouchDB."`

	Completion completionCommand `cmd:"" group:"This program:" help:"${commands_completion}"`
	Man        manCommand        `cmd:"" group:"This program:" help:"Print a manual page."`
	Version    versionCommand    `cmd:"" group:"This program:" help:"Print the version."`
}

// serviceCommands are the subcommands that ask a running service.
type serviceCommands struct {
	Top      topCommand      `cmd:"" group:"A running service:" set:"json=${json_top}" help:"${top}"`
	Jobs     jobsCommand     `cmd:"" group:"A running service:" help:"List jobs: replications that are not over."`
	Docs     docsCommand     `cmd:"" group:"A running service:" help:"List replication documents, or show one."`
	Job      jobCommand      `cmd:"" group:"A running service:" help:"Show a job with its history."`
	Explain  explainCommand  `cmd:"" group:"A running service:" help:"Say why a job runs or does not."`
	Failures failuresCommand `cmd:"" group:"A running service:" help:"List documents that a job's target refused."`
	Pause    pauseCommand    `cmd:"" group:"A running service:" help:"Stop a job until it is resumed."`
	Resume   resumeCommand   `cmd:"" group:"A running service:" help:"Let a paused job run again."`
	Retry    retryCommand    `cmd:"" group:"A running service:" help:"Run a crashed job again now."`
	Reset    resetCommand    `cmd:"" group:"A running service:" help:"Discard a job's checkpoints and start over."`
	Cancel   cancelCommand   `cmd:"" group:"A running service:" help:"Remove a job for good."`
	Hold     holdCommand     `cmd:"" group:"A running service:" help:"Keep jobs from running during maintenance."`
	Nodes    nodesCommand    `cmd:"" group:"A running service:" help:"List the nodes of the service."`
	Follows  followsCommand  `cmd:"" group:"A running service:" help:"List the followed databases."`
	Rekey    rekeyCommand    `cmd:"" group:"A running service:" help:"Change the key that encrypts credentials."`
}

// storeCommands are those that look after the store.
type storeCommands struct {
	Check checkCommand `cmd:"" set:"json=${json_check}" group:"The store:" help:"${storecommands_check}"`

	Backup  backupCommand  `cmd:"" set:"json=${json_backup}" group:"The store:" help:"${backup}"`
	Restore restoreCommand `cmd:"" group:"The store:" help:"Make an embedded store of a backup."`
}

type versionCommand struct{}

// Help is kong's.
func (versionCommand) Help() string {
	return "Prints the name of the program and its version, which nodes also tell in /_scheduler/nodes." +
		examples("Print it:", "couchrelay version")
}

func (versionCommand) Run(w *window) error {
	_, err := fmt.Fprintln(w.to, "couchrelay", version)
	return err
}

func main() {
	var c commands
	parser := newParser(&c, os.Exit)
	ctx, err := parser.Parse(spelled(os.Args[1:]))
	if err != nil {
		refuse(parser, err)
	}
	if err := ctx.Run(standardOutput()); err != nil {
		fmt.Fprintln(os.Stderr, complaint(err))
		os.Exit(exitStatus(err))
	}
}

// refuse ends the process with the error of a command line. Its help goes there, too: standard output may be a backup,
// or what another program reads.
func refuse(parser *kong.Kong, err error) {
	parser.Stdout = parser.Stderr
	parser.FatalIfErrorf(err)
}

// complaint is what the terminal shows of an error, in which servers may have a part. Only signals cancel a command.
func complaint(err error) string {
	text := err.Error()
	if errors.Is(err, context.Canceled) {
		text = strings.ReplaceAll(text, context.Canceled.Error(), errInterrupted.Error())
	}
	return "couchrelay: " + terminal.CleanLines(text)
}

// spelled takes help as a command, and --version, as other programs have them.
func spelled(args []string) []string {
	switch {
	case len(args) > 0 && args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case len(args) == 1 && args[0] == "--version":
		return []string{"version"}
	}
	return args
}

// newParser reads command lines into c. It calls exit after a mistake, and after help.
func newParser(c *commands, exit func(status int)) *kong.Kong {
	return kong.Must(c, kong.Name("couchrelay"), kong.UsageOnError(),
		variables, kong.PostBuild(withSentences),
		kong.Exit(func(status int) {
			if status != 0 {
				status = badUsage
			}
			exit(status)
		}),
		kong.ValueFormatter(manual.Explain),
		kong.Description("Replication as a service for CouchDB-compatible servers.\n\n"+
			"Exit status: 0 done; 1 it failed, or the service gave no answer; 2 the command line is wrong; "+
			"3 there is no such thing; 4 the service refuses it; 5 there are differences."))
}
