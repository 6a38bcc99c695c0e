package main

import (
	"fmt"
	"os"
	"strings"

	"couchrelay/sim/campaign"
	"couchrelay/sim/decide"
	"couchrelay/sim/scenario"
	"couchrelay/sim/world"
)

// choice chooses the worlds that a command plays.
type choice struct {
	File    string `arg:"" optional:"" help:"A scenario; without one every seed draws a world of its own."`
	Profile string `help:"Size of the worlds that seeds draw: small or standard." default:"small" enum:"small,standard"`
}

// worlds is how the chosen worlds are made.
type worlds struct {
	name string   // in words: "profile small"
	args []string // of couchsim, that choose them
	of   func(seed uint64) campaign.World
	// other is the couchsim that plays seeds elsewhere; empty for this one.
	other string
	// scenario is what they are read from; nil for profiles.
	scenario *scenario.Scenario
}

func (c choice) worlds() (worlds, error) {
	if c.File != "" {
		return fromFile(c.File)
	}
	profile, err := world.FindProfile(c.Profile)
	if err != nil {
		return worlds{}, err
	}
	w := worlds{name: "profile " + profile.Name, of: campaign.Drawn(profile)}
	if profile.Name != world.Small.Name {
		w.args = []string{"--profile", profile.Name}
	}
	return w, nil
}

// fromFile is the world of a scenario.
func fromFile(path string) (worlds, error) {
	s, err := scenario.Load(path)
	if err != nil {
		return worlds{}, err
	}
	if len(s.Unused) > 0 {
		fmt.Fprintf(os.Stderr, "couchsim: no effect in a simulation: %s\n", strings.Join(s.Unused, ", "))
	}
	w := worlds{name: path, args: []string{path}, scenario: s}
	w.of = func(seed uint64) campaign.World {
		return campaign.World{Config: s.Config, Decider: func() *decide.Decider { return s.Decider(seed) }}
	}
	return w, nil
}

// scripted reports that there is only one run, for any seed.
func (w worlds) scripted() bool { return w.scenario != nil && w.scenario.Scripted }

// command is couchsim's command line, for a shell, for doing something with the chosen worlds.
func (w worlds) command(verb string) string {
	line := "go run ./cmd/couchsim " + verb
	for _, arg := range w.args {
		line += " " + quoted(arg)
	}
	return line
}

// quoted is a word for a shell.
func quoted(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-+=,@%") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
