package docs

import "testing"

// TestSecurity: who may use a database, and who is its admin.
func TestSecurity(t *testing.T) {
	const some = `{"admins":{"names":["ada"],"roles":["ops"]},"members":{"names":["bob"],"roles":["dev"]}}`
	for _, c := range []struct {
		object, name, role string
		admits, admin      bool
	}{
		{`{}`, "", "", true, false},
		{`{"members":{}}`, "bob", "dev", true, false},
		{`{"admins":{"names":["ada"]}}`, "", "", true, false},
		{AdminsOnly, "bob", "dev", false, false},
		{AdminsOnly, "", "", false, false},
		{some, "ada", "", true, true},
		{some, "x", "ops", true, true},
		{some, "bob", "", true, false},
		{some, "x", "dev", true, false},
		{some, "dev", "bob", false, false},         // a name is no role
		{some, "bobby", "developer", false, false}, // and part of one is none
		{some, "BOB", "DEV", false, false},
		{some, "ad", "op", false, false},
		{some, "ada ", "ops ", false, false},
		{some, "", "", false, false},
		{`{"members":{"names":[""]}}`, "", "", false, false}, // no login is no name
		{`{"readers":{"names":["bob"]}}`, "bob", "", true, false},
		{`{"readers":{"names":["bob"]}}`, "eve", "", false, false},
		{`{"admins":{"names":["ada"]},"readers":{"names":["bob"]}}`, "eve", "", false, false},
		{`{"members":{"names":["bob"]},"readers":{"names":["eve"]}}`, "eve", "", false, false},
		{`{"admins":null,"members":null,"x":1}`, "eve", "", true, false},
		{`{"Admins":{"names":["eve"]},"members":{"names":["bob"]}}`, "eve", "", false, false}, // as in CouchDB
		{`{"members":{"names":["bob"]},"MEMBERS":{"names":[]}}`, "eve", "", false, false},
		{`{"members":{"names":["bob"],"Names":["eve"],"roles":null}}`, "eve", "", false, false},
	} {
		s, err := ParseSecurity([]byte(c.object))
		var roles []string
		if c.role != "" {
			roles = []string{c.role}
		}
		if err != nil || s.Admits(c.name, roles) != c.admits || s.Administers(c.name, roles) != c.admin {
			t.Errorf("%+v: admits %t, admin %t, %v", c, s.Admits(c.name, roles), s.Administers(c.name, roles), err)
		}
	}
	for _, wrong := range []string{
		`[]`, `"x"`, `{"admins":[]}`, `{"members":{"names":"bob"}}`, `{"members":{"roles":[1]}}`,
	} {
		if _, err := ParseSecurity([]byte(wrong)); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
