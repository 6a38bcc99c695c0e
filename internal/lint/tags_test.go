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
	why: "vet and staticcheck see only the files that build tags select, so every set of tags has to be among " +
		"the Makefile's TAGS: code under a set that is never tried breaks unnoticed",
	canaries: []string{
		"core/kv/other.go: //go:build unheard\n\npackage kv\n",
		"core/kv/other_test.go: // Text.\n\n//go:build !(fdb && unheard)\n\npackage kv\n",
	},
	check: func(s *source) (found []finding) {
		checked := []string{""}
		for _, f := range s.files {
			if match := checkedTags.FindStringSubmatch(f.text); f.path == "Makefile" && match != nil {
				checked = append(checked, strings.Fields(match[1])...)
			}
		}
		used := usedTags(s)
		sets := []string{""}
		for _, tag := range slices.Sorted(maps.Keys(used)) {
			for _, set := range slices.Clone(sets) {
				if set = strings.TrimPrefix(set+","+tag, ","); !slices.Contains(checked, set) {
					found = append(found, finding{at: used[tag], text: "the Makefile's TAGS lack " + set})
				}
				sets = append(sets, set)
			}
		}
		return found
	},
}

// usedTags returns the build tags in the constraints of the source, each with a file that has it.
func usedTags(s *source) map[string]string {
	used := map[string]string{}
	for _, f := range s.files {
		if f.ast == nil {
			continue
		}
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if expr, err := constraint.Parse(c.Text); err == nil && group.Pos() < f.ast.Package {
					expr.Eval(func(tag string) bool { used[tag] = f.path; return true })
				}
			}
		}
	}
	return used
}
