package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"couchrelay/sim/sweep"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// sweepCommand plays an experiment.
type sweepCommand struct {
	File        string `arg:"" help:"An experiment; couchsim sweep --help shows one."`
	Out         string `short:"o" placeholder:"FILE.jsonl" help:"Where the results go, with CSV files beside it."`
	Workers     int    `placeholder:"N" help:"Runs at once; one on each core unless told."`
	PointsLimit int    `default:"10000" placeholder:"N" help:"Refuse an experiment of more points (${default})."`
	Restart     bool   `help:"Begin anew: replace results, and what an interrupted sweep has left."`
	Plan        bool   `help:"Only check the experiment, and tell how many runs it has and what they cost."`

	replace bool // results of an earlier reproduce
}

// Help is kong's.
func (sweepCommand) Help() string {
	return `An experiment is a file such as

  # How well shares are kept, by how many jobs give way and how fast priorities are forgotten.
  duration = 7d
  warm-up = 1d
  seeds = 1..10
  [replicator]
  max_jobs = 500
  [workload]
  preset = steady
  [sweep]
  method = grid
  max_churn = 5, 20, 100
  priority_coeff = 0.9..0.995 3

[replicator] and [replicator.shares] are production's, [workload] is that of couchsim workload. Any key can be an
axis of [sweep]; methods are grid, one-at-a-time, random N and lhs N (a Latin hypercube). All points have the same
seeds. The results of NAME.ini go into NAME.results.jsonl, .csv and .summary.csv in this directory.

Ctrl-C keeps what is done, and the same command goes on from there.`
}

func (c *sweepCommand) Run() error {
	e, err := sweep.Load(c.File)
	if err != nil {
		return err
	}
	plan, err := e.Plan("couchsim sweep "+c.File, c.PointsLimit)
	if err != nil {
		return err
	}
	announce(os.Stderr, e, plan)
	if c.Plan {
		return nil
	}
	out := c.Out
	if out == "" {
		out = strings.TrimSuffix(filepath.Base(c.File), filepath.Ext(c.File)) + ".results.jsonl"
	}
	if _, err := c.play(plan, out); err != nil {
		return err
	}
	_, runs, summaries := sweep.Files(out)
	fmt.Printf("wrote %s, %s and %s\n", out, runs, summaries)
	return nil
}

// play plays a plan, with a bar, and writes no files if there is no name for them.
func (c *sweepCommand) play(p *sweep.Plan, out string) (*sweep.Results, error) {
	if out != "" && filepath.Ext(out) != ".jsonl" { // by which other commands know results
		return nil, fmt.Errorf("--out %s: must end in .jsonl", out)
	}
	ctx, stop := interruptible()
	defer stop()
	done := showProgress(os.Stderr)
	defer done(0, 0)
	o := sweep.Options{Workers: c.Workers, Restart: c.Restart, Replace: c.replace, Progress: done}
	play := func() (*sweep.Results, error) { return p.Run(ctx, out, o) }
	if out == "" {
		play = func() (*sweep.Results, error) { return p.Try(ctx, o) }
	}
	r, err := play()
	if err == nil {
		tellInert(os.Stderr, r)
	}
	return r, err
}

// tellInert names axes without any effect, which are hardly what was meant.
func tellInert(out io.Writer, r *sweep.Results) {
	if inert := r.Inert(); len(inert) > 0 {
		fmt.Fprintf(out, "couchsim: no value of any run goes by %s, beside the other settings\n",
			strings.Join(inert, ", "))
	}
}

// interruptible ends with Ctrl-C. A second one ends the process.
func interruptible() (context.Context, func()) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// announce prints, before the first run, what has no effect, the number of points and runs, and their cost.
func announce(out io.Writer, e *sweep.Experiment, p *sweep.Plan) {
	if len(e.Unused)+len(p.Unused) > 0 {
		unused := slices.Clone(e.Unused)
		for _, account := range p.Unused {
			unused = append(unused, "shares of "+account)
		}
		fmt.Fprintf(out, "couchsim: no effect in this experiment: %s\n", strings.Join(unused, ", "))
	}
	if len(p.Late) > 0 {
		fmt.Fprintf(out, "couchsim: after the end of the first run, and without effect in it: %s\n",
			strings.Join(p.Late, ", "))
	}
	fmt.Fprintf(out, "%d points with %d seeds are %d runs, of %d jobs in the first; they take one core about %s\n",
		len(p.Points), e.Seeds(), len(p.Points)*e.Seeds(), p.Jobs, roughly(p.Estimate))
}

