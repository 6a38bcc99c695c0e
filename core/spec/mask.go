package spec

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"couchrelay/core/ejson"
)

// ErrMasked is in the chain of the error of a document that has ***** for a secret which is not known.
var ErrMasked = errors.New("is not known for this server, user and proxy: write it itself, or name it as " +
	`{"secret": NAME}`)

// MayBeMasked reports whether Unmask can change a body, or refuse it. A new one has no earlier revision.
func MayBeMasked(body []byte, isNew bool) bool {
	return bytes.Contains(body, []byte(mask)) || !isNew && bytes.ContainsRune(body, '@')
}

// Unmask puts the secrets of a document's last revision, prev, back into the next one where that has ***** instead, or
// a user without the password in a URL, as documents are shown to readers who must not see them. It does so for the
// same server and user only, and behind the same proxy or none: those who do not know a password must not have it sent
// to another server.
func Unmask(next, prev ejson.Value) (ejson.Value, error) {
	u := unmasker{}
	next.Members = slices.Clone(next.Members)
	for i := range next.Members {
		m := &next.Members[i]
		u.field, u.may = m.Name, true
		switch m.Name { // a document may have a million members that mean nothing
		case "source", "target":
			to := proxyOf(next, m.Name)
			u.may = to.Text == "" || sameServer(to, proxyOf(prev, m.Name))
			was, _ := prev.Get(m.Name)
			m.Value = u.endpoint(m.Value, was)
		case "proxy", "source_proxy", "target_proxy":
			was, _ := prev.Get(m.Name)
			m.Value = u.url(m.Value, was)
		}
	}
	return next, u.err
}

// proxyOf is the URL of the proxy by which a body has a source or target asked, empty if there is none.
func proxyOf(body ejson.Value, side string) ejson.Value {
	if all, _ := body.Get("proxy"); all.Text != "" {
		return all
	}
	own, _ := body.Get(side + "_proxy")
	return own
}

// unmasker keeps the first mistake.
type unmasker struct {
	field string
	may   bool // secrets may go where the field has them sent, if that is the same server
	err   error
}

// maskedError names what is masked.
type maskedError struct{ what string }

func (e maskedError) Error() string {
	return e.what + ": " + mask + " stands for a secret that " + ErrMasked.Error()
}
func (e maskedError) Unwrap() error { return ErrMasked }

func (u *unmasker) fail(what string) {
	if u.err == nil {
		u.err = maskedError{"`" + u.field + what + "`"}
	}
}

// endpoint restores the secrets of a source or target.
func (u *unmasker) endpoint(next, prev ejson.Value) ejson.Value {
	from := addressOf(prev)
	if next.Kind != ejson.Object {
		return u.url(next, from)
	}
	same := u.may && sameServer(addressOf(next), from)
	headers, _ := prev.Get("headers")
	auth, _ := prev.Get("auth")
	next.Members = slices.Clone(next.Members)
	for i := range next.Members {
		m := &next.Members[i]
		switch m.Name {
		case "url":
			m.Value = u.url(m.Value, from)
		case "headers":
			m.Value = u.members(".headers.", m.Value, headers, same)
		case "auth":
			m.Value = u.auth(m.Value, auth, same)
		}
	}
	return next
}

// auth restores the password of basic authentication, and a token.
func (u *unmasker) auth(next, prev ejson.Value, same bool) ejson.Value {
	was, _ := prev.Get("basic")
	known, _ := prev.Get("bearer")
	next.Members = slices.Clone(next.Members)
	for i := range next.Members {
		m := &next.Members[i]
		switch {
		case m.Name == "bearer" && m.Value.Text == mask && same && known.Kind == ejson.String:
			m.Value = known
		case m.Name == "bearer" && m.Value.Text == mask:
			u.fail(".auth.bearer")
		}
		if m.Name == "basic" {
			user, _ := m.Value.Get("username")
			known, _ := was.Get("username")
			m.Value = u.members(".auth.basic.", m.Value, was, same && user.Text == known.Text)
		}
	}
	return next
}

// members restores the masked members of an object from those of the same names, if they may be.
func (u *unmasker) members(where string, next, prev ejson.Value, may bool) ejson.Value {
	next.Members = slices.Clone(next.Members)
	known := make(map[string]ejson.Value, len(prev.Members))
	for _, m := range slices.Backward(prev.Members) { // of names that differ in case only the first counts
		known[strings.ToLower(m.Name)] = m.Value
	}
	for i := range next.Members {
		m := &next.Members[i]
		if m.Value.Kind != ejson.String || !strings.Contains(m.Value.Text, mask) {
			continue
		}
		was, is := known[strings.ToLower(m.Name)]
		if !is || !may {
			u.fail(where + m.Name)
			continue
		}
		m.Value = was
	}
	return next
}

// addressOf is the URL of an endpoint.
func addressOf(v ejson.Value) ejson.Value {
	if v.Kind == ejson.Object {
		v, _ = v.Get("url")
	}
	return v
}

// Addresses returns the URLs of source and target of a body as an Endpoint has them, without user and password. Each is
// empty where there is none: the body need not ask for a valid replication.
func Addresses(body ejson.Value) (source, target string) {
	of := func(side string) string {
		v, _ := body.Get(side)
		text := addressOf(v).Text
		u, err := ParseURL(text)
		if err != nil {
			return ""
		}
		if text = u.withoutUserinfo(text); !strings.HasSuffix(text, "/") && !strings.Contains(text, "?") {
			text += "/"
		}
		return text
	}
	return of("source"), of("target")
}

func sameServer(a, b ejson.Value) bool {
	x, errX := ParseURL(a.Text)
	y, errY := ParseURL(b.Text)
	return errX == nil && errY == nil && x.Scheme == y.Scheme && strings.EqualFold(x.Host, y.Host) && x.Port == y.Port
}

// url restores the password and the query of a URL.
func (u *unmasker) url(next, prev ejson.Value) ejson.Value {
	to, err := ParseURL(next.Text)
	if next.Kind != ejson.String || err != nil {
		return next // which is refused for that
	}
	from, _ := ParseURL(prev.Text)
	same := u.may && sameServer(next, prev)
	user, password, has := strings.Cut(to.Userinfo, ":")
	known, _, stored := strings.Cut(from.Userinfo, ":")
	start := len(to.Scheme) + len("://")
	switch {
	case has && password != mask || !to.HasUserinfo:
	case same && stored && user == known:
		next.Text = next.Text[:start] + from.Userinfo + next.Text[start+len(to.Userinfo):]
	case has:
		u.fail("")
	}
	path, query, _ := strings.Cut(to.Path, "?")
	if strings.Contains(query, mask) {
		if of, _, asked := strings.Cut(from.Path, "?"); !same || !asked || of != path {
			u.fail("")
			return next
		}
		next.Text = strings.TrimSuffix(next.Text, to.Path) + from.Path
	}
	return next
}
