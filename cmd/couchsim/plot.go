package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"couchrelay/sim/figures"
	"couchrelay/sim/metrics"
	"couchrelay/sim/sweep"
)

// plotCommand draws figures.
type plotCommand struct {
	File   string  `arg:"" optional:"" help:"An experiment (.ini), or results (.jsonl) of couchsim sweep or compare."`
	Figure string  `placeholder:"NAME" help:"What to draw; --list shows all."`
	Out    string  `short:"o" placeholder:"FILE" help:"Where it goes: a name that ends in .svg or .png."`
	List   bool    `help:"List the figures with what they show and what they are made of."`
	Width  float64 `placeholder:"MM" help:"In millimetres; 88, a column, or 180 for a Gantt chart, unless told."`
	Height float64 `placeholder:"MM" help:"In millimetres."`

	Seed   *uint64       `placeholder:"N" help:"Of a run: its seed; the experiment's first one unless told."`
	Set    string        `placeholder:"KEY=VALUE,..." help:"Of a run: settings beside the experiment's."`
	Vary   string        `placeholder:"KEY=VALUE,..." help:"Of runs: play one with each value, a curve for each."`
	Window time.Duration `placeholder:"TIME" help:"Of a run: over how long values are taken, such as 10m."`
	Jobs   int           `placeholder:"N" help:"Of a Gantt chart: how many jobs it shows, out of all; 100 unless told."`

	Metrics []string          `placeholder:"NAME" help:"Of results: what is shown; METRIC/ACCOUNT for one account."`
	By      string            `placeholder:"KEY" help:"Of results: the axis that looks tell; the first unless told."`
	Over    string            `placeholder:"KEY" help:"Of results: the axis along x; the last unless told."`
	Where   map[string]string `mapsep:"," placeholder:"KEY=VALUE" help:"Of results: only points with these settings."`
}

// Help is kong's.
func (plotCommand) Help() string {
	return `Of an experiment one run is played, which takes seconds to minutes:

  couchsim plot quick.ini --figure shares -o shares.svg
  couchsim plot quick.ini --figure waits --vary scheduling_policy=fairshare,tags,fifo -o waits.svg
  couchsim plot quick.ini --figure gantt --jobs 60 --set duration=2h,max_churn=5 -o gantt.png

Of results:

  couchsim plot quick.results.jsonl --figure tau -o tau.svg
  couchsim plot quick.results.jsonl --figure compare --metrics wait-turn-p99 --where max_churn=10 -o waits.svg

Figures can be read in print, in grey and by colour-blind readers. PNG has 300 dots per inch. The same data give the
same bytes.`
}

func (c *plotCommand) Run() error {
	if c.List {
		return listFigures(os.Stdout)
	}
	if c.File == "" || c.Figure == "" || c.Out == "" {
		return errors.New("plot needs a FILE, --figure and -o; --list shows the figures")
	}
	return c.draw(os.Stdout, os.Stderr)
}

// listFigures shows the catalogue.
func listFigures(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	heading := ""
	for _, f := range figures.Catalogue {
		of := "made of results (.jsonl):"
		if f.OfRuns != nil {
			of = "made of a run of an experiment (.ini):"
		}
		if of != heading {
			heading = of
			fmt.Fprintln(table, of)
		}
		more := ""
		switch {
		case f.Several:
			more = " (--vary compares runs)"
		case len(f.Metrics) > 0:
			more = " (--metrics " + strings.Join(f.Metrics, ",") + ")"
		}
		fmt.Fprintf(table, "  %s\t%s%s\n", f.Name, f.Shows, more)
	}
	return table.Flush()
}

