package oracle

import (
	"encoding/json"
	"maps"

	"couchrelay/core/spec"
)

// endpoint is what a document says of a database: a URL, or an object with one.
type endpoint struct {
	URL     string
	Headers map[string]string
	Auth    struct {
		Basic struct{ Username, Password string }
	}
}

// UnmarshalJSON is json.Unmarshaler's.
func (e *endpoint) UnmarshalJSON(text []byte) error {
	if text[0] == '"' {
		return json.Unmarshal(text, &e.URL)
	}
	type object endpoint
	return json.Unmarshal(text, (*object)(e))
}

// isAt reports whether a run's endpoint is the one that a user wrote.
func (e *endpoint) isAt(of spec.Endpoint) bool {
	plain, userinfo := unsigned(e.URL)
	if basic := e.Auth.Basic; basic.Username != "" {
		userinfo = basic.Username + ":" + basic.Password
	}
	headers := map[string]string{}
	for _, h := range of.Headers {
		headers[h.Name] = h.Value.Reveal()
	}
	return of.URL == plain && userinfoOf(of) == userinfo && maps.Equal(headers, e.Headers)
}
