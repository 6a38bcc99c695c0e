package spec

import (
	"slices"
	"strings"

	"couchrelay/core/ejson"
	"couchrelay/core/json"
)

const mask = "*****"

// Secret is a text that must not be shown. It prints and marshals as *****, or as an empty value if it is not
// set, as the zero value is not. Or it is a reference: the name of a text that is kept elsewhere and looked up for each
// request. A reference is no secret itself, and is shown as {"secret":NAME}.
type Secret struct {
	// text is a pointer, since fmt prints a Secret in an unexported field of a struct without calling String.
	text *string
	// name is that of a reference; text is nil then.
	name string
}

// Refer makes a reference to a secret that is kept elsewhere.
func Refer(name string) Secret { return Secret{name: name} }

// maxSecretName bounds the names of secrets.
const maxSecretName = 100

// ValidSecretName reports whether a name can be that of a secret. So it can be the name of a file, and leads out of no
// directory.
func ValidSecretName(name string) bool {
	return name != "" && len(name) <= maxSecretName && name[0] != '.' &&
		strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.") == ""
}

// Hide makes a Secret of text, which may be empty.
func Hide(text string) Secret { return Secret{text: &text} }

// IsSet reports whether there is a text, which may be empty, or a reference to one.
func (s Secret) IsSet() bool { return s.text != nil || s.name != "" }

// Reference returns the name of the secret that is meant, empty if the Secret is no reference.
func (s Secret) Reference() string { return s.name }

// ReferencesIn returns the names of the secrets that a body names, also of a body that asks for no valid replication.
func ReferencesIn(body ejson.Value) (names []string) {
	for _, side := range []string{"source", "target"} {
		endpoint, _ := body.Get(side)
		headers, _ := endpoint.Get("headers")
		auth, _ := endpoint.Get("auth")
		basic, _ := auth.Get("basic")
		for _, m := range slices.Concat(headers.Members, basic.Members, auth.Members) {
			if name, has := m.Value.Get("secret"); has {
				names = append(names, name.Text)
			}
		}
	}
	return names
}

// Identity is what stands for the secret in replication ids: its text or, of a reference, what the document says, so
// that ids stay when the secret changes.
func (s Secret) Identity() string {
	if s.name != "" {
		return s.String()
	}
	return s.Reveal()
}

// Reveal returns the text, or an empty one if none is set or it is kept elsewhere.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String hides the text.
func (s Secret) String() string {
	switch {
	case s.name != "":
		return `{"secret":"` + s.name + `"}`
	case s.text == nil:
		return ""
	}
	return mask
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return "spec.Secret(" + s.String() + ")" }

// MarshalJSON hides the text. Encode stores it.
func (s Secret) MarshalJSON() ([]byte, error) {
	switch {
	case s.name != "":
		return json.Encode(reference{s.name})
	case s.text == nil:
		return []byte("null"), nil
	}
	return json.Encode(mask)
}

// UnmarshalJSON sets an empty text in place of *****. Decode then fills it in.
func (s *Secret) UnmarshalJSON(raw []byte) error {
	*s = Secret{}
	switch {
	case raw[0] == '{':
		var r reference
		if err := json.Decode(raw, &r); err != nil {
			return err
		}
		*s = Refer(r.Name)
	case string(raw) != "null":
		*s = Hide("")
	}
	return nil
}

// reference is a reference in JSON.
type reference struct {
	Name string `json:"secret"`
}

// Credentials are a user name and a password. Both are set, or neither is.
type Credentials struct {
	User     Secret `json:"user"`
	Password Secret `json:"password"`
}

// NewCredentials hides a user name and a password.
func NewCredentials(user, password string) Credentials {
	return Credentials{Hide(user), Hide(password)}
}

// IsSet reports whether there are credentials.
func (c Credentials) IsSet() bool { return c.User.IsSet() }
