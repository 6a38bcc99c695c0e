package world

import (
	"slices"
	"strings"

	"couchrelay/sim/fakefdb"
	"couchrelay/sim/peers"
)

// CatalogueEntry describes a fault, or an action of users.
type CatalogueEntry struct {
	Name, Family string
	Where        string // the kind of operation or request that it meets; "nemesis" for a fault that comes by itself
	What         string // a description
	most         int    // the highest rate that a swarm draws, out of decide.Scale
}

// families are those of faults, in the order of the catalogue; after them come the users.
var families = []string{"store", "nodes", "network", "servers", "databases"}

// Catalogue has every name that Config.Rates and Config.Actions may have, by families.
var Catalogue = describeAll()

func describeAll() []CatalogueEntry {
	all := faultsByFamily()
	for _, a := range allActions {
		all = append(all, CatalogueEntry{a.name, "users", a.where, a.what, a.most})
	}
	return all
}

// faultsByFamily are all faults. Within a family those of operations and requests come before those of the
// nemesis.
func faultsByFamily() (all []CatalogueEntry) {
	for _, e := range fakefdb.Catalogue {
		most := 50_000
		if e.Fault == fakefdb.Misread {
			most = mostMisread
		}
		all = append(all, CatalogueEntry{string(e.Fault), "store", e.Kind.String(), e.What, most})
	}
	for _, e := range peers.Catalogue {
		all = append(all, CatalogueEntry{e.Fault, e.Family, e.Where, e.What, 20_000})
	}
	for _, f := range faults {
		all = append(all, CatalogueEntry{f.name, f.family, "nemesis", f.what, f.most})
	}
	slices.SortStableFunc(all, func(a, b CatalogueEntry) int {
		return slices.Index(families, a.Family) - slices.Index(families, b.Family)
	})
	return all
}

// faultsByName are all faults in the order in which swarms draw. The worlds of seeds depend on it.
func faultsByName() []CatalogueEntry {
	byName := func(a, b CatalogueEntry) int { return strings.Compare(a.Name, b.Name) }
	return slices.SortedFunc(slices.Values(faultsByFamily()), byName)
}

// AllFaults are all names that Rates may have, sorted.
func AllFaults() []string {
	return namesOf(faultsByName(), func(t CatalogueEntry) string { return t.Name })
}
