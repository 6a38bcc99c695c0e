package config

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"couchrelay/core/config"
	"couchrelay/core/spec"
)

// Auth says how users of the HTTP interface log in.
type Auth struct {
	// RequireValidUser refuses requests without a login; with ExceptForUp that is so for all but /_up.
	RequireValidUser, ExceptForUp bool
	// Handlers are the ways to log in that are open: cookie, default (basic authentication), jwt. Nil stands for
	// cookie and default, and jwt if there are Keys.
	Handlers []string

	Secret            string // signs cookies; if empty the store makes one and keeps it
	Timeout           time.Duration
	PersistentCookies bool
	SameSite, Domain  string   // of cookies
	Hashes            []string // names of Hashes: cookies are signed with the first, and read with all

	PRF                          string // of passwords in _users, as Iterations
	Iterations                   int
	MinIterations, MaxIterations int // that a stored password may have

	Lockout Lockout
	JWT     JWT
	Couch   Authority
}

// Lockout slows the guessing of passwords down ([chttpd_auth_lockout]).
type Lockout struct {
	Mode      string // enforce, warn, off
	Threshold int    // wrong passwords that are answered at once
	Objects   int    // names and addresses that are remembered
	Lifetime  time.Duration
}

// JWT says which tokens are accepted ([jwt_auth], [jwt_keys]).
type JWT struct {
	Claims              []Claim
	RolesPath, RoleName string
	// Keys are by type and id, as hmac:ID, rsa:ID or ec:ID.
	Keys map[string]Key
}

// Claim is a claim that a token must have; Value, unless empty, is what it must be.
type Claim struct{ Name, Value string }

// Key is a key of a token's signature. Its text is never shown.
type Key struct {
	text string
	HMAC []byte
	RSA  *rsa.PublicKey
	EC   *ecdsa.PublicKey
}

// Authority is a CouchDB that knows the users ([couch_auth]).
type Authority struct {
	URL   string        // empty for none
	None  bool          // whether there is none also behind a front
	Front bool          // whether URL follows [front] couchdb, since [couch_auth] url is not set
	Cache time.Duration // for how long an answer counts
	Wait  time.Duration // for an answer
}

func defaultAuth() Auth {
	return Auth{
		Timeout: 600 * time.Second, PersistentCookies: true, Hashes: []string{"sha256", "sha"},
		PRF: "sha256", Iterations: 600_000, MinIterations: 1, MaxIterations: 1_000_000,
		Lockout: Lockout{"enforce", 5, 10_000, 300 * time.Second},
		JWT:     JWT{Claims: []Claim{{Name: "exp"}}, RoleName: "_couchdb.roles", Keys: map[string]Key{}},
		Couch:   Authority{Cache: 5 * time.Second, Wait: 5 * time.Second},
	}
}

// Guarded reports whether requests need a login for anything: there is an admin, or a CouchDB that knows some.
// Otherwise every client is an admin.
func (c *Config) Guarded() bool { return len(c.Admins) > 0 || c.Auth.Couch.URL != "" }

// usersKeys are the keys of [chttpd] about logins.
var usersKeys = config.Section[Config]{
	{
		Name: "require_valid_user", Says: "Whether every request needs a login.",
		Kind: config.Boolean(func(c *Config) *bool { return &c.Auth.RequireValidUser }),
	},
	{
		Name: "require_valid_user_except_for_up", Says: "Whether every request but /_up needs a login.",
		Kind: config.Boolean(func(c *Config) *bool { return &c.Auth.ExceptForUp }),
	},
	{
		Name: "authentication_handlers",
		Says: "The ways to log in; without it cookies and passwords, and tokens if [jwt_keys] has a key.",
		Kind: handlers,
	},
}

