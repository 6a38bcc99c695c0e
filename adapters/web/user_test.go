package web

import "testing"

// TestUser: a role is a whole word, and the zero user has none.
func TestUser(t *testing.T) {
	for _, c := range []struct {
		user  User
		admin bool
	}{
		{User{}, false},
		{User{Name: AdminRole}, false},
		{User{Roles: []string{"a", "_adm", "_admins"}}, false},
		{User{Roles: []string{"a", "_admin"}}, true},
	} {
		if c.user.Admin() != c.admin || c.user.Has("a") != (len(c.user.Roles) > 0) {
			t.Errorf("%+v", c.user)
		}
	}
}
