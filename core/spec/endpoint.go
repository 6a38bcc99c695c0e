package spec

import (
	"cmp"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"couchrelay/core/ejson"
)

func (p *parser) endpoints(r *Replication) {
	for _, own := range []string{"source_proxy", "target_proxy"} {
		if p.proxy("proxy") != nil && p.proxy(own) != nil {
			p.badRequest("`proxy` is mutually exclusive with `%s`", own)
		}
	}
	r.Source = p.endpoint("source")
	r.Target = p.endpoint("target")
	r.Source.Connections = max(r.Source.Connections, 2)
}

// endpoint reads the field side, and the other fields that concern this endpoint.
func (p *parser) endpoint(side string) (e Endpoint) {
	c := p.config
	e.Timeout = p.milliseconds("connection_timeout", c.ConnectionTimeout)
	e.Connections = p.integer("http_connections", c.HTTPConnections, 1, maxConnections, "")
	e.Retries = p.integer("retries_per_request", c.RetriesPerRequest, 0, maxRetries, "")
	e.SocketOptions = p.socketOptions()
	e.Proxy = p.proxy("proxy")
	if e.Proxy == nil {
		e.Proxy = p.proxy(side + "_proxy")
	}
	v, _ := p.body.Get(side)
	switch v.Kind {
	case ejson.String:
		v = ejson.Value{Kind: ejson.Object, Members: []ejson.Member{{Name: "url", Value: v}}}
	case ejson.Object:
	case ejson.Null, 0:
		p.fail(InvalidReplication, "Missing replicator database", "`"+side+"` must be a URL or an object with a `url`")
	default:
		p.badRequest("parameter `%s` must be a URL or an object with a `url`", side)
	}
	p.address(side, v, &e)
	return e
}

// address sets the URL, credentials and headers from an endpoint object.
func (p *parser) address(side string, v ejson.Value, e *Endpoint) {
	text, _ := v.Get("url")
	isName := text.Kind == ejson.String && !strings.Contains(text.Text, "://")
	var local error
	if isName && p.config.Local != "" {
		text.Text, local = localURL(p.config.Local, text.Text)
	}
	url, err := ParseURL(text.Text)
	switch {
	case text.Kind != ejson.String:
		p.invalidURL("endpoint", "`"+side+"` must have a string `url`")
	case isName && p.config.Local == "":
		p.fail(InvalidReplication, "local_endpoints_not_supported", "`"+side+"` must be a URL that begins with "+
			"http:// or https://; names of databases need the setting [local] url")
	case cmp.Or(local, err) != nil:
		p.invalidURL("endpoint", "`"+side+"`: "+cmp.Or(local, err).Error())
	case !slices.Contains(p.config.EndpointProtocols, url.Scheme):
		p.invalidURL("endpoint",
			"`"+side+"` must have one of the protocols "+strings.Join(p.config.EndpointProtocols, ", "))
	}
	e.URL = url.withoutUserinfo(text.Text)
	if !strings.HasSuffix(e.URL, "/") && !strings.Contains(e.URL, "?") {
		e.URL += "/"
	}
	e.Bearer, e.TLS, e.Compression = bearerOf(p, side, v), tlsName(p, side, v), compression(p, side, v)
	headers, fromHeader := splitAuthorization(p.headers(side, v))
	e.Headers = headers
	for _, found := range []Credentials{p.basicAuth(side, v), url.credentials(), fromHeader} {
		if found.IsSet() {
			e.Credentials = found
			break
		}
	}
	isAuthorization := func(h Header) bool { return strings.EqualFold(h.Name, "Authorization") }
	if e.Bearer.IsSet() && (e.Credentials.IsSet() || slices.ContainsFunc(headers, isAuthorization)) {
		p.badRequest("parameter `%s` has `auth.bearer`, and a user or a header Authorization as well: "+
			"one must go", side)
	}
}

// localURL returns the URL of a database of the server base.
func localURL(base, name string) (string, error) {
	if !databaseName.MatchString(name) {
		return "", errors.New("it is neither a URL that begins with http:// or https:// nor the name of a database: " +
			"lower case letters, digits and _$()+-/, a letter first")
	}
	return strings.TrimSuffix(base, "/") + "/" + escapeLocal.Replace(name), nil
}

// EscapeName writes the name of a database or document as a segment of a path. Slashes and pluses are encoded: a plus
// is a space there for CouchDB.
func EscapeName(name string) string { return strings.ReplaceAll(url.PathEscape(name), "+", "%2B") }

