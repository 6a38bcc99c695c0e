package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"couchrelay/adapters/eventlog"
)

// replayLog plays the events of a service again.
func (c *replayCommand) replayLog(stdout io.Writer) error {
	if c.File != "" || c.Seed != nil || c.Timeline != "" || c.Until != "" {
		return errors.New("--log goes with --grep alone: " +
			"a log has one run, without scenario, seed or timeline, to its end")
	}
	grep, err := regexp.Compile(c.Grep)
	if err != nil {
		return fmt.Errorf("--grep: %w", err)
	}
	file, err := os.Open(c.Log)
	if err != nil {
		return fmt.Errorf("--log: %w", err)
	}
	defer file.Close()
	out := bufio.NewWriter(stdout)
	report, err := eventlog.Replay(file, func(s eventlog.Step) { printStep(out, s, grep) })
	if err := out.Flush(); err != nil {
		return err
	}
	return logVerdict(stdout, c.Log, report, err)
}

// printStep prints a step as the trace of a simulated run has it.
func printStep(out io.Writer, s eventlog.Step, grep *regexp.Regexp) {
	who := ""
	if s.Run > 0 {
		who = fmt.Sprintf("run %d ", s.Run)
	}
	for i, text := range append([]string{s.Event}, s.Effects...) {
		sign := ">"
		if i == 0 {
			sign = "<"
		}
		line := fmt.Sprintf("%14.6f %8d %s%s %s", s.At.Seconds(), s.Number, who, sign, oneLine(text))
		if grep.MatchString(line) {
			fmt.Fprintln(out, line)
		}
	}
}

// logVerdict prints the result of a replay. It returns the exit status as an error, or nil if all decisions
// are the same.
func logVerdict(out io.Writer, path string, r eventlog.Report, err error) error {
	if d, is := errors.AsType[*eventlog.Difference](err); is {
		fmt.Fprintf(out, "\n%s\n  recorded by %s:\n%s  decided now:\n%s", d, r.Program, indented(d.Recorded),
			indented(d.Effects))
		if strings.Join(d.Recorded, "\n") == strings.Join(d.Effects, "\n") {
			fmt.Fprintln(out, "  in words they are the same; they differ in what the words leave out")
		}
		return status(exitUnsafe)
	}
	if p, is := errors.AsType[*eventlog.Panic](err); is {
		fmt.Fprintf(out, "\n%s\n%s", p, p.Stack)
		return status(exitUnsafe)
	}
	if err != nil {
		return fmt.Errorf("%s, after %d good events: %w", path, r.Events, err)
	}
	fmt.Fprintf(out, "%s events of node %s and %d runs in %s, recorded by %s: same decisions\n",
		thousands(uint64(r.Events)), r.Node, r.Runs, r.Took.Round(time.Millisecond), r.Program)
	if r.Cut {
		fmt.Fprintln(out, "the log was not closed: the process, or its disk, ended there")
	}
	return nil
}

func indented(lines []string) string {
	if len(lines) == 0 {
		return "    nothing\n"
	}
	return "    " + strings.Join(lines, "\n    ") + "\n"
}
