// Package users has the rules of the database _users, which are CouchDB's: which documents it may have, who may write
// and read them.
package users

import (
	"slices"
	"strings"

	"couchrelay/core/docs"
	"couchrelay/core/ejson"
)

// Database is the name of the database.
const Database = "_users"

// Prefix begins the ids of users' documents; the rest is the name.
const Prefix = "org.couchdb.user:"

// By is the user that reads or writes.
type By struct {
	Name  string // empty without a login
	Admin bool   // of the server or of the database
}

// owns reports whether a document is the user's own.
func (b By) owns(id string) bool {
	name, is := strings.CutPrefix(id, Prefix)
	return is && name == b.Name && name != ""
}

// MayRead returns the refusal that a reader gets. All but design documents are as if there were none.
func (b By) MayRead(id string) error {
	switch {
	case b.Admin || docs.IsLocal(id) || b.owns(id):
		return nil
	case strings.HasPrefix(id, "_design/"):
		return docs.Forbidden("Only administrators can view design docs in the users database.")
	}
	return docs.ErrMissing
}

// Validate checks a document that is written in place of prev, which may be nil.
func (b By) Validate(next, prev *docs.Document) error {
	if !b.Admin && b.Name != "" && !b.owns(next.ID) {
		return docs.ErrMissing // as in CouchDB, a user does not see which others there are
	}
	if strings.HasPrefix(next.ID, "_design/") {
		if !b.Admin {
			return docs.Forbidden("You are not a db or server admin.")
		}
		return nil
	}
	var old ejson.Value
	if prev != nil && !prev.Deleted {
		var err error
		if old, err = ejson.Parse(prev.Body); err != nil {
			return err
		}
	}
	if next.Deleted {
		if !b.Admin && !b.owns(next.ID) {
			return docs.Forbidden("Only admins may delete other user docs.")
		}
		return nil
	}
	body, err := ejson.Parse(next.Body)
	if err != nil {
		return docs.ErrJSON
	}
	roles, err := checkForm(next.ID, body)
	if err != nil {
		return err
	}
	if err := checkPassword(body); err != nil {
		return err
	}
	if !b.Admin {
		if err := b.checkOrdinary(body, roles, old); err != nil {
			return err
		}
	}
	return checkNames(member(body, "name"), roles)
}

func member(v ejson.Value, name string) string {
	m, _ := v.Get(name)
	if m.Kind != ejson.String {
		return ""
	}
	return m.Text
}

// checkForm checks what every document has, and returns its roles.
func checkForm(id string, body ejson.Value) ([]string, error) {
	name := member(body, "name")
	list, has := body.Get("roles")
	switch {
	case member(body, "type") != "user":
		return nil, docs.Forbidden("doc.type must be user")
	case name == "":
		return nil, docs.Forbidden("doc.name is required")
	case !has || list.Kind == ejson.Null:
		return nil, docs.Forbidden("doc.roles must exist")
	case list.Kind != ejson.Array:
		return nil, docs.Forbidden("doc.roles must be an array")
	case id != Prefix+name:
		return nil, docs.Forbidden("Doc ID must be of the form org.couchdb.user:name")
	}
	var roles []string
	for _, role := range list.Elems {
		if role.Kind != ejson.String {
			return nil, docs.Forbidden("doc.roles can only contain strings")
		}
		roles = append(roles, role.Text)
	}
	return roles, nil
}

// checkPassword checks the members that hold a password.
func checkPassword(body ejson.Value) error {
	scheme := member(body, "password_scheme")
	iterations, _ := body.Get("iterations")
	switch {
	case member(body, "password_sha") != "" && member(body, "salt") == "":
		return docs.Forbidden("Users with password_sha must have a salt.")
	case scheme != "" && !slices.Contains([]string{"simple", "pbkdf2", "simple+pbkdf2"}, scheme):
		return docs.Forbidden("Password scheme `" + scheme + "` not supported.")
	case scheme == "pbkdf2" && iterations.Kind != ejson.Number:
		return docs.Forbidden("iterations must be a number.")
	case scheme == "pbkdf2" && member(body, "derived_key") == "":
		return docs.Forbidden("derived_key must be a string.")
	}
	return nil
}

// checkOrdinary checks what users may do with their own document, and clients without a login with a new one.
func (b By) checkOrdinary(body ejson.Value, roles []string, old ejson.Value) error {
	if old.Kind != ejson.Object {
		if len(roles) > 0 {
			return docs.Forbidden("Only _admin may set roles")
		}
		return nil
	}
	if member(body, "name") != b.Name {
		return docs.Forbidden("You may only update your own user document.")
	}
	var before []string
	list, _ := old.Get("roles")
	for _, role := range list.Elems {
		before = append(before, role.Text)
	}
	slices.Sort(before)
	if !slices.Equal(before, slices.Sorted(slices.Values(roles))) {
		return docs.Forbidden("Only _admin may edit roles")
	}
	return nil
}

// checkNames refuses the names that the server keeps for itself.
func checkNames(name string, roles []string) error {
	for _, role := range roles {
		if strings.HasPrefix(role, "_") && role != "_metrics" {
			return docs.Forbidden("No system roles (starting with underscore) in users db.")
		}
	}
	switch {
	case strings.HasPrefix(name, "_"):
		return docs.Forbidden("Username may not start with underscore.")
	case strings.Contains(name, ":"):
		return docs.Forbidden("Character `:` is not allowed in usernames.")
	}
	return nil
}

// Password returns the password in clear that a body has. Null is none.
func Password(body []byte) (string, bool, error) {
	value, err := ejson.Parse(body)
	if err != nil {
		return "", false, docs.ErrJSON
	}
	password, has := value.Get("password")
	switch {
	case !has || password.Kind == ejson.Null:
		return "", false, nil
	case password.Kind != ejson.String || password.Text == "":
		return "", false, docs.BadRequest("`password` must be a string that is not empty")
	}
	return password.Text, true, nil
}

// Key is a password as documents keep it: pbkdf2 by PRF.
type Key struct {
	PRF, Salt, Key string
	Iterations     string // in decimal
}

var passwordMembers = []string{"derived_key", "iterations", "password", "password_scheme", "password_sha",
	"preserve_salt", "pbkdf2_prf", "salt"}

// WithKey returns the body with a key in the place of its password.
func WithKey(body []byte, k Key) ([]byte, error) {
	value, err := ejson.Parse(body)
	if err != nil {
		return nil, docs.ErrJSON
	}
	value.Members = slices.DeleteFunc(value.Members, func(m ejson.Member) bool {
		return slices.Contains(passwordMembers, m.Name)
	})
	add := func(name, text string) {
		v := ejson.Value{Kind: ejson.String, Text: text}
		value.Members = append(value.Members, ejson.Member{Name: name, Value: v})
	}
	add("password_scheme", "pbkdf2")
	add("pbkdf2_prf", k.PRF)
	add("salt", k.Salt)
	value.Members = append(value.Members, ejson.Member{
		Name: "iterations", Value: ejson.Value{Kind: ejson.Number, Text: k.Iterations},
	})
	add("derived_key", k.Key)
	return value.Append(nil), nil
}
