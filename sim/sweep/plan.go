package sweep

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"couchrelay/core/config"
	"couchrelay/sim/workload"
)

// DefaultLimit is the number of points above which an experiment is refused unless told otherwise.
const DefaultLimit = 10_000

// maxRuns bounds the points times the seeds of an experiment: its results have to fit into memory.
const maxRuns = 1_000_000

// Plan is an experiment that can be played: all its points were tried, and its traces read.
type Plan struct {
	Header Header
	Points []Point
	// Jobs is the number of jobs of the first run, and Estimate roughly the processor time of all, as if all had
	// as many.
	Jobs     int
	Estimate time.Duration
	// Unused are accounts with shares in the file that the workload does not have.
	Unused []string
	// Late tells in words what the workload of the first run has after the run's end, such as 5 of 9 jobs.
	Late []string

	experiment *Experiment
	recipes    []string // of each point
}

// Plan checks everything that can be checked before the first run. There may be limit points.
func (e *Experiment) Plan(command string, limit int) (*Plan, error) {
	p := &Plan{experiment: e, Header: Header{
		Format: Format, Build: ThisBuild(), Command: command, File: e.File, Experiment: e.Text, First: e.First,
		Last:    e.Last,
		Metrics: describe(),
	}}
	if n := e.Count(); n > limit {
		return nil, fmt.Errorf("%s: [sweep] has %s points, and %d are accepted: give the axes fewer values, use "+
			"method = lhs N, which samples the space with N points, or raise --points-limit", e.File, many(n), limit)
	}
	points, err := e.points()
	if err != nil {
		return nil, err
	}
	if runs := float64(len(points)) * float64(e.Seeds()); runs > maxRuns {
		return nil, fmt.Errorf("%s: %d points with %d seeds are %.0f runs, and %d are accepted: give fewer "+
			"seeds or points", e.File, len(points), e.Seeds(), runs, maxRuns)
	}
	p.Points = points
	p.Header.Points = len(points)
	for _, v := range e.Variants {
		p.Header.Variants = append(p.Header.Variants, v.String())
	}
	p.Header.Axes = axes(points)
	if err := p.probe(); err != nil {
		return nil, err
	}
	return p, p.Header.seal()
}

