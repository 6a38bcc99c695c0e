package world

import (
	"slices"
	"testing"

	"couchrelay/sim/fakefdb"
	"couchrelay/sim/peers"
)

// Everything that can come up is in the catalogue once, and nothing else.
func TestCatalogue(t *testing.T) {
	want := slices.Concat(NemesisFaults, AllActions)
	for kind := fakefdb.ReadVersion; kind <= fakefdb.BackOff; kind++ {
		for _, f := range fakefdb.Faults(kind) {
			if f != fakefdb.Outage {
				want = append(want, string(f))
			}
		}
	}
	ofRequests := map[string]bool{}
	for _, op := range allOps {
		for _, f := range peers.RequestFaults(op) {
			ofRequests[f] = true
		}
	}
	for f := range ofRequests { // sorted below
		want = append(want, f)
	}
	var listed []string
	for _, trouble := range Catalogue {
		listed = append(listed, trouble.Name)
		if trouble.Where == "" || trouble.What == "" || trouble.most <= 0 {
			t.Errorf("%s is not described", trouble.Name)
		}
		if trouble.Family != "users" && !slices.Contains(families, trouble.Family) {
			t.Errorf("%s has the unknown family %q", trouble.Name, trouble.Family)
		}
	}
	slices.Sort(listed)
	slices.Sort(want)
	for i := range len(listed) - 1 {
		if listed[i] == listed[i+1] {
			t.Errorf("%s is listed twice", listed[i])
		}
	}
	if !slices.Equal(listed, want) {
		t.Errorf("listed\n%v\nbut there are\n%v", listed, want)
	}
}
