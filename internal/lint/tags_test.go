package lint

import (
	"go/build/constraint"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// checkedTags finds the sets of build tags with which `make lint` looks at the source.
var checkedTags = regexp.MustCompile(`(?m)^TAGS := (.*)$`)

var tagSets = rule{
	name: "tag-sets",
	why: "vet and staticcheck see only the files that build tags select, so every set of tags that selects " +
		"others has to be among the Makefile's TAGS: code under a set that is never tried breaks unnoticed",
	canaries: []string{
		"core/kv/other.go: //go:build unheard\n\npackage kv\n",
		"core/kv/other_test.go: // Text.\n\n//go:build !(fdb && unheard)\n\npackage kv\n",
	},
	check: func(s *source) (found []finding) {
		built := constraints(s)
		checked := []string{selected(built, "")}
		for _, f := range s.files {
			if match := checkedTags.FindStringSubmatch(f.text); f.path == "Makefile" && match != nil {
				for _, set := range strings.Fields(match[1]) {
					checked = append(checked, selected(built, set))
				}
			}
		}
		used := usedTags(built)
		sets := []string{""}
		for _, tag := range slices.Sorted(maps.Keys(used)) {
			for _, set := range slices.Clone(sets) {
				if set = strings.TrimPrefix(set+","+tag, ","); !slices.Contains(checked, selected(built, set)) {
					found = append(found, finding{at: used[tag], text: "the Makefile's TAGS lack " + set})
				}
				sets = append(sets, set)
			}
		}
		return found
	},
}

// constraints returns the build constraints of the source, by file.
func constraints(s *source) map[string]constraint.Expr {
	built := map[string]constraint.Expr{}
	for _, f := range s.files {
		if f.ast == nil {
			continue
		}
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if expr, err := constraint.Parse(c.Text); err == nil && group.Pos() < f.ast.Package {
					built[f.path] = expr
				}
			}
		}
	}
	return built
}

// usedTags returns the tags in build constraints, each with a file that has it.
func usedTags(built map[string]constraint.Expr) map[string]string {
	used := map[string]string{}
	for _, path := range slices.Sorted(maps.Keys(built)) {
		built[path].Eval(func(tag string) bool { used[tag] = path; return true })
	}
	return used
}

// selected names the constrained files that a set of tags selects.
func selected(built map[string]constraint.Expr, set string) string {
	tags, files := strings.Split(set, ","), ""
	for _, path := range slices.Sorted(maps.Keys(built)) {
		if built[path].Eval(func(tag string) bool { return slices.Contains(tags, tag) }) {
			files += path + "\n"
		}
	}
	return files
}
