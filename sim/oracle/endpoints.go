package oracle

import (
	"encoding/json"
	"maps"
	"slices"

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

// asks returns the URL of an endpoint, and who asks it: USER:PASSWORD, or nobody, and the headers.
func (e *endpoint) asks() (plain, by string) {
	plain, userinfo := unsigned(e.URL)
	if basic := e.Auth.Basic; basic.Username != "" {
		userinfo = basic.Username + ":" + basic.Password
	}
	return plain, userinfo + headersAsText(e.Headers)
}

// askedBy is who asks an endpoint of a run, as asks words it.
func askedBy(e spec.Endpoint) string {
	headers := map[string]string{}
	for _, h := range e.Headers {
		headers[h.Name] = h.Value.Reveal()
	}
	return userinfoOf(e) + headersAsText(headers)
}

func headersAsText(headers map[string]string) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		text += "\n" + name + ": " + headers[name]
	}
	return text
}

// isAt reports whether a run's endpoint is the one that a user wrote.
func (e *endpoint) isAt(of spec.Endpoint) bool {
	plain, by := e.asks()
	return of.URL == plain && askedBy(of) == by
}