// axes are the keys that points set, in the order in which they come.
func axes(points []Point) []string {
	all := []string{}
	for _, p := range points {
		for _, v := range p {
			if name := v.Key.String(); !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// many writes a number of points, which may be too large to be told.
func many(n int) string {
	switch {
	case n == math.MaxInt:
		return "more than 10^18"
	case n >= 1e6:
		return fmt.Sprintf("some 10^%.0f", math.Floor(math.Log10(float64(n))))
	}
	return fmt.Sprint(n)
}

// enough jobs are built to see whether workloads can be: it takes a few seconds.
const enough = 2_000_000

// probe makes the settings of all points, and a workload of each recipe: of all that read a file, and of others
// until there are enough. Of the workloads accounts and first jobs are kept, which settings must agree with.
func (p *Plan) probe() error {
	heads, built, estimate := map[string]*workload.Workload{}, 0, 0.0
	for i, point := range p.Points {
		s, err := p.experiment.Setup(point)
		if err != nil {
			return err
		}
		name := s.Recipe.String()
		p.recipes = append(p.recipes, name)
		if file := fileOf(name); heads[name] == nil && (built < enough || file != "") {
			w, err := p.probeWorkload(s, file)
			if err != nil {
				return p.experiment.wrong(point, err)
			}
			if built += len(w.Jobs); i == 0 {
				p.Jobs, p.Late = len(w.Jobs), late(w, s.Duration)
			}
			heads[name] = &workload.Workload{Accounts: w.Accounts, Jobs: slices.Clone(w.Jobs[:min(1, len(w.Jobs))])}
		}
		if head := heads[name]; head != nil {
			if err := p.checkWorkload(s, head); err != nil {
				return p.experiment.wrong(point, err)
			}
		}
		estimate += cost(s, p.Jobs) * float64(p.experiment.Seeds())
	}
	p.Estimate = time.Duration(min(estimate, math.MaxInt64/2))
	return nil
}

// late tells how much of a workload comes after a time.
func late(w *workload.Workload, end time.Duration) (list []string) {
	note := func(what string, n int, at func(i int) time.Duration) {
		after := 0
		for i := range n {
			if at(i) >= end {
				after++
			}
		}
		if after > 0 {
			list = append(list, fmt.Sprintf("%d of %d %s", after, n, what))
		}
	}
	note("jobs", len(w.Jobs), func(i int) time.Duration { return w.Jobs[i].Submit })
	note("changes of shares", len(w.Changes), func(i int) time.Duration { return w.Changes[i].At })
	note("outages", len(w.Outages), func(i int) time.Duration { return w.Outages[i].From })
	return list
}

// probeWorkload makes the workload of the first seed.
func (p *Plan) probeWorkload(s *Setup, file string) (*workload.Workload, error) {
	w, err := s.Recipe.Build(p.Header.First)
	if err == nil && file != "" {
		err = p.addInputs(file)
	}
	return w, err
}

// checkWorkload looks for what would give runs without results.
func (p *Plan) checkWorkload(s *Setup, w *workload.Workload) error {
	if len(w.Jobs) == 0 {
		return errors.New("the workload has no jobs")
	}
	if first := w.Jobs[0].Submit; first >= s.Duration {
		return fmt.Errorf("the first job comes at %s, which is not within duration (%s)", config.Short(first),
			config.Short(s.Duration))
	}
	has := func(account string) bool {
		return slices.ContainsFunc(w.Accounts, func(a workload.Account) bool { return a.Name == account })
	}
	for account := range s.Settings.Replicator.Sharing.Shares {
		if has(account) {
			continue
		}
		if slices.Contains(p.Header.Axes, Key{shares, account}.String()) {
			return fmt.Errorf("%s/%s: the workload has no such account; it has %s", shares, account,
				someNames(w.Accounts))
		}
		if !slices.Contains(p.Unused, account) {
			p.Unused = append(p.Unused, account)
		}
	}
	slices.Sort(p.Unused)
	return nil
}

func someNames(accounts []workload.Account) string {
	var names []string
	for _, a := range accounts[:min(5, len(accounts))] {
		names = append(names, a.Name)
	}
	if len(accounts) > len(names) {
		names = append(names, fmt.Sprintf("%d more", len(accounts)-len(names)))
	}
	return strings.Join(names, ", ")
}

// fileOf is the trace that a recipe reads; empty if it reads none.
func fileOf(recipe string) string {
	for line := range strings.Lines(recipe) {
		if file, is := strings.CutPrefix(line, "file = "); is {
			return strings.TrimSpace(file)
		}
	}
	return ""
}

// addInputs notes a trace, and the columns that may lie beside one of SWF.
func (p *Plan) addInputs(file string) error {
	names := []string{file}
	if base, swf := strings.CutSuffix(file, ".swf"); swf {
		names = append(names, base+".csv")
	}
	for _, name := range names {
		sum, err := digest(filepath.Join(filepath.Dir(p.experiment.File), name))
		if name != file && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if input := (Input{name, sum}); !slices.Contains(p.Header.Inputs, input) {
			p.Header.Inputs = append(p.Header.Inputs, input)
		}
	}
	return nil
}

// cost is roughly the processor time of a run, in nanoseconds: in every interval each node looks at its runs and at
// the queue, and some jobs give way.
func cost(s *Setup, jobs int) float64 {
	settings := s.Settings.Node
	slots := float64(min(settings.MaxJobs, jobs))
	each := 50e3 + 1e3*slots + 12e3*min(float64(settings.MaxChurn), slots)
	intervals := float64(s.Duration) / float64(max(settings.Interval, time.Second))
	all := each*intervals*float64(s.Nodes) + 10e3*float64(jobs)
	if s.Exact {
		all *= 20
	}
	return math.Ceil(all)
}

// remove leaves out files that are not there.
func remove(paths ...string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
