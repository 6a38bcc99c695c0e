package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// Hunt looks for a mutant with a simulator that has its bug.
type Hunt struct {
	Root    string        // of the module's source
	Dir     string        // for programs
	Seeds   uint64        // at most
	Workers int           // worlds at once; 0 means one on each core
	Limit   time.Duration // for one mutant; a bug that hangs is given up then
	// Sound says whether all invariants hold in a seed without the bug. What breaks there anyway finds none.
	Sound func(seed uint64) bool
}

// Catch is what came of a hunt.
type Catch struct {
	Mutant
	// Invariant that broke; empty when none did.
	Invariant string
	Text      string // how it broke, as the simulator says it
	// Seeds is how many were played, that one included.
	Seeds uint64
	Took  time.Duration
}

// Build compiles a simulator with the bug, and leaves the source alone.
func (h Hunt) Build(ctx context.Context, m Mutant) (program string, err error) {
	text, err := m.Apply(h.Root)
	if err != nil {
		return "", err
	}
	base := filepath.Join(h.Dir, m.Name)
	if err := os.WriteFile(base+".go", text, 0o600); err != nil {
		return "", err
	}
	defer os.Remove(base + ".go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(h.Root, m.File): base + ".go"}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(base+".json", overlay, 0o600); err != nil {
		return "", err
	}
	defer os.Remove(base + ".json")
	build := exec.CommandContext(ctx, "go", "build", "-overlay", base+".json", "-o", base, "./cmd/couchsim")
	build.Dir = h.Root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mutant %s does not compile: %w\n%s", m.Name, err, out)
	}
	return base, nil
}

// Run builds the simulator with the bug, and plays seeds until an invariant breaks.
func (h Hunt) Run(ctx context.Context, m Mutant) (Catch, error) {
	program, err := h.Build(ctx, m)
	if err != nil {
		return Catch{}, err
	}
	defer os.Remove(program)
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, h.Limit)
	defer cancel()
	for first := uint64(0); first < h.Seeds; {
		id, text, seed, err := h.play(ctx, program, first)
		switch {
		case err != nil:
			return Catch{}, fmt.Errorf("mutant %s: %w", m.Name, err)
		case id == "":
			return Catch{Mutant: m, Seeds: h.Seeds, Took: time.Since(began)}, nil
		case id == Hung || h.Sound(seed):
			return Catch{Mutant: m, Invariant: id, Text: text, Seeds: seed + 1, Took: time.Since(began)}, nil
		}
		first = seed + 1
	}
	return Catch{Mutant: m, Seeds: h.Seeds, Took: time.Since(began)}, nil
}

// Hung stands for the invariant of a run that did not end in time.
const Hung = "hung"

// What couchsim says of a violation.
var (
	broken = regexp.MustCompile(`(?m)^([SLBP][0-9]+)  (.*)\n    seed ([0-9]+) of `)
	held   = regexp.MustCompile(`(?m): 0 violations$`)
)

// play plays seeds up to the first that breaks an invariant; id is empty when none does.
func (h Hunt) play(ctx context.Context, program string, first uint64) (id, text string, seed uint64, err error) {
	run := exec.CommandContext(ctx, program, "run", "--seed", strconv.FormatUint(first, 10),
		"--seeds", strconv.FormatUint(h.Seeds-first, 10), "--workers", strconv.Itoa(h.Workers))
	run.Dir = h.Dir
	out, err := run.Output()
	if found := broken.FindSubmatch(out); found != nil { // the first is of the lowest seed
		seed, err = strconv.ParseUint(string(found[3]), 10, 64)
		return string(found[1]), string(found[2]), seed, err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Hung, "no end in " + h.Limit.String(), 0, nil
	}
	if err == nil && !held.Match(out) {
		err = fmt.Errorf("couchsim said %q", out)
	}
	return "", "", 0, err
}
