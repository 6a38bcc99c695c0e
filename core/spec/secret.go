package spec

import "couchrelay/core/json"

const mask = "*****"

// Secret is a text that must not be shown. It prints and marshals as *****, or as an empty value if it is not
// set, as the zero value is not.
type Secret struct {
	// text is a pointer, since fmt prints a Secret in an unexported field of a struct without calling String.
	text *string
}

// Hide makes a Secret of text, which may be empty.
func Hide(text string) Secret { return Secret{&text} }

// IsSet reports whether there is a text, which may be empty.
func (s Secret) IsSet() bool { return s.text != nil }

// Reveal returns the text, or an empty one if none is set.
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

// MarshalJSON hides the text. Encode stores it.
func (s Secret) MarshalJSON() ([]byte, error) {
	if s.text == nil {
		return []byte("null"), nil
	}
	return json.Encode(mask)
}

// UnmarshalJSON sets an empty text in place of *****. Decode then fills it in.
func (s *Secret) UnmarshalJSON(raw []byte) error {
	*s = Secret{}
	if string(raw) != "null" {
		*s = Hide("")
	}
	return nil
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