var loginKeys = config.Section[Config]{
	{
		Name: "secret", Says: "Signs the cookies of _session, the same on all nodes; without it the store keeps one.",
		Kind: hidden(func(c *Config) *string { return &c.Auth.Secret }, "1 to 1000 characters"),
	},
	{
		Name: "timeout", Says: "How long a cookie of _session is valid, in seconds; use renews it.",
		Kind: config.Duration(func(c *Config) *time.Duration { return &c.Auth.Timeout }, time.Second, 1),
	},
	{
		Name: "allow_persistent_cookies", Says: "Whether cookies outlive the end of the browser.",
		Kind: config.Boolean(func(c *Config) *bool { return &c.Auth.PersistentCookies }),
	},
	{
		Name: "same_site", Says: "The attribute SameSite of cookies; without it they have none.",
		Kind: config.OneOf(func(c *Config) *string { return &c.Auth.SameSite }, "none", "lax", "strict"),
	},
	{Name: "cookie_domain", Says: "The attribute Domain of cookies; without it they have none.", Kind: domain},
	{
		Name: "hash_algorithms",
		Says: "The hashes of cookies' signatures: the first signs, all are accepted.",
		Kind: hashes,
	},
	{
		Name: "pbkdf2_prf", Says: "The hash from which keys of passwords are derived in _users.",
		Kind: config.OneOf(func(c *Config) *string { return &c.Auth.PRF }, PRFs...),
	},
	{
		Name: "iterations", Says: "How often that hash is applied to a new password; min_iterations if that is more.",
		Kind: config.Integer(func(c *Config) *int { return &c.Auth.Iterations }, 1, maxIterations),
	},
	{
		Name: "min_iterations", Says: "The least iterations with which a password of _users is accepted.",
		Kind: config.Integer(func(c *Config) *int { return &c.Auth.MinIterations }, 1, maxIterations),
	},
	{
		Name: "max_iterations",
		Says: "The most iterations with which a password of _users is accepted, unless iterations is more.",
		Kind: config.Integer(func(c *Config) *int { return &c.Auth.MaxIterations }, 1, 1_000_000_000),
	},
}

// maxIterations bounds the work of one login: several seconds.
const maxIterations = 10_000_000

// PRFs are the hashes from which CouchDB derives keys of passwords.
var PRFs = []string{"sha", "sha224", "sha256", "sha384", "sha512"}

// Hashes are the hashes of cookies' signatures, by CouchDB's names.
var Hashes = map[string]crypto.Hash{
	"sha": crypto.SHA1, "sha224": crypto.SHA224, "sha256": crypto.SHA256, "sha384": crypto.SHA384,
	"sha512": crypto.SHA512, "sha3_224": crypto.SHA3_224, "sha3_256": crypto.SHA3_256,
	"sha3_384": crypto.SHA3_384, "sha3_512": crypto.SHA3_512,
}

var lockoutKeys = config.Section[Config]{
	{
		Name: "mode", Says: "Whether wrong passwords delay the next ones: enforce, only a line in the log, or off.",
		Kind: config.OneOf(func(c *Config) *string { return &c.Auth.Lockout.Mode }, "enforce", "warn", "off"),
	},
	{
		Name: "threshold", Says: "How many wrong passwords of a name and an address have no delay.",
		Kind: config.Integer(func(c *Config) *int { return &c.Auth.Lockout.Threshold }, 1, 1_000_000),
	},
	{
		Name: "max_objects", Says: "How many pairs of a name and an address are remembered.",
		Kind: config.Integer(func(c *Config) *int { return &c.Auth.Lockout.Objects }, 1, 10_000_000),
	},
	{
		Name: "max_lifetime", Says: "How long a wrong password is remembered, in milliseconds; also the longest delay.",
		Kind: config.Duration(func(c *Config) *time.Duration { return &c.Auth.Lockout.Lifetime }, time.Millisecond, 1),
	},
}