// roughly is a time that is not known exactly.
func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "a minute, or less"
	case d < 90*time.Second:
		return "a minute"
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f minutes", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f hours", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// showProgress shows a bar on a terminal. It ends when the total is 0.
func showProgress(out *os.File) func(done, total int) {
	if !term.IsTerminal(int(out.Fd())) {
		return func(int, int) {}
	}
	var bar *progressbar.ProgressBar
	begun := 0 // what another process has done
	return func(done, total int) {
		switch {
		case total == 0 && bar != nil:
			fmt.Fprintln(out)
		case total > 0 && bar == nil:
			begun = done
			bar = progressbar.NewOptions(total-begun, progressbar.OptionSetWriter(out), progressbar.OptionFullWidth(),
				progressbar.OptionSetDescription("runs"), progressbar.OptionShowCount(),
				progressbar.OptionSetPredictTime(true), progressbar.OptionSetTheme(progressbar.ThemeASCII),
				progressbar.OptionSetRenderBlankState(true))
		case total > 0:
			_ = bar.Set(done - begun) // fails if the terminal is gone, which must not stop the runs
		}
	}
}

// reproduceCommand plays the experiment of a file of results again.
type reproduceCommand struct {
	File    string `arg:"" help:"Results that couchsim sweep or compare has written."`
	Out     string `short:"o" placeholder:"FILE.jsonl" help:"Keep the new results here, also if they are the same."`
	Workers int    `placeholder:"N" help:"Runs at once; one on each core unless told."`
	Restart bool   `help:"Begin anew: replace results, and what an interrupted reproduce has left."`
}

func (c *reproduceCommand) Run() error {
	was, err := sweep.Open(c.File)
	if err != nil {
		return err
	}
	plan, err := was.Again()
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	for _, change := range plan.Header.Changes(&was.Header) {
		fmt.Fprintf(os.Stderr, "couchsim: %s: results may differ\n", change)
	}
	out := c.Out
	if out == "" {
		out = strings.TrimSuffix(c.File, ".jsonl") + ".reproduced.jsonl"
	}
	command := sweepCommand{Workers: c.Workers, Restart: c.Restart, replace: c.Out == ""}
	is, err := command.play(plan, out)
	if err != nil {
		return err
	}
	return c.judge(os.Stdout, was, is, out)
}

// judge tells what differs. Results that are the same are kept only if that was asked for.
func (c *reproduceCommand) judge(out io.Writer, was, is *sweep.Results, path string) error {
	differences := is.Differences(was)
	const shown = 20
	for _, d := range differences[:min(shown, len(differences))] {
		fmt.Fprintln(out, d)
	}
	if n := len(differences) - shown; n > 0 {
		fmt.Fprintf(out, "and %d more\n", n)
	}
	if len(differences) > 0 {
		fmt.Fprintf(out, "%s: %d values differ; the new results are in %s\n", c.File, len(differences), path)
		return status(1)
	}
	same, err := sameBytes(c.File, path)
	switch {
	case err != nil:
		return err
	case same:
		fmt.Fprintf(out, "%s: reproduced, with the same bytes\n", c.File)
	default:
		fmt.Fprintf(out, "%s: reproduced: all values are the same, and the header is another\n", c.File)
	}
	if c.Out != "" {
		return nil
	}
	results, runs, summaries := sweep.Files(path)
	return errors.Join(os.Remove(results), os.Remove(runs), os.Remove(summaries))
}

func sameBytes(a, b string) (bool, error) {
	x, err1 := os.ReadFile(a)
	y, err2 := os.ReadFile(b)
	return bytes.Equal(x, y), errors.Join(err1, err2)
}
