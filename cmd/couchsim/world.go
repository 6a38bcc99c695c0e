package main

import (
	"fmt"

	"couchrelay/sim/campaign"
	"couchrelay/sim/cluster"
	"couchrelay/sim/decide"
)

// choice chooses the worlds that a command plays.
type choice struct {
	Profile string `help:"Size of the worlds that seeds draw: small or standard." default:"small" enum:"small,standard"`
}

// worlds is how the chosen worlds are made.
type worlds struct {
	name string // in words: "profile small"
	args string // as arguments of couchsim
	of   func(seed uint64) campaign.World
}

func (c choice) worlds() (worlds, error) {
	profile, err := cluster.FindProfile(c.Profile)
	if err != nil {
		return worlds{}, err
	}
	w := worlds{name: "profile " + profile.Name}
	if profile.Name != cluster.Small.Name {
		w.args = " --profile " + profile.Name
	}
	w.of = func(seed uint64) campaign.World {
		return campaign.World{
			Config:  cluster.Swarm(seed, profile),
			Decider: func() *decide.Decider { return decide.New(decide.Seed(seed)) },
		}
	}
	return w, nil
}

// command is couchsim's command line for something to do with the chosen worlds.
func (w worlds) command(verb, format string, args ...any) string {
	return "go run ./cmd/couchsim " + verb + w.args + " " + fmt.Sprintf(format, args...)
}