var tokenKeys = config.Section[Config]{
	{Name: "required_claims", Says: "The claims that a token must have.", Kind: claims},
	{
		Name: "roles_claim_path", Says: "Where a token has the user's roles: names with dots between (in a name, \\.).",
		Kind: config.Text(func(c *Config) *string { return &c.Auth.JWT.RolesPath }, "names with dots between"),
	},
	{
		Name: "roles_claim_name", Says: "The claim with the user's roles; roles_claim_path wins over it.",
		Kind: config.Text(func(c *Config) *string { return &c.Auth.JWT.RoleName }, "the name of a claim"),
	},
}

var couchKeys = config.Section[Config]{
	{
		Name: "url",
		Says: "A CouchDB that knows the users: cookies and passwords are checked there; " +
			"that of [front] couchdb unless this says otherwise.",
		Kind: authorityURL,
	},
	{
		Name: "cache", Says: "For how long its answer for a cookie or password counts, in milliseconds.",
		Kind: config.Duration(func(c *Config) *time.Duration { return &c.Auth.Couch.Cache }, time.Millisecond, 0),
	},
	{
		Name: "timeout", Says: "How long a request waits for its answer, in milliseconds.",
		Kind: config.Duration(func(c *Config) *time.Duration { return &c.Auth.Couch.Wait }, time.Millisecond, 1),
	},
}

// hidden takes a text that is not shown.
func hidden(field func(*Config) *string, takes string) config.Kind[Config] {
	return config.Kind[Config]{
		Takes: takes, Secret: true,
		Get: func(c *Config) string {
			if *field(c) == "" {
				return ""
			}
			return Masked
		},
		Set: func(c *Config, v string) error {
			if v == "" || len(v) > 1000 || v == Masked {
				return errors.New("must be " + takes + "; " + Masked + " stands for a value that is not shown")
			}
			*field(c) = v
			return nil
		},
	}
}

var domain = config.Kind[Config]{
	Takes: "a domain name",
	Get:   func(c *Config) string { return c.Auth.Domain },
	Set: func(c *Config, v string) error {
		if !regexp.MustCompile(`^\.?[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)*$`).MatchString(v) {
			return errors.New("must be a domain name")
		}
		c.Auth.Domain = v
		return nil
	},
}

// listOf takes names, with commas between, each of which is allowed.
func listOf(field func(*Config) *[]string, allowed []string) config.Kind[Config] {
	takes := "some of " + strings.Join(allowed, ", ")
	return config.Kind[Config]{
		Takes: takes,
		Get:   func(c *Config) string { return strings.Join(*field(c), ", ") },
		Set: func(c *Config, v string) error {
			var list []string
			for name := range strings.SplitSeq(v, ",") {
				if name = strings.TrimSpace(name); !slices.Contains(allowed, name) {
					return errors.New("must be " + takes + ", with commas between")
				}
				list = append(list, name)
			}
			*field(c) = list
			return nil
		},
	}
}

var hashes = listOf(func(c *Config) *[]string { return &c.Auth.Hashes }, []string{"sha", "sha224", "sha256",
	"sha384", "sha512", "sha3_224", "sha3_256", "sha3_384", "sha3_512"})

var (
	plainHandlers = listOf(func(c *Config) *[]string { return &c.Auth.Handlers }, []string{"cookie", "default", "jwt"})
	spelled       = regexp.MustCompile(`\{\s*chttpd_auth\s*,\s*([a-z]+)_authentication_handler\s*\}`)
)

// handlers takes CouchDB's Erlang terms, or the names alone.
var handlers = config.Kind[Config]{
	Takes: plainHandlers.Takes + ", each also as {chttpd_auth, cookie_authentication_handler}",
	Get:   plainHandlers.Get,
	Set: func(c *Config, v string) error {
		if plainHandlers.Set(c, spelled.ReplaceAllString(v, "$1")) != nil {
			return errors.New("must be some of cookie, default, jwt, with commas between, each also as " +
				"{chttpd_auth, cookie_authentication_handler}; others of CouchDB's are not supported")
		}
		return nil
	},
}

