package users

import (
	"errors"
	"testing"

	"couchrelay/core/docs"
)

// TestValidate: the rules of CouchDB's design document of _users, one after the other.
func TestValidate(t *testing.T) {
	const own = `{"type":"user","name":"ann","roles":["dev"]}`
	admin, ann, bob, nobody := By{"adm", true}, By{Name: "ann"}, By{Name: "bob"}, By{}
	for _, c := range []struct {
		by         By
		id         string
		next, prev string // tombstones are empty, no document is -
		refusal    string
	}{
		{admin, "ann", own, "-", ""},
		{admin, "ann", `{"type":"user","name":"ann","roles":["dev","ops"],"x":1}`, own, ""},
		{admin, "ann", "", own, ""},
		{admin, "ann", `{"type":"user","name":"ann","roles":["_metrics"]}`, own, ""},
		{ann, "ann", `{"type":"user","name":"ann","roles":["dev"],"x":1}`, own, ""},
		{ann, "ann", `{"type":"user","name":"ann","roles":["ops","dev"]}`,
			`{"type":"user","name":"ann","roles":["ops","dev"]}`, ""},
		{ann, "ann", `{"type":"user","name":"ann","roles":["dev","ops"]}`,
			`{"type":"user","name":"ann","roles":["ops","dev"]}`, ""},
		{ann, "ann", "", own, ""},
		{nobody, "new", `{"type":"user","name":"new","roles":[]}`, "-", ""},
		{nobody, "new", `{"type":"user","name":"new","roles":["dev"]}`, "-", "Only _admin may set roles"},
		{nobody, "ann", own, own, "You may only update your own user document."},
		{nobody, "ann", "", own, "Only admins may delete other user docs."},
		{bob, "ann", own, own, "missing"},
		{bob, "ann", "", own, "missing"},
		{ann, "ann", `{"type":"user","name":"ann","roles":["dev","ops"]}`, own, "Only _admin may edit roles"},
		{ann, "ann", `{"type":"user","name":"ann","roles":["ops"]}`, own, "Only _admin may edit roles"},
		{ann, "ann", `{"type":"user","name":"ann","roles":[]}`, own, "Only _admin may edit roles"},
		{ann, "ann", `{"type":"user","name":"ann","roles":["dev"]}`, "", "Only _admin may set roles"},
		{admin, "ann", "{", "-", "invalid UTF-8 JSON"},
		{admin, "ann", `{"name":"ann","roles":[]}`, "-", "doc.type must be user"},
		{admin, "ann", `{"type":"user","roles":[]}`, "-", "doc.name is required"},
		{admin, "ann", `{"type":"user"}`, "-", "doc.name is required"},
		{admin, "ann", `{"type":"user","name":7,"roles":[]}`, "-", "doc.name is required"},
		{admin, "ann", `{"type":"user","name":"ann"}`, "-", "doc.roles must exist"},
		{admin, "ann", `{"type":"user","name":"ann","roles":"dev"}`, "-", "doc.roles must be an array"},
		{admin, "ann", `{"type":"user","name":"ann","roles":[1]}`, "-", "doc.roles can only contain strings"},
		{admin, "bob", `{"type":"user","name":"ann","roles":"dev"}`, "-", "doc.roles must be an array"},
		{admin, "bob", own, "-", "Doc ID must be of the form org.couchdb.user:name"},
		{admin, "joann", own, "-", "Doc ID must be of the form org.couchdb.user:name"},
		{admin, "ann", `{"type":"user","name":"ann","roles":["_admin"]}`, "-",
			"No system roles (starting with underscore) in users db."},
		{admin, "_a", `{"type":"user","name":"_a","roles":[]}`, "-", "Username may not start with underscore."},
		{admin, "a:b", `{"type":"user","name":"a:b","roles":[]}`, "-", "Character `:` is not allowed in usernames."},
		{admin, "ann", `{"type":"user","name":"ann","roles":[],"password_sha":"x"}`, "-",
			"Users with password_sha must have a salt."},
		{admin, "ann", `{"type":"user","name":"ann","roles":[],"password_scheme":"md5"}`, "-",
			"Password scheme `md5` not supported."},
		{admin, "ann", `{"type":"user","name":"ann","roles":[],"password_scheme":"pbkdf2","derived_key":"x"}`, "-",
			"iterations must be a number."},
		{admin, "ann", `{"type":"user","name":"ann","roles":[],"password_scheme":"pbkdf2","iterations":1}`, "-",
			"derived_key must be a string."},
	} {
		next := &docs.Document{ID: Prefix + c.id, Body: []byte(c.next), Deleted: c.next == ""}
		prev := &docs.Document{ID: next.ID, Body: []byte(c.prev), Deleted: c.prev == ""}
		if c.prev == "-" {
			prev = nil
		}
		got, refusal := "", (*docs.Error)(nil)
		if errors.As(c.by.Validate(next, prev), &refusal) {
			got = refusal.Reason
		}
		if got != c.refusal {
			t.Errorf("%+v: %q", c, got)
		}
	}
	for _, c := range []struct {
		by      By
		id      string
		refusal string
	}{
		{ann, "_design/d", "missing"}, {nobody, "_design/d", "You are not a db or server admin."},
		{ann, "other", "missing"}, {admin, "_design/d", ""},
	} {
		err := c.by.Validate(&docs.Document{ID: c.id, Body: []byte("{}")}, nil)
		refusal, refused := errors.AsType[*docs.Error](err)
		if refused != (c.refusal != "") || refused && refusal.Reason != c.refusal {
			t.Errorf("%s by %q: %v", c.id, c.by.Name, err)
		}
	}
	next := &docs.Document{ID: Prefix + "ann", Body: []byte(`{"type":"user","name":"ann","roles":[]}`)}
	for _, by := range []By{admin, ann} {
		if err := by.Validate(next, &docs.Document{ID: next.ID, Body: []byte("{")}); err == nil {
			t.Errorf("%q writes over a document that cannot be read", by.Name)
		}
	}
}

