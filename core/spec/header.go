package spec

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"couchrelay/core/ejson"
)

// defaultHeaders are the headers that CouchDB's replicator sends by itself. They are here for ids alone,
// which hash the headers that differ from these. User-Agent is that of the release whose ids are reproduced.
var defaultHeaders = []headerText{
	{name: "Accept", value: "application/json"},
	{name: "User-Agent", value: "CouchDB-Replicator/3.5.2"},
}

// headerText is a header whose value is not hidden yet.
type headerText struct {
	name, value string
	secret      string // the name of the secret that is the value; value is empty then
}

// header hides the value.
func (h headerText) header() Header {
	if h.secret != "" {
		return Header{h.name, Refer(h.secret)}
	}
	return Header{h.name, Hide(h.value)}
}

// headers reads an endpoint's headers and merges them with the defaults, sorted by name. A header of the user
// replaces the default one if its name is spelled the same.
func (p *parser) headers(side string, v ejson.Value) (headers []headerText) {
	object, has := v.Get("headers")
	if has && object.Kind != ejson.Object {
		p.badRequest("parameter `%s.headers` must be an object of strings", side)
	}
	for _, m := range object.Members {
		if strings.Trim(m.Name, tokenCharacters) != "" || m.Name == "" {
			p.badRequest("parameter `%s.headers` has a name that HTTP does not allow", side)
		}
		value, secret := secretOf(p, side+".headers."+m.Name, m.Value)
		if m.Value.Kind != ejson.Object && (m.Value.Kind != ejson.String || strings.ContainsFunc(value, isControl)) {
			p.badRequest("parameter `%s.headers.%s` must be a string without control characters, or name a secret: "+
				`{"secret": NAME}`, side, m.Name)
		}
		if strings.EqualFold(m.Name, "host") && strings.ContainsFunc(value, isNoHost) {
			p.badRequest("parameter `%s.headers.%s` must be the name of a host, with a port or without", side, m.Name)
		}
		headers = append(headers, headerText{m.Name, value, secret})
	}
	checkSecretHeaders(p, side, headers)
	for _, d := range defaultHeaders {
		if !slices.ContainsFunc(headers, func(h headerText) bool { return h.name == d.name }) {
			headers = append(headers, d)
		}
	}
	slices.SortFunc(headers, func(a, b headerText) int { return strings.Compare(a.name, b.name) })
	return headers
}

// checkSecretHeaders refuses a header of a secret that is there twice: values of one name are joined, and what the
// secret is shows only with each request.
func checkSecretHeaders(p *parser, side string, headers []headerText) {
	times := make(map[string]int, len(headers))
	for _, h := range headers {
		times[strings.ToLower(h.name)]++
	}
	for _, h := range headers {
		if h.secret != "" && times[strings.ToLower(h.name)] > 1 {
			p.badRequest("parameter `%s.headers` has `%s` twice, which names a secret", side, h.name)
		}
	}
}

// secretOf reads a text, or the name of the secret that is the text. The caller refuses values that are neither a
// string nor an object.
func secretOf(p *parser, field string, v ejson.Value) (text, name string) {
	if v.Kind != ejson.Object {
		return v.Text, ""
	}
	named, has := v.Get("secret")
	if !has || len(v.Members) != 1 || named.Kind != ejson.String || !ValidSecretName(named.Text) {
		p.badRequest("parameter `%s` must be a string, or name a secret: {\"secret\": NAME}, with a NAME of 1 to %d "+
			"letters, digits and _ - . that does not begin with a dot", field, maxSecretName)
	}
	return "", named.Text
}

// tokenCharacters are the characters of header names, RFC 9110 section 5.6.2.
const tokenCharacters = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// hostCharacters are the ASCII characters that a header Host may have, RFC 9110 section 7.2.
const hostCharacters = "!$%&'()*+,-.:;=[]_~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// isNoHost reports whether no host has a character. Others than those of ASCII are sent in another spelling.
func isNoHost(r rune) bool { return r < 0x80 && !strings.ContainsRune(hostCharacters, r) }

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// splitAuthorization removes basic credentials and default headers from the headers. As in CouchDB, a header
// Authorization of any scheme makes the names case-insensitive: they are sorted without regard to case, and
// values whose names differ in case only are joined.
func splitAuthorization(merged []headerText) ([]Header, Credentials) {
	var credentials Credentials
	isAuthorization := func(h headerText) bool { return strings.EqualFold(h.name, "authorization") }
	if slices.ContainsFunc(merged, isAuthorization) {
		merged = joinByName(merged)
		i := slices.IndexFunc(merged, isAuthorization)
		scheme, encoded, hasValue := strings.Cut(merged[i].value, " ")
		if hasValue && strings.EqualFold(scheme, "basic") {
			credentials = decodeBasic(encoded)
			merged = slices.Delete(merged, i, i+1)
		}
	}
	var headers []Header
	for _, h := range merged {
		if !slices.Contains(defaultHeaders, h) {
			headers = append(headers, h.header())
		}
	}
	return headers, credentials
}

func joinByName(headers []headerText) (out []headerText) {
	joined := map[string][]headerText{}
	for _, h := range headers {
		key := strings.ToLower(h.name)
		joined[key] = append(joined[key], h)
	}
	for _, key := range slices.Sorted(maps.Keys(joined)) {
		var values []string
		for _, h := range joined[key] {
			values = append(values, strings.Trim(h.value, " \t\n"))
		}
		last := joined[key][len(values)-1]
		out = append(out, headerText{joined[key][0].name, strings.Join(values, ", "), last.secret})
	}
	return out
}

// decodeBasic decodes the credentials of a header Authorization. It returns none for text that it cannot
// decode.
func decodeBasic(encoded string) Credentials {
	plain, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(encoded, " ", ""))
	user, password, both := strings.Cut(string(plain), ":")
	if err != nil || !both {
		return Credentials{}
	}
	return NewCredentials(user, password)
}
