package spec

import "couchrelay/core/json"

const mask = "*****"

// Secret is a text that must not be shown. It prints and marshals as *****, or as nothing when it was
// never set; the zero value is not set.
type Secret struct {
	// text is a pointer, since fmt prints unexported fields of others' structs without asking String.
	text *string
}

// Hide makes a Secret of text, which may be empty.
func Hide(text string) Secret { return Secret{&text} }

// IsSet tells whether there is a text.
func (s Secret) IsSet() bool { return s.text != nil }

// Reveal returns the text, empty when it is not set.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String hides the text.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return mask
}

// GoString hides the text from %#v.
func (s Secret) GoString() string { return "spec.Secret(" + s.String() + ")" }

// MarshalJSON hides the text too; Encode is the way to store it.
func (s Secret) MarshalJSON() ([]byte, error) {
	if s.text == nil {
		return []byte("null"), nil
	}
	return json.Encode(mask)
}

// UnmarshalJSON makes a place for the text, which Decode fills.
func (s *Secret) UnmarshalJSON(raw []byte) error {
	*s = Secret{}
	if string(raw) != "null" {
		*s = Hide("")
	}
	return nil
}

// Credentials are a user name and a password. Both are set or none.
type Credentials struct {
	User     Secret `json:"user"`
	Password Secret `json:"password"`
}

// NewCredentials hides a user name and a password.
func NewCredentials(user, password string) Credentials {
	return Credentials{Hide(user), Hide(password)}
}

// IsSet tells whether there are credentials.
func (c Credentials) IsSet() bool { return c.User.IsSet() }
