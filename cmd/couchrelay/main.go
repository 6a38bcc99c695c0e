// Command couchrelay replicates CouchDB databases: as a service with CouchDB's replication interface, or
// once from the terminal.
package main

import (
	"fmt"
	"os"

	"github.com/alecthomas/kong"
)

// version is set by the linker.
var version = "0.1.0-dev"

// commands are the subcommands of couchrelay.
type commands struct {
	Serve     serveCommand     `cmd:"" help:"Run the service: replicator databases, /_replicate, /_scheduler."`
	Replicate replicateCommand `cmd:"" help:"Replicate one database into another, and wait for it."`
	Config    configCommand    `cmd:"" help:"Print all keys of the configuration, as a configuration file."`
	Demo      demoCommand      `cmd:"" help:"Show a service at work between two databases of its own, in memory."`
	Version   versionCommand   `cmd:"" help:"Print the version."`
}

type versionCommand struct{}

func (versionCommand) Run() error {
	fmt.Println("couchrelay", version)
	return nil
}

func main() {
	var c commands
	parser := kong.Must(&c, kong.Name("couchrelay"), kong.UsageOnError(),
		kong.Vars{"terminal_uuid": terminalUUID},
		kong.Description("Replication as a service for CouchDB-compatible servers."))
	ctx, err := parser.Parse(os.Args[1:])
	parser.FatalIfErrorf(err)
	if err := ctx.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "couchrelay:", err)
		os.Exit(1)
	}
}
