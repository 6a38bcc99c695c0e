package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// lab is where mutants are tried.
type lab struct {
	module    *module
	out       string // directory of results
	jobs      int
	seeds     int
	simulator bool // the module has one
	both      bool
	until     int // 0 ends with tests, 1 with seeds, 2 with scenarios
	suites    map[string]*suite
	schema    *schema // of the mutants that are tried
	say       func(format string, args ...any)
}

const simulator = "couchrelay/cmd/couchsim"

// errUncompiled says that a mutant, or something that needs it, does not compile.
var errUncompiled = errors.New("does not compile")

// build compiles a suite into a directory and returns how to run it.
func (l *lab) build(ctx context.Context, suite, dir string, flags ...string) (*program, error) {
	binary := filepath.Join(dir, "damaged")
	args := []string{"go", "test", "-c", "-vet=off", "-p=1", "-o", binary}
	target, runs := suite, &program{args: []string{binary, "-test.failfast", "-test.timeout=0", "-test.paniconexit0"}}
	switch suite {
	case seeds:
		args = []string{"go", "build", "-p=1", "-buildvcs=false", "-ldflags=-s -w", "-o", binary}
		target, runs.dir = simulator, dir
		runs.args = []string{binary, "run", "--seed", "1", "--seeds", strconv.Itoa(l.seeds), "--workers", "1",
			"--hashes", "/dev/stdout"}
	case scenarios:
		target, runs.dir = "couchrelay/scenarios", filepath.Join(l.module.root, "scenarios")
		runs.args = append(runs.args, "-test.run=^(TestScenarios|TestRegressions)$", "-test.parallel=1")
	default:
		i := slices.IndexFunc(l.module.packages, func(p *pkg) bool { return p.path == suite })
		runs.dir = l.module.packages[i].dir
		if l.module.packages[i].rapid {
			runs.args = append(runs.args, "-rapid.nofailfile") // what breaks for one mutant is not tried for others
		}
	}
	build := program{dir: l.module.root, args: append(append(args, flags...), target)}
	if err := build.run(ctx, anything); err != nil {
		return nil, err
	}
	runs.cpu = build.cpu
	if build.failed {
		return runs, fmt.Errorf("%w: %s", errUncompiled, build.output)
	}
	return runs, nil
}

// outcome is what a stage of a trial found.
type outcome struct {
	Verdict string  `json:"verdict,omitempty"` // one of those below; empty when it was not tried
	By      string  `json:"by,omitempty"`      // what noticed it first
	CPU     float64 `json:"cpu,omitempty"`     // seconds, with builds for this mutant alone
}

const (
	killed     = "killed"
	survived   = "survived"
	changed    = "changed"   // survived, but seeds are not played as they are without it
	unreached  = "unreached" // survived, since nothing reaches it
	uncompiled = "uncompiled"
)

// trial runs suites with a mutant.
type trial struct {
	*lab
	mutant  *mutant
	dir     string
	overlay string
}

// begin writes the files of a trial.
func (l *lab) begin(m *mutant) (*trial, error) {
	dir, err := os.MkdirTemp("", "mutagen-")
	if err != nil {
		return nil, err
	}
	t := &trial{lab: l, mutant: m, dir: dir, overlay: filepath.Join(dir, "overlay.json")}
	damaged := filepath.Join(dir, "damaged.go")
	replace := map[string]string{filepath.Join(l.module.root, m.file.name): damaged}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	return t, errors.Join(os.WriteFile(damaged, m.apply(m.variant), 0o600), os.WriteFile(t.overlay, text, 0o600))
}

func (t *trial) end() { os.RemoveAll(t.dir) }

// try runs suites up to the first that notices the mutant. Those that do not reach it are left out, but not the
// tests of its own package, which may draw other cases today.
func (t *trial) try(ctx context.Context, names []string) (outcome, error) {
	o := outcome{Verdict: unreached}
	functions := t.module.functions(t.mutant.file)
	for _, name := range names {
		s := t.suites[name]
		if name != t.mutant.file.path && !s.covers.reaches(t.mutant.point, functions) {
			continue
		}
		o.Verdict = survived
		runs, err := t.sharedBuild(ctx, t.mutant, name)
		if runs == nil && err == nil {
			runs, err = t.build(ctx, name, t.dir, "-overlay", t.overlay)
		}
		if runs != nil {
			o.CPU += runs.cpu.Seconds()
		}
		if errors.Is(err, errUncompiled) {
			o.Verdict, o.By = uncompiled, name
			return o, nil
		} else if err != nil {
			return o, err
		}
		if err := runs.run(ctx, s.bounds()); err != nil {
			return o, err
		}
		o.CPU += runs.cpu.Seconds()
		if runs.failed {
			o.Verdict, o.By = killed, name+": "+runs.reason()
			return o, nil
		}
		if s.Played != runs.played() {
			o.Verdict = changed
		}
	}
	return o, nil
}

// What tests and the simulator say when they fail.
var reasons = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^ *--- FAIL: (Test\S+)`),
	regexp.MustCompile(`(?m)^([SLBP][0-9]+[a-z]?  .*)$`),
	regexp.MustCompile(`(?m)^(?:panic|fatal error|runtime): (.*)$`),
}

var hashed = regexp.MustCompile(`(?m)^[0-9]+ [0-9a-f]{16}$`)

// played returns a digest of the hashes of all seeds that a program has played; of tests it is always the same.
func (p *program) played() string {
	sum := sha256.Sum256(bytes.Join(hashed.FindAll(p.output, -1), nil))
	return hex.EncodeToString(sum[:])
}

// reason says in a few words why a program failed.
func (p *program) reason() string {
	if p.overtime {
		return "no end"
	}
	for _, r := range reasons {
		if all := r.FindAllSubmatch(p.output, -1); len(all) > 0 {
			text := string(all[len(all)-1][1])
			return text[:min(len(text), 100)]
		}
	}
	return "failed"
}

// packages returns the tests to run for a package: its own, then those that reach it, the shortest first.
func (l *lab) packages(p *pkg) []string {
	names := slices.DeleteFunc(slices.Clone(p.tests), func(name string) bool { return l.suites[name] == nil })
	slices.SortStableFunc(names, func(a, b string) int {
		switch {
		case a == p.path:
			return -1
		case b == p.path:
			return 1
		}
		return int(l.suites[a].CPU - l.suites[b].CPU)
	})
	return names
}

// judge does what is missing of a mutant's trial. It saves what each stage found, since the next may take long.
func (l *lab) judge(ctx context.Context, m *mutant, r *result, save func(*result) error) error {
	t, err := l.begin(m)
	if err != nil {
		return err
	}
	defer t.end()
	if r.Unit.Verdict == "" {
		if r.Unit, err = t.try(ctx, l.packages(m.file.pkg)); err != nil {
			return err
		}
		if err := save(r); err != nil {
			return err
		}
	}
	if !l.simulator || r.Unit.Verdict == uncompiled {
		return nil
	}
	if l.until >= 1 && r.Seeds.Verdict == "" && (l.both || r.Unit.Verdict != killed) {
		if r.Seeds, err = t.try(ctx, []string{seeds}); err != nil {
			return err
		}
		if err := save(r); err != nil {
			return err
		}
	}
	if l.until >= 2 && r.Scenarios.Verdict == "" && !r.killed() {
		if r.Scenarios, err = t.try(ctx, []string{scenarios}); err != nil {
			return err
		}
		return save(r)
	}
	return nil
}

// inParallel calls a function for 0 to n-1, some at once, and ends at the first error.
func inParallel(ctx context.Context, atOnce, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(atOnce, n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}
