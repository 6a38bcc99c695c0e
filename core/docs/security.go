package docs

import (
	"slices"

	"couchrelay/core/json"
)

// AdminsOnly is the security object of databases that admins of the server alone may use, as CouchDB 3 makes them.
const AdminsOnly = `{"members":{"roles":["_admin"]},"admins":{"roles":["_admin"]}}`

// Security is what a security object says: who may use a database, and who may change what it is.
type Security struct {
	Admins  Group `json:"admins"`
	Members Group `json:"members"`
	Readers Group `json:"readers"` // what Members were called before
}

// Group is a set of users, by name and by role.
type Group struct {
	Names []string `json:"names"`
	Roles []string `json:"roles"`
}

// errSecurity refuses a security object that would not say what its writer means.
var errSecurity = BadRequest("the security object must be a JSON object in which admins and members, if they are " +
	"there, are objects with names and roles, which are arrays of strings")

// ParseSecurity reads a security object.
func ParseSecurity(text []byte) (Security, error) {
	var s Security
	if json.DecodeRecord(text, &s) != nil { // names are spelled exactly: CouchDB finds no admins in "Admins"
		return s, errSecurity
	}
	if s.Members.empty() {
		s.Members = s.Readers
	}
	return s, nil
}

func (g Group) empty() bool { return len(g.Names) == 0 && len(g.Roles) == 0 }

// has reports whether a user is in the group. A user without a login has no name.
func (g Group) has(name string, roles []string) bool {
	return name != "" && slices.Contains(g.Names, name) ||
		slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(g.Roles, role) })
}

// Administers reports whether a user is an admin of the database.
func (s Security) Administers(name string, roles []string) bool { return s.Admins.has(name, roles) }

// Admits reports whether a user may use the database. Everybody may if it has no members.
func (s Security) Admits(name string, roles []string) bool {
	return s.Members.empty() || s.Members.has(name, roles) || s.Administers(name, roles)
}
