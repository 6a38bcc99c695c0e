package world

import (
	"slices"
	"testing"
)

// Everything that can come up is in the catalogue once, and nothing else.
func TestCatalogue(t *testing.T) {
	var listed []string
	for _, trouble := range Catalogue {
		listed = append(listed, trouble.Name)
		if trouble.Where == "" || trouble.What == "" {
			t.Errorf("%s is not described", trouble.Name)
		}
	}
	slices.Sort(listed)
	want := slices.Sorted(slices.Values(slices.Concat(AllFaults(), AllActions)))
	if !slices.Equal(listed, want) {
		t.Errorf("listed\n%v\nbut there are\n%v", listed, want)
	}
}
