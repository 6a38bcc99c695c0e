package mutants

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Hunt looks for mutants with simulators that have their bugs.
type Hunt struct {
	Root  string        // of the module's source
	Dir   string        // for programs
	Seeds uint64        // to play at most for each mutant
	Cores int           // to use, at least 1
	Limit time.Duration // for one mutant, which is given up then
	// Known has earlier catches by name. The seed of one is played first, and all others only when it finds nothing.
	Known map[string]Catch
	// Sound reports whether all invariants hold in a seed without the bug. A break that happens there too finds no
	// bug. It is called by several goroutines.
	Sound func(seed uint64) bool
}

// Catch is what came of a hunt.
type Catch struct {
	Mutant
	Invariant string // id of the one that broke; empty when none did
	Text      string // how it broke, as the simulator says it; not in the table
	// Seeds is how many from 0 on had to be played, the one that broke included; all that were played when none did.
	Seeds uint64
	Took  time.Duration // without the build; not in the table
	// OutOfTime reports that the limit ended the hunt. It has found nothing then, and nobody knows how many seeds
	// were played: the bug may have one run for ever, or the machine may be slow. The table has no such rows.
	OutOfTime bool
}

// Same reports whether two hunts for one mutant found the same. One that ran out of time is like no other.
func (c Catch) Same(other Catch) bool {
	return !c.OutOfTime && c.Invariant == other.Invariant && (c.Seeds == other.Seeds || c.Invariant == "")
}

// All hunts for several mutants at once, one on each core, and tells of each when its hunt is over, one at a time.
// It ends at the first error.
func (h Hunt) All(ctx context.Context, list []Mutant, tell func(Catch)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	atOnce := max(1, min(h.Cores, len(list)))
	h.Cores = max(1, h.Cores/atOnce)
	var hunts sync.WaitGroup
	var next atomic.Int64
	var telling sync.Mutex
	for range atOnce {
		hunts.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(list) && ctx.Err() == nil; i = next.Add(1) - 1 {
				found, err := h.run(ctx, list[i])
				if err != nil {
					cancel(err) // a mutant that does not compile measures nothing
					return
				}
				telling.Lock()
				tell(found)
				telling.Unlock()
			}
		})
	}
	hunts.Wait()
	return context.Cause(ctx)
}

// build compiles a simulator with the bug, and leaves the source alone.
func (h Hunt) build(ctx context.Context, m Mutant) (program string, err error) {
	text, err := m.Apply(h.Root)
	if err != nil {
		return "", err
	}
	base := filepath.Join(h.Dir, m.Name)
	if err := os.WriteFile(base+".go", text, 0o600); err != nil {
		return "", err
	}
	defer os.Remove(base + ".go")
	replace := map[string]string{filepath.Join(h.Root, m.File): base + ".go"}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(base+".json", overlay, 0o600); err != nil {
		return "", err
	}
	defer os.Remove(base + ".json")
	build := exec.CommandContext(ctx, "go", "build", "-p", strconv.Itoa(h.Cores), "-ldflags=-s -w", "-buildvcs=false",
		"-overlay", base+".json", "-o", base, "./cmd/couchsim")
	build.Dir = h.Root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mutant %s does not compile: %w\n%s", m.Name, err, out)
	}
	return base, nil
}

// run builds the simulator with the bug, and plays seeds until an invariant breaks.
func (h Hunt) run(ctx context.Context, m Mutant) (Catch, error) {
	program, err := h.build(ctx, m)
	if err != nil {
		return Catch{}, err
	}
	defer os.Remove(program)
	return h.look(ctx, program, m)
}

// look plays seeds within the limit: first the one that is known, and then all.
func (h Hunt) look(ctx context.Context, program string, m Mutant) (found Catch, err error) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, h.Limit)
	defer cancel()
	found.Mutant = m
	if known := h.Known[m.Name]; known.Invariant != "" {
		err = h.search(limited, program, known.Seeds-1, known.Seeds, &found)
	}
	if err == nil && found.Invariant == "" {
		err = h.search(limited, program, 0, h.Seeds, &found)
	}
	switch {
	case err == nil:
	case ctx.Err() == nil && limited.Err() != nil:
		found.Seeds, found.OutOfTime = 0, true
	default:
		return Catch{}, fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	found.Took = time.Since(began)
	return found, nil
}

// search plays the seeds from first up to, but not including, end until one breaks an invariant that holds without
// the bug.
func (h Hunt) search(ctx context.Context, program string, first, end uint64, found *Catch) error {
	for first < end {
		id, text, seed, err := h.play(ctx, program, first, end)
		if err != nil {
			return err
		}
		if id == "" {
			break
		}
		if h.Sound(seed) {
			found.Invariant, found.Text, found.Seeds = id, text, seed+1
			return nil
		}
		first = seed + 1
	}
	found.Seeds = end
	return nil
}

// What couchsim says of a violation.
var (
	broken = regexp.MustCompile(`(?m)^([SLBP][0-9]+[a-z]?)  (.*)\n    seed ([0-9]+) of `)
	held   = regexp.MustCompile(`(?m): 0 violations$`)
)

// play plays seeds up to the first that breaks an invariant; id is empty when none does.
func (h Hunt) play(ctx context.Context, program string, first, end uint64) (id, text string, seed uint64, err error) {
	run := exec.CommandContext(ctx, program, "run", "--seed", strconv.FormatUint(first, 10),
		"--seeds", strconv.FormatUint(end-first, 10), "--workers", strconv.Itoa(h.Cores))
	run.Dir = h.Dir
	out, err := run.Output()
	if found := broken.FindSubmatch(out); found != nil { // the first is of the lowest seed
		seed, err = strconv.ParseUint(string(found[3]), 10, 64)
		return string(found[1]), string(found[2]), seed, err
	}
	if err == nil && !held.Match(out) {
		err = fmt.Errorf("couchsim said %q", out)
	}
	return "", "", 0, err
}