// draw checks all that can be checked before a run is played, and writes the figure.
func (c *plotCommand) draw(out, notes io.Writer) error {
	f, err := figures.Find(c.Figure)
	if err != nil {
		return fmt.Errorf("--figure %w", err)
	}
	format, err := figures.FormatOf(c.Out)
	if err != nil {
		return fmt.Errorf("--out %w", err)
	}
	size := figures.Size{Width: c.Width, Height: c.Height}
	if err := size.Check(); err != nil {
		return fmt.Errorf("--width or --height: %w", err)
	}
	if err := c.applies(f); err != nil {
		return err
	}
	if err := writable("out", c.Out); err != nil {
		return err
	}
	make := c.ofResults
	if f.OfRuns != nil {
		make = c.ofRuns
	}
	d, source, err := make(f, notes)
	if err != nil {
		return err
	}
	var file bytes.Buffer
	err = figures.Write(&file, d, size, format, source)
	if errors.Is(err, figures.ErrTooMany) {
		err = fmt.Errorf("%w; %s", err, c.less(f))
	}
	if err != nil {
		return fmt.Errorf("%s: --figure %s: %w", c.File, f.Name, err)
	}
	if err := os.WriteFile(c.Out, file.Bytes(), 0o644); err != nil {
		return err
	}
	for _, line := range figures.Says(d) {
		fmt.Fprintln(out, line)
	}
	fmt.Fprintln(out, "wrote", c.Out)
	return nil
}

// less tells how to show less.
func (c *plotCommand) less(f *figures.Figure) string {
	if f.OfRuns != nil {
		return "show less with --jobs, or --set duration=TIME"
	}
	return "show less with --where KEY=VALUE"
}

// applies refuses files and options that mean nothing to a figure.
func (c *plotCommand) applies(f *figures.Figure) error {
	results := filepath.Ext(c.File) == ".jsonl"
	switch {
	case f.OfRuns != nil && results:
		return fmt.Errorf("%s: --figure %s is made of a run: give an experiment (.ini) instead", c.File, f.Name)
	case f.OfRuns == nil && !results:
		return fmt.Errorf("%s: --figure %s is made of results (.jsonl), which couchsim sweep writes", c.File, f.Name)
	}
	gantt := f.Name == "gantt"
	for _, o := range []struct {
		name      string
		set, fits bool
	}{
		{"seed", c.Seed != nil, !results},
		{"set", c.Set != "", !results},
		{"vary", c.Vary != "", f.Several},
		{"window", c.Window != 0, !results && !gantt && f.Name != "waits"},
		{"jobs", c.Jobs != 0, gantt},
		{"metrics", c.Metrics != nil, results},
		{"by", c.By != "", results && f.Name != "compare"},
		{"over", c.Over != "", f.Name == "axis"},
		{"where", c.Where != nil, results},
	} {
		if o.set && !o.fits {
			return fmt.Errorf("--%s has no meaning for --figure %s", o.name, f.Name)
		}
	}
	if c.Jobs < 0 || c.Jobs > figures.MostRows {
		return fmt.Errorf("--jobs %d: must be from 1 to %d", c.Jobs, figures.MostRows)
	}
	return nil
}

// ofResults draws what a sweep has measured.
func (c *plotCommand) ofResults(f *figures.Figure, _ io.Writer) (figures.Drawing, string, error) {
	r, err := sweep.Open(c.File)
	if err != nil {
		return nil, "", err
	}
	d, err := f.OfResults(r, figures.Choice{Metrics: c.Metrics, By: c.By, Over: c.Over, Where: c.Where})
	if err != nil {
		return nil, "", fmt.Errorf("%s: --figure %s: %w", c.File, f.Name, err)
	}
	h := r.Header
	source := fmt.Sprintf("%s of %s: %s, %s, results %s", f.Name, filepath.Base(c.File), h.Command, h.Build, h.Hash)
	return d, source, nil
}

// ofRuns plays and draws.
func (c *plotCommand) ofRuns(f *figures.Figure, notes io.Writer) (figures.Drawing, string, error) {
	e, err := sweep.Load(c.File)
	if err != nil {
		return nil, "", err
	}
	points, names, err := c.points()
	if err != nil {
		return nil, "", err
	}
	c.unset(notes, e, points[0])
	seed := e.First
	if c.Seed != nil {
		seed = *c.Seed
	}
	ctx, stop := interruptible()
	defer stop()
	var runs []figures.Run
	for i, p := range points {
		r, err := c.play(ctx, e, p, seed, f)
		if err != nil {
			return nil, "", err
		}
		r.Name = names[i]
		runs = append(runs, r)
	}
	d, err := f.OfRuns(runs)
	source := fmt.Sprintf("couchsim plot %s --figure %s --seed %d", filepath.Base(c.File), f.Name, seed)
	for _, o := range []struct {
		name  string
		value any
		given bool
	}{{"set", c.Set, c.Set != ""}, {"vary", c.Vary, c.Vary != ""}, {"window", c.Window, c.Window != 0},
		{"jobs", c.Jobs, c.Jobs != 0}} {
		if o.given {
			source += fmt.Sprintf(" --%s %v", o.name, o.value)
		}
	}
	source += fmt.Sprintf(", %s, experiment %x", sweep.ThisBuild(), sha256.Sum256([]byte(e.Text)))
	return d, source, err
}

