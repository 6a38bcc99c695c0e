package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"couchrelay/sim/metrics"
	"couchrelay/sim/sweep"
)

// compareCommand compares settings.
type compareCommand struct {
	File    string   `arg:"" help:"An experiment, or results (.jsonl) of couchsim sweep."`
	Set     []string `sep:"none" placeholder:"KEY=VALUE,..." help:"One side of the comparison."`
	Metrics []string `placeholder:"NAME" help:"Metrics to show, with * for any letters."`
	Format  string   `default:"table" enum:"table,csv,json" help:"table, csv or json."`
	Out     string   `short:"o" placeholder:"FILE.jsonl" help:"Also write the runs, as couchsim sweep does."`
	Workers int      `placeholder:"N" help:"Runs at once; one on each core unless told."`
	Restart bool     `help:"With -o: replace runs that are there, and what an interrupted comparison has left."`
	Pareto  []string `placeholder:"METRIC" help:"Show the points that no other one betters in all of these."`

	Sensitivity []string `placeholder:"METRIC" help:"Show what each axis does to these, one at a time."`
}

// Help is kong's.
func (compareCommand) Help() string {
	return `The first --set is what the others are compared with; a single one is compared with what the experiment
says. The [sweep] of an experiment is left out. In results, --set names a point: by its settings, or by its number.

All sides have the same seeds and the same workloads. A difference is taken seed by seed, and its interval is the
interval of 95 % by Student's t. Where that excludes 0, the line says whether the second side is better or worse, or
other if neither more nor less is better. Of sides that are alike, one line in 20 says so by chance. More seeds make
intervals narrower: ten have a third of the width that three have.

  couchsim compare quick.ini --set scheduling_policy=fairshare --set scheduling_policy=tags
  couchsim compare quick.ini --set max_churn=50,interval=30s
  couchsim compare quick.results.jsonl --set 1 --set 4 --metrics 'wait-*'
  couchsim compare quick.results.jsonl --pareto share-error-max-run,wait-turn-p99`
}

func (c *compareCommand) Run() error {
	if filepath.Ext(c.File) == ".jsonl" {
		return c.ofResults(os.Stdout)
	}
	if len(c.Pareto)+len(c.Sensitivity) > 0 {
		return errors.New("--pareto and --sensitivity are for results (.jsonl); couchsim sweep writes them")
	}
	r, err := c.playSets()
	if err != nil {
		return err
	}
	var points []int
	for i := range r.Summaries {
		points = append(points, i+1)
	}
	return c.show(os.Stdout, r, points)
}

// ofResults shows what was asked of results that are there.
func (c *compareCommand) ofResults(out io.Writer) error {
	r, err := sweep.Open(c.File)
	if err != nil {
		return err
	}
	if c.Out != "" || c.Workers != 0 || c.Restart {
		return errors.New("--out, --workers and --restart are for experiments; nothing is played for results (.jsonl)")
	}
	if len(c.Set) == 1 || len(c.Set)+len(c.Pareto)+len(c.Sensitivity) == 0 {
		return errors.New("of results, --set must be given twice or more, or --pareto or --sensitivity")
	}
	if len(c.Pareto) > 0 {
		if err := c.front(out, r); err != nil {
			return err
		}
	}
	if len(c.Sensitivity) > 0 {
		if err := c.effects(out, r); err != nil {
			return err
		}
	}
	var points []int
	for _, text := range c.Set {
		p, err := r.Find(text)
		if err != nil {
			return fmt.Errorf("--set %w", err)
		}
		points = append(points, p)
	}
	if len(points) == 0 {
		return nil
	}
	return c.show(out, r, points)
}

// playSets plays an experiment with each of the settings.
func (c *compareCommand) playSets() (*sweep.Results, error) {
	if c.Restart && c.Out == "" {
		return nil, errors.New("--restart is for --out: without it nothing is kept")
	}
	if len(c.Set) == 0 {
		return nil, errors.New("--set KEY=VALUE must be given: once to compare with what the experiment says, " +
			"or for each side")
	}
	if err := c.checkMetrics(); err != nil {
		return nil, err
	}
	e, err := sweep.Load(c.File)
	if err != nil {
		return nil, err
	}
	command := "couchsim compare " + c.File
	var points []sweep.Point
	if len(c.Set) == 1 {
		points = append(points, sweep.Point{})
	}
	for _, text := range c.Set {
		p, err := sweep.ParsePoint(text)
		if err != nil {
			return nil, fmt.Errorf("--set %w", err)
		}
		points = append(points, p)
		command += " --set " + strconv.Quote(text)
	}
	if err := e.Vary(points); err != nil {
		return nil, err
	}
	plan, err := e.Plan(command, sweep.DefaultLimit)
	if err != nil {
		return nil, err
	}
	announce(os.Stderr, e, plan)
	player := sweepCommand{Workers: c.Workers, Restart: c.Restart}
	return player.play(plan, c.Out)
}