// escapeLocal writes the name of a local database as a segment of a URL, and encodes there what CouchDB does.
var escapeLocal = strings.NewReplacer("/", "%2F", "+", "%2B", "$", "%24", "(", "%28", ")", "%29")

// databaseName is what CouchDB accepts, and the names of its own databases.
var databaseName = regexp.MustCompile(`^([a-z][a-z0-9_$()+/-]*|_users|_replicator|_global_changes)$`)

// invalidURL notes a bad URL, of an endpoint or a proxy as what says, in CouchDB's words.
func (p *parser) invalidURL(what, detail string) {
	p.fail(InvalidReplication, what+" has an invalid url", detail)
}

func (p *parser) basicAuth(side string, v ejson.Value) Credentials {
	auth, has := v.Get("auth")
	if has && auth.Kind != ejson.Object {
		p.badRequest("parameter `%s.auth` must be an object", side)
	}
	basic, has := auth.Get("basic")
	if !has {
		return Credentials{}
	}
	user, _ := basic.Get("username")
	password, _ := basic.Get("password")
	text, name := secretOf(p, side+".auth.basic.password", password)
	if user.Kind != ejson.String || password.Kind != ejson.String && password.Kind != ejson.Object {
		p.badRequest("parameter `%s.auth.basic` must be an object with two strings, `username` and `password`; the "+
			`password may name a secret: {"secret": NAME}`, side)
	}
	if name != "" {
		return Credentials{Hide(user.Text), Refer(name)}
	}
	return NewCredentials(user.Text, text)
}

// bearerOf reads a token, which RFC 6750 makes of certain characters, or the name of the secret that is one.
func bearerOf(p *parser, side string, v ejson.Value) Secret {
	auth, _ := v.Get("auth")
	token, has := auth.Get("bearer")
	if !has {
		return Secret{}
	}
	const characters = "-._~+/0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	text, name := secretOf(p, side+".auth.bearer", token)
	if token.Kind == ejson.Object {
		return Refer(name)
	}
	plain := strings.TrimRight(text, "=")
	if token.Kind != ejson.String || plain == "" || strings.Trim(plain, characters) != "" {
		p.badRequest("parameter `%s.auth.bearer` must be a string, a token of letters, digits and -._~+/ that may end "+
			"with =, or name a secret: {\"secret\": NAME}", side)
	}
	return Hide(text)
}

// tlsName reads the name of a section [tls NAME]: documents do not name files of the machine.
func tlsName(p *parser, side string, v ejson.Value) string {
	name, has := v.Get("tls")
	if has && (name.Kind != ejson.String || !IsTLSName(name.Text)) {
		p.badRequest("parameter `%s.tls` must be the NAME of a section [tls NAME] of the configuration", side)
	}
	return name.Text
}

// IsTLSName reports whether a text can be the name in a section [tls NAME].
func IsTLSName(text string) bool {
	const characters = "-._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return text != "" && len(text) <= 100 && strings.Trim(text, characters) == ""
}

// compression reads whether bodies are compressed, which the configuration says where the endpoint does not.
func compression(p *parser, side string, v ejson.Value) Compression {
	word, has := v.Get("compression")
	if !has {
		word = ejson.Value{Kind: ejson.String, Text: p.config.Compression}
	}
	switch {
	case word.Kind == ejson.String && (word.Text == "auto" || word.Text == "" && !has):
		return CompressAuto
	case word.Kind == ejson.String && (word.Text == string(CompressOn) || word.Text == string(CompressOff)):
		return Compression(word.Text)
	}
	p.badRequest("parameter `%s.compression` must be \"auto\", \"on\" or \"off\", and is %s", side, shown(word))
	return CompressAuto
}

// proxy reads a field with a proxy's URL. It returns nil if the field is absent or empty.
func (p *parser) proxy(name string) *Proxy {
	v, has := p.body.Get(name)
	if !has || v.Kind == ejson.String && v.Text == "" {
		return nil
	}
	url, err := ParseURL(v.Text)
	switch {
	case v.Kind != ejson.String:
		p.fail(InvalidReplication, "Invalid proxy url", "`"+name+"` must be a string")
	case err != nil:
		p.invalidURL("proxy", "`"+name+"`: "+err.Error())
	case !slices.Contains(p.config.ProxyProtocols, url.Scheme):
		p.invalidURL("proxy", "`"+name+"` must have one of the protocols "+strings.Join(p.config.ProxyProtocols, ", "))
	}
	return &Proxy{URL: url.withoutUserinfo(v.Text), Credentials: url.credentials()}
}
