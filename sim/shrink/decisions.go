package shrink

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"couchrelay/sim/decide"
)

// groups leaves out decisions in bulk: most are waits of which none matters.
func (s *shrinker) groups() {
	s.told("whole")
	s.adopt(candidate{s.best.config, nil})
	s.drop(func(c decide.Choice) string {
		if _, err := time.ParseDuration(c.Value); err == nil && c.Value != "0" {
			return "wait"
		}
		return ""
	})
	s.drop(kind)
	s.drop(func(c decide.Choice) string { return c.Value })
	s.drop(func(c decide.Choice) string { return c.Site })
	s.told("groups")
}

// kind is the kind of a site: what is asked, whoever asks.
func kind(c decide.Choice) string {
	if i := strings.LastIndexAny(c.Site, "/ "); i >= 0 {
		return c.Site[i:]
	}
	return c.Site
}

// drop leaves out groups of decisions, the large ones first; those without a name stay.
func (s *shrinker) drop(group func(decide.Choice) string) {
	sizes := map[string]int{}
	var names []string
	for _, c := range s.best.decisions {
		name := group(c)
		if sizes[name] == 0 && name != "" {
			names = append(names, name)
		}
		sizes[name]++
	}
	slices.SortStableFunc(names, func(a, b string) int { return sizes[b] - sizes[a] })
	for _, name := range names {
		if sizes[name] > 1 {
			s.adopt(candidate{s.best.config, without(s.best.decisions, func(c decide.Choice) bool { return group(c) == name })})
		}
	}
}

func without(all []decide.Choice, out func(decide.Choice) bool) []decide.Choice {
	return slices.DeleteFunc(slices.Clone(all), out)
}

// minimise leaves out decisions, in ever smaller pieces, until none can be left out alone.
func (s *shrinker) minimise() {
	size := max(1, len(s.best.decisions)/2)
	for !s.late() {
		helped := false
		for at := 0; at < len(s.best.decisions) && !s.late(); {
			var pieces []candidate
			for from := at; from < len(s.best.decisions) && len(pieces) < s.Workers; from += size {
				rest := slices.Concat(s.best.decisions[:from], s.best.decisions[min(from+size, len(s.best.decisions)):])
				pieces = append(pieces, candidate{s.best.config, rest})
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

// values makes what is left simpler to read: round times, small numbers.
func (s *shrinker) values() {
	for i := 0; i < len(s.best.decisions) && !s.late(); i++ {
		var simpler []candidate
		for _, v := range simplified(s.best.decisions[i].Value) {
			again := slices.Clone(s.best.decisions)
			again[i].Value = v
			simpler = append(simpler, candidate{s.best.config, again})
		}
		s.adopt(simpler...)
	}
	s.told("values")
}

// simplified are simpler values than v, the simplest first.
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
