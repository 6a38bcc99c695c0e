package web

import "slices"

// AdminRole is the role of server admins, in CouchDB's words.
const AdminRole = "_admin"

// User is the user that sends a request. The zero User has not authenticated. Without any admin of the service
// every user is one, without a name.
type User struct {
	Name  string
	Roles []string
	Via   string // how the user has authenticated: cookie, default or jwt
}

// Admin reports whether the user is a server admin.
func (u User) Admin() bool { return u.Has(AdminRole) }

// Has reports whether the user has a role.
func (u User) Has(role string) bool { return slices.Contains(u.Roles, role) }