// usual are the metrics that most questions are about.
var usual = []string{
	"share/*", "share-error-max-*", "jain-run", "lag-p99", "wait-first-p50", "wait-first-p99", "wait-turn-p50",
	"wait-turn-p99", "longest-gap", "waiting-at-end",
	"run-length-p50", "bounded-slowdown-p*", "freshness-p50", "freshness-p99", "full-turn-mean", "starts",
	"rotations",
	"startup-share", "lost-work", "utilisation", "idle-while-waiting", "throughput", "completed",
}

// fits reports whether a name is of a pattern, in which * also stands for the / of accounts.
func fits(pattern, name string) bool {
	plain := func(s string) string { return strings.ReplaceAll(s, "/", ":") }
	is, err := filepath.Match(plain(pattern), plain(name))
	return is && err == nil
}

// checkMetrics refuses names that no metric has before runs are played, which may take hours.
func (c *compareCommand) checkMetrics() error {
	for _, p := range c.Metrics {
		name, _, _ := strings.Cut(p, "/") // ACCOUNT
		if !slices.ContainsFunc(metrics.Definitions, func(d metrics.Definition) bool { return fits(name, d.Name) }) {
			return fmt.Errorf("--metrics %s: no metric has such a name", p)
		}
	}
	return nil
}

// wanted keeps the differences of metrics that are to be shown.
func (c *compareCommand) wanted(list []sweep.Difference) ([]sweep.Difference, error) {
	patterns := c.Metrics
	if len(patterns) == 0 {
		patterns = usual
	}
	hits := map[string]bool{}
	kept := slices.DeleteFunc(slices.Clone(list), func(d sweep.Difference) bool {
		unwanted := true
		for _, p := range patterns {
			if fits(p, d.Metric.Name) {
				hits[p], unwanted = true, false
			}
		}
		return unwanted
	})
	none := slices.DeleteFunc(slices.Clone(c.Metrics), func(p string) bool { return hits[p] })
	if len(none) == 0 {
		return kept, nil
	}
	err := fmt.Errorf("--metrics %s: no metric of that name has a value", strings.Join(none, ", "))
	if len(kept) > 0 {
		fmt.Fprintln(os.Stderr, "couchsim:", err)
		return kept, nil
	}
	return nil, err
}

// pair is two points side by side.
type pair struct {
	A           string             `json:"a"`
	B           string             `json:"b"`
	Differences []sweep.Difference `json:"differences"`
}

func (c *compareCommand) show(out io.Writer, r *sweep.Results, points []int) error {
	var all []pair
	for _, p := range points[1:] {
		list, err := c.wanted(r.Compare(points[0], p))
		if err != nil {
			return err
		}
		all = append(all, pair{settingsOf(r, points[0]), settingsOf(r, p), list})
	}
	switch c.Format {
	case "json":
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(all)
	case "csv":
		return pairsCSV(out, all)
	}
	seeds, page := r.Header.Seeds(), bufio.NewWriter(out)
	fmt.Fprintf(page, "%d seeds; b - a of each seed, with its interval of 95 %% (Student's t)\n", seeds)
	for _, p := range all {
		pairTable(page, p, seeds)
	}
	return page.Flush()
}

// settingsOf names a point.
func settingsOf(r *sweep.Results, point int) string {
	var all []string
	s := r.Summaries[point-1].Settings
	for _, axis := range r.Header.Axes {
		if v, has := s[axis]; has {
			all = append(all, axis+"="+v)
		}
	}
	if len(all) == 0 {
		return "as in the file"
	}
	return strings.Join(all, ", ")
}

// pairTable tells, too, which differences are of fewer seeds than all.
func pairTable(out io.Writer, p pair, seeds int) {
	fmt.Fprintf(out, "\na: %s\nb: %s\n", p.A, p.B)
	fmt.Fprintf(out, "%-24s %-6s %9s %9s %9s %21s\n", "", "unit", "a", "b", "b - a", "interval of b - a")
	for _, d := range p.Differences {
		i := fmt.Sprintf("%.3g to %.3g", d.Minus.Low, d.Minus.High)
		if d.Minus.Seeds < 2 {
			i = "-"
		}
		line := fmt.Sprintf("%-24s %-6s %9s %9s %9s %21s  %s", d.Metric.Name, d.Metric.Unit, short(d.A.Mean),
			short(d.B.Mean),
			short(d.Minus.Mean), i, verdictOf(d))
		if n := d.Minus.Seeds; n > 0 && n < seeds {
			line += fmt.Sprintf(" (%d of %d seeds)", n, seeds)
		}
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}

// verdictOf is a word where the interval excludes 0.
func verdictOf(d sweep.Difference) string {
	switch {
	case !d.Distinct:
		return ""
	case d.Metric.Better == "":
		return "other"
	case (d.Metric.Better == "less") == (d.Minus.Mean < 0):
		return "better"
	}
	return "worse"
}

// short is a number in four digits.
func short(n sweep.Number) string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	if x := math.Abs(float64(n)); x >= 1000 && x < 1e7 {
		return strconv.FormatFloat(float64(n), 'f', 0, 64)
	}
	return strconv.FormatFloat(float64(n), 'g', 4, 64)
}

