package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"couchrelay/adapters/capture"
	"couchrelay/adapters/config"
	coreconfig "couchrelay/core/config"
	"couchrelay/core/forecast"
	"couchrelay/sim/sweep"
	"couchrelay/sim/workload"
)

// whatIfCommand plays what a server does now, as it is and with changes.
type whatIfCommand struct {
	From     string        `required:"" help:"A CouchDB or couchrelay, its log, or a workload." placeholder:"URL"`
	Set      []string      `required:"" sep:"none" help:"A change; several hold at once." placeholder:"KEY=VALUE"`
	Config   string        `help:"Its configuration, instead of what the service tells." placeholder:"FILE.ini"`
	Watch    time.Duration `help:"Look twice, so long apart, to measure rates and speeds." placeholder:"60s"`
	Nodes    int           `help:"How many nodes run jobs." default:"1"`
	Seeds    int           `help:"How many seeds both sides are played with." default:"5"`
	Duration time.Duration `help:"Time to measure; six full turns, a day or the workload." placeholder:"24h"`
	Metrics  []string      `help:"Metrics to show, with * for any letters." placeholder:"NAME"`
	Keep     string        `help:"Keep the experiment and the workload in this directory." placeholder:"DIR"`
}

// Help is kong's.
func (whatIfCommand) Help() string {
	return `Takes the jobs of a service with their rates, and its configuration, and plays them with production's
scheduler: as they are, and with the changes. Both sides have the same seeds, so that differences are those of the
changes; the interval of each tells whether it may be chance. Continuous jobs of the beginning are there for two full
turns, or two hours, before it is measured; all else comes after that. Below stands what couchsim lint finds for both.

  couchsim what-if --from http://adm:PASSWORD@relay:5980 --config couchrelay.ini --set max_churn=50
  couchsim what-if --from now.jsonl --set scheduling_policy=tags --set replicator.shares/_replicator=300`
}

func (c *whatIfCommand) Run() error { return c.play(os.Stdout) }

// play plays both sides and writes what differs.
func (c *whatIfCommand) play(out io.Writer) error {
	change, err := c.check()
	if err != nil {
		return err
	}
	before, err := c.world()
	if err != nil {
		return err
	}
	after, err := before.with(change)
	if err != nil {
		return err
	}
	dir := c.Keep
	if dir != "" {
		err = os.MkdirAll(dir, 0o700)
	} else {
		dir, err = os.MkdirTemp("", "what-if-")
		defer os.RemoveAll(dir)
	}
	if err != nil {
		return err
	}
	file, err := c.experiment(dir, before, after)
	if err != nil {
		return err
	}
	compare := compareCommand{File: file, Set: []string{strings.Join(c.Set, ",")}, Metrics: c.Metrics}
	results, err := compare.playSets()
	if err != nil {
		return err
	}
	for _, note := range before.notes {
		fmt.Fprintln(out, wrapped("note: "+note, "", "  "))
	}
	if err := compare.show(out, results, []int{1, 2}); err != nil {
		return err
	}
	if err := before.tell(out, "As it is"); err != nil {
		return err
	}
	return after.tell(out, "With "+strings.Join(c.Set, ", "))
}

// check returns the change that is asked for.
func (c *whatIfCommand) check() (sweep.Point, error) {
	change, err := sweep.ParsePoint(strings.Join(c.Set, ","))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--set %w", err)
	case c.Nodes < 1 || c.Nodes > 1000:
		return nil, fmt.Errorf("--nodes %d: must be from 1 to 1000", c.Nodes)
	case c.Seeds < 1 || c.Seeds > 1000:
		return nil, fmt.Errorf("--seeds %d: must be from 1 to 1000", c.Seeds)
	case c.Duration != 0 && c.Duration < time.Second:
		return nil, fmt.Errorf("--duration %s: must be 1s or more", c.Duration)
	case c.Watch != 0 && !strings.Contains(c.From, "://"):
		return nil, errors.New("--watch is for a server")
	}
	return change, nil
}

// whatIf is one side.
type whatIf struct {
	workload *workload.Workload
	settings coreconfig.Settings
	nodes    int
	notes    []string
}

// world is the service as it is.
func (c *whatIfCommand) world() (whatIf, error) {
	w := whatIf{settings: coreconfig.Default(), nodes: c.Nodes}
	if workload.IsFile(c.From) {
		played, err := workload.ReadFile(c.From, false)
		if err != nil {
			return w, err
		}
		w.workload = played
		if c.Config == "" {
			w.notes = append(w.notes, "a workload has no settings: all but the changes have defaults, see --config")
		}
	} else if err := c.capture(&w); err != nil {
		return w, err
	}
	if len(w.workload.Jobs) == 0 {
		return w, errors.New("--from: there are no jobs to play")
	}
	if c.Config != "" {
		all, err := config.Load(c.Config)
		if err != nil {
			return w, err
		}
		w.settings = all.Settings
	}
	return w, nil
}

