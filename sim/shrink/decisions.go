package shrink

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"couchrelay/sim/decide"
	"couchrelay/sim/scenario"
	"couchrelay/sim/world"
)

// groups leaves out groups of decisions, since most decisions do not matter.
func (s *shrinker) groups() {
	s.told("whole")
	s.adopt(s.variants(s.with(nil))...)
	if s.best.Scripted {
		s.drop(func(c decide.Choice) string {
			if c.Happens() {
				return ""
			}
			return "how"
		})
	}
	s.drop(func(c decide.Choice) string {
		if c.Site == world.NemesisSite || strings.HasPrefix(c.Value, "fdb-") {
			return "store and nemesis"
		}
		return "others"
	})
	s.drop(kind)
	s.drop(func(c decide.Choice) string { return c.Value })
	s.drop(func(c decide.Choice) string { return c.Site })
	s.told("groups")
}

// with returns the best scenario with other decisions.
func (s *shrinker) with(decisions []decide.Choice) scenario.Scenario {
	c := s.best
	c.Decisions = decisions
	return c
}

// kind returns the end of a site's name, which says what is asked and not which process asks.
func kind(c decide.Choice) string {
	if i := strings.LastIndexAny(c.Site, "/ "); i >= 0 {
		return c.Site[i:]
	}
	return c.Site
}

// drop leaves out groups of decisions, large groups first. Decisions whose group has no name stay.
func (s *shrinker) drop(group func(decide.Choice) string) {
	sizes := map[string]int{}
	var names []string
	for _, c := range s.best.Decisions {
		name := group(c)
		if sizes[name] == 0 && name != "" {
			names = append(names, name)
		}
		sizes[name]++
	}
	slices.SortStableFunc(names, func(a, b string) int { return sizes[b] - sizes[a] })
	for _, name := range names {
		if sizes[name] > 1 {
			named := func(c decide.Choice) bool { return group(c) == name }
			s.adopt(s.variants(s.with(without(s.best.Decisions, named)))...)
		}
	}
}

func without(all []decide.Choice, out func(decide.Choice) bool) []decide.Choice {
	return slices.DeleteFunc(slices.Clone(all), out)
}

// minimise leaves out decisions, in ever smaller pieces, until none can be left out alone.
func (s *shrinker) minimise() {
	size := max(1, len(s.best.Decisions)/2)
	for !s.late() {
		helped := false
		for at := 0; at < len(s.best.Decisions) && !s.late(); {
			var pieces []scenario.Scenario
			for from := at; from < len(s.best.Decisions) && len(pieces) < s.Workers; from += size {
				rest := slices.Concat(s.best.Decisions[:from], s.best.Decisions[min(from+size, len(s.best.Decisions)):])
				pieces = append(pieces, s.with(rest))
			}
			gone := s.adoptFirst(pieces)
			if gone < 0 {
				gone = len(pieces)
			} else {
				helped = true
			}
			at += gone * size // those before it are needed
		}
		s.told("decisions")
		switch {
		case size > 1:
			size /= 2
		case !helped:
			return
		}
	}
}

// values makes the remaining decisions easier to read, with round times and small numbers.
func (s *shrinker) values() {
	for i := 0; i < len(s.best.Decisions) && !s.late(); i++ {
		var simpler []scenario.Scenario
		for _, v := range simplified(s.best.Decisions[i].Value) {
			again := slices.Clone(s.best.Decisions)
			again[i].Value = v
			simpler = append(simpler, s.with(again))
		}
		s.adopt(simpler...)
	}
	s.told("values")
}

// simplified returns simpler values than v, the simplest first.
func simplified(v string) (all []string) {
	if n, err := strconv.ParseUint(v, 10, 64); err == nil {
		for _, m := range []uint64{1, 2, 10} {
			if m < n {
				all = append(all, strconv.FormatUint(m, 10))
			}
		}
		return all
	}
	if d, err := time.ParseDuration(v); err == nil {
		for _, unit := range []time.Duration{time.Minute, time.Second, time.Millisecond} {
			if round := d.Truncate(unit); round > 0 && round < d {
				all = append(all, round.String())
			}
		}
	}
	return all
}