// points are the settings of the runs, with their names if there are several.
func (c *plotCommand) points() (points []sweep.Point, names []string, err error) {
	var set sweep.Point
	if c.Set != "" {
		if set, err = sweep.ParsePoint(c.Set); err != nil {
			return nil, nil, fmt.Errorf("--set %w", err)
		}
	}
	if c.Vary == "" {
		return []sweep.Point{set}, []string{""}, nil
	}
	key, values, _ := strings.Cut(c.Vary, "=")
	for v := range strings.SplitSeq(values, ",") {
		p, err := sweep.ParsePoint(key + "=" + v)
		if err != nil {
			return nil, nil, fmt.Errorf("--vary %w", err)
		}
		if slices.Contains(names, runName(p[0])) {
			return nil, nil, fmt.Errorf("--vary %s: %s is there twice", c.Vary, v)
		}
		points, names = append(points, slices.Concat(set, p)), append(names, runName(p[0]))
	}
	if n := len(points); n > figures.Most {
		return nil, nil, fmt.Errorf("--vary %s: %d runs, and a figure tells %d apart", c.Vary, n, figures.Most)
	}
	return points, names, nil
}

// runName is the setting of a run, or its policy alone.
func runName(v sweep.Value) string {
	if v.Key.Name == "scheduling_policy" {
		return v.Value
	}
	return v.Key.Name + "=" + v.Value
}

// unset tells which axes of a sweep have their defaults.
func (c *plotCommand) unset(notes io.Writer, e *sweep.Experiment, p sweep.Point) {
	var axes []string
	for _, a := range e.Design.Axes {
		has := slices.ContainsFunc(p, func(v sweep.Value) bool { return v.Key == a.Key })
		if !has && e.Design.Method != sweep.OneAtATime {
			axes = append(axes, a.Key.String())
		}
	}
	if len(axes) > 0 {
		fmt.Fprintf(notes, "couchsim: axes of [sweep] have their defaults, unless --set says otherwise: %s\n",
			strings.Join(axes, ", "))
	}
}

// windows are the times over which values may be taken.
var windows = []time.Duration{
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
	2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
}

// mostWindows is how many can be seen in a column.
const mostWindows = 150

// window is the length of the windows of the series: that of --window if it is set, or else one that gives few enough.
func window(measured, asked time.Duration) (time.Duration, error) {
	if asked != 0 {
		if asked < time.Second || asked > measured {
			return 0, fmt.Errorf("--window %v: must be from 1s to the %v that are measured", asked, measured)
		}
		return asked, nil
	}
	for _, w := range windows {
		if measured/w <= mostWindows {
			return min(w, measured), nil
		}
	}
	return windows[len(windows)-1], nil
}

// play plays a run, and measures what the figure needs.
func (c *plotCommand) play(
	ctx context.Context, e *sweep.Experiment, p sweep.Point, seed uint64, f *figures.Figure,
) (figures.Run, error) {
	s, err := e.Setup(p)
	if err != nil {
		return figures.Run{}, err
	}
	o := metrics.Options{Series: true}
	if o.Window, err = window(s.Duration-s.WarmUp, c.Window); err != nil {
		return figures.Run{}, err
	}
	if f.Name == "gantt" {
		o.Series, o.Gantt = false, c.Jobs
		if c.Jobs == 0 {
			o.Gantt = 100
		}
	}
	r, w, err := s.Observe(ctx, nil, seed, o)
	return figures.Run{Result: r, Workload: w}, err
}
