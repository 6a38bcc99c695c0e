package node

import (
	"fmt"
	"slices"
	"strings"

	"couchrelay/core/json"
)

// Roles are what a node does, after CouchDB's RFC 013. Every node, whatever its roles, keeps its lease, gives
// the jobs of vanished nodes back, promotes jobs that are due and sweeps up.
type Roles uint8

const (
	// APIFrontend answers requests: documents, /_replicate, monitoring.
	APIFrontend Roles = 1 << iota
	// Replication accepts jobs and runs them.
	Replication
	// AllRoles is what a node has unless it is configured.
	AllRoles = APIFrontend | Replication
)

// roleNames are the labels of RFC 013, in the order of the bits.
var roleNames = []string{"api_frontend", "replication"}

// ParseRole finds a role by its label.
func ParseRole(name string) (Roles, error) {
	i := slices.Index(roleNames, name)
	if i < 0 {
		return 0, fmt.Errorf("no such role; known are %s", strings.Join(roleNames, ", "))
	}
	return 1 << i, nil
}

// Has reports whether all of some roles are among these.
func (r Roles) Has(some Roles) bool { return r&some == some }

// With returns these roles with some others added or taken away.
func (r Roles) With(some Roles, on bool) Roles {
	if on {
		return r | some
	}
	return r &^ some
}

// Names are the labels of the roles.
func (r Roles) Names() []string {
	names := []string{}
	for i, name := range roleNames {
		if r.Has(1 << i) {
			names = append(names, name)
		}
	}
	return names
}

func (r Roles) String() string { return strings.Join(r.Names(), " ") }

// MarshalJSON writes the labels.
func (r Roles) MarshalJSON() ([]byte, error) { return json.Encode(r.Names()) }

// UnmarshalJSON reads labels. Labels that only a newer release knows are left out.
func (r *Roles) UnmarshalJSON(raw []byte) error {
	var names []string
	if err := json.Decode(raw, &names); err != nil {
		return err
	}
	*r = 0
	for _, name := range names {
		role, _ := ParseRole(name) // none when unknown
		*r |= role
	}
	return nil
}
