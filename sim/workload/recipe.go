package workload

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"couchrelay/core/config"
)

// Recipe says how a workload is made: by settings that have names, as in the section [workload] of a file. The
// zero value is the default recipe. A copy of a recipe is independent of it.
//
// The jobs of a recipe may be of several kinds, in groups. With "groups = web, night", the setting
// "night.oneshot = 1" holds for the group night alone, and "speed = 20" for each group that has none of its own.
type Recipe struct {
	// Dir is the directory from which the setting file is looked up; empty for the working directory.
	Dir      string
	settings []setting // each once, in the order in which they were set first
}

type setting struct{ name, value string }

// section is the name of the section of files that has a recipe's settings.
const section = "workload"

// Keys describes all settings. Those that a group can have are also known as GROUP.KEY.
func Keys() []config.Row {
	s := defaults()
	return keys.Rows(section, &s, &s)
}

// Set sets one setting, KEY or GROUP.KEY. Whether groups exist and settings agree is up to Check, so that
// settings may come in any order.
func (r *Recipe) Set(name, value string) error {
	scratch := defaults()
	if err := apply(&scratch, name, value); err != nil {
		return err
	}
	list := slices.Clone(r.settings)
	i := slices.IndexFunc(list, func(s setting) bool { return s.name == name })
	if i < 0 {
		list = append(list, setting{name, value})
	} else {
		list[i].value = value
	}
	r.settings = list
	return nil
}

// String returns the recipe as lines of a file.
func (r *Recipe) String() string {
	var text strings.Builder
	for _, s := range r.settings {
		fmt.Fprintf(&text, "%s = %s\n", s.name, s.value)
	}
	return text.String()
}

// apply sets one setting of a group, whichever group the name is for.
func apply(to *group, name, value string) error {
	of, key, qualified := strings.Cut(name, ".")
	if !qualified {
		key = name
	}
	i := slices.IndexFunc(keys, func(k config.Key[group]) bool { return k.Name == key })
	switch {
	case qualified && !groupName.MatchString(of):
		return fmt.Errorf("[%s] %s: %q is no name of a group, which must be %s", section, name, of, takesGroup)
	case i < 0:
		return fmt.Errorf("[%s] %s: no such key; known are %s", section, name, known())
	case qualified && slices.Contains(wholes, key):
		return fmt.Errorf("[%s] %s: groups have no %s of their own; set %s", section, name, key, key)
	}
	if err := keys[i].Set(to, value); err != nil {
		return fmt.Errorf("[%s] %s = %s: %w", section, name, value, err)
	}
	return nil
}

func known() string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Name
	}
	return strings.Join(names, ", ")
}

var groupName = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

const takesGroup = "small letters, digits, _ and -, with a letter first"

// Check returns an error when settings do not agree.
func (r *Recipe) Check() error {
	_, _, err := r.resolve()
	return err
}

// resolve returns the settings of the whole workload, and of each group.
func (r *Recipe) resolve() (all group, groups []group, err error) {
	list := r.settings
	if i := slices.IndexFunc(list, func(s setting) bool { return s.name == "preset" }); i >= 0 {
		list = slices.Concat(presets[list[i].value], list)
	}
	all = defaults()
	if err := applyTo(&all, list, ""); err != nil {
		return all, nil, err
	}
	if all.file != "" {
		return all, nil, onlyFile(list)
	}
	if all.gaps {
		return all, nil, fmt.Errorf("[%s] gaps: has a meaning only with file", section)
	}
	names := all.groups
	if len(names) == 0 {
		names = []string{""}
	}
	for _, s := range list {
		if of, _, qualified := strings.Cut(s.name, "."); qualified && !slices.Contains(all.groups, of) {
			return all, nil, fmt.Errorf("[%s] %s: there is no group %s; groups are set by the key groups (now: %s)",
				section, s.name, of, strings.Join(all.groups, ", "))
		}
	}
	total := 0
	for _, name := range names {
		g := all
		g.name = name
		if err := applyTo(&g, list, name); err != nil {
			return all, nil, err
		}
		if err := g.check(); err != nil {
			return all, nil, err
		}
		groups = append(groups, g)
		total += g.count()
	}
	if total > MaxJobs {
		return all, nil, fmt.Errorf("[%s] jobs: the accounts have %d jobs together; %d are accepted at most",
			section, total, MaxJobs)
	}
	return all, groups, nil
}

