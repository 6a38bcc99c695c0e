// Command mutagen measures how many bugs the tests and the simulator notice. It damages the core at places that it
// draws, one at a time, and runs the tests of the package and of those that use it; then, if none failed, seeds of
// the simulator, and then the scenarios. It prints the shares that were noticed, with 95 % confidence intervals.
//
//	go run ./fuzz/mutagen -sample 300 -seed 1
//
// The source is not touched: all mutants are compiled together as an overlay, and the environment chooses one; a
// mutant outside of functions is compiled alone. Suites that do not reach a mutant's place are not run; what they
// reach is measured once, before the first mutant, and again when the source has changed. Results are kept in
// bin/mutagen, one JSON object on a line, and a second run goes on where the first ended. Survivors are there, too,
// as patches. Those that are no bugs have their reason in exceptions.txt, and do not count.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

const exceptionsFile = "fuzz/mutagen/exceptions.txt"

// options are those of the command line.
type options struct {
	sample, seeds, jobs int
	seed                uint64
	both, again, list   bool
	only                string
	until               string
	out                 string
	patterns            []string
}

func main() {
	var o options
	flag.IntVar(&o.sample, "sample", 300, "number of mutants")
	flag.Uint64Var(&o.seed, "seed", 1, "what the sample is drawn with")
	flag.StringVar(&o.only, "only", "", "packages to draw from, such as core/follow,core/jobstore; else all")
	flag.IntVar(&o.seeds, "seeds", 100, "seeds of the simulator to play for each, from 1 on")
	flag.IntVar(&o.jobs, "jobs", runtime.GOMAXPROCS(0), "mutants at once, each on one core")
	flag.BoolVar(&o.both, "both", false, "play seeds also for mutants that tests noticed")
	flag.BoolVar(&o.again, "again", false, "try survivors again, after a test was added")
	flag.StringVar(&o.until, "until", scenarios, "last stage: tests, seeds or scenarios; a later run may do the others")
	flag.BoolVar(&o.list, "list", false, "only print the sample, as patches")
	flag.StringVar(&o.out, "out", "bin/mutagen", "directory of results")
	flag.Parse()
	o.patterns = flag.Args()
	if len(o.patterns) == 0 {
		o.patterns = []string{"./core/..."}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "mutagen:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	known, err := readExceptions(exceptionsFile)
	if err != nil {
		return err
	}
	m, err := load(root, o.patterns...)
	if err != nil {
		return err
	}
	if o.only != "" {
		if err := m.drawFrom(strings.Split(o.only, ",")); err != nil {
			return err
		}
	}
	drawn := m.sample(o.sample, o.seed)
	if o.list {
		for _, mutant := range drawn.mutants {
			fmt.Printf("%s %s\n%s\n", mutant.key(), mutant.operator, mutant.diff())
		}
		return nil
	}
	stage := slices.Index([]string{"tests", seeds, scenarios}, o.until)
	if stage < 0 {
		return fmt.Errorf("-until %s is no stage", o.until)
	}
	fmt.Println(drawn)
	out, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	l := &lab{module: m, out: out, jobs: o.jobs, seeds: o.seeds, simulator: true, both: o.both,
		until: stage, suites: map[string]*suite{},
		say: func(format string, args ...any) { fmt.Printf(format+"\n", args...) }}
	results, err := l.all(ctx, drawn.mutants, known, o.again)
	if err != nil {
		return err
	}
	fmt.Println()
	for _, text := range known.stale(m) {
		fmt.Printf("%s explains what is not there:\n%s\n", exceptionsFile, text)
	}
	costs(os.Stdout, results)
	fmt.Println()
	return report(os.Stdout, results, known)
}

func (d draw) String() string {
	points := 0
	var kinds []string
	for _, operator := range operators {
		points += d.points[operator.name]
		kinds = append(kinds, fmt.Sprintf("%s %d", operator.name, d.points[operator.name]))
	}
	return fmt.Sprintf("%d mutants drawn from %d points (%s); drawn again: %d did not compile, %d changed nothing",
		len(d.mutants), points, strings.Join(kinds, ", "), d.uncompiled, d.identical)
}

// all tries mutants, as far as that was not done before, and returns their results in the same order.
func (l *lab) all(ctx context.Context, mutants []*mutant, known exceptions, again bool) ([]*result, error) {
	if err := os.MkdirAll(l.out, 0o755); err != nil {
		return nil, err
	}
	ledger, err := openLedger(filepath.Join(l.out, "results.jsonl"))
	if err != nil {
		return nil, err
	}
	defer ledger.file.Close()
	if err := l.baseline(ctx); err != nil {
		return nil, err
	}
	if l.schema, err = l.writeSchema(mutants); err != nil {
		return nil, err
	}
	defer l.schema.remove()
	var telling sync.Mutex
	results := make([]*result, len(mutants))
	err = inParallel(ctx, l.jobs, len(mutants), func(ctx context.Context, i int) error {
		r := ledger.find(mutants[i])
		results[i] = r
		if known[r.text()] != "" && r.Unit.Verdict != "" {
			return nil // no bug that seeds could find
		}
		before := *r
		if again && !r.killed() && r.Unit.Verdict != uncompiled {
			r.Unit, r.Seeds, r.Scenarios = outcome{}, outcome{}, outcome{}
		}
		if err := l.judge(ctx, mutants[i], r, ledger.write); err != nil {
			return err
		}
		if r.Unit == before.Unit && r.Seeds == before.Seeds && r.Scenarios == before.Scenarios {
			return nil
		}
		telling.Lock()
		defer telling.Unlock()
		l.say("%6.1f s  %3d %s:%d: %s: %s", r.cpu(), i+1, r.File, r.Line, r.Operator, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, l.writeSurvivors(mutants, results, known)
}

// writeSurvivors writes a patch for each mutant that nothing noticed, named after its place in the sample.
func (l *lab) writeSurvivors(mutants []*mutant, results []*result, known exceptions) error {
	dir := filepath.Join(l.out, "survivors")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	err := os.MkdirAll(dir, 0o755)
	for i, r := range results {
		if r.killed() || r.Unit.Verdict == uncompiled || known[r.text()] != "" {
			continue
		}
		tests, sim := r.Unit.Verdict, cmp.Or(r.Seeds.Verdict, "-")
		text := fmt.Sprintf("tests: %s, seeds: %s, scenarios: %s\n\n%s\n%s", tests, sim,
			cmp.Or(r.Scenarios.Verdict, "-"), r.text(), mutants[i].diff())
		name := filepath.Join(dir, fmt.Sprintf("%03d-%s.diff", i+1, r.Operator))
		err = errors.Join(err, os.WriteFile(name, []byte(text), 0o644))
	}
	return err
}
