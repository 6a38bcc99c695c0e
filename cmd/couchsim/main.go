// Command couchsim plays whole worlds of couchrelay in virtual time: nodes, their store, the servers that
// they replicate between, users, and everything that can go wrong. A seed determines a world and all that
// happens in it.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/alecthomas/kong"
)

// commands are what couchsim can do.
type commands struct {
	Run         runCommand         `cmd:"" default:"withargs" help:"Play many seeds and check every invariant."`
	Replay      replayCommand      `cmd:"" help:"Show everything that happens in one run."`
	Determinism determinismCommand `cmd:"" help:"Play seeds twice, in two processes, and find where runs part."`
	Probe       probeCommand       `cmd:"" hidden:""`
	Shrink      shrinkCommand      `cmd:"" help:"Make a failing run small and write it as a scenario."`
	Faults      faultsCommand      `cmd:"" help:"List what can go wrong, and count how often it did."`
	Invariants  invariantsCommand  `cmd:"" help:"List what must hold, and the planted bugs that each invariant caught."`
	Marks       marksCommand       `cmd:"" help:"Tell which rare places of the core a campaign reached."`
	Sweep       sweepCommand       `cmd:"" help:"Play a workload under many settings, and measure each."`
	Compare     compareCommand     `cmd:"" help:"Compare policies or settings: paired differences with intervals."`
	Plot        plotCommand        `cmd:"" help:"Draw figures of runs and results, as SVG or PNG."`
	Reproduce   reproduceCommand   `cmd:"" help:"Compute a file of results once more, and tell what differs."`
	Mutants     mutantsCommand     `cmd:"" help:"Plant bugs, one at a time, and count the seeds that find each."`
	Workload    workloadCommand    `cmd:"" help:"Make, convert and summarise workloads of the scheduler."`
	Lint        lintCommand        `cmd:"" help:"Tell what a configuration will do, and what to change."`
	WhatIf      whatIfCommand      `cmd:"" name:"what-if" help:"Play what a service does, as it is and with changes."`
	Import      importCommand      `cmd:"" help:"Make a workload of a CouchDB, a couchrelay or a recorded log."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
}

// Exit statuses beside 0 and 1.
const (
	exitUnsafe      = 2   // an invariant of safety broke: something wrong happened
	exitStuck       = 3   // only invariants of liveness broke: something good never happened
	exitInterrupted = 130 // all invariants held until a signal came: not all was played
)

// status is an exit status of the program. It is returned when everything there is to say has been printed.
type status int

func (s status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// collectRarely has the garbage collector run less often: worlds are small, but make much garbage. The caller keeps the
// ballast until the end. The collector lets the heap grow in proportion to it, to half a gigabyte for the smallest
// worlds; it is never written to, so it takes no memory itself.
func collectRarely() (ballast []byte) {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	debug.SetGCPercent(600)
	return make([]byte, 64<<20)
}

// sentences are what the help says of flags, where that is too long for their fields.
var sentences = kong.Vars{
	"replay_log":      "Play what couchrelay serve --record wrote through the core again, and compare what it decides.",
	"replay_timeline": "Write a picture of the run, one HTML page, instead of showing it as text.",
	"run_hashes":      "Write each seed and the hash of its run here: a change that only moves code leaves them all.",
	"run_seeds":       "Number of seeds; 200, or as many as the scenario has, unless there is a duration.",
}

// newParser reads command lines into c. It calls exit after a mistake, and after help.
func newParser(c *commands, exit func(status int)) *kong.Kong {
	return kong.Must(c, kong.Name("couchsim"), kong.UsageOnError(), sentences,
		kong.Exit(func(status int) { exit(min(status, 1)) }), // kong has others
		kong.Description("Simulations of couchrelay. Exit status: 0 when all invariants held, 2 when one of safety "+
			"broke (S, B, P), 3 when only liveness did (L), 130 when none broke before a signal ended it, "+
			"1 for everything else."))
}

func main() {
	defer runtime.KeepAlive(collectRarely())
	var c commands
	args := os.Args[1:]
	if len(args) == 1 && args[0] == "--version" { // as other programs have it
		args = []string{"version"}
	}
	parser := newParser(&c, os.Exit)
	ctx, err := parser.Parse(args)
	if err != nil {
		parser.Stdout = parser.Stderr // another program may read what a command prints
		parser.FatalIfErrorf(err)
	}
	err = ctx.Run()
	if code, is := errors.AsType[status](err); is {
		os.Exit(int(code))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "couchsim:", err)
		os.Exit(1)
	}
}