func full(n sweep.Number) string {
	if math.IsNaN(float64(n)) {
		return ""
	}
	return strconv.FormatFloat(float64(n), 'g', -1, 64)
}

func pairsCSV(out io.Writer, all []pair) error {
	rows := csv.NewWriter(out)
	_ = rows.Write([]string{"a", "b", "metric", "unit", "a_mean", "a_low", "a_high", "b_mean", "b_low", "b_high",
		"difference_mean", "difference_low", "difference_high", "seeds", "verdict"}) // see Error below
	for _, p := range all {
		for _, d := range p.Differences {
			row := []string{p.A, p.B, d.Metric.Name, d.Metric.Unit}
			for _, i := range []sweep.Interval{d.A, d.B, d.Minus} {
				row = append(row, full(i.Mean), full(i.Low), full(i.High))
			}
			_ = rows.Write(append(row, strconv.Itoa(d.Minus.Seeds), verdictOf(d)))
		}
	}
	rows.Flush()
	return rows.Error()
}

// front shows the Pareto front.
func (c *compareCommand) front(out io.Writer, r *sweep.Results) error {
	front, left, err := r.Undominated(c.Pareto)
	if err == nil && len(front) == 0 {
		err = fmt.Errorf("%s: no point has a value of each", strings.Join(c.Pareto, ","))
	}
	if err != nil {
		return fmt.Errorf("--pareto %w", err)
	}
	if left > 0 {
		fmt.Fprintf(os.Stderr, "couchsim: --pareto: left out: %d points without a value of each\n", left)
	}
	heading, rows := []string{"point", "settings"}, [][]any(nil)
	for _, name := range c.Pareto {
		heading = append(heading, c.label(r, name))
	}
	for _, s := range front {
		row := []any{s.Point, settingsOf(r, s.Point)}
		for _, name := range c.Pareto {
			row = append(row, s.Metrics[name].Mean)
		}
		rows = append(rows, row)
	}
	return c.table(out, heading, rows)
}

// label is the name of a metric, for people with its unit.
func (c *compareCommand) label(r *sweep.Results, metric string) string {
	if unit := r.Header.Unit(metric); unit != "" && c.Format != "csv" && c.Format != "json" {
		return metric + " (" + unit + ")"
	}
	return metric
}

// effects shows what the axes do.
func (c *compareCommand) effects(out io.Writer, r *sweep.Results) error {
	heading := []string{"metric", "axis", "from", "to", "change", "pairs", "rank correlation"}
	var rows [][]any
	for _, metric := range c.Sensitivity {
		list, err := r.Sensitivity(metric)
		if err != nil {
			return fmt.Errorf("--sensitivity %w", err)
		}
		for _, e := range list {
			rows = append(rows, []any{c.label(r, metric), e.Axis, e.From, e.To, e.Change, e.Pairs, e.Rank})
		}
	}
	return c.table(out, heading, rows)
}

// table writes rows below a heading: numbers with four digits for people, and with all for programs.
func (c *compareCommand) table(out io.Writer, heading []string, rows [][]any) error {
	if c.Format == "json" {
		all := []map[string]any{}
		for _, row := range rows {
			m := map[string]any{}
			for i, cell := range row {
				m[heading[i]] = cell
			}
			all = append(all, m)
		}
		return json.NewEncoder(out).Encode(all)
	}
	digits := short
	if c.Format == "csv" {
		digits = full
	}
	texts := [][]string{heading}
	for _, row := range rows {
		var text []string
		for _, cell := range row {
			if n, is := cell.(sweep.Number); is {
				cell = digits(n)
			}
			text = append(text, fmt.Sprint(cell))
		}
		texts = append(texts, text)
	}
	if c.Format == "csv" {
		return csv.NewWriter(out).WriteAll(texts)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, text := range texts {
		fmt.Fprintln(t, strings.Join(text, "\t"))
	}
	return t.Flush()
}
