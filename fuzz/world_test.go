package fuzz

import (
	"slices"
	"testing"
	"time"

	"couchrelay/sim/campaign"
	"couchrelay/sim/decide"
	"couchrelay/sim/scenario"
	"couchrelay/sim/world"
)

// drawnWorld is the small world of a seed, with a short time of trouble: a fuzzer gets further by many runs.
func drawnWorld(seed byte) world.Config {
	p := world.Small
	p.Duration, p.Jobs, p.Docs = 16*time.Minute, 8, 3
	c := world.Swarm(uint64(seed), p)
	c.LongURLs = 0
	return c
}

// mostEvents bounds a run: a fuzzer takes one of ten seconds for one that hangs.
const mostEvents = 30_000

// happened are the choices of a run that say that something happens, which with the seed are the whole run.
func happened(o campaign.Outcome) []decide.Choice {
	return slices.DeleteFunc(o.Choices, func(c decide.Choice) bool { return !c.Happens() })
}

// FuzzWorld plays a whole world of the simulator, which a seed draws, but for faults and actions that bytes add or
// leave out. Every invariant is the property. A failure prints the scenario for couchsim replay and couchsim shrink.
func FuzzWorld(f *testing.F) {
	for seed := range byte(8) {
		f.Add(seed, []byte{})
		f.Add(seed, []byte("\x07\x00\x01\x00\x29\x00\x05\x02\xa3\x00\x09\x01\xf0\x00\x20\x03"))
	}
	f.Fuzz(func(t *testing.T, seed byte, faults []byte) {
		c := drawnWorld(seed)
		o := campaign.Play(c, decide.Guided(decide.Seed(seed), faults).Recording(), campaign.Limit(mostEvents))
		if o.Violation == nil {
			return
		}
		s := scenario.Scenario{Broke: o.Violation.ID, First: uint64(seed), Last: uint64(seed), Decisions: happened(o),
			Config: c}
		if len(s.Decisions) == 0 { // without any, the seed would say what happens
			s.Decisions = []decide.Choice{{Site: "fuzzer", Value: "nothing"}}
		}
		t.Errorf("%.500s\n%s%s", o.Violation, o.Stack, scenario.Format(&s))
	})
}

// TestGuidedIsTold: the scenario of a fuzzer's run plays the same run.
func TestGuidedIsTold(t *testing.T) {
	for seed := range byte(4) {
		faults := make([]byte, 0, 4*256)
		for site := range 256 {
			faults = append(faults, byte(site), 0, byte(site%16), byte(site))
		}
		c := drawnWorld(seed)
		guided := campaign.Play(c, decide.Guided(decide.Seed(seed), faults).Recording())
		choices := happened(guided)
		told := campaign.Play(c, decide.Told(decide.Seed(seed), choices))
		if len(choices) < 5 || guided.Hash == 0 || told.Hash != guided.Hash {
			t.Errorf("seed %d: hash %x by bytes, with %d choices (%v), %x by these", seed, guided.Hash, len(choices),
				guided.Violation, told.Hash)
		}
	}
}