// applyTo applies the settings that are for a group; those for all if its name is empty.
func applyTo(to *group, list []setting, name string) error {
	for _, s := range list {
		of, _, qualified := strings.Cut(s.name, ".")
		if qualified != (name != "") || qualified && of != name {
			continue
		}
		if err := apply(to, s.name, s.value); err != nil {
			return err
		}
	}
	return nil
}

// onlyFile returns an error if there are settings that mean nothing for a workload from a file.
func onlyFile(list []setting) error {
	for _, s := range list {
		if s.name != "file" && s.name != "gaps" {
			return fmt.Errorf("[%s] %s: means nothing together with file; remove one of them", section, s.name)
		}
	}
	return nil
}

// Build makes the workload. The same recipe and seed make the same workload; with another seed a workload from
// a file is still the same.
func (r *Recipe) Build(seed uint64) (*Workload, error) {
	all, groups, err := r.resolve()
	if err != nil {
		return nil, err
	}
	if all.file != "" {
		return ReadFile(filepath.Join(r.Dir, all.file), all.gaps)
	}
	w := &Workload{}
	for i := range groups {
		groups[i].generate(w, seed)
	}
	w.sort()
	if err := w.Check(); err != nil {
		return nil, fmt.Errorf("[%s]: %w", section, err)
	}
	return w, nil
}

// presets are the recipes that have names.
var presets = map[string][]setting{
	"steady": {
		{"accounts", "3"}, {"shares", "200:100:50"}, {"jobs", "2000:5000:3000"},
	},
	"noisy-neighbour": {{"accounts", "11"}, {"jobs", "9000:100"}},
	"poisson":         {{"oneshot", "1"}, {"jobs", "10000"}, {"arrival", "poisson"}, {"over", "24h"}},
	"bursty": {{"oneshot", "1"}, {"jobs", "10000"}, {"arrival", "batches"}, {"over", "24h"},
		{"batch", "100"}},
	"zipf": {{"accounts", "100"}, {"jobs", "100"}, {"zipf", "1.1"}},
	"heavy-tailed": {
		{"jobs", "2000"}, {"oneshot", "0.2"}, {"arrival", "poisson"}, {"over", "24h"},
		{"rate_law", "pareto"}, {"rate_shape", "1.2"}, {"size_law", "lognormal"}, {"size_shape", "2"},
	},
	"diurnal": {
		{"groups", "users, uploads"}, {"accounts", "10"},
		{"users.every", "24h"}, {"users.burst", "10h"}, {"users.phase", "8h"}, {"users.bursty", "1"},
		{"uploads.oneshot", "1"}, {"uploads.arrival", "poisson"}, {"uploads.over", "168h"},
		{"uploads.diurnal", "0.8"},
	},
	"db-per-user": {{"jobs", "10000"}, {"idle", "0.99"}},
	"bulk-load": {
		{"groups", "usual, bulk"}, {"usual.accounts", "3"}, {"usual.jobs", "300"},
		{"bulk.jobs", "5000"}, {"bulk.from", "6h"},
	},
	"crash-storm": {
		{"groups", "sound, broken"}, {"jobs", "1000"}, {"broken.failing", "1"}, {"broken.mtbf", "1m"},
	},
	"429-storm": {
		{"groups", "calm, limited"}, {"jobs", "1000"},
		{"limited.outage_at", "6h"}, {"limited.outage_for", "1h"},
	},
	"mass-restart": {{"accounts", "3"}, {"jobs", "1000"}, {"restart_at", "6h"}},
	"mixed": {
		{"groups", "live, once, waves, broken, silent"}, {"jobs", "500"},
		{"once.oneshot", "1"}, {"once.arrival", "poisson"}, {"once.over", "24h"},
		{"waves.bursty", "1"}, {"broken.failing", "1"}, {"silent.idle", "1"},
	},
}

func presetNames() []string { return slices.Sorted(maps.Keys(presets)) }