var claimForm = regexp.MustCompile(`^\s*(?:([a-z]+)|\{\s*([a-z]+)\s*,\s*"([^"]+)"\s*\})\s*(,|$)`)

var claims = config.Kind[Config]{
	Takes: `some of exp, nbf, iat, kid, typ and {iss, "VALUE"}, with commas between`,
	Get: func(c *Config) string {
		var list []string
		for _, claim := range c.Auth.JWT.Claims {
			if claim.Value != "" {
				claim.Name = fmt.Sprintf(`{%s, "%s"}`, claim.Name, claim.Value)
			}
			list = append(list, claim.Name)
		}
		return strings.Join(list, ", ")
	},
	Set: func(c *Config, v string) error {
		var list []Claim
		for rest := strings.TrimSpace(v); rest != ""; {
			m := claimForm.FindStringSubmatch(rest)
			if m == nil || m[1] != "" && !slices.Contains([]string{"exp", "nbf", "iat", "kid", "typ"}, m[1]) ||
				m[2] != "" && m[2] != "iss" {
				return errors.New(`must be some of exp, nbf, iat, kid, typ and {iss, "VALUE"}, with commas between`)
			}
			list = append(list, Claim{m[1] + m[2], m[3]})
			rest = strings.TrimSpace(rest[len(m[0]):])
		}
		if len(list) == 0 {
			return errors.New("must not be empty; leave the key out for exp")
		}
		c.Auth.JWT.Claims = list
		return nil
	},
}

var authorityURL = config.Kind[Config]{
	Takes:  "the URL of a server, http or https, without a login in it, or none",
	Secret: true, // a wrong one may hold a password
	Get: func(c *Config) string {
		if c.Auth.Couch.None {
			return "none"
		}
		return c.Auth.Couch.URL
	},
	Set: func(c *Config, v string) error {
		c.Auth.Couch.Front = false
		if c.Auth.Couch.None = v == "none"; c.Auth.Couch.None {
			c.Auth.Couch.URL = ""
			return nil
		}
		if !spec.IsServer(v, false) {
			return errors.New("must be the URL of a server, http or https, without a login in it, or none")
		}
		c.Auth.Couch.URL = strings.TrimSuffix(v, "/")
		return nil
	},
}

// setJWTKey takes a line of [jwt_keys]. Errors do not show the key.
func (c *Config) setJWTKey(name, value string) error {
	key, err := parseKey(name, value)
	if err != nil {
		return fmt.Errorf("[jwt_keys] %s: %w", name, err)
	}
	c.Auth.JWT.Keys[name] = key
	return nil
}

func parseKey(name, value string) (Key, error) {
	kind, id, _ := strings.Cut(name, ":")
	if id == "" || !slices.Contains([]string{"hmac", "rsa", "ec"}, kind) {
		return Key{}, errors.New("the name of a key is hmac:ID, rsa:ID or ec:ID; tokens without an ID have _default")
	}
	k := Key{text: value}
	if kind == "hmac" {
		secret, err := base64.StdEncoding.DecodeString(value)
		if err != nil || len(secret) == 0 {
			return Key{}, errors.New("must be a secret in base64")
		}
		k.HMAC = secret
		return k, nil
	}
	block, _ := pem.Decode([]byte(strings.ReplaceAll(value, `\n`, "\n")))
	if block == nil {
		return Key{}, errors.New(`must be a public key as PEM, with \n for the ends of lines`)
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		public, err = x509.ParsePKCS1PublicKey(block.Bytes)
	}
	var is bool
	if k.RSA, is = public.(*rsa.PublicKey); err == nil && is && kind == "rsa" {
		return k, nil
	}
	if k.EC, is = public.(*ecdsa.PublicKey); err == nil && is && kind == "ec" {
		return k, nil
	}
	return Key{}, fmt.Errorf("must be a public key of the type %s as PEM, as its name says", kind)
}
