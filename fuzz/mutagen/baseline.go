package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// suite is something that can notice damage, and what it needs and reaches when there is none.
type suite struct {
	Name    string
	Digest  string // of all that it was measured with
	CPU     time.Duration
	Profile string // name of a file below the directory for results
	Played  string // digest of the hashes of all seeds; see program.played
	covers  coverage
}

// memory is how much a suite may use, in KiB, with damage or without.
const memory = 4_000_000

// bounds are those for a run with damage: a few times what it needs without.
func (s *suite) bounds() bounds {
	cpu := 3*s.CPU + 5*time.Second
	return bounds{cpu: cpu, wall: 10*cpu + time.Minute, memory: memory}
}

// Suites that are not tests of one package.
const (
	seeds     = "seeds"
	scenarios = "scenarios"
)

// baseline measures the suites of the stages without damage. What was measured before, with the same source, is read.
func (l *lab) baseline(ctx context.Context) error {
	names := []string{}
	for _, p := range l.module.packages {
		if slices.Contains(p.tests, p.path) {
			names = append(names, p.path)
		}
	}
	if l.simulator {
		names = append(names, []string{seeds, scenarios}[:l.until]...)
	}
	var mutex sync.Mutex
	return inParallel(ctx, l.jobs, len(names), func(ctx context.Context, i int) error {
		s, err := l.measured(ctx, names[i])
		if err != nil {
			return err
		}
		mutex.Lock()
		defer mutex.Unlock()
		l.suites[s.Name] = s
		return nil
	})
}

func (l *lab) measured(ctx context.Context, name string) (*suite, error) {
	s := &suite{Name: name, Profile: "baseline/" + strings.ReplaceAll(name, "/", "-")}
	profile := filepath.Join(l.out, s.Profile)
	digest, err := l.digest(name)
	if err != nil {
		return nil, err
	}
	if text, err := os.ReadFile(profile + ".json"); err == nil && json.Unmarshal(text, s) == nil && s.Digest == digest {
		return s, s.read(profile)
	}
	s.Digest = digest
	if err := os.MkdirAll(filepath.Dir(profile), 0o755); err != nil {
		return nil, err
	}
	if err := l.measure(ctx, s, profile); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	l.say("%6.1f s  %s without damage", s.CPU.Seconds(), name)
	if err := os.WriteFile(profile+".json", text, 0o644); err != nil {
		return nil, err
	}
	return s, s.read(profile)
}

func (s *suite) read(profile string) error {
	text, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	s.covers, err = readCoverage(text)
	return err
}

// measure runs a suite that counts what it reaches.
func (l *lab) measure(ctx context.Context, s *suite, profile string) error {
	dir, err := os.MkdirTemp("", "mutagen-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	packages := []string{}
	for _, p := range l.module.packages {
		packages = append(packages, p.path)
	}
	cover := []string{"-cover", "-covermode=set", "-coverpkg=" + strings.Join(packages, ",")}
	if s.Name == seeds {
		cover[2] += "," + simulator // its main writes what was counted
	}
	runs, err := l.build(ctx, s.Name, dir, cover...)
	if err != nil {
		return err
	}
	if s.Name == seeds {
		runs.env = []string{"GOCOVERDIR=" + dir}
	} else {
		runs.args = append(runs.args, "-test.coverprofile="+profile)
	}
	if err := runs.run(ctx, bounds{cpu: time.Hour, wall: time.Hour, memory: memory}); err != nil {
		return err
	}
	if runs.failed {
		return fmt.Errorf("fails without damage: %s", runs.output)
	}
	s.CPU, s.Played = runs.cpu, runs.played()
	if s.Name != seeds {
		return nil
	}
	text := program{dir: l.module.root, args: []string{"go", "tool", "covdata", "textfmt", "-i", dir, "-o", profile}}
	return text.run(ctx, anything)
}

// digest returns a digest of the source that a suite's baseline depends on: that which is damaged, and the suite's
// own tests.
func (l *lab) digest(name string) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%d seeds with hashes\n", l.seeds)
	for _, p := range l.module.packages {
		for _, f := range p.files {
			fmt.Fprintf(sum, "%s %d\n", f.name, len(f.text))
			sum.Write(f.text)
		}
		if p.path != name {
			continue
		}
		tests, err := filepath.Glob(filepath.Join(p.dir, "*_test.go"))
		if err != nil {
			return "", err
		}
		for _, test := range tests {
			text, err := os.ReadFile(test)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s %d\n", filepath.Base(test), len(text))
			sum.Write(text)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