// capture looks at the service, or reads its log.
func (c *whatIfCommand) capture(w *whatIf) error {
	ctx, stop := interruptible()
	defer stop()
	from := importCommand{From: c.From, Watch: c.Watch, Names: true}
	got, err := from.capture(ctx)
	if err != nil {
		return err
	}
	w.workload, w.notes = got.Workload, got.Notes
	told := func(s capture.Setting) bool { return s.Key == "max_churn" }
	if c.Config == "" && !slices.ContainsFunc(got.Settings, told) {
		w.notes = append(w.notes, "the service does not tell all its settings; the others have defaults, see --config")
	}
	return w.apply(got.Settings)
}

// apply puts settings in force.
func (w *whatIf) apply(list []capture.Setting) error {
	for _, s := range list {
		set := w.settings.Set
		if s.Section == "replicator.shares" {
			set = w.settings.SetShares
		}
		if err := set(s.Key, s.Value); err != nil {
			return err
		}
	}
	return w.settings.Check()
}

// with is the other side.
func (w whatIf) with(change sweep.Point) (whatIf, error) {
	other := w
	other.settings.Replicator.Sharing.Shares = maps.Clone(w.settings.Replicator.Sharing.Shares)
	for _, v := range change {
		var err error
		switch {
		case v.Key.Section == "replicator" || v.Key.Section == "replicator.shares":
			err = other.apply([]capture.Setting{{Section: v.Key.Section, Key: v.Key.Name, Value: v.Value}})
		case v.Key.Name == "nodes":
			_, err = fmt.Sscan(v.Value, &other.nodes)
		default:
			err = errors.New("must be a key of [replicator] or [replicator.shares], or nodes")
		}
		if err != nil {
			return other, fmt.Errorf("--set %s: %w", v.Key, err)
		}
	}
	return other, nil
}

// queue is what the workload asks for.
func (w *whatIf) queue() forecast.Queue {
	return queueOf(w.workload, &w.settings, forecast.Queue{Nodes: w.nodes})
}

// experiment writes the experiment and its workload, and returns the path of the former.
func (c *whatIfCommand) experiment(dir string, before, after whatIf) (path string, err error) {
	turn := time.Duration(0)
	for _, side := range []whatIf{before, after} {
		if f := forecast.Of(side.settings, side.queue()); f.Turn != forecast.Never {
			turn = max(turn, f.Turn)
		}
	}
	const day, month = 24 * time.Hour, 30 * 24 * time.Hour
	warm := min(max(2*turn, 2*time.Hour), month)
	measured := c.Duration
	if measured == 0 {
		measured = min(max(6*turn, day, before.workload.End()), month)
	}
	if err := before.workload.Later(warm).WriteFile(filepath.Join(dir, "what-if.jsonl")); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "what-if.ini")
	return path, os.WriteFile(path, []byte(before.text(warm, warm+measured, c.Seeds)), 0o600)
}

// mostShares is of how many accounts each share is shown.
const mostShares = 20

// text is the experiment. A setting has its first name: the second one would undo an edit of that.
func (w *whatIf) text(warm, until time.Duration, seeds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# A service as it was found.\nduration = %s\nwarm-up = %s\n", until.Round(time.Second),
		warm.Round(time.Second))
	fmt.Fprintf(&b, "nodes = %d\nseeds = 1..%d\n", w.nodes, seeds)
	if n := len(w.workload.Accounts); n > 1 && n <= mostShares {
		b.WriteString("per-account = share\n")
	}
	b.WriteString("[replicator]\n")
	byDefault := coreconfig.Default()
	for _, k := range coreconfig.Replicator {
		key := sweep.Key{Section: "replicator", Name: k.Name}
		_, second := coreconfig.SecondNames[k.Name]
		if value := k.Get(&w.settings); value != k.Get(&byDefault) && !second && !key.Idle() { // no passwords, for one
			fmt.Fprintf(&b, "%s = %s\n", k.Name, value)
		}
	}
	b.WriteString("[replicator.shares]\n")
	for _, a := range w.workload.Accounts {
		if shares := w.settings.Replicator.Sharing.Shares[a.Name]; shares > 0 {
			fmt.Fprintf(&b, "%s = %d\n", a.Name, shares)
		}
	}
	b.WriteString("[workload]\nfile = what-if.jsonl\n")
	return b.String()
}

// tell writes the findings of the forecast for one side.
func (w *whatIf) tell(out io.Writer, title string) error {
	q := w.queue()
	findings, f := forecast.Findings(w.settings, q)
	r := lintReport{title: title, from: "when it has most", queue: q, forecast: f, findings: findings}
	fmt.Fprintln(out)
	return r.write(out)
}