// TestMayRead: users see their own document and no other; only of design documents are they told that there are some.
func TestMayRead(t *testing.T) {
	for _, c := range []struct {
		by   By
		id   string
		want bool
	}{
		{By{"adm", true}, Prefix + "ann", true}, {By{"adm", true}, "_design/d", true},
		{By{Name: "ann"}, Prefix + "ann", true},
		{By{Name: "ann"}, Prefix + "bob", false}, {By{}, Prefix, false}, {By{}, Prefix + "ann", false},
		{By{Name: "ann"}, "_design/d", false}, {By{Name: "ann"}, "ann", false}, {By{}, "_local/x", true},
	} {
		err := c.by.MayRead(c.id)
		refusal, is := errors.AsType[*docs.Error](err)
		told := is && refusal.Kind == docs.Denied
		if (err == nil) != c.want || !c.want && told != (c.id == "_design/d") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestWithKey: the password goes, and so does what an older key has left.
func TestWithKey(t *testing.T) {
	const body = `{"name":"ann","password":"hidden","salt":"old","password_sha":"x",` +
		`"preserve_salt":true,"roles":[]}`
	if password, has, err := Password([]byte(body)); password != "hidden" || !has || err != nil {
		t.Error(password, has, err)
	}
	got, err := WithKey([]byte(body), Key{"sha256", "s", "k", "10"})
	const want = `{"name":"ann","roles":[],"password_scheme":"pbkdf2","pbkdf2_prf":"sha256",` +
		`"salt":"s","iterations":10,"derived_key":"k"}`
	if string(got) != want || err != nil {
		t.Errorf("%s %v", got, err)
	}
	for _, none := range []string{`{}`, `{"password":null}`} {
		if _, has, err := Password([]byte(none)); has || err != nil {
			t.Error(none, has, err)
		}
	}
	for _, wrong := range []string{`{"password":""}`, `{"password":7}`, `[`} {
		if _, _, err := Password([]byte(wrong)); err == nil {
			t.Error(wrong)
		}
	}
}
